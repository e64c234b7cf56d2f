"""The index of a log, written down, so that opening reads the end of the log and not all of it.

A checkpoint is only a short cut: everything in it can be found out from segments and journal. It
says how far into each it reaches; what is behind that is read as ever. One that is not sound, or
does not fit the files beside it, is not used.

    file       header as a segment's, magic b"HWINDEX!", first = bytes of the journal it covers
               subjects | segment | segment | … | crc u32 over everything before it

    subjects   count u32, bytes u32, names joined by newlines, then the columns firsts u64, lasts
               u64 and counts u32
    segment    first u64, covered bytes u64, messages u32, live u32, live bytes u64, sealed u32,
               expiries u32, then (sequence u64, time i64)…, then the columns of its index
"""

from struct import Struct
from typing import Final, final

from headwater.base.checksums import crc32
from headwater.store.filesystem import FileSystem, read_file
from headwater.store.format import HEADER_BYTES, FileHeader, FormatError
from headwater.store.index import LogIndex, SegmentIndex, SubjectTable

CHECKPOINT_MAGIC: Final = b"HWINDEX!"
CHECKPOINT_FILE: Final = "index.hw"

_SUBJECTS: Final = Struct("<II")
_SEGMENT: Final = Struct("<QQIIQII")
_EXPIRY: Final = Struct("<Qq")


@final
class Covered:
    """What a checkpoint says of one segment."""

    __slots__ = ("covered_bytes", "expiries", "index", "sealed")

    def __init__(
        self,
        index: SegmentIndex,
        covered_bytes: int,
        sealed: bool,
        expiries: list[tuple[int, int]],
    ) -> None:
        self.index = index
        self.covered_bytes = covered_bytes
        self.sealed = sealed
        self.expiries = expiries


@final
class Checkpoint:
    """A checkpoint read back."""

    __slots__ = ("journal_bytes", "segments", "subjects")

    def __init__(self, journal_bytes: int, subjects: SubjectTable, segments: list[Covered]) -> None:
        self.journal_bytes = journal_bytes
        self.subjects = subjects
        self.segments = segments


def write_checkpoint(
    files: FileSystem, folder: str, identity: bytes, journal_bytes: int, parts: list[bytes]
) -> None:
    """Put a new checkpoint in place; `parts` are made by `encode_subjects` and `encode_segment`."""
    path = f"{folder}/{CHECKPOINT_FILE}"
    temporary = f"{path}.new"
    if files.exists(temporary):
        files.remove(temporary)
    file = files.create(temporary)
    try:
        crc = 0
        header = FileHeader(CHECKPOINT_MAGIC, identity, journal_bytes, bytes(16)).encode()
        for part in (header, *parts):
            crc = crc32(part, crc)
            file.write(part)
        file.write(crc.to_bytes(4, "little"))
        file.sync()
    finally:
        file.close()
    files.rename(temporary, path)
    files.sync_folder(folder)


def encode_subjects(subjects: SubjectTable) -> bytes:
    """The table of subjects, ids as they are."""
    names = b"\n".join(subjects.names)
    return b"".join(
        (
            _SUBJECTS.pack(len(subjects.names), len(names)),
            names,
            subjects.firsts.tobytes(),
            subjects.lasts.tobytes(),
            subjects.counts.tobytes(),
        )
    )


def encode_segment(covered: Covered) -> bytes:
    """One segment's index."""
    index = covered.index
    return b"".join(
        (
            _SEGMENT.pack(
                index.first_sequence,
                covered.covered_bytes,
                len(index.offsets),
                index.live,
                index.live_bytes,
                covered.sealed,
                len(covered.expiries),
            ),
            b"".join(_EXPIRY.pack(*pair) for pair in covered.expiries),
            *(column.tobytes() for column in index.columns()),
        )
    )


def read_checkpoint(files: FileSystem, folder: str, identity: bytes) -> Checkpoint | None:
    """The checkpoint of a log; None if there is none. Raises FormatError if it is not sound."""
    path = f"{folder}/{CHECKPOINT_FILE}"
    if not files.exists(path):
        return None
    data = read_file(files, path)
    header = FileHeader.decode(data[:HEADER_BYTES], CHECKPOINT_MAGIC, path)
    if header.identity != identity:
        raise FormatError(f"{path}: belongs to another stream")
    body = memoryview(data)[:-4]
    if crc32(body) != int.from_bytes(data[-4:], "little"):
        raise FormatError(f"{path}: fails its checksum")
    subjects, start = _decode_subjects(data, HEADER_BYTES)
    segments: list[Covered] = []
    while start < len(body):
        covered, start = _decode_segment(data, start)
        segments.append(covered)
    return Checkpoint(header.first_sequence, subjects, segments)


def _decode_subjects(data: bytes, start: int) -> tuple[SubjectTable, int]:
    count, size = _SUBJECTS.unpack_from(data, start)
    start += _SUBJECTS.size
    subjects = SubjectTable()
    subjects.names = data[start : start + size].split(b"\n") if count else []
    start += size
    for column in (subjects.firsts, subjects.lasts, subjects.counts):
        end = start + column.itemsize * count
        column.frombytes(data[start:end])
        start = end
    subjects.ids = {name: sid for sid, name in enumerate(subjects.names) if subjects.counts[sid]}
    return subjects, start


def _decode_segment(data: bytes, start: int) -> tuple[Covered, int]:
    first, covered_bytes, count, live, live_bytes, sealed, expiry_count = _SEGMENT.unpack_from(
        data, start
    )
    start += _SEGMENT.size
    end = start + expiry_count * _EXPIRY.size
    expiries = [(sequence, time_ns) for sequence, time_ns in _EXPIRY.iter_unpack(data[start:end])]
    start = end
    index = SegmentIndex(first)
    index.live = live
    index.live_bytes = live_bytes
    for column in index.columns():
        end = start + column.itemsize * count
        del column[:]
        column.frombytes(data[start:end])
        start = end
    return Covered(index, covered_bytes, bool(sealed), expiries), start


def index_from(checkpoint: Checkpoint) -> LogIndex:
    """The index as it was when the checkpoint was written."""
    return LogIndex.restored(
        [covered.index for covered in checkpoint.segments], checkpoint.subjects
    )
