"""Consumers go into backups and come out of them with all that they know of their messages."""

import json
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.go.json import write
from headwater.jetstream.backup.archive import ArchiveReader, Entry
from headwater.jetstream.backup.consumer_document import decode_consumer, encode_consumer
from headwater.jetstream.backup.consumer_files import decode_files, decode_state
from headwater.jetstream.backup.consumers import (
    CONSUMER_BYTES_MAX,
    CONSUMER_MEMORY_BYTES,
    UNSETTLED_MEMORY_BYTES,
    BackedUpConsumer,
    BackedUpConsumers,
    Pending,
    Place,
)
from headwater.jetstream.backup.errors import BackupError
from headwater.jetstream.backup.filling import SEQUENCE_MAX
from headwater.jetstream.backup.writing import PIECE_BYTES, BackupWriter
from headwater.jetstream.config.consumer_config import AckPolicy, DeliverPolicy
from headwater.jetstream.config.stream_config import Retention, Storage
from headwater.jetstream.consumers import codec
from headwater.jetstream.consumers.acks import NAK, TERM
from headwater.jetstream.streams.stream import Stream
from tests.kit.consumer_driver import ConsumerDriver, Got
from tests.unit.jetstream.backup.taking_in import pieces, stream_of, taken_in

Document = dict[str, Any]

NOTHING: Final = {
    "delivered": {"consumer_seq": 0, "stream_seq": 0},
    "ack_floor": {"consumer_seq": 0, "stream_seq": 0},
}


def publish(one: ConsumerDriver, numbers: Iterable[int]) -> None:
    """Messages of three subjects."""
    one.fill(*(f"S.{number % 3}" for number in numbers))


def driver(messages: int = 12, **config: Any) -> ConsumerDriver:
    """A stream with messages of three subjects."""
    one = ConsumerDriver(Storage.MEMORY, **config)
    publish(one, range(messages))
    return one


def backup(stream: Stream, last_sequence: int | None = None) -> bytes:
    """The backup of a stream with its consumers."""
    state = stream.state()
    last = state.last_seq if last_sequence is None else last_sequence
    writer = BackupWriter(stream.log, write(state), last, stream.created_ns, stream.consumers.shown)
    data = b""
    while piece := writer.read():
        data += piece
    return data


def back(one: ConsumerDriver, size: int = 1 << 16, last_sequence: int | None = None) -> Stream:
    """The stream that comes of the backup of another."""
    reader, log = taken_in(pieces(backup(one.stream, last_sequence), size))
    return stream_of(reader, log, one.config)


def known(stream: Stream) -> dict[str, object]:
    """The state of consumers, without their creation times and the origin of their names."""
    return {
        consumer.name: {
            **consumer.dump(),
            "created_ns": 0,
            "config": msgspec.structs.replace(consumer.config, name=consumer.name),
        }
        for consumer in stream.consumers
    }


# --- there and back -----------------------------------------------------------------------------


def test_everything_that_a_consumer_knows_comes_back() -> None:
    one = driver()
    one.create("IDLE")
    one.create("NEW", deliver_policy=DeliverPolicy.NEW)
    one.create("NONE", ack_policy=AckPolicy.NONE)
    one.create("ALL", ack_policy=AckPolicy.ALL)
    one.create("LASTS", deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
               filter_subject="S.>")  # fmt: skip
    one.create("SOME", filter_subject="S.1", metadata={"k": "v"})
    one.create("FAR", deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
               opt_start_seq=100)  # fmt: skip
    for name in ("NONE", "ALL", "LASTS", "SOME"):
        got = one.pull(2, name=name)
        one.advance(0.5)
        if name == "ALL":
            one.ack(got[0])

    assert known(back(one)) == known(one.stream)
    assert known(back(one, size=7)) == known(one.stream)


