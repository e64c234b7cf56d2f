"""Message schedules (ADR-51): when a stored message makes the stream publish another.

A message with a `Nats-Schedule` header stays on its subject, one per subject, and at each of its
times a copy is published to its target. The header has the times:

    @at 2026-11-15T05:00:00Z        once
    @every 1h30m                    from its own time on, at least a second apart
    0 30 9 * * mon-fri              cron with seconds, in UTC or in `Nats-Schedule-Time-Zone`
    @hourly @daily @midnight @weekly @monthly @yearly @annually

This module parses the headers, computes times and makes the copies. The time is an argument, and so
is the lookup of time zones. The module does not know the stream, nor when it is called: the
arithmetic lets a schedule fire at most once for all times that were missed.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, tzinfo
from typing import Final, NamedTuple, TypeAlias, final

from headwater.base.clock import NS_PER_S
from headwater.go.cron import Cron, CronError
from headwater.go.durations import parse_duration
from headwater.go.times import ZERO_TIME_NS, format_time_in, parse_time
from headwater.jetstream import error_codes
from headwater.jetstream import header_names as names
from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.publishing.ttl import TtlError, ttl_seconds
from headwater.subjects.grammar import has_blank_or_control, is_one_word, is_valid_literal, matches
from headwater.wire.headers import value_of, with_value, without, without_prefix

# The rules of a time zone by its name in the IANA database; None for an unknown name.
ZoneFinder: TypeAlias = Callable[[str], tzinfo | None]

TIME_ZONE: Final = b"Nats-Schedule-Time-Zone"
SCHEDULED_TTL: Final = b"Nats-Schedule-TTL"
SCHEDULED_ROLLUP: Final = b"Nats-Schedule-Rollup"
TARGET: Final = b"Nats-Schedule-Target"
SOURCE: Final = b"Nats-Schedule-Source"

_SCHEDULE_PREFIX: Final = b"Nats-Schedule"
_EXPECTED_PREFIX: Final = b"Nats-Expected-"
_INT64_MAX: Final = (1 << 63) - 1
_INT64_MIN: Final = -(1 << 63)
_AT: Final = "@at "
_EVERY: Final = "@every "
_PREDEFINED: Final = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}


class ScheduleError(ValueError):
    """The pattern is not a schedule (10189)."""


class Due(NamedTuple):
    """One time of a schedule."""

    time_ns: int
    # The value of the copy's `Nats-Schedule-Next`.
    text: str
    # Whether another time follows.
    repeats: bool


@final
class Once:
    """`@at`: a single time, possibly in the past."""

    __slots__ = ("_time_ns",)

    def __init__(self, time_ns: int) -> None:
        self._time_ns = time_ns

    def next_after(self, last_ns: int, now_ns: int) -> Due:
        return Due(self._time_ns, "", repeats=False)


@final
class Every:
    """`@every`: whole seconds after the last time, or after now if that time has passed."""

    __slots__ = ("_interval_ns",)

    def __init__(self, interval_ns: int) -> None:
        self._interval_ns = interval_ns

    def next_after(self, last_ns: int, now_ns: int) -> Due:
        next_ns = _nearest_second_ns(last_ns) + self._interval_ns
        if next_ns < now_ns:
            next_ns = _nearest_second_ns(now_ns) + self._interval_ns
        return Due(next_ns, format_time_in(next_ns, UTC), repeats=True)


def _nearest_second_ns(time_ns: int) -> int:
    return (time_ns + NS_PER_S // 2) // NS_PER_S * NS_PER_S


@final
class Recurring:
    """Cron: the next matching second after the last time, or after now if that has passed."""

    __slots__ = ("_cron", "_zone")

    def __init__(self, cron: Cron, zone: tzinfo) -> None:
        self._cron = cron
        self._zone = zone

    def next_after(self, last_ns: int, now_ns: int) -> Due:
        """The next time that matches. Raises ScheduleError if no time does."""
        try:
            next_ns = self._cron.next_after(last_ns // NS_PER_S, self._zone) * NS_PER_S
            if next_ns < now_ns:
                now_s = _nearest_second_ns(now_ns) // NS_PER_S
                next_ns = self._cron.next_after(now_s, self._zone) * NS_PER_S
        except CronError as error:
            raise ScheduleError(str(error)) from None
        return Due(next_ns, format_time_in(next_ns, self._zone), repeats=True)


Schedule: TypeAlias = Once | Every | Recurring


def parse_schedule(pattern: str, zone: tzinfo | None = None) -> Schedule | None:
    """Parse a pattern; None if it is empty or the zero time. Raises ScheduleError."""
    if not pattern:
        return None
    if pattern.startswith((_AT, _EVERY)):
        if zone is not None:
            raise ScheduleError("a time zone goes with cron only")
        return (
            _parse_time(pattern[len(_AT) :]) if pattern.startswith(_AT) else _parse_every(pattern)
        )
    try:
        return Recurring(Cron.parse(_PREDEFINED.get(pattern, pattern)), zone or UTC)
    except CronError as error:
        raise ScheduleError(str(error)) from None


def _parse_time(text: str) -> Once | None:
    try:
        time_ns = parse_time(text)
    except ValueError as error:
        raise ScheduleError(str(error)) from None
    if time_ns == ZERO_TIME_NS:
        return None
    # nats-server computes in 64 bits, which end before the year 2300.
    return Once(max(_INT64_MIN, min(time_ns, _INT64_MAX)))


def _parse_every(pattern: str) -> Every:
    try:
        interval_ns = parse_duration(pattern[len(_EVERY) :])
    except ValueError as error:
        raise ScheduleError(str(error)) from None
    if interval_ns < NS_PER_S:
        raise ScheduleError("an interval is a second or more")
    return Every(interval_ns)


def schedule_of(block: bytes, find_zone: ZoneFinder) -> Schedule | None:
    """The schedule in a message's header. Raises ApiError (10189, 10223)."""
    zone = None
    zone_name = value_of(block, TIME_ZONE)
    if zone_name is not None:
        zone = find_zone(zone_name.decode("utf-8", "surrogateescape")) if zone_name else None
        if zone is None:
            raise ApiError.of(error_codes.MESSAGE_SCHEDULES_TIME_ZONE_INVALID)
    pattern = value_of(block, names.SCHEDULE)
    try:
        return parse_schedule((pattern or b"").decode("utf-8", "surrogateescape"), zone)
    except ScheduleError:
        raise ApiError.of(error_codes.MESSAGE_SCHEDULES_PATTERN_INVALID) from None


