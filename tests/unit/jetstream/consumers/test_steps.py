"""Steps of a consumer: the records that they propose, and the effects that wait for these."""

import pytest

from headwater.jetstream.config.consumer_config import PriorityPolicy
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.consumers import delivery
from headwater.jetstream.consumers.acks import read_address
from headwater.jetstream.consumers.effects import Messages
from headwater.jetstream.consumers.records import Acked, Delivered, Pinned
from headwater.jetstream.consumers.steps import DELIVER, Acks, PlainAcks, Pull
from headwater.jetstream.proposal import Confirmed, ConsumerEvent, ConsumerLeft
from headwater.store.log.message_log import StoreError
from tests.kit.consumer_driver import HOME, ConsumerDriver


@pytest.fixture
def driver() -> ConsumerDriver:
    made = ConsumerDriver(Storage.MEMORY)
    made.fill("S.a", "S.a", "S.a")
    return made


def test_a_step_without_an_effect_proposes_nothing(driver: ConsumerDriver) -> None:
    out = driver.create().step(DELIVER, driver.now_ns)
    assert (out.records, out.at_once, out.effects, out.failure) == ([], [], (), None)


def test_nobody_waits_for_deliveries_and_plain_acknowledgements(driver: ConsumerDriver) -> None:
    consumer = driver.create(max_ack_pending=2)
    driver.pull(3, expires=30)
    out = consumer.step(PlainAcks([1], [None]), driver.now_ns)
    assert [type(effect) for effect in out.at_once] == [Messages]
    assert (out.effects, out.is_awaited, out.needs_entry) == ((), False, False)


def test_acknowledgements_are_confirmed_together_when_they_are_committed(
    driver: ConsumerDriver,
) -> None:
    consumer = driver.create()
    got = driver.pull(2)
    addresses = [read_address(each.reply, HOME) for each in got]
    step = Acks([each for each in addresses if each], [b"to", b"too"], [b"+ACK", b"+TERM"])
    out = consumer.step(step, driver.now_ns)
    assert out.effects == (Confirmed([b"to", b"too"]),)
    assert [type(effect) for effect in out.at_once] == [ConsumerEvent]
    assert out.is_awaited
    assert out.needs_entry


def test_messages_that_are_left_for_the_next_turn_are_told_of(
    driver: ConsumerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "TURN_MESSAGES_MAX", 2)
    consumer = driver.create()
    out = consumer.step(Pull(b"I", b'{"batch":3}'), driver.now_ns)
    assert out.at_once[-1] == ConsumerLeft("C")
    assert ConsumerLeft("C") not in consumer.step(DELIVER, driver.now_ns).at_once


def test_the_records_of_a_step_are_in_order(driver: ConsumerDriver) -> None:
    consumer = driver.create(max_ack_pending=2)
    driver.pull(3)
    out = consumer.step(PlainAcks([1, 2], [None, b"to"]), driver.now_ns)
    assert [type(record) for record in out.records] == [Acked, Delivered]
    assert out.effects == (Confirmed([b"to"]),)
    assert [record for record, _, _ in consumer.machine.ahead] == out.records
    # A step changes the consumer alone; the stream follows when the records are committed.
    assert driver.sequences == [1, 2, 3]


def test_the_first_effects_for_a_pinned_client_wait(driver: ConsumerDriver) -> None:
    consumer = driver.create(
        priority_policy=PriorityPolicy.PINNED_CLIENT,
        priority_groups=("g",),
        priority_timeout=10**9,
    )
    out = consumer.step(Pull(b"I", b'{"batch":1,"group":"g"}'), driver.now_ns)
    assert [type(record) for record in out.records] == [Pinned, Delivered]
    assert out.at_once == []
    assert [type(effect) for effect in out.effects] == [ConsumerEvent, Messages]
    assert out.is_awaited
    for record in out.records:
        driver.stream.apply(record)
    pin_id = consumer.state.pin_id.encode()
    body = b'{"batch":1,"group":"g","id":"%b"}' % pin_id
    later = consumer.step(Pull(b"I", body), driver.now_ns)
    assert [type(effect) for effect in later.at_once] == [Messages]
    assert later.effects == ()


def test_a_step_that_the_store_fails_keeps_its_records(
    driver: ConsumerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = driver.create(max_ack_pending=1)
    driver.pull(2)

    def fail(*_: object) -> None:
        raise StoreError("unreadable")

    monkeypatch.setattr(driver.stream.log, "read", fail)
    out = consumer.step(PlainAcks([1], [None]), driver.now_ns)
    assert str(out.failure) == "unreadable"
    assert [type(record) for record in out.records] == [Acked]
