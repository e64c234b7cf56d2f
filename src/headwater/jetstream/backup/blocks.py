"""The files of nats-server's stream store, as they are in backups before 2.15.

    block    record | record | …

    record   0  length     u32 of the record; the highest bit: the record has a header
            4  sequence   u64; the highest bit: erased, the next: tombstone of another message
           12  timestamp  i64 nanoseconds
           20  size       u16 of the subject
           22  subject | [header size u32 | header] | payload | hash 8

    index    11, version u8, then varints: messages, bytes, first sequence, first time (signed),
             last sequence, last time (signed), subjects and for each: size, subject, count, first
             block and last block; blocks and for each: number, bytes, first sequence, first time
             (signed), last sequence, last time (signed), count of deleted, in later versions counts
             of messages with a time to live and of schedules, then the deleted as a set

    set      22, version u8, count of nodes u32, size u32, then nodes: base u64, bits, height u16

Deletions by users are in the blocks, removals by limits in the index alone. The hashes are not
checked: the compression around a backup has checksums of its own.
"""

from struct import Struct
from typing import Final, NamedTuple, final

from headwater.jetstream.backup.cursor import Cursor
from headwater.jetstream.backup.errors import BackupError

_RECORD: Final = Struct("<IQqH")
_HEADER_SIZE_BYTES: Final = 4
_HASH_BYTES: Final = 8
_RECORD_BYTES_MIN: Final = _RECORD.size + _HASH_BYTES
_HAS_HEADER: Final = 1 << 31
_ERASED: Final = 1 << 63
_TOMBSTONE: Final = 1 << 62

INDEX_BYTES_MAX: Final = 64 * 1024 * 1024
_INDEX_MAGIC: Final = 11
_SET_MAGIC: Final = 22
_INDEX_HEAD_BYTES: Final = 2
# From these versions on an index has more fields of each block, or of each subject.
_WITH_TTLS: Final = 2
_WITH_SCHEDULES: Final = 3
_WITH_LAST_BLOCKS: Final = 4
_SET_HEAD: Final = Struct("<BBII")
# Words of 64 bits, by version of the set.
_SET_WORDS: Final = {1: 64, 2: 32}


class BlockRecord(NamedTuple):
    """One record. Without a subject it only takes a sequence, or is a tombstone."""

    sequence: int
    timestamp_ns: int
    subject: bytes
    header: bytes
    payload: bytes
    is_tombstone: bool


@final
class BlockReader:
    """Decodes the blocks of a stream, one after the other, into records."""

    __slots__ = ("_buffer", "_content_bytes_max", "_offset")

    def __init__(self, content_bytes_max: int) -> None:
        self._buffer = bytearray()
        self._offset = 0
        self._content_bytes_max = content_bytes_max

    def feed(self, data: bytes) -> None:
        """Add bytes to the input."""
        del self._buffer[: self._offset]
        self._offset = 0
        self._buffer += data

    @property
    def is_between_records(self) -> bool:
        """Whether a block could end here."""
        return self._offset == len(self._buffer)

    def read(self) -> BlockRecord | None:
        """The next record, or None when more input is needed. Raises BackupError."""
        data, offset = self._buffer, self._offset
        if len(data) - offset < _RECORD.size:
            return None
        length, sequence, timestamp_ns, subject_size = _RECORD.unpack_from(data, offset)
        has_header = length & _HAS_HEADER
        length &= ~_HAS_HEADER
        rest = length - _RECORD_BYTES_MIN - subject_size - (_HEADER_SIZE_BYTES if has_header else 0)
        if rest < 0 or rest > self._content_bytes_max:
            sequence &= ~(_ERASED | _TOMBSTONE)
            raise BackupError(
                f"message sequence {sequence} "
                + ("has no possible size" if rest < 0 else "exceeds maximum payload size")
            )
        if len(data) - offset < length:
            return None
        self._offset = offset + length
        begin = offset + _RECORD.size
        end = self._offset - _HASH_BYTES
        if sequence & (_ERASED | _TOMBSTONE) or not sequence:
            is_tombstone = bool(sequence & _TOMBSTONE)
            sequence &= ~(_ERASED | _TOMBSTONE)
            return BlockRecord(sequence, timestamp_ns, b"", b"", b"", is_tombstone)
        subject = bytes(data[begin : begin + subject_size])
        begin += subject_size
        header_size = 0
        if has_header:
            header_size = int.from_bytes(data[begin : begin + _HEADER_SIZE_BYTES], "little")
            begin += _HEADER_SIZE_BYTES
            if header_size > rest:
                raise BackupError(f"message sequence {sequence} has no possible size")
        header = bytes(data[begin : begin + header_size])
        payload = bytes(data[begin + header_size : end])
        return BlockRecord(sequence, timestamp_ns, subject, header, payload, is_tombstone=False)


class StoredIndex(NamedTuple):
    """The content of an index."""

    messages: int
    first_sequence: int
    last_sequence: int
    # The first and last sequence of each block.
    blocks: list[tuple[int, int]]
    # Deleted messages: a base sequence, and a number whose bits stand for it and those after it.
    deleted: list[tuple[int, int]]


def decode_index(data: bytes) -> StoredIndex:
    """Decode an index. Raises BackupError."""
    if len(data) < _INDEX_HEAD_BYTES or data[0] != _INDEX_MAGIC:
        raise BackupError("its index is not one")
    version = data[1]
    if not 1 <= version <= _WITH_LAST_BLOCKS:
        raise BackupError(f"its index has the unknown version {version}")
    cursor = Cursor(data, _INDEX_HEAD_BYTES, "its index")
    messages = cursor.number()
    cursor.skip(1)
    first_sequence = cursor.number()
    cursor.skip(1)
    last_sequence = cursor.number()
    cursor.skip(1)
    for _ in range(cursor.number()):
        size = cursor.number()
        if not size:
            continue
        cursor.pass_over(size)
        total = cursor.number()
        cursor.skip(2 if total > 1 or version >= _WITH_LAST_BLOCKS else 1)
    blocks: list[tuple[int, int]] = []
    deleted: list[tuple[int, int]] = []
    for _ in range(cursor.number()):
        cursor.skip(2)
        first = cursor.number()
        cursor.skip(1)
        last = cursor.number()
        cursor.skip(1)
        deleted_count = cursor.number()
        cursor.skip((version >= _WITH_TTLS) + (version >= _WITH_SCHEDULES))
        blocks.append((first, last))
        if deleted_count:
            deleted += _decode_set(cursor)
    return StoredIndex(messages, first_sequence, last_sequence, blocks, deleted)


def _decode_set(cursor: Cursor) -> list[tuple[int, int]]:
    begin = cursor.offset
    cursor.pass_over(_SET_HEAD.size)
    magic, version, count, _ = _SET_HEAD.unpack_from(cursor.data, begin)
    words = _SET_WORDS.get(version)
    if magic != _SET_MAGIC or words is None:
        raise BackupError("its index has a set of an unknown kind")
    nodes = []
    for _ in range(count):
        begin = cursor.offset
        cursor.pass_over(8 + 8 * words + 2)
        base = int.from_bytes(cursor.data[begin : begin + 8], "little")
        bits = int.from_bytes(cursor.data[begin + 8 : begin + 8 + 8 * words], "little")
        nodes.append((base, bits))
    return nodes


def members(node: tuple[int, int]) -> list[int]:
    """The sequences that a base and its bits stand for."""
    base, bits = node
    found = []
    while bits:
        lowest = bits & -bits
        found.append(base + lowest.bit_length() - 1)
        bits ^= lowest
    return found
