"""Digests of replicas, and the order to be filled again, as they travel between servers.

    DIGESTS   group (16 bytes), u8 count, then the digests, oldest first
    REFILL    group (16 bytes), u64 entry of the digest that differs

Both are notices on the consensus connection. They name a group, of which the receiver has a replica
or not; a digest is compared with one of the receiver's own and believed in nothing else.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from headwater.jetstream.streams.digests import (
    DIGEST_BYTES,
    KEPT_MAX,
    Digest,
    decode_digest,
    encode_digest,
)
from headwater.server.cluster.consensus.frames import GROUP_BYTES, MalformedFrame

_HEAD: Final = Struct(f"<{GROUP_BYTES}sB")
_ORDER: Final = Struct(f"<{GROUP_BYTES}sQ")


def encode_digests(group: bytes, digests: Sequence[Digest]) -> bytes:
    """The body of a notice with digests."""
    return _HEAD.pack(group, len(digests)) + b"".join(map(encode_digest, digests))


def decode_digests(body: bytes) -> tuple[bytes, list[Digest]]:
    """The group and its digests. Raises PeerError."""
    if len(body) < _HEAD.size:
        raise MalformedFrame("digests end within their head")
    group, count = _HEAD.unpack_from(body)
    if not 0 < count <= KEPT_MAX or len(body) != _HEAD.size + count * DIGEST_BYTES:
        raise MalformedFrame("digests have another length than their count says")
    begins = range(_HEAD.size, len(body), DIGEST_BYTES)
    return group, [decode_digest(body, begin) for begin in begins]


def encode_order(group: bytes, entry: int) -> bytes:
    """The body of an order to be filled again."""
    return _ORDER.pack(group, entry)


def decode_order(body: bytes) -> tuple[bytes, int]:
    """The group and the entry of an order. Raises PeerError."""
    if len(body) != _ORDER.size:
        raise MalformedFrame("an order to be filled again has another length")
    group, entry = _ORDER.unpack(body)
    return group, entry
