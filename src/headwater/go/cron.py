"""Cron patterns with six fields: second, minute, hour, day of month, month, day of week.

A field is a list of `*`, `5`, `1-5`, `*/10`, `7/2` (from 7 to the end) or names of months and days
in any case. If both kinds of day are given, either is enough; a star on one side asks for both. The
accepted patterns, and the next second around a change of the clock, are nats-server's.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple, final

# A pattern without a match for this long, such as the 30th of February, never matches.
YEARS_MAX: Final = 5

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_PER_HOUR: Final = 3600
_SECONDS_PER_MINUTE: Final = 60
# A field with a star has this bit beside those of its values.
_STAR: Final = 1 << 63
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
# The blanks between fields, as Go has them.
_BLANKS: Final = re.compile(
    "[\t\n\v\f\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
)


class CronError(ValueError):
    """The text is not a pattern, or the pattern never matches."""


class _Field(NamedTuple):
    first: int
    last: int
    names: dict[str, int]


_MONTHS: Final = [
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
]
_WEEKDAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: Final = (
    _Field(0, 59, {}),
    _Field(0, 59, {}),
    _Field(0, 23, {}),
    _Field(1, 31, {}),
    _Field(1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    _Field(0, 6, {name: number for number, name in enumerate(_WEEKDAYS)}),
)


class _Clock:
    """A second, and the local time in a zone at that second."""

    __slots__ = ("_zone", "floored", "local", "seconds")

    def __init__(self, zone: tzinfo, seconds: int) -> None:
        self._zone = zone
        self.floored = False
        self.set(seconds)

    def set(self, seconds: int) -> None:
        self.seconds = seconds
        self.local = (_EPOCH + timedelta(seconds=seconds)).astimezone(self._zone)

    def set_local(self, shown: datetime) -> None:
        """Move to the second at which the clock shows this time, or would by Go's rule."""
        seconds = int((shown.replace(tzinfo=UTC) - _EPOCH).total_seconds())
        guess = seconds - self._offset_s(seconds)
        self.set(seconds - self._offset_s(guess))

    def _offset_s(self, seconds: int) -> int:
        offset = (_EPOCH + timedelta(seconds=seconds)).astimezone(self._zone).utcoffset()
        return int(offset.total_seconds()) if offset else 0


class _Unit(NamedTuple):
    """A unit of time: its beginning, the step to the next one, and the start of a larger unit."""

    floor: Callable[[_Clock], None]
    step: Callable[[_Clock], None]
    turns_over: Callable[[datetime], bool]


def _floor_month(clock: _Clock) -> None:
    clock.set_local(clock.local.replace(day=1, hour=0, minute=0, second=0))


def _floor_day(clock: _Clock) -> None:
    clock.set_local(clock.local.replace(hour=0, minute=0, second=0))


def _floor_hour(clock: _Clock) -> None:
    clock.set_local(clock.local.replace(minute=0, second=0))


def _floor_minute(clock: _Clock) -> None:
    clock.set(clock.seconds - clock.seconds % _SECONDS_PER_MINUTE)


def _floor_second(clock: _Clock) -> None:
    """Do nothing: a clock counts whole seconds."""


def _step_month(clock: _Clock) -> None:
    shown = clock.local
    month = shown.month % 12 + 1
    clock.set_local(shown.replace(year=shown.year + (month == 1), month=month))


def _step_day(clock: _Clock) -> None:
    clock.set_local(clock.local.replace(tzinfo=None) + timedelta(days=1))


def _step_hour(clock: _Clock) -> None:
    clock.set(clock.seconds + _SECONDS_PER_HOUR)


def _step_minute(clock: _Clock) -> None:
    clock.set(clock.seconds + _SECONDS_PER_MINUTE)


def _step_second(clock: _Clock) -> None:
    clock.set(clock.seconds + 1)


_UNITS: Final = (
    _Unit(_floor_month, _step_month, lambda shown: shown.month == 1),
    _Unit(_floor_day, _step_day, lambda shown: shown.day == 1),
    _Unit(_floor_hour, _step_hour, lambda shown: shown.hour == 0),
    _Unit(_floor_minute, _step_minute, lambda shown: shown.minute == 0),
    _Unit(_floor_second, _step_second, lambda shown: shown.second == 0),
)


