"""The identity of a stream, by which it differs from an earlier stream of its name.

A server that copies a stream names the identity it knows, so as not to go on with another stream in
the middle. As in nats-server, the identity follows from the time of creation.
"""

from typing import Final

from headwater.base.ids import hash62
from headwater.go.times import format_time
from headwater.jetstream import error_codes
from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.stream import Stream
from headwater.wire.headers import value_of, with_value

STREAM_IDENTITY: Final = b"Nats-Stream-Identity"
_IDENTITY_SIZE: Final = 8


def identity_of(stream: Stream) -> str:
    """The identity of a stream."""
    return hash62(format_time(stream.created_ns), _IDENTITY_SIZE)


def check_identity(stream: Stream, header: bytes) -> None:
    """Raises ApiError if the header of a request names another stream."""
    identity = identity_of(stream)
    named = value_of(header, STREAM_IDENTITY) if header else None
    if named and named != identity.encode():
        raise ApiError.of(error_codes.CONSUMER_STREAM_IDENTITY_MISMATCH, msg=identity)


def asks_for_identity(header: bytes) -> bool:
    """Whether the header of a request names an identity."""
    return bool(header) and value_of(header, STREAM_IDENTITY) is not None


def identity_block(stream: Stream | None) -> bytes:
    """The header of a reply with the identity; empty if the stream was deleted meanwhile."""
    if stream is None:
        return b""
    return with_value(b"", STREAM_IDENTITY, identity_of(stream).encode())
