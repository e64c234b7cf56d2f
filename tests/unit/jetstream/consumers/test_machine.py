"""A consumer as a whole: the info for clients, changes, and its end."""

import pytest

from headwater.base.clock import NS_PER_S
from headwater.go.json import Time
from headwater.go.times import format_time
from headwater.jetstream.consumers.effects import PauseEnded
from headwater.jetstream.consumers.machine import INACTIVE_GRACE_NS
from headwater.jetstream.errors import ApiError
from tests.kit.consumer_driver import DELIVER, ConsumerDriver, sequences
from tests.unit.jetstream.consumers.conftest import Consume

GRACE_S = INACTIVE_GRACE_NS / NS_PER_S


def test_info_tells_how_it_stands(consume: Consume) -> None:
    driver = consume()
    driver.create(max_deliver=3)
    driver.fill(*["S.a"] * 6)
    got = driver.pull(4)
    driver.ack(got[0])
    driver.ack(got[1], payload=b"-NAK")
    driver.pull(1)
    driver.pull(9, "J", expires=100)
    info = driver.consumer().info(driver.now_ns)
    assert (info.stream_name, info.name) == ("S", "C")
    assert (info.delivered.consumer_seq, info.delivered.stream_seq) == (7, 6)
    assert (info.ack_floor.consumer_seq, info.ack_floor.stream_seq) == (1, 1)
    assert (info.num_ack_pending, info.num_redelivered) == (5, 1)
    assert (info.num_waiting, info.num_pending) == (1, 0)
    assert info.delivered.last_active == info.ack_floor.last_active == format_time(driver.now_ns)


def test_what_is_delivered_only_once_is_never_told_as_redelivered(consume: Consume) -> None:
    driver = consume()
    driver.create(max_deliver=1, ack_wait=NS_PER_S)
    driver.fill("S.a")
    driver.pull()
    driver.advance(1)
    assert driver.consumer().info(driver.now_ns).num_redelivered == 0
    assert driver.consumer().state.redelivered == {1: 0}