@final
class Cron:
    """A pattern, made by `parse`; the values of a field are bits of an integer."""

    __slots__ = ("_days", "_hours", "_matchers", "_minutes", "_months", "_seconds", "_weekdays")

    def __init__(self, fields: list[int]) -> None:
        (
            self._seconds,
            self._minutes,
            self._hours,
            self._days,
            self._months,
            self._weekdays,
        ) = fields
        self._matchers: tuple[Callable[[datetime], bool], ...] = (
            self._month_matches,
            self._day_matches,
            self._hour_matches,
            self._minute_matches,
            self._second_matches,
        )

    @classmethod
    def parse(cls, pattern: str) -> "Cron":
        """Parse a pattern. Raises CronError."""
        texts = [text for text in _BLANKS.split(pattern) if text]
        if len(texts) != len(_FIELDS):
            raise CronError(f"{len(_FIELDS)} fields are needed, not {len(texts)}")
        fields = [_bits(text, field) for text, field in zip(texts, _FIELDS, strict=True)]
        seconds, minutes, hours, _, months, _ = fields
        # nats-server finds out by trying every second of five years.
        if not (seconds and minutes and hours and months):
            raise CronError("a field without a value")
        return cls(fields)

    def next_after(self, seconds: int, zone: tzinfo) -> int:
        """The first matching second after this one, since the epoch. Raises CronError."""
        clock = _Clock(zone, seconds + 1)
        year_last = clock.local.year + YEARS_MAX
        while clock.local.year <= year_last:
            if self._settles(clock):
                return clock.seconds
        raise CronError(f"no match within {YEARS_MAX} years")

    def _settles(self, clock: _Clock) -> bool:
        """Move on to a match, from the largest unit down; False when a larger unit changes."""
        for unit, matches in zip(_UNITS, self._matchers, strict=True):
            while not matches(clock.local):
                if not clock.floored:
                    clock.floored = True
                    unit.floor(clock)
                unit.step(clock)
                if unit.turns_over(clock.local):
                    return False
        return True

    def _month_matches(self, shown: datetime) -> bool:
        return self._months >> shown.month & 1 == 1

    def _day_matches(self, shown: datetime) -> bool:
        day = self._days >> shown.day & 1 == 1
        weekday = self._weekdays >> shown.isoweekday() % 7 & 1 == 1
        if (self._days | self._weekdays) & _STAR:
            return day and weekday
        return day or weekday

    def _hour_matches(self, shown: datetime) -> bool:
        return self._hours >> shown.hour & 1 == 1

    def _minute_matches(self, shown: datetime) -> bool:
        return self._minutes >> shown.minute & 1 == 1

    def _second_matches(self, shown: datetime) -> bool:
        return self._seconds >> shown.second & 1 == 1


def _bits(text: str, field: _Field) -> int:
    bits = 0
    for part in text.split(","):
        if part:
            bits |= _part_bits(part, field)
    return bits


def _part_bits(part: str, field: _Field) -> int:
    span, *steps = part.split("/")
    if len(steps) > 1:
        raise CronError(f"too many slashes: {part}")
    step = _number(steps[0], {}) if steps else 1
    low, *high = span.split("-")
    star = 0
    if low in ("*", "?"):
        # As in nats-server, a range after a star has no effect.
        first, last = field.first, field.last
        star = _STAR if step == 1 else 0
    else:
        first, last = _bounds(low, high, bool(steps), field)
    if step == 0 or not field.first <= first <= last <= field.last:
        raise CronError(f"out of range: {part}")
    return sum(1 << value for value in range(first, last + 1, step)) | star


def _bounds(low: str, high: list[str], has_step: bool, field: _Field) -> tuple[int, int]:
    if len(high) > 1:
        raise CronError("too many hyphens")
    first = _number(low, field.names)
    if high:
        return first, _number(high[0], field.names)
    return first, field.last if has_step else first


def _number(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if _INTEGER.fullmatch(text) is None or int(text) < 0:
        raise CronError(f"not a number: {text}")
    return int(text)
