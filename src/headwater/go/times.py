"""Points in time as RFC 3339 text, as Go writes and reads them.

A time is whole nanoseconds since the Unix epoch. Go's zero time, which stands for "no time" in
replies, is the start of the year 1 and has its own constant; the epoch itself is an ordinary time.
"""

from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final

from headwater.base.clock import NS_PER_S
from headwater.go.durations import quoted

ZERO_TIME_NS: Final = -62_135_596_800 * NS_PER_S
ZERO_TIME_TEXT: Final = "0001-01-01T00:00:00Z"

_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
_EPOCH: Final = datetime(1970, 1, 1)
_SECONDS_PER_DAY: Final = 86_400
_DAYS_PER_400_YEARS: Final = 146_097
# The texts of neighbouring messages differ in their fraction only.
_SECONDS_CACHED: Final = 1024


def format_time(time_ns: int) -> str:
    """The time in UTC, without zeros at the end of its fraction: `2026-11-15T05:00:00.12Z`."""
    seconds, fraction_ns = divmod(time_ns, NS_PER_S)
    if fraction_ns == 0:
        return _second_text(seconds) + "Z"
    return f"{_second_text(seconds)}.{fraction_ns:09d}".rstrip("0") + "Z"


@lru_cache(_SECONDS_CACHED)
def _second_text(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat()


def format_time_in(time_ns: int, zone: tzinfo) -> str:
    """The time as a clock in `zone` shows it, with its offset from UTC: `...T07:00:00+02:00`."""
    seconds, fraction_ns = divmod(time_ns, NS_PER_S)
    local = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=UTC).astimezone(zone)
    offset = local.utcoffset() or timedelta()
    text = local.replace(tzinfo=None).isoformat()
    if fraction_ns:
        text = f"{text}.{fraction_ns:09d}".rstrip("0")
    minutes = offset // timedelta(minutes=1)
    if minutes == 0:
        return text + "Z"
    sign = "-" if minutes < 0 else "+"
    return f"{text}{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def parse_time(text: str) -> int:
    """Parse a time. Raises ValueError with the text of Go's `time.Parse`.

    As in Go, one digit for the hour, a comma before the fraction and an offset of 24 hours are
    accepted; digits after the ninth of the fraction do not count.
    """
    return _Reading(text).time_ns()


class _Reading:
    """One pass over a text, left to right; `rest` has not been read yet."""

    __slots__ = ("rest", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.rest = text

    def time_ns(self) -> int:
        year = self._year()
        self._literal("-")
        month = self._number("01", "month", 1, 12)
        self._literal("-")
        day = self._number("02", "day", 0, 99)
        self._literal("T")
        hour = self._number("15", "hour", 0, 23, digits_min=1)
        self._literal(":")
        minute = self._number("04", "minute", 0, 59)
        self._literal(":")
        second = self._number("05", "second", 0, 59)
        fraction_ns = self._fraction_ns()
        offset_s = self._offset_s()
        if self.rest:
            raise _refused(self.text, f": extra text: {quoted(self.rest)}")
        days = self._days(year, month, day)
        seconds = days * _SECONDS_PER_DAY + hour * 3600 + minute * 60 + second - offset_s
        return seconds * NS_PER_S + fraction_ns

    def _year(self) -> int:
        year = self.rest[:4]
        if len(year) < 4 or not _are_digits(year):
            raise _mismatch(self.text, self.rest, "2006")
        self.rest = self.rest[4:]
        return int(year)

    def _literal(self, expected: str) -> None:
        if self.rest[:1] != expected:
            raise _mismatch(self.text, self.rest, expected)
        self.rest = self.rest[1:]

    def _number(self, element: str, name: str, first: int, last: int, digits_min: int = 2) -> int:
        digits = self.rest[:2] if _are_digits(self.rest[:2]) else self.rest[:1]
        if not _are_digits(digits) or len(digits) < digits_min:
            raise _mismatch(self.text, self.rest, element)
        number = int(digits)
        self.rest = self.rest[len(digits) :]
        if not first <= number <= last:
            raise _refused(self.text, f": {name} out of range")
        return number

    def _fraction_ns(self) -> int:
        if self.rest[:1] not in (".", ",") or not _are_digits(self.rest[1:2]):
            return 0
        end = 2
        while _are_digits(self.rest[end : end + 1]):
            end += 1
        digits = self.rest[1:end]
        self.rest = self.rest[end:]
        return int(digits[:9].ljust(9, "0"))

    def _offset_s(self) -> int:
        if self.rest[:1] == "Z":
            self.rest = self.rest[1:]
            return 0
        sign, hours, colon, minutes = (
            self.rest[:1],
            self.rest[1:3],
            self.rest[3:4],
            self.rest[4:6],
        )
        readable = len(minutes) == 2 and colon == ":" and _are_digits(hours + minutes)
        if readable and int(hours) > 24:
            raise _refused(self.text, ": time zone offset hour out of range")
        if readable and int(minutes) > 60:
            raise _refused(self.text, ": time zone offset minute out of range")
        if not readable or sign not in ("+", "-"):
            raise _mismatch(self.text, self.rest, "Z07:00")
        self.rest = self.rest[6:]
        offset_s = int(hours) * 3600 + int(minutes) * 60
        return -offset_s if sign == "-" else offset_s

    def _days(self, year: int, month: int, day: int) -> int:
        # The calendar of the year 0, which Go has and Python does not, is that of the year 400.
        shift = 400 if year == 0 else 0
        try:
            ordinal = date(year + shift, month, day).toordinal()
        except ValueError:
            raise _refused(self.text, ": day out of range") from None
        return ordinal - _EPOCH.toordinal() - (_DAYS_PER_400_YEARS if shift else 0)


def _are_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _mismatch(text: str, rest: str, element: str) -> ValueError:
    return ValueError(
        f"parsing time {quoted(text)} as {quoted(_LAYOUT)}:"
        f" cannot parse {quoted(rest)} as {quoted(element)}"
    )


def _refused(text: str, reason: str) -> ValueError:
    return ValueError(f"parsing time {quoted(text)}{reason}")
