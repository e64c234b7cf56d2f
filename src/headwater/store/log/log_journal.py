"""The journal of an open log: writes its entries, and counts what of them the disk has.

Entries below CALLER_KINDS are the store's own; those of callers come from above. Both that are
written together are one group on the disk, so that a crash leaves all of them or none.

A log whose caller writes the journal once in a turn queues entries in memory: a removal of messages
then needs no write that could fail. Entries that find no room on the disk stay in the queue.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import final

from headwater.base.invariants import check
from headwater.store.disk.filesystem import NoRoomError
from headwater.store.disk.journal import (
    CALLER_KINDS,
    Journal,
    encode_entries,
    encode_ranges,
    size_of_entries,
)
from headwater.store.errors import DiskFullError
from headwater.store.index.log_index import LogIndex
from headwater.store.log.availability import Availability
from headwater.store.log.log_write_ahead import LogWriteAhead


@final
class LogJournal:
    """The journal of one log."""

    __slots__ = (
        "_ahead",
        "_availability",
        "_index",
        "_queue",
        "bytes_rewritten",
        "caller_bytes",
        "caller_bytes_rewritten",
        "caller_writes",
        "file",
        "is_queueing",
        "queued_bytes",
        "synced_writes",
        "writes",
    )

    def __init__(
        self,
        availability: Availability,
        index: LogIndex,
        ahead: LogWriteAhead,
        file: Journal,
        caller_bytes: int,
    ) -> None:
        """`caller_bytes` is how much of the journal is entries of callers."""
        self._availability = availability
        self._index = index
        self._ahead = ahead
        self.file = file
        # Whether entries wait for `write_queue`, and those that do, encoded.
        self.is_queueing = False
        self._queue: list[bytes] = []
        self.queued_bytes = 0
        # The number of writes, that of the last one with entries of a caller, and that of the last
        # one that the disk has.
        self.writes = 0
        self.caller_writes = 0
        self.synced_writes = 0
        # The length of the journal when it was last rewritten; 0 if that was before it was opened.
        self.bytes_rewritten = 0
        # The bytes that callers have written since, and those of theirs that were kept then.
        self.caller_bytes = caller_bytes
        self.caller_bytes_rewritten = 0

    @property
    def size(self) -> int:
        """Bytes in the journal, with those that are queued."""
        return self.file.size + self.queued_bytes

    @property
    def has_unsynced_caller_entries(self) -> bool:
        """Whether the disk may lack entries of callers."""
        return self.synced_writes < self.caller_writes

    def write(self, entries: list[tuple[int, bytes]], makes_room: bool = False) -> None:
        """Append entries, or queue them; those that make room may use the reserve.

        Raises StoreError.
        """
        position = self._index.last_sequence
        if self.is_queueing:
            data = encode_entries(position, entries)
            self._queue.append(data)
            self.queued_bytes += len(data)
        else:
            self._append(partial(self.file.write, position, entries), makes_room)
        self.writes += 1

    def write_queue(self) -> None:
        """Append all entries that are queued, in one write. Raises StoreError.

        They may make room, so they may use the reserve. If there is no room they stay queued.
        """
        if self._queue:
            self._append(partial(self.file.append, b"".join(self._queue)), makes_room=True)
            self._queue.clear()
            self.queued_bytes = 0

    def _append(self, write: Callable[[], bytes], makes_room: bool) -> None:
        """Take a step that appends to the file and returns the bytes. Raises StoreError."""
        size = self.file.size
        try:
            try:
                data = write()
            except NoRoomError:
                self._availability.room.mark_full()
                if not (makes_room and self._availability.room.release_reserve()):
                    raise
                data = write()
        except OSError as error:
            raise self._availability.failed("journal", error) from error
        if self._ahead.copied_to is not None:
            self._ahead.add_journal(size, data)

    def write_with_callers(
        self,
        own: list[tuple[int, bytes]],
        entries: Sequence[tuple[int, bytes]],
        makes_room: bool = False,
    ) -> None:
        """Append the store's own entries and those of a caller together: all or none."""
        check(all(kind >= CALLER_KINDS for kind, _ in entries), "kinds below are the store's own")
        self.write([*own, *entries], makes_room)
        if entries:
            self.caller_bytes += size_of_entries(entries)
            self.caller_writes = self.writes

    def must_write(self, entry: tuple[int, bytes]) -> None:
        """Append the end of an operation that was begun and cannot be tried again."""
        try:
            self.write([entry], makes_room=True)
            self.write_queue()
        except DiskFullError as error:
            raise self._availability.broken("journal", error) from error

    def write_if_possible(self, kind: int, sequence: int) -> None:
        """Append an entry about one message if there is room, and the log is online.

        Only for an entry whose content is found out again when the log is opened.
        """
        if not self._availability.offline:
            with suppress(DiskFullError):
                self.write([(kind, encode_ranges([(sequence, sequence)]))])

    def owe_sync(self) -> None:
        """Count everything in the journal, also entries of callers, as not on the disk."""
        self.writes += 1
        self.caller_writes = self.writes

    def sync(self) -> None:
        """Make all that was written or queued durable. Raises OSError, StoreError."""
        self.write_queue()
        self.file.sync()

    def replace_file(self, successor: Journal) -> None:
        """Go on with a successor that is in place and on the disk."""
        self.file.close()
        self.file = successor
        self.bytes_rewritten = successor.size

    def close(self) -> None:
        """Release the file."""
        self.file.close()
