"""The durability of a log: how much of it is on the disk, and the syncs that bring the rest.

A sync waits for the disk, so it may run on another thread: `begin_sync` on the log's own thread,
`LogSync.run` on any, `finish_sync` on the log's own again.
"""

from typing import final

from headwater.base.invariants import check
from headwater.store.disk.wal import RedoPoint, WriteAhead
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
    def has_entries(self) -> bool:
        """Whether the log is durable by entries in the write-ahead file: its caller's, or those of
        its group."""
        return self._ahead.has_entries

    @property
    def added_entry(self) -> int:
        """The last entry that the caller has added."""
        return self._ahead.added_entry

    def join_write_ahead(self, write_ahead: WriteAhead, applied: int, added: int) -> None:
        """From now on be durable by the entries that the caller adds to that file.

        Everything so far is on the disk. It is the effect of all entries up to `applied`; the file
        has those up to `added`.
        """
        self._ahead.file = write_ahead
        self._ahead.added_entry = self.synced_entry = added
        self.redo.mark_applied(applied)
        self.redo.begin_at(self.redo.applied)

    def join_group(
        self, write_ahead: WriteAhead, applied: int, known: RedoPoint | None = None
    ) -> None:
        """From now on be durable by the entries of the group with the log's identity.

        Everything so far is the effect of all entries up to `applied`, and is on the disk. So is
        the redo point `known`, which the present write-ahead file has. Raises StoreError.
        """
        self._ahead.is_replica = True
        self._ahead.file = write_ahead
        self._ahead.added_entry = self.synced_entry = applied
        self.redo.mark_applied(applied)
        if known == self.redo.applied:
            self.redo.resume(known)
        else:
            self.sync()

    def hold_point(self, write_ahead: WriteAhead, point: RedoPoint) -> None:
        """Be a replica whose files are not written to; its redo point stays what it is."""
        self._ahead.is_replica = True
        self._ahead.file = write_ahead
        self.redo.begin_at(point)

    @property
    def is_replica(self) -> bool:
        """Whether the log is durable by the entries of a group."""
        return self._ahead.is_replica

    def leave_write_ahead(self) -> None:
        """From now on have no part in the write-ahead file. Raises StoreError, OSError."""
        self.sync()
        self.forget_frames()

    def begin_partial(self) -> None:
        """From now on hold the effects of no entry, durably, also after a crash. Raises StoreError,
        OSError."""
        self.redo.mark_applied(0)
        self.sync()
        self.redo.begin_at(self.redo.applied)
        self._ahead.secure()

    def forget_frames(self) -> None:
        """Have no part in the write-ahead file any more: nothing in it speaks of the log, durably.
        Raises OSError."""
        self._ahead.forget_frames()
        self._ahead.leave()
        self.synced_entry = 0
        self.redo.forget()

    def add_entry(self, index: int, follows: int, data: bytes) -> None:
        """Add an entry to the write-ahead file; `synced_entry` tells when the disk has it."""
        check(self.has_entries, "the log has joined the write-ahead file")
        check(not self.is_replica, "the entries of a replica are those of its group")
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

    def mark_behind(self, point: RedoPoint) -> None:
        """Note how the files were after an entry, behind which the effects of others follow that
        may be taken back."""
        self.redo.mark_behind(point)
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

    def begin_sync(self, with_queue: bool = True) -> LogSync:
        """Work for `LogSync.run`, and then for `finish_sync`.

        Without the queue of the journal, entries that are queued are not part of it.
        """
        self._availability.check_online()
        self._segments.flush()
        if with_queue:
            self._journal.write_queue()
        return LogSync(
            self._segments.in_order(),
            self._journal.file,
            self._index.last_sequence,
            self._journal.writes_in_file,
            self.redo.applied,
            self.redo.counting,
        )

    def finish_sync(self, done: LogSync) -> None:
        """Count as durable what a sync has brought to the disk. Raises StoreError."""
        if done.problem is not None:
            raise self._availability.failed("sync", done.problem) from done.problem
        sequence = min(done.last_sequence, self._index.last_sequence)
        self.synced_sequence = max(self.synced_sequence, sequence)
        self._journal.synced_writes = max(self._journal.synced_writes, done.journal_writes)
        if self._ahead.has_entries and done.counting == self.redo.counting:
            self.redo.name(done.redo_point)

    def secure_caller_entries(self) -> None:
        """Sync entries of callers before the disk learns otherwise than by the journal that
        messages are gone.

        A crash must not leave the messages gone and lose the entries that were written together
        with their removal. A log that has entries in the write-ahead file applies them again.
        """
        if not self._ahead.has_entries and self._journal.has_unsynced_caller_entries:
            self.sync()

    # --- the write-ahead file ------------------------------------------------------------------

    def secure_applied(self) -> None:
        """Before files are changed otherwise than by appending: see to it that no entry up to the
        last one applied is applied again. Raises StoreError, OSError."""
        if self._ahead.has_entries:
            self.sync()
            self._ahead.secure()

    def secure_redo_point(self) -> None:
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
