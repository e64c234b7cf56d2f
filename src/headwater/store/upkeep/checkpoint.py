"""Checkpoints: the index of a log in a file, so that opening reads only the end of the log.

A checkpoint is only a short cut: everything in it can be found out from segments and journal. It
says how far into each it reaches; what is behind that is read as ever. A
checkpoint that is not sound, or does not fit the files beside it, is not used.

    file       header as a segment's, magic b"HWINDEX!", first = bytes of the journal it covers,
                 salt = that of the journal
               about | expiries | subjects | subjects | … | segment | segment | … | crc u32

    about      subjects u32, expiries u32, is linked u32
    expiries   sequences u64…, times i64…
    subjects   some of them: count u32, bytes u32, names joined by newlines, then the columns
               firsts u64, lasts u64 and counts u32
    segment    first u64, covered bytes u64, messages u32, live u32, live bytes u64, dead bytes u64,
               sealed u32, then the columns of its index

The crc is over everything before it. A journal with another salt than the checkpoint's was
rewritten since: the checkpoint covers nothing of it.
"""

from array import array
from struct import Struct
from typing import Final, final

from headwater.base.checksums import crc32
from headwater.store.disk.filesystem import FileSystem, read_file
from headwater.store.disk.format import HEADER_BYTES, FileHeader, FormatError
from headwater.store.index.log_index import LogIndex, SegmentIndex, SubjectTable

CHECKPOINT_MAGIC: Final = b"HWINDEX!"
CHECKPOINT_FILE: Final = "index.hw"

ABOUT: Final = Struct("<III")
SUBJECTS: Final = Struct("<II")
SEGMENT: Final = Struct("<QQIIQQI")


@final
class Covered:
    """The part of a checkpoint about one segment."""

    __slots__ = ("covered_bytes", "index", "sealed")

    def __init__(self, index: SegmentIndex, covered_bytes: int, sealed: bool) -> None:
        self.index = index
        self.covered_bytes = covered_bytes
        self.sealed = sealed


@final
class Checkpoint:
    """A checkpoint read back."""

    __slots__ = ("_journal_bytes", "_journal_salt", "expiries", "is_linked", "segments", "subjects")

    def __init__(
        self, header: FileHeader, subjects: SubjectTable, expiries: list[tuple[int, int]]
    ) -> None:
        self._journal_bytes = header.first_sequence
        self._journal_salt = header.salt
        self.subjects = subjects
        # Sequences of messages that expire, and when.
        self.expiries = expiries
        # Whether the messages of each subject are linked.
        self.is_linked = True
        self.segments: list[Covered] = []

    def journal_bytes(self, salt: bytes) -> int:
        """The bytes that it covers of the journal with this salt."""
        return self._journal_bytes if salt == self._journal_salt else 0


def read_checkpoint(files: FileSystem, folder: str, identity: bytes) -> Checkpoint | None:
    """The checkpoint of a log; None without one. Raises FormatError if it is not sound."""
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
    subject_count, expiry_count, is_linked = ABOUT.unpack_from(data, HEADER_BYTES)
    expiries, start = _decode_expiries(data, HEADER_BYTES + ABOUT.size, expiry_count)
    subjects, start = _decode_subjects(data, start, subject_count)
    checkpoint = Checkpoint(header, subjects, expiries)
    checkpoint.is_linked = bool(is_linked)
    while start < len(body):
        covered, start = _decode_segment(data, start)
        checkpoint.segments.append(covered)
    return checkpoint


def _read_column(column: "array[int]", data: bytes, start: int, count: int) -> int:
    """Add `count` values to a column; returns the offset behind them."""
    end = start + column.itemsize * count
    column.frombytes(data[start:end])
    return end


def _decode_expiries(data: bytes, start: int, count: int) -> tuple[list[tuple[int, int]], int]:
    sequences, times_ns = array("Q"), array("q")
    start = _read_column(sequences, data, start, count)
    start = _read_column(times_ns, data, start, count)
    return list(zip(sequences, times_ns, strict=True)), start


def _decode_subjects(data: bytes, start: int, count: int) -> tuple[SubjectTable, int]:
    subjects = SubjectTable()
    while len(subjects.names) < count:
        here, size = SUBJECTS.unpack_from(data, start)
        start += SUBJECTS.size
        names = data[start : start + size].split(b"\n")
        if len(names) != here:
            raise FormatError(f"{here} subjects are written as {len(names)}: one has a line end")
        subjects.names += names
        start += size
        for column in (subjects.firsts, subjects.lasts, subjects.counts):
            start = _read_column(column, data, start, here)
    subjects.ids = {name: sid for sid, name in enumerate(subjects.names) if subjects.counts[sid]}
    return subjects, start


def _decode_segment(data: bytes, start: int) -> tuple[Covered, int]:
    first, covered_bytes, count, live, live_bytes, dead_bytes, sealed = SEGMENT.unpack_from(
        data, start
    )
    start += SEGMENT.size
    index = SegmentIndex(first)
    index.live = live
    index.live_bytes = live_bytes
    index.dead_bytes = dead_bytes
    for column in index.columns():
        start = _read_column(column, data, start, count)
    return Covered(index, covered_bytes, bool(sealed)), start


def index_from(checkpoint: Checkpoint) -> LogIndex:
    """The index as it was when the checkpoint was written."""
    return LogIndex.restored(
        [covered.index for covered in checkpoint.segments],
        checkpoint.subjects,
        checkpoint.is_linked,
    )