def test_what_is_not_acknowledged_is_due_when_it_would_have_been() -> None:
    one = driver()
    one.create("C", ack_wait=10 * 10**9)
    first, second, third, fourth = one.pull(4)
    one.advance(2)
    one.ack(second)
    one.ack(third, payload=NAK + b' {"delay": 3000000000}')
    one.ack(fourth, payload=NAK)
    one.pull(1)

    consumer = back(one).consumers.find("C")

    assert consumer.state.pending == {1: 1, 3: 3, 4: 4}
    assert consumer.state.redelivered == {4: 1}
    assert consumer.state.sent_ns == one.consumer().state.sent_ns
    assert consumer.next_due_ns() == one.consumer().next_due_ns() == first.at_ns + 5 * 10**9


def test_what_is_given_up_stays_given_up() -> None:
    one = driver()
    one.create("C", max_deliver=1, ack_wait=10**9)
    one.pull(2)
    one.advance(2)
    assert one.consumer().state.redelivered == {1: 0, 2: 0}

    state = back(one).consumers.find("C").state

    # The backup does not tell that there was no second delivery: nats-server says there was one.
    assert (state.pending, state.redelivered) == ({}, {1: 1, 2: 1})


def test_a_consumer_without_a_name_of_its_own_goes_by_the_one_it_was_given() -> None:
    one = driver()
    one.create("Xy12Zz", durable_name="", inactive_threshold=10**9)

    (consumer,) = back(one).consumers

    assert (consumer.name, consumer.config.name) == ("Xy12Zz", "Xy12Zz")
    assert not consumer.config.is_durable


def test_a_work_queue_keeps_what_is_not_acknowledged() -> None:
    one = driver(retention=Retention.WORKQUEUE)
    one.create("C")
    got = one.pull(4)
    one.ack(got[1])
    one.ack(got[2], payload=TERM)

    stream = back(one)

    assert known(stream) == known(one.stream)
    assert stream.state().messages == one.stream.state().messages == 10


def test_a_stream_by_interest_keeps_what_somebody_needs() -> None:
    one = ConsumerDriver(Storage.MEMORY, retention=Retention.INTEREST)
    one.create("A", filter_subject="S.0")
    one.create("B", filter_subject="S.1")
    publish(one, range(9))
    one.ack(*one.pull(2, name="A"))

    stream = back(one)

    assert {**known(stream), "B": None} == {**known(one.stream), "B": None}
    assert stream.consumers.find("B").position.pending_count() == 3
    assert stream.state().messages == one.stream.state().messages == 4


def test_a_floor_below_the_first_message_is_raised_to_it() -> None:
    """Else nats-server would take the consumer for older than the stream, and start it over."""
    one = driver(max_msgs=4)
    one.create("C", filter_subject="S.1")
    one.create("D")
    one.pull(1)
    publish(one, [0, 0])

    stream = back(one)

    assert stream.log.first_sequence == 11
    assert (one.figures("C"), one.figures("D")) == (((1, 11), (0, 8)), ((0, 8), (0, 8)))
    found = {name: consumer.dump() for name, consumer in stream.consumers.by_name.items()}
    assert (found["C"]["delivered"], found["C"]["floor"]) == ((1, 11), (0, 10))
    assert found["C"]["pending"] == [(11, 1)]
    assert (found["D"]["delivered"], found["D"]["floor"]) == ((0, 10), (0, 10))


def test_what_happens_after_the_end_of_a_backup_is_not_in_it() -> None:
    one = driver()
    one.create("C")
    one.create("AHEAD", opt_start_seq=9,
               deliver_policy=DeliverPolicy.BY_START_SEQUENCE)  # fmt: skip
    one.ack(*one.pull(8))
    one.pull(2)

    stream = back(one, last_sequence=7)

    state = stream.consumers.find("C").state
    assert (state.delivered_stream, state.floor_stream, state.pending) == (7, 7, {})
    # The consumer has delivered nothing: it waits for a message that was not there yet.
    assert stream.consumers.find("AHEAD").state.delivered_stream == 8


