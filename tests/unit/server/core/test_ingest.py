"""Room for publishes: what a stream takes at its limit, and what it refuses one past it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.jetstream.streams.publishing.incoming import Incoming
from headwater.server.core.ingest import Excess, Room, RoomLimits, size_of

LINE_BYTES = 4096


def room(messages_max: int = -1, bytes_max: int = -1) -> Room:
    return Room(RoomLimits(messages_max, bytes_max, LINE_BYTES))


def incoming(*sizes: int, reply: bytes | None = b"in") -> Incoming:
    """Publishes on `s` with payloads of these sizes."""
    made = Incoming()
    for size in sizes:
        made.add(b"s", reply, -1, b"x" * size)
    return made


def admitted(found: tuple[Incoming, list[bytes], Excess | None]) -> list[int]:
    return [len(payload) for payload in found[0].payloads]


def test_subjects_replies_and_payloads_count() -> None:
    assert size_of(incoming(4, 5)) == 2 * len(b"s" + b"in") + 4 + 5
    assert size_of(incoming(4, reply=None)) == 1 + 4


def test_a_turn_at_the_limit_is_taken_and_one_past_it_is_not() -> None:
    for count, excess in ((3, None), (4, Excess.MESSAGES)):
        found = room(messages_max=3).admit(incoming(*[1] * count))
        assert (admitted(found), found[2]) == ([1, 1, 1], excess)
        assert found[1] == [b"in"] * (count - 3)


def test_so_is_one_by_its_bytes() -> None:
    fits = size_of(incoming(10, 10))
    assert admitted(room(bytes_max=fits).admit(incoming(10, 10))) == [10, 10]
    found = room(bytes_max=fits - 1).admit(incoming(10, 10))
    assert (admitted(found), found[1], found[2]) == ([10], [b"in"], Excess.BYTES)


def test_a_small_publish_finds_the_room_that_a_large_one_did_not() -> None:
    found = room(bytes_max=size_of(incoming(10, 2))).admit(incoming(10, 10, 2))
    assert admitted(found) == [10, 2]


def test_many_publishes_whose_lines_could_be_long_are_counted_exactly() -> None:
    many = incoming(*[1] * 100)
    assert room(bytes_max=size_of(many)).has_room(many)
    assert not room(bytes_max=size_of(many) - 1).has_room(many)


@given(
    sizes=st.lists(st.integers(0, 5000), min_size=1, max_size=5),
    messages_max=st.integers(-1, 6),
    bytes_max=st.integers(-1, 12_000),
    held=st.tuples(st.integers(0, 3), st.integers(0, 6000)),
)
def test_there_is_room_for_all_publishes_exactly_if_each_of_them_is_admitted(
    sizes: list[int], messages_max: int, bytes_max: int, held: tuple[int, int]
) -> None:
    limited = room(messages_max, bytes_max)
    limited.hold(*held)
    publishes = incoming(*sizes)
    assert limited.has_room(publishes) == (limited.admit(publishes)[2] is None)


def test_what_is_held_takes_room_until_it_is_answered() -> None:
    limited = room(messages_max=3)
    limited.hold(2, 20)
    assert admitted(limited.admit(incoming(1, 1))) == [1]
    limited.hold(-2, -20)
    assert admitted(limited.admit(incoming(1, 1))) == [1, 1]


@pytest.mark.parametrize("reply", [None, b"in"])
def test_who_did_not_ask_is_not_answered(reply: bytes | None) -> None:
    found = room(messages_max=0).admit(incoming(1, reply=reply))
    assert found[1] == ([] if reply is None else [reply])
    assert found[2] is Excess.MESSAGES


def test_below_zero_is_no_limit() -> None:
    assert admitted(room().admit(incoming(*[1000] * 50))) == [1000] * 50
