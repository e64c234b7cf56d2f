"""Steps of a consumer: the records they make, and the output that waits for these."""

import pytest

from headwater.jetstream.config.consumer_config import PriorityPolicy
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.consumers.records import Acked, Delivered, Pinned
from headwater.jetstream.consumers.steps import DELIVER, PlainAcks, Pull
from headwater.store.log.message_log import StoreError
from tests.kit.consumer_driver import ConsumerDriver


@pytest.fixture
def driver() -> ConsumerDriver:
    made = ConsumerDriver(Storage.MEMORY)
    made.fill("S.a", "S.a", "S.a")
    return made


def test_a_step_without_an_effect_has_no_output(driver: ConsumerDriver) -> None:
    out = driver.create().step(DELIVER, driver.now_ns)
    assert (out.records, out.sends, out.events, out.answered) == ([], [], [], [])
    assert (out.more, out.waits, out.failure) == (False, False, "")


def test_the_records_of_a_step_are_in_order(driver: ConsumerDriver) -> None:
    consumer = driver.create(max_ack_pending=2)
    driver.pull(3)
    out = consumer.step(PlainAcks([1, 2], [None, b"to"]), driver.now_ns)
    assert [type(record) for record in out.records] == [Acked, Delivered]
    assert out.answered == [b"to"]
    assert [record for record, _, _ in consumer.machine.ahead] == out.records
    # A step changes the consumer alone; the stream follows when the records are committed.
    assert driver.sequences == [1, 2, 3]


def test_the_first_output_for_a_pinned_client_waits(driver: ConsumerDriver) -> None:
    consumer = driver.create(
        priority_policy=PriorityPolicy.PINNED_CLIENT,
        priority_groups=("g",),
        priority_timeout=10**9,
    )
    out = consumer.step(Pull(b"I", b'{"batch":1,"group":"g"}'), driver.now_ns)
    assert [type(record) for record in out.records] == [Pinned, Delivered]
    assert out.waits
    for record in out.records:
        driver.stream.apply(record)
    pin_id = consumer.state.pin_id.encode()
    body = b'{"batch":1,"group":"g","id":"%b"}' % pin_id
    assert not consumer.step(Pull(b"I", body), driver.now_ns).waits


def test_a_step_that_the_store_fails_keeps_its_records(
    driver: ConsumerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = driver.create(max_ack_pending=1)
    driver.pull(2)

    def fail(*_: object) -> None:
        raise StoreError("unreadable")

    monkeypatch.setattr(driver.stream.log, "read", fail)
    out = consumer.step(PlainAcks([1], [None]), driver.now_ns)
    assert out.failure == "unreadable"
    assert [type(record) for record in out.records] == [Acked]