def test_a_consumer_that_was_deleted_meanwhile_is_still_in_the_backup() -> None:
    one = driver()
    one.create("C")
    one.pull(2)
    writer = BackupWriter(
        one.stream.log, write(one.stream.state()), 12, 1, one.stream.consumers.shown
    )
    data = writer.read()
    one.drop()
    while piece := writer.read():
        data += piece

    reader, _ = taken_in([data])

    assert [consumer.name for consumer in reader.consumers] == ["C"]


def test_many_consumers_come_in_pieces() -> None:
    one = driver()
    for number in range(300):
        one.create(f"C{number}", description="d" * 500)
    writer = BackupWriter(
        one.stream.log, write(one.stream.state()), 12, 1, one.stream.consumers.shown
    )
    sizes = []
    while piece := writer.read():
        sizes.append(len(piece))

    assert max(sizes) < 2 * PIECE_BYTES
    assert known(back(one)) == known(one.stream)


steps = st.sampled_from(["pull", "ack", "nak", "term", "wait", "publish", "remove"])


@given(
    st.lists(st.tuples(steps, st.integers(0)), max_size=25),
    st.sampled_from([Retention.LIMITS, Retention.WORKQUEUE, Retention.INTEREST]),
)
def test_whatever_has_happened(done: list[tuple[str, int]], retention: Retention) -> None:
    one = ConsumerDriver(Storage.MEMORY, retention=retention)
    one.create("C", ack_wait=5 * 10**9, max_deliver=3)
    publish(one, range(6))
    got: list[Got] = []
    for what, number in done:
        if what == "pull":
            got += one.pull(1 + number % 3, no_wait=True)
        elif what == "wait":
            one.advance(1 + number % 6)
        elif what == "publish":
            publish(one, [number])
        elif what == "remove":
            one.delete(1 + number % 8)
        elif got:
            payload = {"ack": b"+ACK", "nak": NAK, "term": TERM}[what]
            one.ack(got[number % len(got)], payload=payload)

    found = back(one).consumers.find("C").dump()

    expected = one.consumer().dump()
    redelivered = expected["redelivered"]
    assert isinstance(redelivered, list)
    # Positions below the first message do not matter any more.
    floor = max(one.consumer().state.floor_stream, one.stream.log.first_sequence - 1)
    delivered = max(one.consumer().state.delivered_stream, floor)
    expected["redelivered"] = [(sequence, max(count, 1)) for sequence, count in redelivered]
    expected["floor"] = (one.consumer().state.floor_consumer, floor)
    expected["delivered"] = (one.consumer().state.delivered_consumer, delivered)
    for part in (found, expected):
        del part["created_ns"], part["config"]
    assert found == expected


# --- refusals -----------------------------------------------------------------------------------


def state(
    delivered: tuple[int, int] = (0, 0), floor: tuple[int, int] = (0, 0), **rest: object
) -> Document:
    """The delivered sequences and the ack floor of a consumer, as in a document."""
    return {
        "delivered": dict(zip(("consumer_seq", "stream_seq"), delivered, strict=True)),
        "ack_floor": dict(zip(("consumer_seq", "stream_seq"), floor, strict=True)),
        **rest,
    }


