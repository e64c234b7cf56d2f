"""Times are written and read as Go's RFC3339Nano."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.go.times import (
    ZERO_TIME_NS,
    ZERO_TIME_TEXT,
    format_time,
    format_time_in,
    parse_time,
)

SECOND = 10**9
NOON_NS = 1_794_744_000 * SECOND
LAYOUT = '"2006-01-02T15:04:05Z07:00"'


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (NOON_NS, "2026-11-15T12:00:00Z"),
        (NOON_NS + 120_000_000, "2026-11-15T12:00:00.12Z"),
        (NOON_NS + 123_456_789, "2026-11-15T12:00:00.123456789Z"),
        (2**63 - 1, "2262-04-11T23:47:16.854775807Z"),
        (-(2**63), "1677-09-21T00:12:43.145224192Z"),
        (ZERO_TIME_NS, ZERO_TIME_TEXT),
    ],
)
def test_a_time_has_no_zeros_at_its_end(time_ns: int, text: str) -> None:
    assert format_time(time_ns) == text
    assert parse_time(text) == time_ns


@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        (0, "2026-11-15T12:00:00.5Z"),
        (60, "2026-11-15T13:00:00.5+01:00"),
        (-210, "2026-11-15T08:30:00.5-03:30"),
        (-5, "2026-11-15T11:55:00.5-00:05"),
        (825, "2026-11-16T01:45:00.5+13:45"),
    ],
)
def test_a_time_in_a_zone_names_its_offset(minutes: int, text: str) -> None:
    zone = timezone(timedelta(minutes=minutes))
    time_ns = NOON_NS + 500_000_000
    assert format_time_in(time_ns, zone) == text
    assert parse_time(text) == time_ns


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("2026-11-15T12:00:00+24:00", NOON_NS - 86_400 * SECOND),
        ("2026-11-15T12:00:00-00:60", NOON_NS + 3600 * SECOND),
        ("2026-11-15T3:00:00Z", NOON_NS - 9 * 3600 * SECOND),
        ("2026-11-15T12:00:00,25Z", NOON_NS + 250_000_000),
        ("2026-11-15T12:00:00.1234567899Z", NOON_NS + 123_456_789),
        ("0000-02-29T00:00:00Z", -62_162_121_600 * SECOND),
        ("9999-12-31T23:59:59Z", 253_402_300_799 * SECOND),
    ],
)
def test_reading_is_as_lenient_as_go(text: str, time_ns: int) -> None:
    assert parse_time(text) == time_ns


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("xx", f'"xx" as {LAYOUT}: cannot parse "xx" as "2006"'),
        ("", f'"" as {LAYOUT}: cannot parse "" as "2006"'),
        ("2026", f'"2026" as {LAYOUT}: cannot parse "" as "-"'),
        ("2026-1-15", f'"2026-1-15" as {LAYOUT}: cannot parse "1-15" as "01"'),
        ("2026-11-15 12", f'"2026-11-15 12" as {LAYOUT}: cannot parse " 12" as "T"'),
        ("2026-13-15", '"2026-13-15": month out of range'),
        ("2026-11-15T24:", '"2026-11-15T24:": hour out of range'),
        ("2026-11-15T12:60", '"2026-11-15T12:60": minute out of range'),
        ("2026-11-15T12:00:60Z", '"2026-11-15T12:00:60Z": second out of range'),
        ("2026-02-29T12:00:00Z", '"2026-02-29T12:00:00Z": day out of range'),
        (
            "2026-11-15T12:00:00",
            f'"2026-11-15T12:00:00" as {LAYOUT}: cannot parse "" as "Z07:00"',
        ),
        (
            "2026-11-15T12:00:00*01:00",
            f'"2026-11-15T12:00:00*01:00" as {LAYOUT}: cannot parse "*01:00" as "Z07:00"',
        ),
        (
            "2026-11-15T12:00:00+25:00",
            '"2026-11-15T12:00:00+25:00": time zone offset hour out of range',
        ),
        ("2026-11-15T12:00:00Zx", '"2026-11-15T12:00:00Zx": extra text: "x"'),
        ("２026", f'"\\xef\\xbc\\x92026" as {LAYOUT}: cannot parse "\\xef\\xbc\\x92026" as "2006"'),
    ],
)
def test_a_refusal_is_worded_as_in_go(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match="parsing time ") as refused:
        parse_time(text)
    assert str(refused.value) == f"parsing time {reason}"


@given(st.integers(ZERO_TIME_NS, 253_402_300_799 * SECOND))
def test_what_is_written_is_read_again(time_ns: int) -> None:
    assert parse_time(format_time(time_ns)) == time_ns


@given(st.datetimes(timezones=st.just(UTC)))
def test_the_calendar_is_that_of_the_standard_library(moment: datetime) -> None:
    time_ns = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
    assert parse_time(moment.isoformat()) == time_ns
    assert datetime.fromisoformat(format_time(time_ns)) == moment


@given(st.text("0123456789-:.,TZ+ "))
def test_any_text_is_a_time_or_refused(text: str) -> None:
    try:
        time_ns = parse_time(text)
    except ValueError:
        return
    assert parse_time(format_time(time_ns)) == time_ns