def test_times_of_another_life_are_not_told(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.fill("S.a")
    driver.ack(*driver.pull())
    if driver.is_on_disk:
        driver.restart()
        info = driver.consumer().info(driver.now_ns)
        assert info.delivered.last_active == info.ack_floor.last_active == ""


# --- changes --------------------------------------------------------------------------------------


def test_another_filter_is_for_what_is_to_come(consume: Consume) -> None:
    """Messages that the consumer has passed over are not looked at again, also after a restart."""
    driver = consume()
    driver.create(filter_subject="S.a")
    driver.fill("S.a", "S.b", "S.a", "S.b")
    driver.pull(3, no_wait=True)
    driver.change(filter_subject="S.b")
    assert driver.consumer().position.pending_count() == 0
    if driver.is_on_disk:
        driver.restart()
    assert driver.consumer().position.pending_count() == 0
    assert driver.figures()[0] == (2, 3), "of that nobody is told"
    driver.fill("S.a", "S.b")
    assert sequences(driver.pull(3)) == [6]


def test_what_it_has_not_looked_at_is_looked_at_by_the_other_filter(consume: Consume) -> None:
    driver = consume()
    driver.create(filter_subject="S.a")
    driver.fill("S.a", "S.b", "S.a", "S.b")
    driver.pull(1)
    driver.change(filter_subject="S.b")
    assert driver.consumer().position.pending_count() == 2
    assert driver.pending() == [1], "what was delivered stays pending"
    driver.advance(31)
    assert sequences(driver.pull(9)) == [1, 2, 4]


def test_more_room_is_used_at_once(consume: Consume) -> None:
    driver = consume()
    driver.create(max_ack_pending=1)
    driver.fill("S.a", "S.a", "S.a")
    driver.pull(9)
    driver.take()
    driver.change(max_ack_pending=3)
    assert sequences(driver.take()) == [2, 3]


def test_another_wait_holds_at_once(consume: Consume) -> None:
    driver = consume()
    driver.create(ack_wait=100 * NS_PER_S)
    driver.fill("S.a")
    driver.pull(1)
    driver.change(ack_wait=NS_PER_S)
    driver.advance(1)
    assert sequences(driver.pull(1)) == [1]


def test_a_reset_begins_again(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.fill(*["S.a"] * 4)
    got = driver.pull(4)
    driver.ack(got[0])
    driver.ack(got[1], payload=b"-NAK")
    driver.reset(3)
    assert driver.figures() == ((0, 2), (0, 2))
    assert driver.pending() == []
    again = driver.pull(9)
    assert [(each.sequence, each.deliveries, each.number) for each in again] == [
        (3, 1, 1),
        (4, 1, 2),
    ]
    driver.take()
    driver.advance(31)
    assert sequences(driver.take()) == [3, 4]


def test_a_reset_beyond_the_end_waits(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.fill("S.a", "S.a")
    driver.ack(*driver.pull(2))
    driver.take()
    driver.reset(5)
    if driver.is_on_disk:
        driver.restart()
    driver.pull(9)
    driver.fill("S.a", "S.a")
    assert not driver.take()
    driver.fill("S.a")
    assert sequences(driver.take()) == [5]


def test_the_end_of_a_pause_is_told_once(consume: Consume) -> None:
    driver = consume()
    until_ns = driver.now_ns + 5 * NS_PER_S
    driver.create(pause_until=Time(until_ns, format_time(until_ns)))
    driver.advance(20)
    assert driver.take_events() == [PauseEnded()]
    if driver.is_on_disk:
        driver.restart()
        driver.advance(20)
        assert not driver.take_events()


# --- its end --------------------------------------------------------------------------------------


def names(driver: ConsumerDriver) -> list[str]:
    return [*driver.stream.consumers.by_name]


def test_a_durable_consumer_stays(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.advance(10_000)
    assert names(driver) == ["C"]


def test_others_go_when_nobody_uses_them(consume: Consume) -> None:
    driver = consume()
    driver.create(durable_name="")
    driver.advance(5)
    assert names(driver) == ["C"]
    driver.advance(GRACE_S)
    assert names(driver) == []


@pytest.mark.parametrize("use", ["pull", "ack"])
def test_use_keeps_it(consume: Consume, use: str) -> None:
    driver = consume()
    driver.create(inactive_threshold=5 * NS_PER_S)
    driver.fill("S.a", "S.a")
    (got,) = driver.pull()
    driver.advance(4)
    if use == "pull":
        driver.pull()
    else:
        driver.ack(got)
    driver.advance(4)
    assert names(driver) == ["C"]
    driver.advance(1 + GRACE_S)
    assert names(driver) == []


def test_who_waits_keeps_it(consume: Consume) -> None:
    driver = consume()
    driver.create(inactive_threshold=5 * NS_PER_S)
    driver.pull(1, expires=60)
    driver.advance(59)
    assert names(driver) == ["C"]
    driver.host.unheard.add(b"I")
    driver.advance(20)
    assert names(driver) == []


def test_one_that_pushes_goes_when_nobody_listens(consume: Consume) -> None:
    driver = consume()
    driver.create(deliver_subject=DELIVER, inactive_threshold=5 * NS_PER_S)
    driver.listen()
    driver.advance(100)
    assert names(driver) == ["C"]
    driver.leave()
    driver.advance(4.9)
    assert names(driver) == ["C"]
    driver.advance(0.1)
    assert names(driver) == []


def test_one_that_nobody_ever_listened_to_goes_too(consume: Consume) -> None:
    driver = consume()
    driver.create(deliver_subject=DELIVER, inactive_threshold=5 * NS_PER_S)
    driver.advance(5)
    with pytest.raises(ApiError, match="consumer not found"):
        driver.consumer()