def pending(sequence: int, consumer_sequence: int = 1, sent_ns: int = 1) -> Document:
    return {str(sequence): {"Sequence": consumer_sequence, "Timestamp": sent_ns}}


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"state": NOTHING}, 'consumer "C" is missing config'),
        ({"config": None, "state": NOTHING}, 'consumer "C" is missing config'),
        ({"config": {}}, 'consumer "C" is missing state'),
        ([], 'failed to decode consumer "C" state'),
        ({"config": {"ack_policy": "maybe"}, "state": NOTHING}, "can not unmarshal"),
        ({"config": {"durable_name": 5}, "state": NOTHING}, "failed to decode"),
        ({"config": {}, "state": {"delivered": 5}}, "failed to decode"),
        ({"config": {}, "state": state(pending={"x": {}})}, "failed to decode"),
        ({"config": {}, "state": state(pending={"1": None})}, "failed to decode"),
        ({"config": {}, "state": state((1, 1), (2, 1))}, "bad ack floor for consumer"),
        ({"config": {}, "state": state((2, 1), (2, 2))}, "bad ack floor for stream"),
        ({"config": {}, "state": state((-1, 0))}, "out of range"),
        ({"config": {}, "state": state((0, SEQUENCE_MAX + 1))}, "out of range"),
        ({"config": {}, "state": state(headwater={"passed": -1})}, "out of range"),
        ({"config": {}, "state": state((3, 3), (1, 1), pending=pending(4))}, r"\[4\] out of"),
        ({"config": {}, "state": state((3, 3), (1, 1), pending=pending(1))}, r"\[1\] out of"),
        ({"config": {}, "state": state((3, 3), pending=pending(1, 4))}, r"\[1\] out of"),
        ({"config": {}, "state": state((3, 3), pending=pending(1, 0))}, r"\[1\] out of"),
        ({"config": {}, "state": state((3, 3), pending=pending(1, 1, 0))}, "no possible time"),
        ({"config": {}, "state": state((3, 3), pending=pending(1, 1, 1 << 63))}, "possible time"),
        ({"config": {}, "state": state((3, 3), redelivered={"4": 1})}, "bad redelivered entry"),
        ({"config": {}, "state": state((3, 3), redelivered={"0": 1})}, "bad redelivered entry"),
        ({"config": {}, "state": state((3, 3), redelivered={"1": -1})}, "bad redelivered entry"),
    ],
)
def test_documents_that_are_refused(document: object, text: str) -> None:
    with pytest.raises(BackupError, match=text):
        decode_consumer("C", json.dumps(document).encode())


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xff", b'{"config":{"name":"\xff"}}', b"[" * 100_000, b'{"x":' * 100_000],
)
def test_what_is_no_document_is_refused(data: bytes) -> None:
    with pytest.raises(BackupError, match='consumer "C"'):
        decode_consumer("C", data)


def test_a_consumer_needs_a_name() -> None:
    with pytest.raises(BackupError, match="it has no name"):
        decode_consumer("", json.dumps({"config": {}, "state": NOTHING}).encode())


def test_what_is_left_out_is_nothing() -> None:
    found = decode_consumer("C", b'{"config": {}, "state": {}}')
    name, values = codec.decode_state(found.state)
    assert (name, values) == ("C", [[0, 0], [0, 0], [], [], 0, 0, "", 0])


def test_without_acknowledgements_nothing_is_pending() -> None:
    document = {"config": {"ack_policy": "none"}, "state": state((3, 3), pending=pending(2))}
    found = decode_consumer("C", json.dumps(document).encode())
    assert codec.decode_state(found.state)[1][2] == []


def test_a_consumer_that_begins_later_than_the_backup_ends_waits_for_it() -> None:
    """The state that nats-server writes for the consumer has only the end of the backup."""
    config = {"deliver_policy": "by_start_sequence", "opt_start_seq": 100}
    document = {"config": config, "state": state((0, 12), (0, 12))}
    assert decode_consumer("C", json.dumps(document).encode()).start_sequence == 100
    document["state"] = state((2, 120), (2, 120))
    assert decode_consumer("C", json.dumps(document).encode()).start_sequence == 121


def backed_up(name: str, count: int) -> BackedUpConsumer:
    waiting: Document = {}
    for sequence in range(1, count + 1):
        waiting |= pending(sequence, sequence)
    document = {"config": {"ack_policy": "explicit"}, "state": state((9, 9), pending=waiting)}
    return decode_consumer(name, json.dumps(document).encode())


