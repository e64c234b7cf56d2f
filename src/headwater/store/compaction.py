"""Writing a sealed segment anew without what was deleted from it.

The work is done beside the log, on a file that nobody writes any more, and may run on another
thread: `Compaction.run` reads the segment and writes its successor, then the log swaps the two in
one rename (`FileLog.finish_compaction`). Reads and writes of the log go on all the while; what is
deleted meanwhile is deleted from the successor's index when it is swapped in. If the segment was
cut, or a message in it erased, its successor is of no use and is given up; so it is when the disk
fails it. Giving up costs nothing but the work.

Records keep their bytes; sequences without a message become records that skip.
"""

from array import array
from typing import Final, final

from headwater.store.filesystem import FileSystem
from headwater.store.format import (
    HEADER_BYTES,
    check_record,
    encode_footer,
    encode_skip,
    record_length,
)
from headwater.store.index import SegmentIndex
from headwater.store.message_log import StoreError
from headwater.store.segment import SegmentFile

SUCCESSOR_SUFFIX: Final = ".new"

# A segment is worth writing anew when less than this part of what it holds is messages.
LIVE_PART_MAX: Final = 0.5


@final
class Compaction:
    """One segment and its successor."""

    __slots__ = (
        "_changes",
        "_expiries",
        "_files",
        "_index",
        "_names",
        "_segment",
        "damaged",
        "offsets",
        "segment_first",
        "successor_path",
    )

    def __init__(
        self,
        files: FileSystem,
        segment: SegmentFile,
        index: SegmentIndex,
        names: list[bytes],
        expiries: list[tuple[int, int]],
    ) -> None:
        """`names` are the subjects of the log by id; nothing given here is changed."""
        self._files = files
        self._segment = segment
        self._changes = segment.changes
        self._names = names
        self._expiries = expiries
        self._index = SegmentIndex(index.first_sequence)
        for mine, theirs in zip(self._index.columns(), index.columns(), strict=True):
            mine.extend(theirs)
        self.segment_first = index.first_sequence
        self.successor_path = segment.path + SUCCESSOR_SUFFIX
        # Where the records are in the successor; 0 where there is none.
        self.offsets = array("I")
        # Sequences whose records turned out not to be sound.
        self.damaged: list[int] = []

    def is_of(self, segment: SegmentFile) -> bool:
        """Whether the successor is one of this segment as it is now."""
        return segment is self._segment and segment.changes == self._changes

    def run(self) -> None:
        """Write the successor, durable but for its name.

        Raises StoreError if that can not be done; the log is not concerned by it.
        """
        try:
            self._write()
        except OSError as error:
            self.give_up()
            raise StoreError(f"{self._segment.path} is not compacted: {error}") from error

    def give_up(self) -> None:
        """Leave no successor behind, as far as the disk allows; opening removes what is left."""
        try:
            if self._files.exists(self.successor_path):
                self._files.remove(self.successor_path)
        except OSError:
            pass

    def _write(self) -> None:
        parts = self._records()
        self._index.offsets = self.offsets
        end = sum(map(len, parts))
        index = self._index.encode(self._names, self._expiries)
        parts.append(encode_footer(self._index.next_sequence - 1, index, end, self._segment.seed))
        if self._files.exists(self.successor_path):
            self._files.remove(self.successor_path)
        file = self._files.create(self.successor_path)
        try:
            file.write(b"".join(parts))
            file.sync()
        finally:
            file.close()

    def _records(self) -> list[bytes]:
        """The successor's bytes up to its footer; fills `offsets`."""
        data = self._segment.file.read(0, self._segment.size)
        parts = [data[:HEADER_BYTES]]
        place = HEADER_BYTES
        skipped = 0
        first = self._index.first_sequence
        for position, offset in enumerate(self._index.offsets):
            length = record_length(data, offset) if offset else 0
            if offset and not check_record(data, offset, length, self._segment.seed):
                self.damaged.append(first + position)
                length = 0
            if not length:
                skipped += 1
                self.offsets.append(0)
                continue
            if skipped:
                skip = self._skip(position, skipped)
                parts.append(skip)
                place += len(skip)
                skipped = 0
            parts.append(data[offset : offset + length])
            self.offsets.append(place)
            place += length
        if skipped:
            parts.append(self._skip(len(self._index.offsets), skipped))
        return parts

    def _skip(self, position: int, count: int) -> bytes:
        """A record in place of the `count` sequences before a position."""
        begin = position - count
        return encode_skip(
            self._index.first_sequence + begin,
            count,
            self._index.timestamps_ns[begin],
            self._segment.seed,
        )
