"""The time to live of a message, in its header `Nats-TTL`.

A value is whole seconds (`60`), a duration (`1h30m`, counted in whole seconds) or `never`, which
exempts a message from the stream's own age limit. As in nats-server, times to live are whole
seconds; the caller that stores them converts to nanoseconds.
"""

from typing import Final

from headwater.base.clock import NS_PER_S
from headwater.go.durations import parse_duration
from headwater.jetstream import header_names
from headwater.wire.headers import value_of, with_value, without

# The message has no time to live of its own.
NONE: Final = 0
# The message never expires, whatever the stream's age limit is.
NEVER: Final = -1

_INT64_MASK: Final = (1 << 64) - 1
_INT64_SIGN: Final = 1 << 63
_INT64_MAX: Final = _INT64_SIGN - 1
# 10 to the power of 64 is a multiple of 2 to the power of 64: further digits have no effect.
_DIGITS_IN_64_BITS: Final = 64


class TtlError(ValueError):
    """The header is not a duration, or is less than a second (10165)."""


def ttl_seconds(value: bytes) -> int:
    """The time to live in seconds, or NONE or NEVER. Raises TtlError."""
    if not value:
        return NONE
    if value.lower() == b"never":
        return NEVER
    if value.isdigit() and value != b"0":
        return _whole_seconds(value)
    try:
        duration_ns = parse_duration(value.decode("utf-8", "surrogateescape"))
    except ValueError:
        raise TtlError(value) from None
    if duration_ns < NS_PER_S:
        raise TtlError(value)
    return duration_ns // NS_PER_S


def _whole_seconds(digits: bytes) -> int:
    # As in nats-server, numbers above 64 bits wrap around, and negative results are refused.
    seconds = int(digits[-_DIGITS_IN_64_BITS:]) & _INT64_MASK
    if seconds & _INT64_SIGN:
        raise TtlError(digits)
    return seconds


def ttl_of(block: bytes) -> int:
    """The time to live in the header of a message. Raises TtlError."""
    return ttl_seconds(value_of(block, header_names.TTL) or b"")


def expiry_ns(timestamp_ns: int, ttl_s: int) -> int:
    """When a message with a time to live expires; at most the largest 64-bit time.

    nats-server computes in 64 bits without that limit, so a message that should stay for 300 years
    expires at once.
    """
    return min(timestamp_ns + ttl_s * NS_PER_S, _INT64_MAX)


def raised_to_marker(block: bytes, ttl_s: int, marker_ttl_ns: int) -> tuple[bytes, int]:
    """The block and the time to live of a message in a stream with delete markers.

    A message must not expire before the marker of an earlier message of its subject; a shorter life
    is raised to the marker's, also in the header. This does not apply to streams with one message
    per subject, where the message itself replaces the marker.
    """
    floor_s = marker_ttl_ns // NS_PER_S
    if not 0 < ttl_s < floor_s:
        return block, ttl_s
    block = with_value(without(block, header_names.TTL), header_names.TTL, b"%d" % floor_s)
    return block, floor_s