def test_consumers_may_not_take_more_memory_than_there_is() -> None:
    room = 2 * CONSUMER_MEMORY_BYTES + 3 * UNSETTLED_MEMORY_BYTES
    found = BackedUpConsumers(room)
    found.add(backed_up("A", 1))
    found.add(backed_up("B", 2))
    assert len(found) == 2
    found = BackedUpConsumers(room)
    found.add(backed_up("A", 1))
    with pytest.raises(BackupError, match="more memory"):
        found.add(backed_up("B", 3))


def test_a_document_may_be_larger_than_a_message_and_not_without_a_bound() -> None:
    reader = ArchiveReader(10, CONSUMER_BYTES_MAX)
    reader.feed(b"\x01\x00\x00\x00\xc8\x01" + b"n" + bytes(200))
    assert reader.read() == Entry(b"n", payload=bytes(200))
    reader = ArchiveReader(10, 199)
    reader.feed(b"\x01\x00\x00\x00\xc8\x01")
    with pytest.raises(BackupError, match="too large"):
        reader.read()


# --- files --------------------------------------------------------------------------------------


def varints(*numbers: int) -> bytes:
    """Numbers as nats-server packs them; below zero they wrap."""
    data = bytearray()
    for number in numbers:
        number &= (1 << 64) - 1
        while number >= 0x80:
            data.append(number & 0x7F | 0x80)
            number >>= 7
        data.append(number)
    return bytes(data)


