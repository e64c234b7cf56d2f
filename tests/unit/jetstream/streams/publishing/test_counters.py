"""Counters add up without limit, and are read as leniently as nats-server reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.jetstream.streams.publishing.counters import (
    CounterBrokenError,
    increased,
    read_increment,
    sources_of,
    total_of,
    value_text,
)

INCREMENT = b"NATS/1.0\r\nNats-Incr: 2\r\n\r\n"


def with_sources(text: bytes) -> bytes:
    return b"NATS/1.0\r\nNats-Incr: 2\r\nNats-Counter-Sources: " + text + b"\r\n\r\n"


@pytest.mark.parametrize(
    ("value", "increment"),
    [
        (b"1", 1),
        (b"+1", 1),
        (b"-5", -5),
        (b"0", 0),
        (b"-0", 0),
        (b"007", 7),
        (b"9" * 30, 10**30 - 1),
        (b"1.5", None),
        (b"1 ", None),
        (b"", None),
        (b"abc", None),
        (b"0x10", None),
        (b"1_0", None),
        ("\u0663".encode(), None),
        (b"--1", None),
        (b"+", None),
        (b"1e5", None),
        (b"\xff", None),
    ],
)
def test_an_increment_is_a_decimal_integer(value: bytes, increment: int | None) -> None:
    assert read_increment(value) == increment


def test_the_first_message_of_a_subject_counts_from_zero() -> None:
    assert increased(None, 2, INCREMENT) == (INCREMENT, b'{"val":"2"}')


def test_an_increment_adds_to_the_last_message() -> None:
    assert increased((b"", b'{"val":"40"}'), 2, INCREMENT) == (INCREMENT, b'{"val":"42"}')
    assert increased((b"", b'{"val":"1"}'), -2, INCREMENT) == (INCREMENT, b'{"val":"-1"}')


@given(st.integers(-(10**40), 10**40), st.integers(-(10**40), 10**40))
def test_totals_have_no_limit(total: int, increment: int) -> None:
    _, body = increased((b"", b'{"val":"%d"}' % total), increment, INCREMENT)
    assert body == b'{"val":"%d"}' % (total + increment)
    assert value_text(body) == str(total + increment)


def test_totals_longer_than_python_converts_by_itself() -> None:
    ones = b"1" * 20_000
    increment = read_increment(ones)
    assert increment is not None
    block, body = increased(None, increment, INCREMENT)
    assert body == b'{"val":"%b"}' % ones
    back = read_increment(b"-" + ones)
    assert back is not None
    assert increased((block, body), back + 3, INCREMENT)[1] == b'{"val":"3"}'


@pytest.mark.parametrize(
    ("body", "total"),
    [
        (b'{"val":"12"}', 12),
        (b' { "VAL" : "12" } ', 12),
        (b'{"val":"1","val":"2","x":[1]}', 2),
        (b'{"val":null}', 0),
        (b"{}", 0),
        (b"null", 0),
        (b'{"val":""}', 0),
        (b'{"val":"12abc"}', 12),
        (b'{"val":"abc"}', 0),
        (b'{"val":"1","x":"\xff"}', 1),
    ],
)
def test_a_stored_total_is_read_as_go_reads_it(body: bytes, total: int) -> None:
    assert total_of(body) == total


@pytest.mark.parametrize(
    "body", [b"", b"12", b"[]", b'{"val":12}', b'{"val":{}}', b"{", b'{"val":"1"', b"[" * 100_000]
)
def test_anything_else_is_a_broken_counter(body: bytes) -> None:
    with pytest.raises(CounterBrokenError):
        increased((b"", body), 1, INCREMENT)


@pytest.mark.parametrize(
    ("last", "own", "stored"),
    [
        (b'{"X":{"b":"1","a":"<2>"}}', None, b'{"X":{"a":"\\u003c2\\u003e","b":"1"}}'),
        (b'{"X":{"a":"1"}}', b"foo", b'{"X":{"a":"1"}}'),
        (b'{"X":null,"Y":{}}', None, b'{"X":null,"Y":{}}'),
        (b'{"X":{"b":null},"W":{"c":"d"}}', None, b'{"W":{"c":"d"},"X":{"b":""}}'),
        (b'{"X":{"b":"1"}, "X":{"c":"d"}}', None, b'{"X":{"c":"d"}}'),
        (b"null", None, None),
        (b"{}", b"own", b"own"),
    ],
)
def test_totals_of_other_streams_go_from_message_to_message(
    last: bytes, own: bytes | None, stored: bytes | None
) -> None:
    block = INCREMENT if own is None else with_sources(own)
    made, body = increased((with_sources(last), b'{"val":"1"}'), 1, block)
    assert made == (INCREMENT if stored is None else with_sources(stored))
    assert body == b'{"val":"2"}'


@pytest.mark.parametrize("text", [b"foo", b"[]", b'{"X":{"b":1}}', b'{"X":"b"}', b"1"])
def test_unreadable_totals_of_other_streams_break_a_counter(text: bytes) -> None:
    assert increased(None, 2, with_sources(text))[0] == with_sources(text)
    with pytest.raises(CounterBrokenError):
        increased((with_sources(text), b'{"val":"1"}'), 1, INCREMENT)


@given(st.binary() | st.text('{}[]":,val123nul').map(str.encode))
def test_any_last_message_is_counted_on_or_broken(body: bytes) -> None:
    for read in (total_of, sources_of):
        try:
            read(body)
        except CounterBrokenError:
            continue
