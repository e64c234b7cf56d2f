"""The end of a log: the sequences that it gives out, and the segments that begin there.

The messages of an entry of the caller are written together before the first of its records is
applied, so that a disk which fails leaves all of them or none. Until a record is applied, the bytes
of its messages are in the last segment and not in the index: nothing else is appended meanwhile.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, final

from headwater.base.columns import Numbers
from headwater.base.invariants import check
from headwater.store.disk.filesystem import NoRoomError
from headwater.store.disk.format import HEADER_BYTES, encode_skip
from headwater.store.disk.journal import DELETED, encode_ranges
from headwater.store.disk.mark import SequenceMark
from headwater.store.errors import DiskFullError
from headwater.store.index.log_index import LogIndex
from headwater.store.log.availability import Availability
from headwater.store.log.durability import Durability
from headwater.store.log.log_journal import LogJournal
from headwater.store.log.message_log import EncodedMessages, Passed, Upcoming
from headwater.store.log.segments import NO_OFFSET, LogSegments
from headwater.store.log.stream_file import StreamFileWriter

# A log that defers its writes keeps no more than this in memory.
WAITING_BYTES_MAX: Final = 1024 * 1024
# Sequences without messages cost memory like messages up to here; more begin a new segment.
SKIPPED_IN_PLACE_MAX: Final = 65_536


class Written(NamedTuple):
    """Records that are in the last segment and not in the index."""

    first_sequence: int
    offset: int
    data: bytes
    lengths: Numbers


@final
class LogEnd:
    """The end of one log."""

    __slots__ = (
        "_availability",
        "_durability",
        "_index",
        "_journal",
        "_mark",
        "_seed",
        "_segments",
        "_stream_file",
        "written",
    )

    def __init__(
        self,
        availability: Availability,
        index: LogIndex,
        segments: LogSegments,
        journal: LogJournal,
        durability: Durability,
        stream_file: StreamFileWriter,
        seed: int,
        mark: SequenceMark,
    ) -> None:
        """`seed` is the number that the checksums of the log's records begin with; `mark` is told
        the last sequence that was written."""
        self._mark = mark
        self._availability = availability
        self._index = index
        self._segments = segments
        self._journal = journal
        self._durability = durability
        self._stream_file = stream_file
        self._seed = seed
        # The records that were written together and are not in the index yet, in order.
        self.written: deque[Written] = deque()

    # --- records -------------------------------------------------------------------------------

    def check_writable(self) -> None:
        """Raise StoreError if the log accepts no messages now.

        An entry that is on the disk already, in the write-ahead file or with the group, is not
        refused because another write has found no room.
        """
        if self._durability.has_entries:
            self._availability.check_online()
        else:
            self._availability.check_writable()

    def append(self, last_sequence: int, data: bytes) -> int:
        """Write records that give out sequences up to one. Returns their offset. Raises StoreError
        without any change."""
        try:
            offset = self._append(last_sequence, data)
        except OSError as error:
            offset = self.append_with_reserve(last_sequence, data, error)
        self._mark.note(last_sequence)
        return offset

    def append_with_reserve(self, last_sequence: int, data: bytes, error: OSError) -> int:
        """Write records once more for which there was no room, if they may use the reserve of the
        disk: those of entries that are committed. Returns their offset. Raises StoreError."""
        room = self._availability.room
        if isinstance(error, NoRoomError) and self._durability.has_entries:
            room.mark_full()
            if room.release_reserve():
                try:
                    return self._append(last_sequence, data)
                except OSError as again:
                    error = again
        raise self._availability.failed("append", error) from error

    def _append(self, last_sequence: int, data: bytes) -> int:
        self._stream_file.reserve(last_sequence)
        offset = self._segments.append(data)
        return self.append_to_next(data) if offset == NO_OFFSET else offset

    def append_to_next(self, data: bytes) -> int:
        """Append records to a new segment. Returns their offset. Raises OSError, StoreError."""
        self._roll()
        return self._segments.append(data)

    def flush_if_many(self) -> None:
        """Write the records that wait in memory, if they are many. Raises StoreError."""
        if self._segments.waiting_bytes >= WAITING_BYTES_MAX:
            self._segments.flush()

    # --- entries -------------------------------------------------------------------------------

    def write_together(self, parts: Sequence[Upcoming]) -> None:
        """Write the records of an entry, in one write, before they are counted one by one. Raises
        StoreError without any change."""
        check(not self.written, "the entry before this one is counted")
        self.check_writable()
        pieces: list[bytes] = []
        for part in parts:
            if isinstance(part, EncodedMessages):
                pieces.append(part.data[part.begin :] if part.begin else part.data)
            else:
                pieces.append(encode_skip(*part[:3], self._seed, part.header))
        last = parts[-1]
        count = last.sequences if isinstance(last, Passed) else len(last.lengths)
        offset = self.append(last.first_sequence + count - 1, b"".join(pieces))
        self.flush_if_many()
        for part, piece in zip(parts, pieces, strict=True):
            lengths: Numbers = part.lengths if isinstance(part, EncodedMessages) else []
            self.written.append(Written(part.first_sequence, offset, piece, lengths))
            offset += len(piece)

    def take_written(self, first_sequence: int) -> Written:
        """The next records that were written together, which begin with a sequence. Raises
        StoreError."""
        self._availability.check_online()
        taken = self.written.popleft()
        check(taken.first_sequence == first_sequence, "an entry is counted as it was written")
        return taken

    # --- sequences without messages ------------------------------------------------------------

    def skip(self, count: int, timestamp_ns: int, header: bytes, with_queue: bool) -> None:
        """Give out sequences without messages. Raises StoreError."""
        if self.written:
            self.take_written(self._index.next_sequence)
            self._index.skip(count, timestamp_ns)
            return
        self.check_writable()
        last = self._index.last_sequence + count
        if count > SKIPPED_IN_PLACE_MAX or with_queue:
            try:
                self._stream_file.reserve(last)
                self._skip_as_journalled(last, timestamp_ns, with_queue)
            except OSError as error:
                raise self._availability.failed("skip", error) from error
        else:
            self._skip_in_place(count, timestamp_ns, header)

    def _skip_as_journalled(self, last: int, timestamp_ns: int, with_queue: bool) -> None:
        """Skip sequences after the journal has said so: there is no way back then."""
        count = last - self._index.last_sequence
        self._segments.flush()
        skipped = (DELETED, encode_ranges([(self._index.next_sequence, last)]))
        try:
            self._journal.write([skipped], makes_room=with_queue, at_once=True)
        except DiskFullError as error:
            if not with_queue:
                raise
            raise self._availability.broken("skip", error) from error
        try:
            if count > SKIPPED_IN_PLACE_MAX:
                self.jump(last + 1)
            else:
                self._skip_in_place(count, timestamp_ns, b"")
        except (NoRoomError, DiskFullError) as error:
            raise self._availability.broken("skip", error) from error

    def _skip_in_place(self, count: int, timestamp_ns: int, header: bytes) -> None:
        first = self._index.next_sequence
        self.append(first + count - 1, encode_skip(first, count, timestamp_ns, self._seed, header))
        self.flush_if_many()
        self._index.skip(count, timestamp_ns)

    # --- segments ------------------------------------------------------------------------------

    def jump(self, next_sequence: int) -> None:
        """Go on at a later sequence, in a segment that begins there. Raises OSError, StoreError."""
        self._segments.flush()
        # The journal says why there is no segment of the sequences in between.
        self._journal.write_queue()
        self._seal_last()
        self._index.cut(next_sequence)
        self._segments.begin_segment()
        self._mark.note(next_sequence - 1)

    def _roll(self) -> None:
        """Seal the last segment and begin another one."""
        self._segments.flush()
        last = self._segments.last
        if last.size == HEADER_BYTES:
            self._segments.replace_empty(last)
        else:
            self._seal_last()
            self._segments.begin_segment()

    def _seal_last(self) -> None:
        """Seal the last segment, if it is not sealed."""
        segment = self._segments.last
        if segment.sealed:
            return
        # A footer is only believed because what it speaks of is on the disk.
        segment.sync()
        self._durability.secure_caller_entries()
        self._segments.seal(self._index.segments[-1])