# --- whether a schedule may come in ---------------------------------------------------------------


class ScheduleRules(NamedTuple):
    """The configuration of a stream, as far as schedules are concerned."""

    allowed: bool
    ttl_allowed: bool
    subjects: tuple[bytes, ...]


def check_schedule(
    block: bytes, subject: bytes, rules: ScheduleRules, now_ns: int, find_zone: ZoneFinder
) -> bytes:
    """Refuse an invalid schedule. Returns the block to store it with. Raises ApiError.

    A schedule replaces the previous one on its subject: its header gets a roll-up.
    """
    try:
        schedule = schedule_of(block, find_zone)
        if schedule is None:
            return block
        schedule.next_after(now_ns, now_ns)
    except ScheduleError:
        error = error_codes.MESSAGE_SCHEDULES_PATTERN_INVALID
        raise ApiError.of(
            error if rules.allowed else error_codes.MESSAGE_SCHEDULES_DISABLED
        ) from None
    except ApiError:
        if rules.allowed:
            raise
        raise ApiError.of(error_codes.MESSAGE_SCHEDULES_DISABLED) from None
    if not rules.allowed:
        raise ApiError.of(error_codes.MESSAGE_SCHEDULES_DISABLED)
    _check_copy(block, subject, rules)
    rollup = value_of(block, names.ROLLUP)
    if not rollup:
        return with_value(block, names.ROLLUP, names.ROLLUP_SUBJECT)
    if rollup.lower() != names.ROLLUP_SUBJECT:
        raise ApiError.of(error_codes.MESSAGE_SCHEDULES_ROLLUP_INVALID)
    return block


