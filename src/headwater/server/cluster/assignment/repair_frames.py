"""Questions for records of messages that a replica cannot read, and the answers of other replicas.

    ASK       group (16 bytes), u32 count, u64 sequence of each
    ANSWER    group (16 bytes), u32 count, then for each: u64 sequence, u8 finding, u32 size, record

    findings  1 RECORD       its record follows
              2 UNREADABLE   the replica cannot read it either
              3 ABSENT       the replica does not have it now: it was removed, or is still to come

Both travel on the connection for messages and catch-up. An answer may leave sequences out, and the
server asks again for those.
"""

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from headwater.server.cluster.consensus.frames import GROUP_BYTES, MalformedFrame

# The first bytes of the payloads. Pieces of snapshots have 0x10 to 0x13.
ASK: Final = b"\x20"
ANSWER: Final = b"\x21"

RECORD: Final = 1
UNREADABLE: Final = 2
ABSENT: Final = 3

ASKED_MAX: Final = 64
"""The sequences in one question: a server answers it within a turn."""

ANSWER_BYTES_MAX: Final = 1024 * 1024
"""The records in one answer; one larger record travels alone."""

_HEAD: Final = Struct(f"<{GROUP_BYTES}sI")
_SEQUENCE: Final = Struct("<Q")
_FOUND: Final = Struct("<QBI")


class Found(NamedTuple):
    """The finding of a replica about one message."""

    sequence: int
    finding: int
    record: bytes = b""


def encode_ask(group: bytes, sequences: list[int]) -> bytes:
    """The body of a question."""
    return _HEAD.pack(group, len(sequences)) + b"".join(map(_SEQUENCE.pack, sequences))


def decode_ask(body: bytes) -> tuple[bytes, list[int]]:
    """The group and the sequences of a question. Raises PeerError."""
    group, count = _head_of(body)
    if not 0 < count <= ASKED_MAX or len(body) != _HEAD.size + count * _SEQUENCE.size:
        raise MalformedFrame("a question for records has another length than its count says")
    return group, [sequence for (sequence,) in _SEQUENCE.iter_unpack(body[_HEAD.size :])]


def encode_answer(group: bytes, found: Iterable[Found]) -> bytes:
    """The body of an answer."""
    parts: list[bytes] = []
    count = 0
    for sequence, finding, record in found:
        parts += (_FOUND.pack(sequence, finding, len(record)), record)
        count += 1
    return _HEAD.pack(group, count) + b"".join(parts)


def decode_answer(body: bytes) -> tuple[bytes, list[Found]]:
    """The group and the findings of an answer. Raises PeerError."""
    group, count = _head_of(body)
    if count > ASKED_MAX:
        raise MalformedFrame("an answer has more findings than were asked for")
    found: list[Found] = []
    at = _HEAD.size
    try:
        for _ in range(count):
            sequence, finding, size = _FOUND.unpack_from(body, at)
            at += _FOUND.size + size
            found.append(Found(sequence, finding, body[at - size : at]))
    except StructError as error:
        raise MalformedFrame("an answer ends within a finding") from error
    if at != len(body) or any(not RECORD <= each.finding <= ABSENT for each in found):
        raise MalformedFrame("an answer has another length or other findings than there are")
    return group, found


def _head_of(body: bytes) -> tuple[bytes, int]:
    try:
        group, count = _HEAD.unpack_from(body)
    except StructError as error:
        raise MalformedFrame("a frame ends within the head of a question for records") from error
    return group, count
