"""Rewriting a sealed segment without the messages that were deleted from it.

The work is done beside the log, on a file that nobody writes any more, and may run on another
thread: `Compaction.run` reads the segment and writes its successor, then the log swaps the two in
one rename (`Compactions.finish`). Reads and writes of the log go on all the while; messages that
are deleted meanwhile are deleted from the successor's index when it is swapped in. If the segment
was cut, or a message in it erased, its successor is of no use and is given up; so it is when the
disk fails it. Giving up costs nothing but the work.

Records keep their bytes; sequences without a message become records that skip. The successor of a
segment in an outdated format is one in the newest, with the checksums of that format.
"""

from array import array
from typing import Final, final

from headwater.store.disk.filesystem import FileSystem
from headwater.store.disk.format import (
    HEADER_BYTES,
    MESSAGE_WITH_EXPIRY,
    SEGMENT_MAGIC,
    FileHeader,
    Record,
    check_record,
    encode_footer,
    encode_skip,
    kind_of,
    record_length,
    reseeded,
    seed_of,
)
from headwater.store.disk.segment import SegmentFile, segment_header
from headwater.store.disk.unfinished import SUCCESSOR_SUFFIX, UnfinishedFile
from headwater.store.errors import StoreError
from headwater.store.index.log_index import SegmentIndex

# A segment is worth rewriting when less than this part of its bytes is messages.
LIVE_PART_MAX: Final = 0.5
# The part for a segment whose messages go in order, so that it soon goes as a whole.
LIVE_PART_MAX_IN_ORDER: Final = 0.1


def is_worthwhile(index: SegmentIndex, is_first: bool) -> bool:
    """Whether enough of a segment is deleted; `is_first` says that it is the log's first."""
    stored_bytes = index.live_bytes + index.dead_bytes
    if not is_first or index.live_bytes >= stored_bytes * LIVE_PART_MAX:
        return index.live_bytes < stored_bytes * LIVE_PART_MAX
    gone_first_bytes = sum(index.sizes[: index.first_live()])
    is_in_order = gone_first_bytes * 2 > index.dead_bytes
    return not is_in_order or index.live_bytes < stored_bytes * LIVE_PART_MAX_IN_ORDER


@final
class Compaction:
    """One segment and its successor."""

    __slots__ = (
        "_before",
        "_changes",
        "_expiries",
        "_file",
        "_index",
        "_names",
        "_seed",
        "_segment",
        "damaged",
        "offsets",
        "segment_first",
        "sizes",
    )

    def __init__(
        self, files: FileSystem, segment: SegmentFile, index: SegmentIndex, names: list[bytes]
    ) -> None:
        """`names` are the subjects of the log by id, to which more may be added.

        Must be run then. Raises OSError.
        """
        self._segment = segment
        self._changes = segment.changes
        self._names = names
        self._before = index.offsets[:]
        self._index = SegmentIndex(index.first_sequence)
        self._index.timestamps_ns = index.timestamps_ns[:]
        self._index.subject_ids = index.subject_ids[:]
        self._index.sizes = self.sizes = index.sizes[:]
        self._index.offsets = self.offsets = array("I")
        self._expiries: list[tuple[int, int]] = []
        self.segment_first = index.first_sequence
        # The seed of the successor's checksums.
        self._seed = segment.seed
        # Sequences whose records turned out not to be sound.
        self.damaged: list[int] = []
        self._file = UnfinishedFile(files, segment.path + SUCCESSOR_SUFFIX)
        self._file.lend_to_thread()

    def is_of(self, segment: SegmentFile) -> bool:
        """Whether the successor is one of this segment as it is now."""
        return segment is self._segment and segment.changes == self._changes

    def run(self) -> None:
        """Write the successor, durable but for its name. May run on another thread.

        Raises StoreError if that fails, which does not take the log offline.
        """
        try:
            self._file.file.write(b"".join(self._parts()))
            self._file.file.sync()
        except OSError as error:
            raise StoreError(f"{self._segment.path} is not compacted: {error}") from error
        finally:
            self._file.close()
            self._file.return_from_thread()

    def put_in_place(self) -> None:
        """Replace the segment; its folder is still to be synced. Raises OSError."""
        self._file.rename(self._segment.path)

    def hand_over(self, index: SegmentIndex) -> None:
        """Put the successor's offsets into the segment's index."""
        index.replace_offsets(self._before, self.offsets, self.sizes)

    def discard(self) -> None:
        """Leave no successor behind."""
        self._file.discard()

    def _parts(self) -> list[bytes]:
        """The bytes of the successor."""
        parts = self._records()
        end = sum(map(len, parts))
        index = self._index.encode(self._names, self._expiries)
        last_sequence = self.segment_first + len(self.offsets) - 1
        return [*parts, encode_footer(last_sequence, index, end, self._seed)]

    def _records(self) -> list[bytes]:
        """The successor's bytes up to its footer; fills in the offsets of its records."""
        data = self._segment.file.read(0, self._segment.size)
        header = data[:HEADER_BYTES]
        is_outdated = self._segment.is_outdated
        if is_outdated:
            identity = FileHeader.decode(header, SEGMENT_MAGIC, self._segment.path).identity
            header = segment_header(identity, self.segment_first)
        self._seed = seed_of(header)
        parts = [header]
        place = HEADER_BYTES
        skipped = 0
        first, offsets, seed = self.segment_first, self.offsets, self._segment.seed
        for position, offset in enumerate(self._before):
            length = record_length(data, offset) if offset else 0
            if offset and not check_record(data, offset, length, seed):
                self.damaged.append(first + position)
                length = 0
            if not length:
                skipped += 1
                offsets.append(0)
                self.sizes[position] = 0
                continue
            if skipped:
                skip = self._skip(position, skipped)
                parts.append(skip)
                place += len(skip)
                skipped = 0
            if kind_of(data, offset) == MESSAGE_WITH_EXPIRY:
                expiry_ns = Record(data, offset, length).expiry_ns
                self._expiries.append((first + position, expiry_ns))
            if is_outdated:
                parts.append(reseeded(data, offset, length, self._seed))
            else:
                parts.append(data[offset : offset + length])
            offsets.append(place)
            place += length
        if skipped:
            parts.append(self._skip(len(self._before), skipped))
        return parts

    def _skip(self, position: int, count: int) -> bytes:
        """A record in place of the `count` sequences before a position."""
        begin = position - count
        return encode_skip(
            self.segment_first + begin,
            count,
            self._index.timestamps_ns[begin],
            self._seed,
        )
