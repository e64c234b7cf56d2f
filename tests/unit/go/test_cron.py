"""Cron patterns match the seconds that nats-server 2.15 fired at."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.go.cron import Cron, CronError
from headwater.go.times import format_time_in

# The time at which the schedules of the table below had fired.
FIRED_S = 1_794_719_892
SECOND = 10**9
DAY_S = 86_400
STARS = "* * * * * *"


@pytest.mark.parametrize(
    "pattern",
    [
        *(STARS, "0 0 0 1 1 *", "0 0 0 29 2 *", "* * * * jan-dec MON-fri", "*/5 * * * * *"),
        *("5/10 * * * * *", "1-5/2 * * * * *", "*-foo * * * * *", "?-1-2/3 * * * * *"),
        *("+5 * * * * *", "05 * * * * *", "1,2,,3 * * * * *", "* * * , * mon", "1, * * * * *"),
        *("*  *\t*   * * *", "\u00a0* * * * * *", "*\u00a0* * * * *", "* * * ? * ?"),
        "*/99999999 * * * * *",
    ],
)
def test_patterns_that_nats_server_takes(pattern: str) -> None:
    assert Cron.parse(pattern).next_after(FIRED_S, UTC) > FIRED_S


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "* * * * *", "0 0 0 1 1 * 2030", "0 0 0 30 2 *", "60 * * * * *", "* * 24 * * *"),
        *("* * * 0 * *", "* * * 32 * *", "* * * * 13 *", "* * * * 0 *", "* * * * * 7"),
        *("1-2-3 * * * * *", "1/2/3 * * * * *", "*/0 * * * * *", "*/-1 * * * * *", "*/ * * * * *"),
        *("5-1 * * * * *", "* * * * , *", ", * * * * *", "- * * * * *", "1- * * * * *"),
        *("L * * * * *", "* * * * * sunday", "*/99999999999999999999 * * * * *", "mon * * * * *"),
        *("@reboot", "\u0661 * * * * *", "* * * , * *", "*\x1c* * * * *"),
    ],
)
def test_patterns_that_nats_server_refuses(pattern: str) -> None:
    with pytest.raises(CronError):
        Cron.parse(pattern).next_after(FIRED_S, UTC)


# Clocks are put forward or back at most of these; results for nonexistent times were recorded.
@pytest.mark.parametrize(
    ("zone", "pattern", "following"),
    [
        ("Australia/Sydney", "12 18 2,16 3,15 10,11 *", "2027-10-03T16:18:12+11:00"),
        ("Australia/Sydney", "12 18 2,16 4,15 4,11 *", "2027-04-04T02:18:12+11:00"),
        ("Australia/Sydney", "12 18 3,16 3,15 10,11 *", "2027-10-03T03:18:12+11:00"),
        ("Australia/Lord_Howe", "12 18 2,16 3,15 10,11 *", "2027-10-03T16:18:12+11:00"),
        ("Australia/Lord_Howe", "12 18 2,16 4,15 4,11 *", "2027-04-04T16:18:12+10:30"),
        ("Australia/Lord_Howe", "12 18 1,16 4,15 4,11 *", "2027-04-04T01:18:12+11:00"),
        ("Australia/Lord_Howe", "12 18,59 2,16 3,15 10,11 *", "2026-11-15T16:59:12+11:00"),
        ("America/Santiago", "12 18 0,2 5,15 9,11 *", "2027-09-15T00:18:12-03:00"),
        ("America/Santiago", "12 18 1,2 5,15 9,11 *", "2027-09-15T01:18:12-03:00"),
        ("America/Santiago", "12 18 2,23 4,15 9,11 *", "2026-11-15T23:18:12-03:00"),
        ("America/Santiago", "12 18 2,23 3,15 4,11 *", "2026-11-15T23:18:12-03:00"),
        ("America/Havana", "12 18 0 14,15 3,11 *", "2027-03-15T00:18:12-04:00"),
        ("America/Halifax", "12 18 1 7,15 11 *", "2027-11-07T01:18:12-03:00"),
        ("America/Halifax", "12 18 1 14,15 3,11 *", "2027-03-14T01:18:12-04:00"),
        ("America/New_York", "12 18 0 14,15 3,11 *", "2027-03-14T00:18:12-05:00"),
        ("Pacific/Auckland", "12 18 2,18 4,15 4,11 *", "2027-04-04T02:18:12+13:00"),
        ("Pacific/Chatham", "12 3 2,3,19 4,15 4,11 *", "2027-04-04T02:03:12+13:45"),
        ("Pacific/Auckland", "12 18 2,18 15,26 9,11 *", "2026-11-26T02:18:12+13:00"),
        ("Africa/Casablanca", "12 18 2,6 7,15 2,11 *", "2027-02-07T02:18:12+01:00"),
        ("Africa/Casablanca", "12 18 3,6 7,15 2,11 *", "2027-02-07T03:18:12Z"),
        ("Africa/Casablanca", "12 18 2,6 14,15 3,11 *", "2027-03-14T06:18:12+01:00"),
        ("Europe/Berlin", "12 18 2,6 15,28 3,11 *", "2026-11-28T02:18:12+01:00"),
        ("Pacific/Norfolk", "12 18 2,17 3,15 10,11 *", "2027-10-03T17:18:12+12:00"),
        ("Antarctica/Troll", "12 18 1,5 3,15 10,11 *", "2027-10-03T01:18:12+02:00"),
        ("UTC", "12 18 5 15,29 2,11 *", "2026-11-29T05:18:12Z"),
    ],
)
def test_the_next_time_in_a_zone(zone: str, pattern: str, following: str) -> None:
    rules = ZoneInfo(zone)
    seconds = Cron.parse(pattern).next_after(FIRED_S, rules)
    assert format_time_in(seconds * SECOND, rules) == following


class Twin:
    """The dumb twin: whether a day or a second matches, by the words of the documentation."""

    def __init__(self, fields: list[tuple[str, set[int]]]) -> None:
        numbers = [each for _, each in fields]
        self.seconds, self.minutes, self.hours, self.days, self.months, self.weekdays = numbers
        self.wants_both = "*" in (fields[3][0], fields[5][0])

    def has_day(self, moment: datetime) -> bool:
        day = moment.day in self.days
        weekday = (moment.weekday() + 1) % 7 in self.weekdays
        matches = (day and weekday) if self.wants_both else (day or weekday)
        return matches and moment.month in self.months

    def has(self, moment: datetime) -> bool:
        return (
            self.has_day(moment)
            and moment.hour in self.hours
            and moment.minute in self.minutes
            and moment.second in self.seconds
        )


def joined(parts: list[tuple[str, set[int]]]) -> tuple[str, set[int]]:
    return ",".join(text for text, _ in parts), set().union(*(each for _, each in parts))


def values(first: int, last: int) -> st.SearchStrategy[tuple[str, set[int]]]:
    everything = st.just(("*", {*range(first, last + 1)}))
    one = st.integers(first, last).map(lambda value: (str(value), {value}))
    steps = st.tuples(st.integers(first, last), st.integers(1, 20)).map(
        lambda pair: (f"{pair[0]}/{pair[1]}", {*range(pair[0], last + 1, pair[1])})
    )
    spans = st.tuples(st.integers(first, last), st.integers(first, last)).map(
        lambda pair: (f"{min(pair)}-{max(pair)}", {*range(min(pair), max(pair) + 1)})
    )
    lists = st.lists(one | steps | spans, min_size=1, max_size=3).map(joined)
    return everything | lists


@given(
    st.tuples(values(0, 59), values(0, 59), values(0, 23)),
    st.tuples(values(1, 31), values(1, 12), values(0, 6)),
    st.integers(0, 4 * 10**9),
)
def test_the_next_match_is_the_first(
    clock: tuple[tuple[str, set[int]], ...], calendar: tuple[tuple[str, set[int]], ...], after: int
) -> None:
    fields = [*clock, *calendar]
    twin = Twin(fields)
    try:
        found = Cron.parse(" ".join(text for text, _ in fields)).next_after(after, UTC)
    except CronError:
        # Only days that not every month has can be missing in every year.
        assert twin.days.isdisjoint(range(1, 29))
        return
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert found > after
    assert twin.has(epoch + timedelta(seconds=found))
    # No whole day before it matches, nor does a second of the same day.
    first_day, last_day = after // DAY_S + 1, found // DAY_S
    for day in range(first_day, last_day):
        assert not twin.has_day(epoch + timedelta(days=day))
    for second in range(max(after + 1, last_day * DAY_S), found, 997):
        assert not twin.has(epoch + timedelta(seconds=second))


@given(st.text("0123456789*?/,- monjan\u00a0"))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    try:
        Cron.parse(text).next_after(FIRED_S, UTC)
    except CronError:
        return
