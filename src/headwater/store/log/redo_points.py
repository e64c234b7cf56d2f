"""The redo point of a log: the state to which its files are cut back after a crash.

The files of a log that has entries in the write-ahead file hold the effects of the entries that its
caller has applied. `mark_applied` notes how long the files are then. When they have been synced,
that state becomes the redo point: it is named in the write-ahead file, and entries up to it are not
needed any more. Bytes that were written behind it, by half an entry or by many, are cut off after a
crash, and the entries behind it are applied again.

The entries of a replicated stream are given up by its group, not by the log: only up to the entry
of a redo point that is on the disk (`durable_entry`).
"""

from collections import deque
from typing import Final, final

from headwater.store.disk.wal import RedoPoint
from headwater.store.log.log_journal import LogJournal
from headwater.store.log.log_write_ahead import LogWriteAhead
from headwater.store.log.segments import LogSegments

# The redo point of a log without entries.
_NOWHERE: Final = RedoPoint(0, 0, 0, 0, b"")


@final
class RedoPoints:
    """The redo point of one log, and the state that the next one will be."""

    __slots__ = (
        "_ahead",
        "_durable_entry",
        "_journal",
        "_named_in",
        "_segments",
        "_unconfirmed",
        "applied",
        "counting",
        "is_awaited",
        "named",
    )

    def __init__(self, segments: LogSegments, journal: LogJournal, ahead: LogWriteAhead) -> None:
        self._segments = segments
        self._journal = journal
        self._ahead = ahead
        # The files when the last entry was applied, and the redo point that was named last.
        self.applied = self.named = _NOWHERE
        # The number of the write-ahead file that has, or will have, the point that was named last.
        self._named_in = 0
        # The entry of the last redo point on the disk, and the frames with later ones: their
        # numbers and entries.
        self._durable_entry = 0
        self._unconfirmed: deque[tuple[int, int]] = deque()
        # Whether upkeep waits for a moment in which the files are as after an entry that stays.
        self.is_awaited = False
        # The number of times that the entries of the log have begun to count from another place.
        self.counting = 0

    def files_after(self, entry: int) -> RedoPoint:
        """The files as they are now, with the effects of all entries up to this one."""
        last, journal = self._segments.last, self._journal
        return RedoPoint(entry, last.first_sequence, last.size, journal.size, journal.file.salt)

    @property
    def is_current(self) -> bool:
        """Whether the files are as after the last entry that was applied: not amid the next."""
        return self.applied == self.files_after(self.applied.entry)

    def may_begin_upkeep(self) -> bool:
        """Whether the files are as after an entry that stays; otherwise upkeep waits for that."""
        self.is_awaited |= not self.is_current
        return self.is_current

    def mark_applied(self, entry: int) -> None:
        """Note that the files hold the effects of all entries up to this one, and of no other."""
        self.applied = self.files_after(entry)

    def mark_behind(self, point: RedoPoint) -> None:
        """Note how the files were after an entry, which more was written behind since then.

        Nothing but appends came since: until the files are again as after the entry that was marked
        last, nothing else is done to them (`is_current`).
        """
        self.applied = point

    def mark_upkeep(self) -> None:
        """Note that upkeep, and no entry, has changed the files since the last entry."""
        self.mark_applied(self.applied.entry)

    def name(self, point: RedoPoint) -> None:
        """Name a redo point whose files are on the disk, unless a later one is named already."""
        if point.entry > self.applied.entry:
            # The log is being filled again since the sync of that point has begun.
            return
        if point.journal_salt == self._journal.file.salt and (
            point >= self.named or point.journal_salt != self.named.journal_salt
        ):
            self.begin_at(point)

    def begin_at(self, point: RedoPoint) -> None:
        """Name a redo point, whichever was named before."""
        if self._ahead.is_replica:
            if point == self.named and self._named_in == self._ahead.file_number:
                # Most replicas have nothing new to say.
                return
            self._named_in = self._ahead.file_number
        self.named = point
        number = self._ahead.add_redo_point(point)
        if self._ahead.is_replica:
            self._unconfirmed.append((number, point.entry))

    def resume(self, point: RedoPoint) -> None:
        """Go on with a redo point that the present write-ahead file has on the disk."""
        self.named = point
        self._named_in = self._ahead.file_number
        self._durable_entry = point.entry

    def forget(self) -> None:
        """Have no redo point: entries that come are those of another log, with its indexes."""
        self.applied = self.named = _NOWHERE
        self._named_in = self._durable_entry = 0
        self._unconfirmed.clear()
        self.counting += 1

    @property
    def durable_entry(self) -> int:
        """The entry of the last redo point that the disk has, of a replicated stream."""
        synced = self._ahead.synced_count
        while self._unconfirmed and self._unconfirmed[0][0] <= synced:
            self._durable_entry = self._unconfirmed.popleft()[1]
        return self._durable_entry
