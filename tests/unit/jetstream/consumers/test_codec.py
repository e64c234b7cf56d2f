"""Records of consumers as entries of a journal, and entries that are no records."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.go.json import Time
from headwater.jetstream.config.consumer_config import AckPolicy, ConsumerConfig, DeliverPolicy
from headwater.jetstream.consumers import codec
from headwater.jetstream.consumers.records import (
    CONSUMER_RECORDS,
    Acked,
    ConsumerConfigured,
    ConsumerCreated,
    ConsumerDeleted,
    ConsumerRecord,
    ConsumerReset,
    Delivered,
    Dropped,
    Exhausted,
    Forgotten,
    Pinned,
    Postponed,
)
from headwater.jetstream.consumers.state import ConsumerState
from headwater.store.disk.journal import CALLER_KINDS
from headwater.store.log.message_log import StoreError

NOW_NS = 1_800_000_000_123_456_789
CONFIG = ConsumerConfig(
    durable_name="é",
    deliver_policy=DeliverPolicy.BY_START_TIME,
    opt_start_time=Time(NOW_NS, "2027-01-15T09:00:00.123456789+01:00"),
    ack_policy=AckPolicy.EXPLICIT,
    backoff=(1, 2**62),
    filter_subjects=("a.*", "b.>"),
    metadata={"a": "<>&"},
    max_deliver=3,
)

RECORDS: list[ConsumerRecord] = [
    ConsumerCreated("C", CONFIG, NOW_NS, 7, 12),
    ConsumerConfigured("C", CONFIG, 5),
    ConsumerDeleted("C"),
    ConsumerReset("C", 2**63),
    Delivered("C", [9, 2, 5], [10, 11, 12, 20], NOW_NS),
    Delivered("C", (), range(1, 1000), NOW_NS),
    Acked("C", [3], NOW_NS),
    Acked("C", [], NOW_NS, (2, 3)),
    Acked("C", [1, 2, 5], NOW_NS, (2, 5)),
    Postponed("C", [5, 1], [NOW_NS, -5]),
    Exhausted("C", [1, 7]),
    Dropped("C", [1, 7]),
    Forgotten("C", 7, NOW_NS),
    Pinned("C", "id", NOW_NS),
    Pinned("C", "", 0),
]


def values_of(record: ConsumerRecord) -> dict[str, Any]:
    """The values of a record. The order of redelivered and of settled messages does not matter."""
    values = {name: getattr(record, name) for name in record.__slots__}
    if isinstance(record, Postponed):
        return values
    return {
        name: sorted(value) if name in ("again", "sequences") else value
        for name, value in values.items()
    }


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_as_it_was(record: ConsumerRecord) -> None:
    kind, body = codec.encode(record)
    assert kind in codec.CONSUMER_KINDS
    found = codec.decode(kind, body)
    assert type(found) is type(record)
    assert values_of(found) == values_of(record)


def test_every_record_has_an_example() -> None:
    assert {type(record) for record in RECORDS} == {*CONSUMER_RECORDS}


def test_kinds_are_those_of_callers() -> None:
    assert min(codec.CONSUMER_KINDS) >= CALLER_KINDS


def test_acks_in_the_order_in_which_they_came_are_no_range() -> None:
    """5, 1, 7 ends as far behind its beginning as 5, 6, 7."""
    found = codec.decode(*codec.encode(Acked("C", [5, 1, 7], NOW_NS)))
    assert isinstance(found, Acked)
    assert [*found.sequences] == [1, 5, 7]
    sent = codec.decode(*codec.encode(Delivered("C", [5, 1, 7], (), NOW_NS)))
    assert isinstance(sent, Delivered)
    assert [*sent.again] == [1, 5, 7]


@given(
    st.sets(st.integers(min_value=1, max_value=60)).flatmap(lambda each: st.permutations([*each]))
)
def test_any_sequences_come_back(sequences: list[int]) -> None:
    found = codec.decode(*codec.encode(Acked("C", sequences, NOW_NS)))
    assert isinstance(found, Acked)
    assert [*found.sequences] == sorted(sequences)


def test_a_long_range_takes_little_room() -> None:
    _, body = codec.encode(Delivered("C", (), range(1, 100_000), NOW_NS))
    assert len(body) < 40


# --- the state ------------------------------------------------------------------------------------


def test_a_state_comes_back_as_it_was() -> None:
    state = ConsumerState(AckPolicy.EXPLICIT, 1, 5)
    state.deliver((), [1, 2, 4, 9], NOW_NS)
    state.deliver([2, 4], (), NOW_NS + 5)
    state.acknowledge([1])
    state.give_up([4])
    state.pin_id, state.pinned_ns, state.passed_stream = "id", 7, 11
    kind, body = codec.encode_state("C", state)
    assert kind == codec.STATE
    name, values = codec.decode_state(body)
    again = ConsumerState(AckPolicy.EXPLICIT, 1)
    codec.restore_state(again, values)
    assert name == "C"
    assert again.dump() == state.dump()
    assert again.oldest_pending == state.oldest_pending


def test_what_is_kept_comes_back() -> None:
    kind, body = codec.encode_kept(2**63)
    assert kind == codec.KEPT
    assert codec.decode_kept(body) == 2**63


# --- bytes that are no record ---------------------------------------------------------------------

encode = msgspec.msgpack.encode
BAD: dict[str, tuple[int, bytes]] = {
    "nothing": (codec.ACKED, b""),
    "no array": (codec.ACKED, encode({"a": 1})),
    "an empty array": (codec.ACKED, encode([])),
    "no name": (codec.DELETED, encode([7])),
    "more than there is": (codec.DELETED, encode(["C", 1])),
    "less than there is": (codec.DELIVERED, encode(["C", 1])),
    "half a range": (codec.ACKED, encode(["C", 1, [1, 2, 3]])),
    "a range backwards": (codec.ACKED, encode(["C", 1, [2, 1]])),
    "a sequence of zero": (codec.EXHAUSTED, encode(["C", [0, 1]])),
    "a range without end": (codec.EXHAUSTED, encode(["C", [1, 2**60]])),
    "many long ranges": (codec.EXHAUSTED, encode(["C", [1, codec.RANGE_MAX] * 1000])),
    "a number that is none": (codec.ACKED, encode(["C", 1.5, [1, 2]])),
    "a flag for a number": (codec.RESET, encode(["C", True])),
    "half a floor": (codec.ACKED, encode(["C", 1, [], 1])),
    "a floor and more": (codec.ACKED, encode(["C", 1, [], 1, 2, 3])),
    "times that do not match": (codec.POSTPONED, encode(["C", [1, 2], [3]])),
    "a map for a list": (codec.POSTPONED, encode(["C", {1: 2}, {3: 4}])),
    "text for a list": (codec.POSTPONED, encode(["C", "", ""])),
    "no config": (codec.CONFIGURED, encode(["C", b"{", 0])),
    "another config": (codec.CREATED, encode(["C", 1, 1, 0, b'{"ack_policy":"some"}'])),
    "a config of text": (codec.CREATED, encode(["C", 1, 1, 0, "{}"])),
    "an unknown kind": (codec.KEPT + 1, encode(["C"])),
    "a state": (codec.STATE, encode(["C"])),
    "too deep": (codec.ACKED, b"\x91" * 100_000),
}


@pytest.mark.parametrize(("kind", "body"), BAD.values(), ids=BAD)
def test_what_is_no_entry_is_told_so(kind: int, body: bytes) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        codec.decode(kind, body)


BAD_STATES: dict[str, list[Any]] = {
    "less": ["C", [1, 1], [0, 0], [], [], 0, 0, ""],
    "a map": ["C", {1: 1, 2: 2}, [0, 0], [], [], 0, 0, "", 0],
    "one number": ["C", [1], [0, 0], [], [], 0, 0, "", 0],
    "pending in twos": ["C", [1, 1], [0, 0], [1, 1], [], 0, 0, "", 0],
    "pending of no sequence": ["C", [1, 1], [0, 0], [1, 0, 5], [], 0, 0, "", 0],
    "half a redelivery": ["C", [1, 1], [0, 0], [], [1], 0, 0, "", 0],
    "text for a time": ["C", [1, 1], [0, 0], [1, 1, ""], [], 0, 0, "", 0],
    "a number for an id": ["C", [1, 1], [0, 0], [], [], 0, 0, 0, 0],
    "a nested list": ["C", [[1], [1]], [0, 0], [], [], 0, 0, "", 0],
}


@pytest.mark.parametrize("values", BAD_STATES.values(), ids=BAD_STATES)
def test_what_is_no_state_is_told_so(values: list[Any]) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        codec.decode_state(encode(values))


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.text(), st.binary()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=12,
)
BODIES = st.one_of(
    st.binary(max_size=60),
    VALUES.map(encode),
    st.lists(VALUES, max_size=9).map(lambda values: encode(["C", *values])),
)


@settings(deadline=None, max_examples=150)
@given(kind=st.sampled_from([*codec.CONSUMER_KINDS]), body=BODIES)
def test_no_body_does_harm(kind: int, body: bytes) -> None:
    with suppress(StoreError):
        codec.decode(kind, body)
    with suppress(StoreError):
        codec.decode_state(body)
    with suppress(StoreError):
        codec.decode_kept(body)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_no_damage_does_harm(data: st.DataObject) -> None:
    """Bits that flipped without being noticed."""
    state = ConsumerState(AckPolicy.EXPLICIT, 1)
    state.deliver((), [1, 2, 4, 9], NOW_NS)
    entries = [*map(codec.encode, RECORDS), codec.encode_state("C", state)]
    kind, body = data.draw(st.sampled_from(entries))
    place = data.draw(st.integers(min_value=0, max_value=len(body) - 1))
    bits = data.draw(st.integers(min_value=1, max_value=255))
    damaged = body[:place] + bytes([body[place] ^ bits]) + body[place + 1 :]
    with suppress(StoreError):
        if kind == codec.STATE:
            codec.restore_state(state, codec.decode_state(damaged)[1])
        else:
            codec.decode(kind, damaged)
