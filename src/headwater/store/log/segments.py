"""The segment files of a log, and the records that wait in memory to be written to the last one.

A batch is one write to the last segment. A log that defers its writes keeps the records of several
batches in memory; `flush` writes them. The index always has them already.
"""

from collections.abc import Iterable
from typing import Final, final

from headwater.store.disk.filesystem import NoRoomError, write_behind
from headwater.store.disk.format import HEADER_BYTES
from headwater.store.disk.segment import SegmentFile
from headwater.store.errors import OfflineError
from headwater.store.index.expiry import ExpiryQueue
from headwater.store.index.log_index import LogIndex
from headwater.store.index.segment_index import SegmentIndex
from headwater.store.log.availability import Availability
from headwater.store.log.log_folder import LogFolder

SEGMENT_BYTES_MAX: Final = 64 * 1024 * 1024
# The offset of records that do not fit into the last segment.
NO_OFFSET: Final = -1


@final
class LogSegments:
    """The segments of an open log by first sequence; the last one is written to."""

    __slots__ = (
        "_availability",
        "_expiries",
        "_folder",
        "_index",
        "_waiting",
        "_waiting_at",
        "_waiting_from",
        "by_first",
        "bytes_max",
        "is_deferred",
        "waiting_bytes",
    )

    def __init__(
        self,
        folder: LogFolder,
        availability: Availability,
        index: LogIndex,
        expiries: ExpiryQueue,
        by_first: dict[int, SegmentFile],
        bytes_max: int,
    ) -> None:
        self._folder = folder
        self._availability = availability
        self._index = index
        self._expiries = expiries
        self.by_first = by_first
        # A segment is sealed before it would become longer than this.
        self.bytes_max = bytes_max
        # Whether records wait in memory for `flush`, those that do, and the first one's sequence.
        self.is_deferred = False
        self._waiting: list[bytes] = []
        self.waiting_bytes = 0
        self._waiting_from = 0
        # The size of the last segment, behind which the waiting records will be written.
        self._waiting_at = 0

    @property
    def last(self) -> SegmentFile:
        """The segment that is written to."""
        return self.by_first[self._index.segments[-1].first_sequence]

    def in_order(self) -> list[SegmentFile]:
        """All segments, by sequence."""
        return [self.by_first[index.first_sequence] for index in self._index.segments]

    # --- writing -------------------------------------------------------------------------------

    def append(self, data: bytes) -> int:
        """Append records to the last segment, or keep them for the next `flush`.

        Returns their offset; `NO_OFFSET` if another segment has to begin. Raises OSError.
        """
        segment = self.by_first[self._index.segments[-1].first_sequence]
        # No other record gets into the file before the waiting ones.
        size = self._waiting_at if self._waiting else segment.file.size
        # With the records that wait, so that a flush never has to begin a segment.
        offset = size + self.waiting_bytes
        is_full = offset + len(data) > self.bytes_max and size > HEADER_BYTES
        if is_full or segment.sealed or segment.is_outdated:
            return NO_OFFSET
        if self.is_deferred:
            if not self._waiting:
                self._waiting_from, self._waiting_at = self._index.next_sequence, size
            self._waiting.append(data)
            self.waiting_bytes += len(data)
            return offset
        write_behind(segment.file, size, data)
        return offset

    def flush(self) -> None:
        """Write the records that wait in memory to the last segment, in one write.

        Records that cannot be written are gone, as they are when the process dies: none of them
        stays in the index, and the log goes offline. On a full disk they may use the reserve: their
        messages were acknowledged.
        """
        if not self._waiting:
            return
        data = b"".join(self._waiting)
        first = self._waiting_from
        self._waiting.clear()
        self.waiting_bytes = 0
        segment, room = self.last, self._availability.room
        try:
            try:
                segment.write(data)
            except NoRoomError:
                room.mark_full()
                if not room.release_reserve():
                    raise
                segment.write(data)
        except OSError as error:
            while sequence := self._index.next_message(first):
                self._index.delete(sequence)
            self._index.cut(first)
            self._expiries.cut(first - 1)
            raise self._availability.broken("flush", error) from error

    def flush_to_read(self) -> None:
        """Flush for a reader, who is not told of a failure; the next writer is."""
        if not self._waiting:
            return
        try:
            self.flush()
        except OfflineError as error:
            self._availability.unreported_problem = str(error)

    # --- segments that come and go -------------------------------------------------------------

    def begin_segment(self) -> SegmentFile:
        """Begin a segment at the next sequence, durably. Raises OSError."""
        index = self._index
        created = self._folder.create_segment(index.next_sequence)
        # Its header must be there whatever happens: it says what the sequences are.
        created.sync()
        self._folder.sync()
        index.renumber_if_worthwhile()
        if index.segments[-1].first_sequence != created.first_sequence:
            index.begin_segment()
        self.by_first[created.first_sequence] = created
        return created

    def replace_empty(self, segment: SegmentFile) -> None:
        """Replace the last segment, outdated and without records. Raises OSError."""
        self.by_first[segment.first_sequence] = self._folder.replace_empty_segment(segment)

    def seal(self, index: SegmentIndex) -> None:
        """Write the footer of a segment, which must be on the disk. Raises OSError."""
        first, end = index.first_sequence, index.next_sequence
        expiries = [pair for pair in self._expiries.pending() if first <= pair[0] < end]
        footer = index.encode(self._index.subjects.names, expiries)
        self.by_first[first].seal(end - 1, footer)

    def remove(self, index: SegmentIndex) -> None:
        """Remove the file of a segment; the folder is still to be synced. Raises OSError."""
        segment = self.by_first.pop(index.first_sequence)
        segment.close()
        self._folder.files.remove(segment.path)

    def erase(self, sequences: Iterable[int]) -> None:
        """Overwrite the contents of messages. Raises OSError."""
        for sequence in sequences:
            index = self._index.segment_of(sequence)
            segment = self.by_first[index.first_sequence]
            offset = index.offsets[sequence - index.first_sequence]
            record = segment.read_record(offset)
            if record is not None:
                segment.overwrite_payload(offset, record)

    def sync_folder(self) -> None:
        """Return when segments that came or went have done so on the disk. Raises OSError."""
        self._folder.sync()

    def close(self) -> None:
        """Release the files."""
        for segment in self.by_first.values():
            segment.close()
