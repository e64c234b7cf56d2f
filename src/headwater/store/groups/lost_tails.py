"""Files with entries that a server had in the log of a group, and that its leader does not have.

    file     magic      8 bytes
             seed       u64   with which the checksums of the messages in the entries begin
             frames     to the end
    frame    checksum   u32   CRC-32 of what follows in the frame
             size       u32   of the data
             index      u64   of the entry
             term       u64
             created    i64   by the clock of the leader that created it
             data       the entry as the log had it

A file is written once, as a whole. `headwater store tail` reads it: the data of an entry are those
that the log had.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final
from zlib import crc32

from headwater.store.disk.format import FormatError
from headwater.store.groups.frames import GroupEntry

TAIL_PREFIX: Final = "tail-"
_MAGIC: Final = b"HWTAIL1\n"
_SEED: Final = Struct("<Q")
_CHECKSUM: Final = Struct("<I")
_HEAD: Final = Struct("<IQQq")


def encode_tail(seed: int, entries: Sequence[GroupEntry]) -> bytes:
    """The bytes of a file."""
    parts = [_MAGIC, _SEED.pack(seed)]
    for entry in entries:
        head = _HEAD.pack(len(entry.data), entry.index, entry.term, entry.created_ns)
        parts += (_CHECKSUM.pack(crc32(entry.data, crc32(head))), head, entry.data)
    return b"".join(parts)


def decode_tail(data: bytes, path: str) -> tuple[int, list[GroupEntry]]:
    """The seed and the entries of a file. Raises FormatError."""
    begin = len(_MAGIC) + _SEED.size
    if not data.startswith(_MAGIC) or len(data) < begin:
        raise FormatError(f"{path}: no file with entries of a log")
    (seed,) = _SEED.unpack_from(data, len(_MAGIC))
    entries: list[GroupEntry] = []
    while begin < len(data):
        head = begin + _CHECKSUM.size
        body = head + _HEAD.size
        if body > len(data):
            raise FormatError(f"{path}: it ends within an entry, at {begin}")
        (checksum,) = _CHECKSUM.unpack_from(data, begin)
        size, index, term, created_ns = _HEAD.unpack_from(data, head)
        end = body + size
        if end > len(data) or crc32(data[head:end]) != checksum:
            raise FormatError(f"{path}: the entry at {begin} is damaged")
        entries.append(GroupEntry(index, term, 0, created_ns, 0, data[body:end]))
        begin = end
    return seed, entries
