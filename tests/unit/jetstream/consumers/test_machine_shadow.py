"""The shadow sees what happens to consumers outside of records."""

from collections.abc import Callable

import pytest

from headwater.jetstream.config.stream_config import Retention, Storage
from headwater.jetstream.consumers.records import Acked, ConsumerDeleted
from tests.kit.consumer_driver import ConsumerDriver
from tests.unit.jetstream.consumers.conftest import Consume


def test_a_stream_with_consumers_and_its_shadow_are_equal(consume: Consume) -> None:
    driver = consume(retention=Retention.INTEREST)
    driver.create(max_deliver=2)
    driver.create("D", filter_subject="S.a")
    driver.fill("S.a", "S.b", "S.a", "S.b")
    got = driver.pull(4)
    driver.ack(got[0], got[3])
    driver.ack(got[1], payload=b"-NAK")
    driver.ack(got[2], payload=b"+WPI")
    driver.pull(2, name="D")
    driver.advance(31)
    driver.pull(5)
    driver.change("D", filter_subject="S.b")
    driver.delete(1)
    driver.drop("D")
    driver.check()
    assert driver.sequences == [2, 3]


PLANTED: dict[str, Callable[[ConsumerDriver], object]] = {
    "a message is delivered": lambda driver: driver.consumer().state.deliver((), [3], 5),
    "a message is acknowledged": lambda driver: driver.consumer().state.acknowledge([1]),
    "the floor moves": lambda driver: setattr(driver.consumer().state, "floor_stream", 1),
    "a redelivery is counted": lambda driver: driver.consumer().state.redelivered.update({1: 5}),
    "a deadline moves": lambda driver: driver.consumer().state.sent_ns.update({1: 5}),
    "a message is given up": lambda driver: driver.consumer().state.give_up([1]),
    "it begins again": lambda driver: driver.consumer().state.begin(1),
    "it is pinned": lambda driver: setattr(driver.consumer().state, "pin_id", "id"),
    "it has another place": lambda driver: setattr(driver.consumer().state, "passed_stream", 7),
    "a record is only for itself": lambda driver: driver.consumer().machine.apply(
        Acked("C", [1], 5)
    ),
    "it is gone": lambda driver: driver.stream.consumers.apply(ConsumerDeleted("C")),
    "it is another one": lambda driver: setattr(driver.consumer(), "created_ns", 5),
    "it is configured": lambda driver: setattr(
        driver.consumer().machine,
        "config",
        ConsumerDriver(Storage.MEMORY).create(description="other").config,
    ),
}


@pytest.mark.parametrize("mutate", PLANTED.values(), ids=PLANTED)
def test_a_change_without_a_record_shows(mutate: Callable[[ConsumerDriver], object]) -> None:
    driver = ConsumerDriver(Storage.MEMORY)
    driver.create()
    driver.fill("S.a", "S.a", "S.a")
    driver.pull(2)
    driver.check()
    mutate(driver)
    with pytest.raises(AssertionError, match="the replica has another consumers"):
        driver.check()


def test_a_record_that_is_not_written_down_does_not_outlive_a_restart() -> None:
    driver = ConsumerDriver(Storage.FILE)
    driver.create()
    driver.fill("S.a", "S.a")
    driver.pull(2)
    acked = Acked("C", [1], driver.now_ns)
    driver.consumer().machine.apply(acked)
    driver.shadow.apply(acked)
    driver.check()
    driver.stream.consumers.take_unwritten()
    with pytest.raises(AssertionError, match="the restart has changed consumers"):
        driver.restart()
