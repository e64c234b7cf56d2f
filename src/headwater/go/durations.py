"""Durations as Go spells them (`1h30m`, `250ms`): in headers, configurations, logs and documents.

Both directions agree with Go's `time` package to the nanosecond and in every refused text: whether
a publish is stored may depend on it. Durations are whole nanoseconds in the range of 64 bits with a
sign.
"""

import re
from collections.abc import Mapping
from typing import Final

from headwater.base.clock import NS_PER_S

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

_INT64_SPAN: Final = 1 << 63
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^.0-9]*)")
# Longer whole numbers are out of range in every unit; converting them to integers costs time.
_WHOLE_DIGITS_MAX: Final = 19


def parse_duration(text: str, units: Mapping[str, int] = NS_PER_UNIT) -> int:
    """Parse a duration into nanoseconds. Raises ValueError with the text of Go's error.

    `units` has nanoseconds by unit; the command line adds days and years to those of Go.
    """
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest:
        raise _invalid(text)
    total_ns = 0
    position = 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None or not (part[1] or part[2]):
            raise _invalid(text)
        total_ns += _part_ns(part[1], part[2] or "", part[3], units, text)
        if total_ns > _INT64_SPAN:
            raise _invalid(text)
        position = part.end()
    if text[0] == "-":
        return -total_ns
    if total_ns == _INT64_SPAN:
        raise _invalid(text)
    return total_ns


def _part_ns(whole: str, fraction: str, unit: str, units: Mapping[str, int], text: str) -> int:
    whole = whole.lstrip("0")
    if len(whole) > _WHOLE_DIGITS_MAX or int(whole or "0") > _INT64_SPAN:
        raise _invalid(text)
    if not unit:
        raise ValueError(f"time: missing unit in duration {quoted(text)}")
    if unit not in units:
        raise ValueError(f"time: unknown unit {quoted(unit)} in duration {quoted(text)}")
    unit_ns = units[unit]
    part_ns = int(whole or "0") * unit_ns
    if part_ns > _INT64_SPAN:
        raise _invalid(text)
    if fraction.strip("0"):
        part_ns += _fraction_ns(fraction, unit_ns)
    return part_ns


def _fraction_ns(digits: str, unit_ns: int) -> int:
    # Go computes the fraction in floating point, and clients expect its result for 0.3s.
    value, scale = 0, 1.0
    for digit in digits:
        if value > (_INT64_SPAN - 1) // 10:
            break
        longer = value * 10 + int(digit)
        if longer > _INT64_SPAN:
            break
        value, scale = longer, scale * 10
    return int(value * (unit_ns / scale))


def _invalid(text: str) -> ValueError:
    return ValueError(f"time: invalid duration {quoted(text)}")


def quoted(text: str) -> str:
    """Text in the quotes of Go's `time` package, which knows fewer escapes than `%q`."""
    parts = []
    for byte in text.encode("utf-8", "surrogateescape"):
        if byte in b'"\\':
            parts.append("\\" + chr(byte))
        elif byte < 0x20 or byte >= 0x80:
            parts.append(f"\\x{byte:02x}")
        else:
            parts.append(chr(byte))
    return '"' + "".join(parts) + '"'


def format_duration(duration_ns: int) -> str:
    """The shortest spelling Go prints: `1m30s`, `1.5s`, `250ms`, `0s`."""
    if duration_ns == 0:
        return "0s"
    sign, rest_ns = ("-", -duration_ns) if duration_ns < 0 else ("", duration_ns)
    for unit in ("ns", "µs", "ms"):
        if rest_ns < NS_PER_UNIT[unit] * 1000:
            return f"{sign}{_decimal(rest_ns, NS_PER_UNIT[unit])}{unit}"
    minutes, rest_ns = divmod(rest_ns, NS_PER_UNIT["m"])
    seconds = _decimal(rest_ns, NS_PER_UNIT["s"]) + "s"
    if minutes == 0:
        return sign + seconds
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}h{minutes}m{seconds}" if hours else f"{sign}{minutes}m{seconds}"


def format_seconds(seconds: float) -> str:
    """A number of seconds as `format_duration` prints it."""
    return format_duration(round(seconds * NS_PER_S))


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    if rest == 0:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")
