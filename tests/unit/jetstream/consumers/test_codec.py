"""Records of consumers as entries of a journal, and entries that are no records."""

from contextlib import suppress
from typing import Any, Final, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.jetstream.codec.sequences import SEQUENCES_MAX
from headwater.jetstream.config.consumer_config import AckPolicy
from headwater.jetstream.consumers import codec
from headwater.jetstream.consumers.records import ConsumerRecord, Delivered
from headwater.jetstream.consumers.state import ConsumerState
from headwater.store.disk.journal import CALLER_KINDS
from headwater.store.log.message_log import StoreError
from tests.kit.record_values import EXAMPLES, NOW_NS, values_of

RECORDS: Final = [record for record in EXAMPLES if isinstance(record, get_args(ConsumerRecord))]

# The entries of the examples in journals of Headwater before records had bytes of their own.
CONFIG: Final = (
    b'{"durable_name":"\xc3\xa9","deliver_policy":"by_start_time","opt_start_time":"2027-01-1'
    b'5T09:00:00.123456789+01:00","ack_policy":"explicit","max_deliver":3,"backoff":[1'
    b',4611686018427387904],"filter_subjects":["a.*","b.\x5cu003e"],"replay_policy":"inst'
    b'ant","num_replicas":0,"metadata":{"a":"\x5cu003c\x5cu003e\x5cu0026"}}'
)
WRITTEN_BEFORE: Final = [
    (320, bytes.fromhex("95a143cf18fae2769b0fcd15070cc5012d") + CONFIG),
    (321, bytes.fromhex("93a143c5012d") + CONFIG + b"\x05"),
    (322, bytes.fromhex("91a143")),
    (323, bytes.fromhex("92a143cf8000000000000000")),
    (324, bytes.fromhex("94a143cf18fae2769b0fcd1596020205050909940a0c1414")),
    (324, bytes.fromhex("94a143cf18fae2769b0fcd15909201cd03e7")),
    (325, bytes.fromhex("93a143cf18fae2769b0fcd15920303")),
    (325, bytes.fromhex("95a143cf18fae2769b0fcd15900203")),
    (325, bytes.fromhex("95a143cf18fae2769b0fcd1594010205050205")),
    (326, bytes.fromhex("93a14392050192cf18fae2769b0fcd15fb")),
    (327, bytes.fromhex("92a1439401010707")),
    (330, bytes.fromhex("92a1439401010707")),
    (331, bytes.fromhex("93a143cf18fae2769b0fcd1507")),
    (328, bytes.fromhex("93a143cf18fae2769b0fcd15a26964")),
    (328, bytes.fromhex("93a14300a0")),
]
STATE_BEFORE: Final = bytes.fromhex(
    "99a143920609920101960202cf18fae2769b0fcd1a0904cf18fae2769b0fcd159402010401050ba2696407"
)
KEPT_BEFORE: Final = bytes.fromhex("92a0cf8000000000000000")


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_as_it_was(record: ConsumerRecord) -> None:
    kind, body = codec.encode(record)
    assert kind in codec.CONSUMER_KINDS
    assert values_of(codec.decode(kind, body)) == values_of(record)


def test_journals_written_before_are_read() -> None:
    found = [values_of(codec.decode(kind, body)) for kind, body in WRITTEN_BEFORE]
    expected = [values_of(record) for record in RECORDS]
    # They did not keep the order of deliveries.
    [first] = [position for position, values in enumerate(expected) if values.get("again")]
    expected[first]["again"].sort()
    assert found == expected


def test_entries_are_written_as_before() -> None:
    pairs = zip(RECORDS, WRITTEN_BEFORE, strict=True)
    for record, entry in pairs:
        if not isinstance(record, Delivered) or not record.again:
            assert codec.encode(record) == entry


def test_kinds_are_those_of_callers() -> None:
    assert min(codec.CONSUMER_KINDS) >= CALLER_KINDS


# --- the state ------------------------------------------------------------------------------------


def test_a_state_comes_back_as_it_was() -> None:
    state = ConsumerState(AckPolicy.EXPLICIT, 1, 5)
    state.deliver((), [1, 2, 4, 9], NOW_NS)
    state.deliver([2, 4], (), NOW_NS + 5)
    state.acknowledge([1])
    state.give_up([4])
    state.pin_id, state.pinned_ns, state.passed_stream = "id", 7, 11
    kind, body = codec.encode_state("C", state)
    assert (kind, body) == (329, STATE_BEFORE)
    name, values = codec.decode_state(body)
    again = ConsumerState(AckPolicy.EXPLICIT, 1)
    codec.restore_state(again, values)
    assert name == "C"
    assert again.dump() == state.dump()
    assert again.oldest_pending == state.oldest_pending


def test_what_is_kept_comes_back() -> None:
    kind, body = codec.encode_kept(2**63)
    assert (kind, body) == (332, KEPT_BEFORE)
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
    "many long ranges": (codec.EXHAUSTED, encode(["C", [1, SEQUENCES_MAX] * 1000])),
    "a fraction in place of a whole number": (codec.ACKED, encode(["C", 1.5, [1, 2]])),
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
