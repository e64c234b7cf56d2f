"""The shadow sees what happens outside of records."""

from collections.abc import Callable

import pytest

from headwater.base.sliced import at_once
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.streams.stream import Stream
from tests.kit.stream_driver import BEGINNING_NS, StreamDriver
from tests.unit.jetstream.conftest import Drive

FAR_NS = BEGINNING_NS + 10**18


def test_a_stream_and_its_shadow_are_equal(drive: Drive) -> None:
    driver = drive(max_msgs_per_subject=2, allow_rollup_hdrs=True, allow_msg_ttl=True)
    for number in range(5):
        driver.publish("S.a", b"%d" % number, Nats_Msg_Id=str(number))
    driver.publish("S.b", b"x", Nats_Rollup="all")
    driver.publish("S.c", b"x", Nats_TTL="5")
    driver.delete(6)
    driver.check()
    assert driver.sequences == [7]


PLANTED: dict[str, Callable[[Stream], object]] = {
    "a message is removed": lambda stream: stream.log.delete([1]),
    "sequences are given out": lambda stream: stream.log.skip(1, BEGINNING_NS),
    "an id is remembered": lambda stream: stream.dedupe.add(b"id", 2, BEGINNING_NS),
    "the last id is another": lambda stream: setattr(stream.dedupe, "last_id", b"id"),
    "the limits are others": lambda stream: stream._configure(
        StreamDriver(Storage.MEMORY, max_msgs=7).config
    ),
    "a schedule is forgotten": lambda stream: stream.scheduling.forget([2]),
    "an expiry is set": lambda stream: stream.log.expiries.add(1, FAR_NS),
}


@pytest.mark.parametrize("mutate", PLANTED.values(), ids=PLANTED)
def test_a_change_without_a_record_shows(mutate: Callable[[Stream], object]) -> None:
    driver = StreamDriver(Storage.MEMORY, allow_msg_schedules=True)
    driver.publish("S.a", b"x")
    headers = {"Nats_Schedule": "@at 2100-01-01T00:00:00Z", "Nats_Schedule_Target": "S.t"}
    driver.publish("S.s", b"x", **headers)
    driver.check()
    mutate(driver.stream)
    with pytest.raises(AssertionError, match="the replica has another"):
        driver.check()


def test_a_change_that_is_only_in_memory_does_not_outlive_a_restart() -> None:
    driver = StreamDriver(Storage.FILE)
    driver.publish("S.a", b"x", Nats_Msg_Id="a")
    at_once(driver.stream.dedupe.setting_window(0, driver.now_ns))
    with pytest.raises(AssertionError, match="the restart has changed ids"):
        driver.restart()
