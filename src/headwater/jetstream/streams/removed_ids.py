"""Message ids whose messages are gone, as entries in the journal of their log.

An id counts for its window whatever becomes of its message: a work queue lets a message go as soon
as it is done, and a publisher who tries again has to be told all the same that it was there. While
a message is there its header tells the id. When it goes, the id is journalled together with that,
so that a crash leaves one of the two.

    entry      of kind 256, some ids one after the other
                  sequence     u64
                  timestamp    i64 nanoseconds
                  size         u16
                  id
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, TypeAlias

from headwater.store.disk.journal import CALLER_KINDS

REMOVED_IDS: Final = CALLER_KINDS

# Id, sequence and timestamp.
IdEntry: TypeAlias = tuple[bytes, int, int]

_ID: Final = Struct("<QqH")


def encode(entries: Iterable[IdEntry]) -> tuple[int, bytes]:
    """Ids as an entry: kind and body."""
    parts = []
    for message_id, sequence, timestamp_ns in entries:
        parts.append(_ID.pack(sequence, timestamp_ns, len(message_id)))
        parts.append(message_id)
    return REMOVED_IDS, b"".join(parts)


def decode(body: bytes) -> list[IdEntry]:
    """The ids of an entry; what is not whole at its end is left out."""
    found: list[IdEntry] = []
    start = 0
    while start + _ID.size <= len(body):
        sequence, timestamp_ns, size = _ID.unpack_from(body, start)
        start += _ID.size
        message_id = body[start : start + size]
        start += size
        if start <= len(body):
            found.append((message_id, sequence, timestamp_ns))
    return found