def signed(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def test_a_state_of_every_part() -> None:
    data = b"\x16\x02" + varints(
        *(2, 5, 9, 20),
        *(2, signed(1000)),
        *(1, 3, signed(10)),
        *(15, 7, signed(-5)),
        *(2, 1, 4),
        *(3 - 5, 1),
    )
    found = decode_state(data)
    assert (found.floor, found.delivered) == (Place(2, 5), Place(9, 20))
    assert found.pending == {6: Pending(5, 990 * 10**9), 20: Pending(9, 1005 * 10**9)}
    # A message that was given up is below the floor.
    assert found.redelivered == {6: 4, 3: 1}


def test_a_state_of_the_first_version_has_no_sequences_of_the_consumer() -> None:
    data = b"\x16\x01" + varints(
        *(2, 5, 3, 4), *(2, signed(1000)), *(3, signed(10)), *(1, signed(5)), *(1, 3, 2)
    )
    found = decode_state(data)
    assert (found.floor, found.delivered) == (Place(2, 5), Place(4, 8))
    assert found.pending == {6: Pending(3, 1005 * 10**9), 8: Pending(4, 1010 * 10**9)}
    assert found.redelivered == {8: 2}


@pytest.mark.parametrize(
    ("meta", "data", "text"),
    [
        (b"{", b"\x16\x02" + bytes(6), "unexpected end of JSON"),
        (b"[" * 100_000, b"\x16\x02" + bytes(6), ""),
        (b'{"Created": "yesterday"}', b"\x16\x02" + bytes(6), "yesterday"),
        (b"{}", b"", "corrupt state file"),
        (b"{}", b"\x17\x02" + bytes(6), "corrupt state file"),
        (b"{}", b"\x16\x03" + bytes(6), "unsupported version: 3"),
        (b"{}", b"\x16\x02" + bytes(5), "cut short"),
        (b"{}", b"\x16\x02" + varints(0, 0, 3, 3, 1 << 63), "cut short"),
        (b"{}", b"\x16\x02" + varints(0, 0, 3, 3, 0, 1 << 63, 1, 1), "cut short"),
        (b"{}", b"\x16\x02" + varints(0, 0, 0, -1, 0, 0), "out of range"),
        (b"{}", b"\x16\x02" + varints(5, 0, 3, 3, 0, 0), "bad ack floor"),
        (b"{}", b"\x16\x02" + varints(0, 2, 3, 3, 1, 0, 9, 1, 0, 0), "out of range"),
        (b"{}", b"\x16\x02" + varints(0, 0, 3, 3, 1, 0, 1, 1, 0, 0), "no possible time"),
        (b"{}", b"\x16\x02" + b"\xff" * 11, "more than 64 bits"),
    ],
)
def test_files_that_are_refused(meta: bytes, data: bytes, text: str) -> None:
    with pytest.raises(BackupError, match=r'error restoring consumer \["C"\]: .*' + text):
        decode_files("C", meta, data)


def test_the_name_of_the_folder_is_not_the_name_in_the_configuration() -> None:
    meta = b'{"Created": "2026-01-02T03:04:05Z", "Name": "Xy", "name": "", "description": "d"}'
    found = decode_files("Xy", meta, b"\x16\x02" + bytes(6))
    assert (found.name, found.config.name, found.config.description) == ("Xy", "", "d")
    assert found.created_ns == 1_767_323_045 * 10**9


# --- garbage ------------------------------------------------------------------------------------

scalars = st.none() | st.booleans() | st.integers(-(1 << 65), 1 << 65) | st.text(max_size=5)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
numbers = st.integers(-1, 6) | st.integers(-(1 << 65), 1 << 65)
keys = st.integers(-1, 6).map(str) | st.text(max_size=3)
places = st.fixed_dictionaries({}, optional={"consumer_seq": numbers, "stream_seq": numbers})
states = st.fixed_dictionaries(
    {},
    optional={
        "delivered": places | values,
        "ack_floor": places | values,
        "pending": st.dictionaries(
            keys,
            st.fixed_dictionaries({}, optional={"Sequence": numbers, "Timestamp": numbers}),
            max_size=4,
        ),
        "redelivered": st.dictionaries(keys, numbers, max_size=4),
        "headwater": st.fixed_dictionaries({}, optional={"lasts_until": numbers}) | values,
    },
)
documents = st.fixed_dictionaries(
    {},
    optional={
        "config": st.fixed_dictionaries(
            {},
            optional={
                "durable_name": values,
                "ack_policy": st.sampled_from(["none", "all", "explicit", "flow_control", ""]),
                "opt_start_seq": numbers,
                "pause_until": values,
                "metadata": values,
                "backoff": values,
            },
        )
        | values,
        "state": states | values,
    },
)


def check_usable(found: BackedUpConsumer) -> None:
    """A document that was not refused makes a consumer that works, and can be backed up again."""
    one = driver(6)
    one.stream.consumers.adopt(found.entries(found.config, 1))
    one.stream.recover(one.now_ns)
    consumer = one.consumer(found.name)
    consumer.next_due_ns()
    consumer.info(one.now_ns)
    again = decode_consumer(found.name, encode_consumer(consumer, 1, 6))
    assert again.name == found.name


@given(documents | values)
def test_any_document_is_refused_or_makes_a_consumer(document: object) -> None:
    try:
        found = decode_consumer("C", json.dumps(document).encode())
    except BackupError:
        return
    check_usable(found)


@given(st.lists(numbers, max_size=14), st.binary(max_size=10), st.integers(0, 3))
def test_any_state_is_refused_or_makes_a_consumer(
    row: list[int], rest: bytes, version: int
) -> None:
    data = bytes([22, version]) + varints(*row) + rest
    try:
        found = decode_files("C", b'{"ack_policy": "explicit"}', data)
    except BackupError:
        return
    check_usable(found)


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_wrong_byte_is_refused_or_makes_another_consumer(place: int, byte: int) -> None:
    one = driver()
    one.create("C", ack_wait=10**9, metadata={"a": "b"})
    one.pull(5)
    one.advance(2)
    one.pull(2)
    data = bytearray(encode_consumer(one.consumer(), 1, 12))
    data[place % len(data)] = byte
    try:
        found = decode_consumer("C", bytes(data))
    except BackupError:
        return
    assert isinstance(msgspec.msgpack.decode(found.state), list)