def _check_copy(block: bytes, subject: bytes, rules: ScheduleRules) -> None:
    ttl = value_of(block, SCHEDULED_TTL)
    try:
        ttl_seconds(ttl or b"")
    except TtlError:
        raise ApiError.of(error_codes.MESSAGE_SCHEDULES_TTL_INVALID) from None
    if value_of(block, SCHEDULED_ROLLUP) not in (None, b"", names.ROLLUP_SUBJECT):
        raise ApiError.of(error_codes.MESSAGE_SCHEDULES_ROLLUP_INVALID)
    if ttl and not rules.ttl_allowed:
        raise ApiError.of(error_codes.MESSAGE_TTL_DISABLED)
    target = value_of(block, TARGET) or b""
    if target == subject or not _is_publishable(target):
        raise ApiError.of(error_codes.MESSAGE_SCHEDULES_TARGET_INVALID)
    source = value_of(block, SOURCE) or b""
    if source and (source in (target, subject) or not _is_publishable(source)):
        raise ApiError.of(error_codes.MESSAGE_SCHEDULES_SOURCE_INVALID)
    if not _is_covered(target, rules.subjects):
        raise ApiError.of(error_codes.MESSAGE_SCHEDULES_TARGET_INVALID)
    if source and not _is_covered(source, rules.subjects):
        raise ApiError.of(error_codes.MESSAGE_SCHEDULES_SOURCE_INVALID)


def check_scheduler(
    block: bytes, subject: bytes, allowed: bool, last_block_of: Callable[[bytes], bytes | None]
) -> None:
    """Refuse headers that only a stream writes, except to end a schedule. Raises ApiError (10212).

    `last_block_of` returns the header of the last message on a subject, None without one.
    """
    scheduler = value_of(block, names.SCHEDULER)
    following = value_of(block, names.SCHEDULE_NEXT)
    if not following:
        if scheduler:
            raise ApiError.of(error_codes.MESSAGE_SCHEDULES_SCHEDULER_INVALID)
        return
    if (
        following != names.SCHEDULE_NEXT_PURGE
        or not scheduler
        or scheduler == subject
        or not _is_publishable(scheduler)
    ):
        raise ApiError.of(error_codes.MESSAGE_SCHEDULES_SCHEDULER_INVALID)
    if not allowed:
        raise ApiError.of(error_codes.MESSAGE_SCHEDULES_DISABLED)
    last_block = last_block_of(scheduler)
    if last_block is not None and not value_of(last_block, names.SCHEDULE):
        raise ApiError.of(error_codes.MESSAGE_SCHEDULES_SCHEDULER_INVALID)


def _is_publishable(subject: bytes) -> bool:
    return is_valid_literal(subject) and not has_blank_or_control(subject)


def _is_covered(subject: bytes, patterns: Iterable[bytes]) -> bool:
    return any(matches(pattern, subject) for pattern in patterns)


# --- the copies of a schedule ---------------------------------------------------------------------


class Copy(NamedTuple):
    """A message that a schedule publishes."""

    subject: bytes
    block: bytes
    body: bytes


def copy_to_publish(
    scheduler: bytes,
    block: bytes,
    body: bytes,
    due_ns: int,
    now_ns: int,
    find_zone: ZoneFinder,
    last_of: Callable[[bytes], tuple[bytes, bytes] | None],
) -> Copy | None:
    """The message that the schedule on `scheduler` publishes at `due_ns`; None without a schedule.

    `last_of` returns the header and body of the last message on a subject, which is copied if the
    schedule names that subject as its source.
    """
    try:
        schedule = schedule_of(block, find_zone)
        if schedule is None:
            return None
        following = schedule.next_after(due_ns, now_ns)
        ttl = value_of(block, SCHEDULED_TTL) or b""
        ttl_seconds(ttl)
    except (ApiError, ScheduleError, TtlError):
        return None
    target, source = value_of(block, TARGET), value_of(block, SOURCE)
    if not target or not is_one_word(target):
        # An older version accepted blanks and line ends in a target: no copy is published there.
        return None
    rollup = value_of(block, SCHEDULED_ROLLUP)
    copied = (last_of(source) if source else None) or (block, body)
    made = _without_control(copied[0])
    made = with_value(made, names.SCHEDULER, scheduler)
    text = following.text.encode() if following.repeats else names.SCHEDULE_NEXT_PURGE
    made = with_value(made, names.SCHEDULE_NEXT, text)
    if ttl:
        made = with_value(made, names.TTL, ttl)
    if rollup:
        made = with_value(made, names.ROLLUP, rollup)
    return Copy(target, made, copied[1])


def _without_control(block: bytes) -> bytes:
    """The block without headers that made the original a schedule or could have a copy refused."""
    block = without_prefix(without_prefix(block, _SCHEDULE_PREFIX), _EXPECTED_PREFIX)
    for name in (names.MSG_ID, names.TTL, names.ROLLUP):
        block = without(block, name)
    return block
