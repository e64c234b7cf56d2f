"""Text as Go's standard library writes it."""

import pytest

from headwater.base.quoting import quote
from headwater.server.configuration.go_text import (
    format_duration,
    format_float,
    os_error_text,
    parse_duration_ns,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc", '"abc"'),
        ('a"b\\', '"a\\"b\\\\"'),
        ("\n\t\0\x7f", '"\\n\\t\\x00\\x7f"'),
        ("é€😀", '"é€😀"'),
        ("\u200b\ufeff\u2028\u00a0", '"\\u200b\\ufeff\\u2028\\u00a0"'),
        ("\U000e0001", '"\\U000e0001"'),
        ("\udcff", '"\\xff"'),
    ],
)
def test_quote(text: str, expected: str) -> None:
    assert quote(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("5s", 5 * 10**9),
        ("+5s", 5 * 10**9),
        ("-5s", -5 * 10**9),
        ("1.5s", 1_500_000_000),
        (".5s", 500_000_000),
        ("1.s", 10**9),
        ("1h30m", 5400 * 10**9),
        ("2m0.25s", 120_250_000_000),
        ("10ms", 10_000_000),
        ("10us", 10_000),
        ("10µs", 10_000),
        ("10μs", 10_000),
        ("10ns", 10),
        ("2540400h10m10s", 9_145_440_610 * 10**9),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert parse_duration_ns(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        (".", 'time: invalid duration "."'),
        (".s", 'time: invalid duration ".s"'),
        ("s", 'time: invalid duration "s"'),
        ("5", 'time: missing unit in duration "5"'),
        ("1m5", 'time: missing unit in duration "1m5"'),
        ("5x", 'time: unknown unit "x" in duration "5x"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("5 s", 'time: unknown unit " s" in duration "5 s"'),
        ("9999999999h", 'time: invalid duration "9999999999h"'),
    ],
)
def test_durations_that_are_none(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^time: ") as caught:
        parse_duration_ns(text)
    assert str(caught.value) == message


def test_a_number_of_a_million_digits_is_no_duration() -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        parse_duration_ns("9" * 1_000_000 + "s")


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
def test_durations_are_written_shortest(seconds: float, expected: str) -> None:
    assert format_duration(seconds) == expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (-1.5, "-1.5"),
        (100.0, "100"),
        (0.000001, "0.000001"),
        (0.0000001, "1e-7"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
    ],
)
def test_floats(number: float, expected: str) -> None:
    assert format_float(number) == expected


def test_errors_of_the_operating_system() -> None:
    missing = FileNotFoundError(2, "No such file or directory")
    assert os_error_text(missing, "a") == "open a: no such file or directory"
    assert os_error_text(IsADirectoryError(21, "Is a directory"), "a") == "read a: is a directory"
    assert os_error_text(OSError(), "a") == "open a: input/output error"
