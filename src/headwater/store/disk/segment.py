"""One segment file: consecutive sequences, written once, read at random, then sealed."""

from typing import Final, final

from headwater.store.disk.filesystem import File, FileSystem, create_whole, write_whole
from headwater.store.disk.format import (
    FOOTER,
    HEADER_BYTES,
    NO_SALT,
    RECORD_BYTES,
    SEGMENT_MAGIC,
    TRAILER_BYTES,
    FileHeader,
    FormatError,
    Record,
    check_record,
    encode_erased,
    encode_footer,
    encode_skip,
    following_record,
    footer_offset,
    is_seeded_by_identity,
    record_length,
    seed_of,
)

# Reads of many messages take this much of the file at a time.
READ_BYTES: Final = 256 * 1024
# Reads of one message take this much: its record, unless it is a long one.
START_BYTES: Final = RECORD_BYTES + 480


def segment_name(first_sequence: int) -> str:
    """The name of a segment's file; names sort as sequences do."""
    return f"segment-{first_sequence:020d}.hw"


def sequence_of(name: str) -> int:
    """The first sequence in a segment's name; 0 if it is no segment's name."""
    if name.startswith("segment-") and name.endswith(".hw"):
        digits = name[len("segment-") : -len(".hw")]
        return int(digits) if digits.isdigit() else 0
    return 0


def segment_header(identity: bytes, first_sequence: int) -> bytes:
    """The first bytes of a segment."""
    return FileHeader(SEGMENT_MAGIC, identity, first_sequence, NO_SALT).encode()


@final
class SegmentFile:
    """An open segment."""

    __slots__ = (
        "_synced",
        "changes",
        "file",
        "first_sequence",
        "is_closed",
        "is_outdated",
        "path",
        "sealed",
        "seed",
    )

    def __init__(self, path: str, file: File, first_sequence: int, seed: int) -> None:
        self.path = path
        self.file = file
        self.first_sequence = first_sequence
        # The seed of its records' checksums.
        self.seed = seed
        self.sealed = False
        # Whether its format is one that records are not appended to any more.
        self.is_outdated = False
        self.is_closed = False
        # The number of cuts and erasures: a thread that copies or syncs it meanwhile has to know.
        self.changes = 0
        # Changes and size that the disk has; one value, since another thread may set it.
        self._synced = (0, 0)

    @classmethod
    def create(
        cls, files: FileSystem, folder: str, identity: bytes, first_sequence: int
    ) -> "SegmentFile":
        """A new, empty segment; durable once it and its folder are synced."""
        path = f"{folder}/{segment_name(first_sequence)}"
        header = segment_header(identity, first_sequence)
        file = create_whole(files, path, header)
        return cls(path, file, first_sequence, seed_of(header))

    @classmethod
    def open(cls, files: FileSystem, path: str, identity: bytes) -> "SegmentFile":
        """An existing segment of this stream; raises FormatError."""
        file = files.open(path)
        try:
            data = file.read(0, HEADER_BYTES)
            header = FileHeader.decode(data, SEGMENT_MAGIC, path)
            if header.identity != identity:
                raise FormatError(f"{path}: belongs to another stream")
            if header.first_sequence != sequence_of(path.rpartition("/")[2]):
                raise FormatError(f"{path}: has the name of another segment")
        except (FormatError, OSError):
            file.close()
            raise
        # The process that wrote it may have been killed before the sync.
        segment = cls(path, file, header.first_sequence, seed_of(data))
        segment.is_outdated = not is_seeded_by_identity(data)
        return segment

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self.file.size

    @property
    def is_synced(self) -> bool:
        """Whether all that was written is on the disk."""
        return self._synced == (self.changes, self.file.size)

    def write(self, data: bytes) -> int:
        """Append records; returns where they begin. On an error the file is as it was, or worse."""
        return write_whole(self.file, data)

    def cut_after(self, last_sequence: int) -> None:
        """Cut off the records after a sequence, and the footer; more can be appended then.

        If the last records before the cut are damaged, or skip beyond it, a record that skips takes
        their place: the file always says what its last sequence is.
        """
        self.changes += 1
        data = self.file.read(0, self.file.size)
        offset = end = HEADER_BYTES
        next_sequence, time_ns = self.first_sequence, 0
        while offset:
            length = record_length(data, offset)
            if not length or not check_record(data, offset, length, self.seed):
                offset = following_record(data, offset, next_sequence, self.seed)
                continue
            record = Record(data, offset, length)
            behind = record.sequence + record.sequence_count
            if record.kind == FOOTER or behind - 1 > last_sequence:
                break
            offset += length
            end, next_sequence, time_ns = offset, behind, record.timestamp_ns
        self.file.truncate(end)
        if next_sequence <= last_sequence:
            count = last_sequence + 1 - next_sequence
            self.file.write(encode_skip(next_sequence, count, time_ns, self.seed))
        self.sealed = False
        self.sync()

    def seal(self, last_sequence: int, index: bytes) -> None:
        """Write the footer; nothing is appended after it."""
        self.write(encode_footer(last_sequence, index, self.file.size, self.seed))
        self.sealed = True

    def cut_tail(self, size: int) -> None:
        """Cut off what follows the last sound record."""
        self.changes += 1
        self.file.truncate(size)

    def sync(self) -> None:
        """Make all that was written durable. May run on another thread."""
        if not self.is_synced:
            state = (self.changes, self.file.size)
            self.file.sync()
            self._synced = state

    def read_record(self, offset: int) -> Record | None:
        """The record at `offset`, or None if it is not sound."""
        data = self.file.read(offset, START_BYTES)
        length = record_length(data, 0)
        if length == 0:
            return None
        if length > len(data):
            data = self.file.read(offset, length)
        return Record(data, 0, length) if check_record(data, 0, length, self.seed) else None

    def read_span(self, offset: int, size: int = READ_BYTES) -> bytes:
        """Up to `size` bytes of the file from `offset` on, and at least the record there."""
        data = self.file.read(offset, min(size, READ_BYTES))
        length = record_length(data, 0)
        return data if length <= len(data) else self.file.read(offset, length)

    def read_footer(self) -> bytes | None:
        """The index a sealed segment ends with; None if there is no sound one."""
        size = self.file.size
        if size < HEADER_BYTES + RECORD_BYTES + TRAILER_BYTES:
            return None
        offset = footer_offset(self.file.read(size - TRAILER_BYTES, TRAILER_BYTES))
        length = size - TRAILER_BYTES - offset
        if offset < HEADER_BYTES or length < RECORD_BYTES:
            return None
        data = self.file.read(offset, length)
        if not check_record(data, 0, length, self.seed):
            return None
        record = Record(data, 0, length)
        return record.payload if record.kind == FOOTER else None

    def overwrite_payload(self, record_offset: int, record: Record) -> None:
        """Leave nothing of a message but that it was there."""
        erased = encode_erased(record.sequence, record.timestamp_ns, record.length, self.seed)
        self.changes += 1
        self.file.overwrite(record_offset, erased)

    def repair(self, record_offset: int, data: bytes) -> None:
        """Put the bytes of a record in the place of damaged ones."""
        self.changes += 1
        self.file.overwrite(record_offset, data)

    def close(self) -> None:
        """Release the file."""
        self.is_closed = True
        self.file.close()
