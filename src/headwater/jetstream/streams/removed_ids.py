"""Journal entries with the ids of messages that were removed.

An id counts for its window whatever becomes of its message: a work queue removes a message as soon
as it is acknowledged, and a publisher that tries again still has to be told about the duplicate. A
stored message has its id in the header. The removal of a message and its id are journalled
together, so that after a crash one of the two is there.

    entry      of kind 256: ids, one after the other
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
    """The ids of an entry, without an incomplete one at its end."""
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
