"""Durations are read and written as Go does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.go.durations import (
    NS_PER_UNIT,
    format_duration,
    format_seconds,
    parse_duration,
    quoted,
)

SECOND = 10**9
INT64_MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("0", 0),
        ("-0", 0),
        ("+0", 0),
        ("0s", 0),
        ("00", None),
        ("5s", 5 * SECOND),
        ("+5s", 5 * SECOND),
        ("-5s", -5 * SECOND),
        ("1.5s", 1_500_000_000),
        (".5s", 500_000_000),
        ("1.s", SECOND),
        ("1h30m", 5400 * SECOND),
        ("1m1h", 3660 * SECOND),
        ("10ms10us10µs10μs10ns", 10_030_010),
        ("0.3s", 300_000_000),
        ("0.1ns", 0),
        ("1.9ns", 1),
        ("0.100000000000000000000h", 360 * SECOND),
        ("0.9223372036854775807h", 3_320_413_933_267),
        ("9223372036854775807ns", INT64_MAX),
        ("9223372036854775808ns", None),
        ("-9223372036854775808ns", -(2**63)),
        ("-9223372036854775809ns", None),
        ("9223372036s", 9_223_372_036 * SECOND),
        ("9223372037s", None),
        ("2562047h47m16.854775807s", INT64_MAX),
        ("2562047h47m16.854775808s", None),
        ("000000000000000000000000000001s", SECOND),
        ("99999999999999999999s", None),
        ("", None),
        ("+", None),
        ("-", None),
        ("s", None),
        (".", None),
        (".s", None),
        ("+.s", None),
        ("1", None),
        ("1.5", None),
        ("1s1", None),
        ("1S", None),
        ("1d", None),
        ("1 s", None),
        (" 1s", None),
        ("1s ", None),
        ("1h-1m", None),
        ("--1s", None),
        ("1e3s", None),
        ("0x1s", None),
        ("\u0661s", None),
        ("1_0s", None),
    ],
)
def test_a_duration_is_accepted_as_go_accepts_it(text: str, duration_ns: int | None) -> None:
    if duration_ns is not None:
        assert parse_duration(text) == duration_ns
    else:
        with pytest.raises(ValueError, match="time: "):
            parse_duration(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", 'time: invalid duration ""'),
        ("3000000h", 'time: invalid duration "3000000h"'),
        ("5", 'time: missing unit in duration "5"'),
        ("5s6", 'time: missing unit in duration "5s6"'),
        ("5d", 'time: unknown unit "d" in duration "5d"'),
        ("5µ", r'time: unknown unit "\xc2\xb5" in duration "5\xc2\xb5"'),
        ('1"\\s', r'time: unknown unit "\"\\s" in duration "1\"\\s"'),
    ],
)
def test_a_refusal_is_worded_as_in_go(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match="time: ") as refused:
        parse_duration(text)
    assert str(refused.value) == reason


def test_quotes_of_the_time_package_escape_bytes() -> None:
    assert quoted('a"\\\n\x7f\udcff') == '"a\\"\\\\\\x0a\x7f\\xff"'


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1100, "1.1µs"),
        (2_200_000, "2.2ms"),
        (3_300_000_000, "3.3s"),
        (SECOND, "1s"),
        (60 * SECOND, "1m0s"),
        (245 * SECOND, "4m5s"),
        (245_001_000_000, "4m5.001s"),
        (18_367_001_000_000, "5h6m7.001s"),
        (480 * SECOND + 1, "8m0.000000001s"),
        (INT64_MAX, "2562047h47m16.854775807s"),
        (-(2**63), "-2562047h47m16.854775808s"),
        (-1_500_000, "-1.5ms"),
    ],
)
def test_a_duration_is_written_as_go_writes_it(duration_ns: int, text: str) -> None:
    assert format_duration(duration_ns) == text


@given(st.integers(-(2**63), INT64_MAX))
def test_what_is_written_is_read_again(duration_ns: int) -> None:
    read_ns = parse_duration(format_duration(duration_ns))
    # The fraction goes through floating point, whose last digit may be one short.
    assert abs(read_ns - duration_ns) <= 1


@given(st.lists(st.tuples(st.integers(0, 2**40), st.sampled_from([*NS_PER_UNIT])), min_size=1))
def test_parts_add_up(parts: list[tuple[int, str]]) -> None:
    total_ns = sum(number * NS_PER_UNIT[unit] for number, unit in parts)
    text = "".join(f"{number}{unit}" for number, unit in parts)
    if total_ns <= INT64_MAX:
        assert parse_duration(text) == total_ns
        assert parse_duration("-" + text) == -total_ns
    else:
        with pytest.raises(ValueError, match="invalid duration"):
            parse_duration(text)


@given(st.text("0123456789.hmsnuµ+- "))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    try:
        duration_ns = parse_duration(text)
    except ValueError:
        return
    assert -(2**63) <= duration_ns <= INT64_MAX


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0s"),
        (1e-9, "1ns"),
        (1.5e-6, "1.5µs"),
        (0.25, "250ms"),
        (1, "1s"),
        (1.5, "1.5s"),
        (60, "1m0s"),
        (90, "1m30s"),
        (3600, "1h0m0s"),
        (5400.5, "1h30m0.5s"),
        (-2, "-2s"),
    ],
)
def test_seconds_are_written_shortest(seconds: float, expected: str) -> None:
    assert format_seconds(seconds) == expected


def test_other_units_can_be_given() -> None:
    days = {"d": 86_400 * SECOND, "h": 3600 * SECOND}
    assert parse_duration("1.5d12h", days) == 2 * 86_400 * SECOND
    with pytest.raises(ValueError, match='unknown unit "s"'):
        parse_duration("1s", days)


def test_a_number_of_a_million_digits_is_no_duration() -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        parse_duration("9" * 1_000_000 + "s")
