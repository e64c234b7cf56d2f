"""The durability of a log: how much of it is on the disk, and the syncs that bring the rest.

A sync waits for the disk, so it may run on another thread: `begin_sync` on the log's own thread,
`LogSync.run` on any, `finish_sync` on the log's own again.
"""

from typing import final

from headwater.base.invariants import check
from headwater.store.disk.wal import WriteAhead
from headwater.store.index.log_index import LogIndex
from headwater.store.log.availability import Availability
from headwater.store.log.log_journal import LogJournal
from headwater.store.log.log_write_ahead import LogWriteAhead
from headwater.store.log.redo_points import RedoPoints
from headwater.store.log.segments import LogSegments
from headwater.store.upkeep.log_sync import LogSync


@final
class Durability:
    """The durability of one log."""

    __slots__ = (
        "_ahead",
        "_availability",
        "_index",
        "_journal",
        "_segments",
        "redo",
        "synced_entry",
        "synced_sequence",
    )

    def __init__(
        self,
        availability: Availability,
        index: LogIndex,
        segments: LogSegments,
        journal: LogJournal,
        ahead: LogWriteAhead,
    ) -> None:
        self._availability = availability
        self._index = index
        self._segments = segments
        self._journal = journal
        self._ahead = ahead
        self.redo = RedoPoints(segments, journal, ahead)
        # The last entry of the caller that the write-ahead file has on the disk.
        self.synced_entry = 0
        # Messages up to this sequence are on the disk.
        self.synced_sequence = index.last_sequence

    @property
    def is_synced(self) -> bool:
        """Whether everything is known to be on the disk."""
        return (
            self.synced_sequence >= self._index.last_sequence
            and self._journal.synced_writes == self._journal.writes
        )

    @property
    def uses_write_ahead(self) -> bool:
        """Whether the log is durable by way of the write-ahead file."""
        return self._ahead.file is not None

    @property
    def has_entries(self) -> bool:
        """Whether the log is durable by the entries of its caller in the write-ahead file."""
        return self._ahead.has_entries

    @property
    def added_entry(self) -> int:
        """The last entry that the caller has added."""
        return self._ahead.added_entry

    def join_write_ahead(self, write_ahead: WriteAhead) -> None:
        """From now on be durable by copies in that file; everything so far is on the disk."""
        self._ahead.file = self._ahead.copied_to = write_ahead
        self.report_extent()

    def join_with_entries(self, write_ahead: WriteAhead, applied: int, added: int) -> None:
        """From now on be durable by entries in that file; everything so far is on the disk.

        The log has the effects of all entries up to `applied`; the file has them up to `added`.
        """
        self._ahead.file = write_ahead
        self._ahead.added_entry = self.synced_entry = added
        self.redo.mark_applied(applied)
        self.redo.named = self.redo.applied
        self._ahead.add_redo_point(self.redo.applied)

    def leave_write_ahead(self) -> None:
        """From now on have no part in the write-ahead file. Raises StoreError, OSError."""
        self.sync()
        self._ahead.forget_frames()
        self._ahead.file = self._ahead.copied_to = None

    def add_entry(self, index: int, follows: int, data: bytes) -> None:
        """Add an entry to the write-ahead file; `synced_entry` tells when the disk has it."""
        check(self.has_entries, "the log has joined with entries")
        self._ahead.add_entry(index, follows, data)

    def withdraw_entries(self, index: int) -> None:
        """Drop the entries behind an index, none of which has been written."""
        self._ahead.withdraw_entries(index)

    def confirm_entries(self, index: int) -> None:
        """Count the entries up to `index` as durable."""
        self.synced_entry = max(self.synced_entry, index)

    def mark_applied(self, entry: int) -> None:
        """Note that the files hold the effects of all entries up to this one, and of no other.

        They are durable whether or not the files are synced.
        """
        self.redo.mark_applied(entry)
        if self._ahead.has_entries:
            self.synced_sequence = self._index.last_sequence
            self._journal.synced_writes = self._journal.writes

    def owe_sync(self) -> None:
        """Count everything that was found in the files as not on the disk.

        The next sync makes it durable, also of a log that is never written to.
        """
        self.synced_sequence = 0
        self._journal.owe_sync()

    # --- syncs ---------------------------------------------------------------------------------

    def sync(self) -> None:
        """Return when everything written so far is on the disk. Raises StoreError."""
        work = self.begin_sync()
        work.run()
        self.finish_sync(work)

    def begin_sync(self) -> LogSync:
        """Work for `LogSync.run`, and then for `finish_sync`."""
        self._availability.check_online()
        self._segments.flush()
        self._journal.write_queue()
        return LogSync(
            self._segments.in_order(),
            self._journal.file,
            self._index.last_sequence,
            self._journal.writes,
            self.redo.applied,
        )

    def finish_sync(self, done: LogSync) -> None:
        """Count as durable what a sync has brought to the disk. Raises StoreError."""
        if done.problem is not None:
            raise self._availability.failed("sync", done.problem) from done.problem
        self.confirm(done.last_sequence, done.journal_writes)
        if self._ahead.has_entries:
            self.redo.name(done.redo_point)
        else:
            self._ahead.add_synced(done.segment_first, done.segment_bytes)

    def confirm(self, sequence: int, journal_writes: int) -> None:
        """Count messages up to `sequence` and this many writes to the journal as durable."""
        sequence = min(sequence, self._index.last_sequence)
        self.synced_sequence = max(self.synced_sequence, sequence)
        self._journal.synced_writes = max(self._journal.synced_writes, journal_writes)

    def secure_caller_entries(self) -> None:
        """Sync entries of callers before the disk learns otherwise than by the journal that
        messages are gone.

        A crash must not leave the messages gone and lose the entries that were written together
        with their removal. A log that has entries in the write-ahead file applies them again.
        """
        if not self._ahead.has_entries and self._journal.has_unsynced_caller_entries:
            self.sync()

    # --- the write-ahead file ------------------------------------------------------------------

    def forget_frames(self) -> None:
        """Before files are changed otherwise than by appending: see to it that no frame of the
        write-ahead file is put back into them, and that no entry before the last one applied is
        applied again. Raises StoreError, OSError."""
        if self._ahead.file is None:
            return
        self.sync()
        if self._ahead.has_entries:
            self._ahead.secure()
        else:
            self._ahead.forget_frames()

    def secure_frames(self) -> None:
        """Return when the redo point that was named last is on the disk. Raises OSError."""
        self._ahead.secure()

    def secure_upkeep(self) -> None:
        """Name a redo point, durably, that covers a change which upkeep has made to the files.

        The files must have been as after an entry. Raises StoreError, OSError.
        """
        if self._ahead.has_entries:
            self.redo.mark_upkeep()
            self.sync()
            self._ahead.secure()

    def report_extent(self) -> None:
        """Tell the write-ahead file that all files are on the disk, after a change to them that it
        has no frame of. Raises StoreError, OSError."""
        if not self._ahead.has_entries:
            last = self._segments.last
            self._ahead.add_synced(last.first_sequence, last.size)
        elif self.redo.applied.journal_salt != self._journal.file.salt:
            self.secure_upkeep()
