"""Values in the spelling of Go, for messages and formats that have to equal nats-server's.

Durations, numbers and type names as `fmt`, `strconv`, `time` and `encoding/json` write
them. Pure text in, pure text out; nothing here knows what the text is about.
"""

import re
from decimal import Decimal
from typing import Final

from headwater.base.quoting import quote

NS_PER_UNIT: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # micro sign
    "\u03bcs": 10**3,  # Greek letter mu
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)

_NUMBER: Final = re.compile(r"[0-9]*(?:\.[0-9]*)?")
_UNIT: Final = re.compile(r"[^.0-9]*")
# Longer numbers are out of range in any unit; parsing them would only cost time.
_DIGITS_MAX: Final = 40


def parse_duration_ns(text: str) -> int:
    """A duration such as `1h30m` or `250ms` in nanoseconds.

    Raises ValueError with the text of Go's `time.ParseDuration`.
    """
    invalid = ValueError(f"time: invalid duration {quote(text)}")
    negative = text.startswith("-")
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest:
        raise invalid
    total_ns = 0
    while rest:
        number = _matched(_NUMBER, rest)
        rest = rest[len(number) :]
        if number in ("", ".") or len(number) > _DIGITS_MAX:
            raise invalid
        unit = _matched(_UNIT, rest)
        rest = rest[len(unit) :]
        if not unit:
            raise ValueError(f"time: missing unit in duration {quote(text)}")
        if unit not in NS_PER_UNIT:
            raise ValueError(f"time: unknown unit {quote(unit)} in duration {quote(text)}")
        total_ns += int(Decimal(number) * NS_PER_UNIT[unit])
        if total_ns > MAX_INT64:
            raise invalid
    return -total_ns if negative else total_ns


def _matched(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.match(text)
    return match.group() if match else ""


def format_duration(seconds: float) -> str:
    """A duration as Go prints it: `1m30s`, `1.5s`, `250ms`, `0s`."""
    nanoseconds = round(seconds * 10**9)
    sign, nanoseconds = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if nanoseconds == 0:
        return "0s"
    for unit, size in (("ns", 1), ("µs", 10**3), ("ms", 10**6)):
        if nanoseconds < size * 1000:
            return f"{sign}{_decimal(nanoseconds, size)}{unit}"
    minutes, nanoseconds = divmod(nanoseconds, NS_PER_UNIT["m"])
    text = _decimal(nanoseconds, NS_PER_UNIT["s"]) + "s"
    if minutes == 0:
        return sign + text
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}h{minutes}m{text}" if hours else f"{sign}{minutes}m{text}"


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    if rest == 0:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")


def format_float(number: float) -> str:
    """A float as `%v` and JSON print it: shortest digits, exponents only when far from one."""
    if number != 0 and not 1e-6 <= abs(number) < 1e21:
        return repr(number).replace("e-0", "e-")
    text = format(Decimal(repr(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def os_error_text(error: OSError, path: str) -> str:
    """An error of opening or reading a file as Go's `os` package words it."""
    reason = (error.strerror or "input/output error").lower()
    verb = "read" if isinstance(error, IsADirectoryError) else "open"
    return f"{verb} {path}: {reason}"
