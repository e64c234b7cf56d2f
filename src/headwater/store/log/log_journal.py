"""The journal of an open log: writes its entries, and counts what of them the disk has.

Entries below CALLER_KINDS are the store's own; those of callers come from above. Both that are
written together are one group on the disk, so that a crash leaves all of them or none.

A log whose caller writes the journal once in a turn queues entries in memory: a removal of messages
then needs no write that could fail. Entries that are queued together are one group, so that a crash
leaves the whole turn or nothing of it. Entries that find no room on the disk stay in the queue.
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
from headwater.store.errors import DiskFullError, OfflineError
from headwater.store.index.log_index import LogIndex
from headwater.store.log.availability import Availability


@final
class LogJournal:
    """The journal of one log."""

    __slots__ = (
        "_availability",
        "_frames",
        "_frames_bytes",
        "_index",
        "_makes_room",
        "_queue",
        "_queued_writes",
        "bytes_rewritten",
        "caller_bytes",
        "caller_bytes_rewritten",
        "caller_writes",
        "file",
        "is_queueing",
        "synced_writes",
        "writes",
    )

    def __init__(
        self,
        availability: Availability,
        index: LogIndex,
        file: Journal,
        caller_bytes: int,
    ) -> None:
        """`caller_bytes` is how much of the journal is entries of callers."""
        self._availability = availability
        self._index = index
        self.file = file
        # Whether entries wait for `write_queue`, and those that do: groups that are encoded, and
        # the entries of the next one.
        self.is_queueing = False
        self._frames: list[bytes] = []
        self._frames_bytes = 0
        self._queue: list[tuple[int, bytes]] = []
        self._queued_writes = 0
        # Whether one of them makes room, so that they may use the reserve.
        self._makes_room = False
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
        """Bytes in the journal, with those that are queued; these end a group."""
        if self._queue:
            self._end_group()
        return self.file.size + self._frames_bytes

    @property
    def has_queue(self) -> bool:
        """Whether entries wait for `write_queue`."""
        return bool(self._queue or self._frames)

    @property
    def writes_in_file(self) -> int:
        """The number of writes without those that are queued."""
        return self.writes - self._queued_writes

    @property
    def has_unsynced_caller_entries(self) -> bool:
        """Whether the disk may lack entries of callers."""
        return self.synced_writes < self.caller_writes

    def write(
        self, entries: list[tuple[int, bytes]], makes_room: bool = False, at_once: bool = False
    ) -> None:
        """Append entries, or queue them; those that make room may use the reserve.

        With `at_once` they are in the file afterwards, with the queue, or not even queued. Raises
        StoreError.
        """
        if self.is_queueing:
            self._queue += entries
            self._makes_room |= makes_room
            if at_once:
                self._write_or_withdraw(len(entries))
            else:
                self._queued_writes += 1
        else:
            position = self._index.last_sequence
            self._append(partial(self.file.write, position, entries), makes_room)
        self.writes += 1

    def write_queue(self) -> None:
        """Append all entries that are queued, in one write. Raises StoreError.

        If there is no room they stay queued.
        """
        try:
            self._append_queue()
        except DiskFullError:
            if self._queue:
                # They may wait for long, and would be encoded at every attempt.
                self._end_group()
            raise

    def _append_queue(self) -> None:
        if self._queue or self._frames:
            data = b"".join([*self._frames, self._encoded_queue()])
            try:
                self._append(partial(self.file.append, data), self._makes_room)
            except OfflineError:
                # A restart begins with what is on the disk.
                self._clear_queue()
                raise
            self._clear_queue()

    def _write_or_withdraw(self, count: int) -> None:
        """Append all entries that are queued. Without room the last ones leave the queue: the
        change that they speak of is not made. Raises StoreError."""
        try:
            self._append_queue()
        except DiskFullError:
            del self._queue[-count:]
            raise

    def _encoded_queue(self) -> bytes:
        return encode_entries(self._index.last_sequence, self._queue) if self._queue else b""

    def _end_group(self) -> None:
        """Encode the entries of the queue; those that are queued later are another group."""
        data = self._encoded_queue()
        self._frames.append(data)
        self._frames_bytes += len(data)
        self._queue.clear()

    def _clear_queue(self) -> None:
        self._frames.clear()
        self._frames_bytes = 0
        self._queue.clear()
        self._queued_writes = 0
        self._makes_room = False

    def _append(self, write: Callable[[], None], makes_room: bool) -> None:
        """Take a step that appends to the file. Raises StoreError."""
        try:
            try:
                write()
            except NoRoomError:
                self._availability.room.mark_full()
                if not (makes_room and self._availability.room.release_reserve()):
                    raise
                write()
        except OSError as error:
            raise self._availability.failed("journal", error) from error

    def write_with_callers(
        self,
        own: list[tuple[int, bytes]],
        entries: Sequence[tuple[int, bytes]],
        makes_room: bool = False,
        at_once: bool = False,
    ) -> None:
        """Append the store's own entries and those of a caller together: all or none."""
        check(all(kind >= CALLER_KINDS for kind, _ in entries), "kinds below are the store's own")
        self.write([*own, *entries], makes_room, at_once)
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
