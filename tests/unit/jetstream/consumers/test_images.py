"""The image of a consumer makes the same consumer, and any other bytes are refused."""

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.base.clock import NS_PER_S
from headwater.base.sliced import at_once
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.values import decode_values, encode_values
from headwater.jetstream.config.consumer_config import DeliverPolicy
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.consumers.acks import NAK
from headwater.jetstream.consumers.images import decode_image, encode_image
from headwater.jetstream.consumers.machine import Consumer
from tests.kit.consumer_driver import ConsumerDriver
from tests.kit.held_driver import HeldDriver


def restored(driver: ConsumerDriver, name: str = "C") -> Consumer:
    """The consumer of a name, after all consumers were made again from their images."""
    consumers = driver.stream.consumers
    kept_until, found = consumers.encode_images()
    again = type(consumers)(driver.stream, driver.host)
    at_once(again.restoring(kept_until, map(decode_image, found)))
    assert again.dump() == consumers.dump()
    assert [*again.by_name] == [*consumers.by_name]
    return again.find(name)


def busy_driver(**config: Any) -> ConsumerDriver:
    driver = ConsumerDriver(Storage.MEMORY)
    driver.fill(*["S.a", "S.b"] * 4)
    driver.create(**config)
    driver.pull(5)
    first, second, third, *_ = driver.take()
    driver.ack(first, third)
    driver.say([(second, NAK, None)])
    driver.advance(1)
    return driver


@pytest.mark.parametrize(
    "config", [{}, {"mem_storage": True}, {"backoff": (NS_PER_S, 2 * NS_PER_S)}]
)
def test_a_consumer_has_the_state_and_the_times_of_its_image(config: dict[str, Any]) -> None:
    driver = busy_driver(**config)
    consumer, again = driver.consumer(), restored(driver)
    assert consumer.state.delivered_ns
    assert consumer.state.acked_ns
    times = again.state.delivered_ns, again.state.acked_ns
    assert times == (consumer.state.delivered_ns, consumer.state.acked_ns)
    assert again.position.pending_count() == consumer.position.pending_count()
    assert again.machine.deadlines.next_due_ns()


def test_the_last_messages_of_subjects_are_those_of_the_creation() -> None:
    driver = ConsumerDriver(Storage.MEMORY)
    driver.fill("S.a", "S.b", "S.a", "S.b")
    options: dict[str, Any] = {
        "deliver_policy": DeliverPolicy.LAST_PER_SUBJECT,
        "filter_subjects": ("S.>",),
    }
    driver.create(**options)
    driver.delete(4)
    # The message of S.b that is there was not the last one then.
    assert [*restored(driver).position.last_per_subject] == [3]


def test_records_that_are_not_committed_are_not_in_an_image() -> None:
    driver = HeldDriver(Storage.MEMORY, holds_all=True)
    driver.fill("S.a", "S.b")
    driver.create_later("C")
    driver.commit_all()
    before = driver.stream.consumers.encode_images()
    driver.pull(2)
    assert driver.consumer().machine.is_undoable
    assert driver.stream.consumers.encode_images() == before
    driver.commit_all()
    assert driver.stream.consumers.encode_images() != before


def test_a_state_of_another_consumer_is_refused() -> None:
    driver = busy_driver()
    driver.create("D")
    ours, theirs = (decode_values(each) for each in driver.stream.consumers.encode_images()[1])
    mixed = encode_values([ours[0], *theirs[1:]])
    with pytest.raises(RecordError, match="the state of D is that of C"):
        decode_image(mixed)


@cache
def example() -> bytes:
    return encode_image(busy_driver().consumer())


def is_refused_or_an_image(data: bytes) -> bool:
    try:
        return bool(decode_image(data))
    except RecordError as error:
        return bool(str(error))


@settings(max_examples=300)
@given(at=st.integers(0, 10_000), byte=st.binary(max_size=3), count=st.integers(0, 3))
def test_changed_bytes_are_refused_or_an_image(at: int, byte: bytes, count: int) -> None:
    data = example()
    at %= len(data) + 1
    assert is_refused_or_an_image(data[:at] + byte + data[at + count :])
