"""The spelling of monitoring documents: that of Go's `encoding/json` and `time`.

Fields of a View are in the order nats-server writes them. A field with a default is left out while
it has that default, as with Go's `omitempty`.
"""

from datetime import UTC, datetime
from typing import Final

import msgspec

from headwater.base.clock import NS_PER_MS, NS_PER_S
from headwater.base.errors import HeadwaterError
from headwater.go.durations import format_duration

NS_PER_US: Final = 1000
INDENT_SPACES: Final = 2

# Go escapes these so that JSON can stand inside HTML; they only ever occur inside strings.
_ESCAPED: Final = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


class View(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Base of all documents."""


class Refused(HeadwaterError):
    """The document cannot be made as asked for; the text is nats-server's."""


class Filtered(Refused):
    """The document is withheld from the requester; a request by message gets no answer at all."""


class MsgBytes(View, kw_only=True):
    """A number of messages and their bytes."""

    msgs: int
    bytes: int


def encode(view: object) -> bytes:
    """A document on one line."""
    data = msgspec.json.encode(view)
    for plain, escaped in _ESCAPED:
        data = data.replace(plain, escaped)
    return data


def encode_indented(view: object) -> bytes:
    """A document for people to read."""
    return msgspec.json.format(encode(view), indent=INDENT_SPACES)


def timestamp(wall_ns: int) -> str:
    """RFC 3339 in UTC with as many digits of a second as are not zero."""
    seconds, rest_ns = divmod(wall_ns, NS_PER_S)
    moment = datetime.fromtimestamp(seconds, UTC)
    fraction = f".{rest_ns:09d}".rstrip("0") if rest_ns else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def uptime(passed_ns: int) -> str:
    """Whole seconds, in the largest units that are not zero: `1d0h0m7s`, `2m3s`, `0s`."""
    minutes, seconds = divmod(max(passed_ns, 0) // NS_PER_S, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    years, days = divmod(days, 365)
    parts = [(years, "y"), (days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s")]
    while len(parts) > 1 and parts[0][0] == 0:
        del parts[0]
    return "".join(f"{amount}{unit}" for amount, unit in parts)


def round_trip_ns(rtt_ns: int) -> int:
    """A round trip as precisely as it is shown: below a millisecond, whole microseconds."""
    return rtt_ns - rtt_ns % NS_PER_US if NS_PER_US < rtt_ns < NS_PER_MS else rtt_ns


def round_trip(rtt_ns: int) -> str:
    """A round trip as Go prints a duration: `254µs`, `1.5ms`, `0s`."""
    return format_duration(round_trip_ns(rtt_ns))


def number(value: float) -> int | float:
    """A number as JSON has it in Go, where 2.0 is written 2."""
    return int(value) if value == int(value) else value


def text(value: bytes) -> str:
    """Subjects, queues and sids as JSON can have them."""
    return value.decode(errors="replace")
