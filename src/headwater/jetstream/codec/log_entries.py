"""The records of one entry of a stream's log: all of them are applied, or none.

    entry      size       u32  of the record that follows
               record          and so on, to the end

An entry stands in a frame of the write-ahead file, which has its length and a checksum.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.records import Record, StreamCreated, StreamDeleted

_SIZE: Final = Struct("<I")


def encode_entry(codec: RecordCodec, records: Sequence[Record]) -> bytes:
    """The bytes of an entry."""
    parts: list[bytes] = []
    for record in records:
        data = codec.encode(record)
        parts += (_SIZE.pack(len(data)), data)
    return b"".join(parts)


def decode_entry(codec: RecordCodec, data: bytes) -> list[Record]:
    """The records of an entry. Raises RecordError."""
    records: list[Record] = []
    begin = 0
    while begin < len(data):
        body = begin + _SIZE.size
        if body > len(data):
            raise RecordError("an entry ends within the size of a record")
        (size,) = _SIZE.unpack_from(data, begin)
        begin = body + size
        if begin > len(data):
            raise RecordError("an entry ends within a record")
        record = codec.decode(data[body:begin])
        if isinstance(record, StreamCreated | StreamDeleted):
            raise RecordError("an entry of a stream has a record of the set of streams")
        records.append(record)
    return records
