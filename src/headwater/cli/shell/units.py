"""Sizes, durations and times as people write them and as the JetStream API counts them.

The API counts bytes and nanoseconds in whole numbers and writes times in RFC 3339 with up to nine
digits; people write `10GB`, `1d12h` and want to know how long ago. Conversions are exact: a
duration that is read and shown again is the same duration.
"""

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from headwater.go.durations import parse_duration

UNLIMITED: Final = -1

NANOSECONDS_PER_UNIT: Final = {
    "y": 365 * 86_400 * 10**9,
    "w": 7 * 86_400 * 10**9,
    "d": 86_400 * 10**9,
    "h": 3_600 * 10**9,
    "m": 60 * 10**9,
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
}
NANOSECONDS_PER_SECOND: Final = 10**9

BYTES_PER_UNIT: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
SIZE_BYTES_MAX: Final = 2**63 - 1

# The API's form of a missing time.
ZERO_TIME: Final = "0001-01-01T00:00:00Z"

_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTP]?)(?:I?B)?", re.IGNORECASE)
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")

_AGE_UNITS: Final = (("y", 365 * 86_400), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def parse_duration_ns(text: str) -> int:
    """Nanoseconds from `90s`, `1d12h` or `1.5h`; a bare number is seconds. Raises ValueError."""
    written = text.strip().lower()
    if _NUMBER.fullmatch(written):
        written += "s"
    # The API's durations have no sign; Go's do.
    if written[:1].isdigit():
        try:
            return parse_duration(written, NANOSECONDS_PER_UNIT)
        except ValueError:
            pass
    raise ValueError(
        f"{text!r} is not a duration of up to 292 years; write 90s, 500ms, 2h30m or 7d"
    )


def duration_ns_text(duration_ns: int) -> str:
    """`1d12h`, `2m`, `1s500ms`: the same duration when read again. Weeks are shown as days."""
    rest, parts = abs(duration_ns), []
    for unit, size_ns in NANOSECONDS_PER_UNIT.items():
        if unit != "w" and rest >= size_ns:
            parts.append(f"{rest // size_ns}{unit}")
            rest %= size_ns
    return ("-" if duration_ns < 0 else "") + ("".join(parts) or "0s")


def parse_size_bytes(text: str) -> int:
    """Bytes from `1048576`, `10MB` or `1.5GiB`, -1 from `unlimited`. Raises ValueError.

    Every unit is a power of 1024 with and without the i, as in the servers' own configuration.
    """
    if text.strip().lower() in ("unlimited", "-1"):
        return UNLIMITED
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size; write 1048576, 10MB, 1.5GiB or unlimited")
    size = int(Decimal(match[1]) * BYTES_PER_UNIT[match[2].upper()])
    if size > SIZE_BYTES_MAX:
        raise ValueError(f"{text!r} is more bytes than the API can say")
    return size


def parse_time(text: str) -> datetime | None:
    """The moment an API time names, to the microsecond; None for the zero time and for no time."""
    match = _TIME.fullmatch(text)
    if match is None or text == ZERO_TIME:
        return None
    fraction = (match[2] or "").ljust(6, "0")[:6]
    offset = "+00:00" if match[3] == "Z" else match[3]
    return datetime.fromisoformat(f"{match[1]}.{fraction}{offset}").astimezone(UTC)


def api_time(moment: datetime) -> str:
    """A moment as the API writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def time_of_ns(since_1970_ns: int) -> str:
    """A time in nanoseconds since 1970 as the API writes it."""
    seconds, fraction_ns = divmod(since_1970_ns, NANOSECONDS_PER_SECOND)
    second = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{second}.{fraction_ns:09d}Z"


def time_text(text: str) -> str:
    """An API time for a person: UTC, to the millisecond."""
    moment = parse_time(text)
    if moment is None:
        return "never"
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d} UTC"


def age_text(text: str, now: datetime) -> str:
    """The age of an API time: `never`, `now`, `3m ago`."""
    moment = parse_time(text)
    if moment is None:
        return "never"
    seconds = int((now - moment).total_seconds())
    for unit, size_s in _AGE_UNITS:
        if seconds >= size_s:
            return f"{seconds // size_s}{unit} ago"
    return "now"
