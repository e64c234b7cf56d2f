"""The checkpoint of a log: its index written down, so that opening reads only what came later.

`begin` on the log's thread returns work, which copies a piece on that thread (`copy_piece`) and
writes it on any (`write_piece`), in turn; `finish` puts the new file in place. The log is used
meanwhile. A checkpoint that would not fit what happened meanwhile is given up; one that cannot be
written leaves the one before in place and the log online.
"""

from typing import final

from headwater.base.invariants import check
from headwater.store.disk.disposal import Dispose, close_at_once
from headwater.store.disk.filesystem import File
from headwater.store.errors import OfflineError, StoreError
from headwater.store.index.expiry import ExpiryQueue
from headwater.store.index.log_index import LogIndex
from headwater.store.log.availability import Availability
from headwater.store.log.durability import Durability
from headwater.store.log.log_folder import LogFolder
from headwater.store.log.log_journal import LogJournal
from headwater.store.log.segments import LogSegments
from headwater.store.upkeep.checkpoint import CHECKPOINT_FILE
from headwater.store.upkeep.checkpoint_writing import CheckpointWriting


@final
class Checkpoints:
    """The checkpoint of one log, and the one that is being written."""

    __slots__ = (
        "_availability",
        "_durability",
        "_expiries",
        "_file",
        "_folder",
        "_index",
        "_journal",
        "_segments",
        "_writing",
        "last_sequence",
        "segment_first",
    )

    def __init__(
        self,
        folder: LogFolder,
        availability: Availability,
        index: LogIndex,
        expiries: ExpiryQueue,
        segments: LogSegments,
        journal: LogJournal,
        durability: Durability,
        segment_first: int,
        last_sequence: int,
    ) -> None:
        """`segment_first` and `last_sequence` are of the checkpoint in place; 0 without one."""
        self._folder = folder
        self._availability = availability
        self._index = index
        self._expiries = expiries
        self._segments = segments
        self._journal = journal
        self._durability = durability
        # The segment and the sequence with which the checkpoint ends; 0 without one.
        self.segment_first = segment_first
        self.last_sequence = last_sequence
        # Kept open until the checkpoint is replaced, if it was written in this life.
        self._file: File | None = None
        self._writing: CheckpointWriting | None = None

    def write_now(self) -> None:
        """Do all steps at once; one that is being written is given up. Raises StoreError."""
        if self._writing is not None:
            self.abandon(self._writing)
        try:
            work = self.begin()
            while work.copy_piece():
                work.write_piece()
            self.finish(work)
        except OfflineError:
            raise
        except StoreError as error:
            raise self._availability.failed("checkpoint", error) from error

    def begin(self) -> CheckpointWriting:
        """Work for `copy_piece` and `write_piece` in turn, then for `finish` or `abandon`."""
        check(self._writing is None, "the checkpoint before this one is not over")
        sync = self._durability.begin_sync()
        segments = self._segments.in_order()
        snapshot = self._index.begin_snapshot()
        try:
            self._writing = CheckpointWriting(
                self._folder.files,
                self._folder.path,
                self._folder.identity,
                (self._journal.file.salt, self._journal.size),
                snapshot,
                [(segment.size, segment.sealed) for segment in segments],
                self._expiries.items(),
                sync,
            )
        except OSError as error:
            self._index.end_snapshot(snapshot)
            raise StoreError(f"{self._folder.path}: no checkpoint is written: {error}") from error
        if self._durability.has_entries and not self._durability.redo.may_begin_upkeep():
            # Amid an entry: a part of it would be in the checkpoint.
            snapshot.is_spoilt = True
        return self._writing

    def abandon(self, work: CheckpointWriting) -> None:
        """Give up a checkpoint that could not be written, or is not wanted any more."""
        if self._writing is work:
            self._writing = None
        self._index.end_snapshot(work.snapshot)
        work.discard()

    def finish(self, done: CheckpointWriting, dispose: Dispose = close_at_once) -> bool:
        """Put a checkpoint in place; False if it would not fit what happened meanwhile.

        Raises StoreError if it could not be written; the log goes on with the one before.
        """
        availability = self._availability
        is_usable = self._writing is done and done.is_usable and not availability.offline
        if not is_usable:
            self.abandon(done)
            availability.check_online()
        if done.has_synced:
            self._durability.finish_sync(done.sync)
        if done.problem is not None:
            raise StoreError(
                f"{self._folder.path}: no checkpoint is written: {done.problem}"
            ) from done.problem
        if not is_usable:
            return False
        self._writing = None
        self._index.end_snapshot(done.snapshot)
        before = self._file
        try:
            # No checkpoint is beyond the redo point that a crash would find.
            self._durability.secure_redo_point()
            self._file = done.put_in_place()
            self._folder.sync()
        except OSError as error:
            raise availability.failed("checkpoint", error) from error
        finally:
            if before is not None and before is not self._file:
                dispose(before.close)
        self.segment_first = done.segment_first
        self.last_sequence = done.last_sequence
        return True

    def discard(self, dispose: Dispose = close_at_once) -> None:
        """Remove the checkpoint, and spoil the one that is being written, before a change to the
        files that they would not fit. Raises OSError."""
        if self._writing is not None:
            self._writing.snapshot.is_spoilt = True
        path = self._folder.path_of(CHECKPOINT_FILE)
        if self._folder.files.exists(path):
            self._folder.files.remove(path)
            self._folder.sync()
        if self._file is not None:
            dispose(self._file.close)
            self._file = None
        self.segment_first = self.last_sequence = 0

    def ends_in(self, segment_first: int) -> bool:
        """Whether a checkpoint, in place or being written, ends in this segment."""
        return segment_first == self.segment_first or (
            self._writing is not None and segment_first == self._writing.segment_first
        )

    def close(self) -> None:
        """Release the file."""
        if self._file is not None:
            self._file.close()
