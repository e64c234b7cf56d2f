"""The state machine of a consumer: it applies every record, whatever its state is."""

from headwater.jetstream.config.consumer_config import AckPolicy
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.consumers.records import Delivered, Exhausted, Postponed
from tests.kit.consumer_driver import ConsumerDriver


def test_records_about_what_is_not_there_do_no_harm() -> None:
    """A journal may have such records if a part of it cannot be read."""
    driver = ConsumerDriver(Storage.MEMORY)
    driver.create()
    driver.fill("S.a", "S.a")
    for record in (
        Delivered("C", [7], (), 5),
        Delivered("C", (), [1, 2], 5),
        Delivered("C", [1], [1, 2], 6),
        Postponed("C", [9], [5]),
        Exhausted("C", [9]),
    ):
        driver.record(record)
    driver.check()
    assert driver.pending() == [1, 2]


def test_without_acks_nothing_is_ever_pending() -> None:
    driver = ConsumerDriver(Storage.MEMORY)
    driver.create(ack_policy=AckPolicy.NONE)
    driver.fill("S.a", "S.a")
    driver.record(Delivered("C", [1], [1, 2], 5))
    assert driver.pending() == []
    assert driver.consumer().next_due_ns() == 0
