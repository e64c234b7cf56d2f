"""The time to live of a message: values of `Nats-TTL`, as nats-server 2.15 understood them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.jetstream.streams.publishing.ttl import (
    NEVER,
    NONE,
    TtlError,
    expiry_ns,
    raised_to_marker,
    ttl_of,
    ttl_seconds,
)

SECOND = 10**9


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("1", 1),
        ("60", 60),
        ("007", 7),
        ("1s", 1),
        ("1.9s", 1),
        ("1000ms", 1),
        ("1000000µs", 1),
        ("1000000μs", 1),
        ("1.s", 1),
        (".5h", 1800),
        ("2h45m30.5s", 9930),
        ("+1h", 3600),
        ("1.0000000001s", 1),
        ("never", NEVER),
        ("NEVER", NEVER),
        ("", NONE),
        ("00", NONE),
        ("18446744073709551616", NONE),
        ("18446744073709551617", 1),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036s", 9_223_372_036),
    ],
)
def test_seconds_durations_and_never_are_accepted(value: str, seconds: int) -> None:
    assert ttl_seconds(value.encode()) == seconds


@pytest.mark.parametrize(
    "value",
    [
        *("0", "0s", "-1", "+5", "-1s", "999ms", "0.999999999s", "1µs", "5 ", "Never ", "-never"),
        *("never2", "1d", "1e3s", "0x10", "1_000", ".s", "1s1", "1h-1m", "９", "9223372037s"),
        *("9223372036854775808", "99999999999999999999999999"),
    ],
)
def test_anything_else_or_less_than_a_second_is_refused(value: str) -> None:
    with pytest.raises(TtlError):
        ttl_seconds(value.encode())


@given(st.integers(1, 10**70))
def test_long_numbers_wrap_around_as_in_64_bits(number: int) -> None:
    wrapped = number % 2**64
    if wrapped < 2**63:
        assert ttl_seconds(b"%d" % number) == wrapped
    else:
        with pytest.raises(TtlError):
            ttl_seconds(b"%d" % number)


@given(st.binary() | st.text("0123456789hmsnevr.+-").map(str.encode))
def test_any_value_is_understood_or_refused(value: bytes) -> None:
    try:
        seconds = ttl_seconds(value)
    except TtlError:
        return
    assert NEVER <= seconds < 2**63


def test_the_header_is_read_as_any_other() -> None:
    assert ttl_of(b"NATS/1.0\r\nA: 1\r\nNats-TTL:  5\r\nNats-TTL: 7\r\n\r\n") == 5
    assert ttl_of(b"NATS/1.0\r\nA: 1\r\n\r\n") == NONE
    assert ttl_of(b"") == NONE


def test_a_life_beyond_64_bits_of_nanoseconds_does_not_end() -> None:
    assert expiry_ns(7, 60) == 60 * SECOND + 7
    assert expiry_ns(7, 2**63 - 1) == 2**63 - 1


@pytest.mark.parametrize(
    ("block", "seconds", "stored_block", "stored_seconds"),
    [
        (b"NATS/1.0\r\nNats-TTL: 5\r\n\r\n", 5, b"NATS/1.0\r\nNats-TTL: 60\r\n\r\n", 60),
        (
            b"NATS/1.0\r\nNats-TTL:5\r\nA: 1\r\nNats-TTL: 7\r\n\r\n",
            5,
            b"NATS/1.0\r\nA: 1\r\nNats-TTL: 60\r\n\r\n",
            60,
        ),
        (b"NATS/1.0\r\nNats-TTL: 1m\r\n\r\n", 60, b"NATS/1.0\r\nNats-TTL: 1m\r\n\r\n", 60),
        (b"NATS/1.0\r\nNats-TTL: 61\r\n\r\n", 61, b"NATS/1.0\r\nNats-TTL: 61\r\n\r\n", 61),
        (b"NATS/1.0\r\nNats-TTL: never\r\n\r\n", -1, b"NATS/1.0\r\nNats-TTL: never\r\n\r\n", -1),
        (b"", 0, b"", 0),
    ],
)
def test_a_message_lives_as_long_as_a_marker(
    block: bytes, seconds: int, stored_block: bytes, stored_seconds: int
) -> None:
    marker_ttl_ns = 60 * SECOND + SECOND // 2
    assert raised_to_marker(block, seconds, marker_ttl_ns) == (stored_block, stored_seconds)
