"""Subjects that clients may not publish to, and replies they may not name: servers use them."""

from collections.abc import Iterable
from typing import Final

_GATEWAY_PREFIX: Final = b"_GR_."
_RAFT_PREFIX: Final = b"$NRG."
_SERVICE_REPLY_PREFIX: Final = b"_R_."
ACK_FAMILY: Final = b"$JS.ACK"
ACK_PREFIX: Final = ACK_FAMILY + b"."

# A subject or reply that begins with none of these needs no further look.
RESERVED_SUBJECTS: Final = (_GATEWAY_PREFIX, _RAFT_PREFIX)
RESERVED_REPLIES: Final = (_SERVICE_REPLY_PREFIX, ACK_PREFIX, _GATEWAY_PREFIX)


def has_beginning(prefixes: Iterable[bytes], words: Iterable[bytes]) -> bool:
    """Whether a word, none of which has a blank, begins with one of the prefixes.

    All words are searched as one row, in which a blank comes before each.
    """
    row = b" " + b" ".join(words)
    return any(b" " + prefix in row for prefix in prefixes)


def is_reserved(subject: bytes, is_system: bool) -> bool:
    """Whether a client may not publish to a subject; the system account may do more."""
    if len(subject) > len(_GATEWAY_PREFIX) and subject.startswith(_GATEWAY_PREFIX):
        return True
    return subject.startswith(_RAFT_PREFIX) and not is_system


def is_reserved_reply(reply: bytes) -> bool:
    """Whether a client may not name a reply subject."""
    if reply.startswith(_SERVICE_REPLY_PREFIX):
        return True
    return any(
        len(reply) > len(prefix) and reply.startswith(prefix)
        for prefix in (ACK_PREFIX, _GATEWAY_PREFIX)
    )
