"""The messages that are sent, their reply subjects and counts, and redeliveries."""

import pytest

from headwater.base.clock import NS_PER_S
from headwater.go.json import Time
from headwater.go.times import format_time
from headwater.jetstream.config.consumer_config import AckPolicy, DeliverPolicy
from headwater.jetstream.consumers.effects import DeliveriesExceeded, Terminated
from tests.kit.consumer_driver import DELIVER, ConsumerDriver, Got, sequences
from tests.unit.jetstream.consumers.conftest import Consume


def counts(got: list[Got]) -> list[tuple[int, int]]:
    return [(each.sequence, each.deliveries) for each in got]


# --- fields of a delivered message ----------------------------------------------------------------


def test_a_message_carries_its_place(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.publish("S.a", b"body", Name="value")
    stored_ns = driver.now_ns
    driver.advance(1)
    (got,) = driver.pull()
    assert (got.subject, got.payload) == ("S.a", b"body")
    assert got.header == "NATS/1.0\r\nName: value\r\n\r\n"
    assert got.reply == b"$JS.ACK.S.C.1.1.1.%d.0" % stored_ns


def test_headers_only_say_how_large_it_was(consume: Consume) -> None:
    driver = consume()
    driver.create(headers_only=True)
    driver.publish("S.a", b"body")
    driver.publish("S.a", b"", Name="value")
    got = driver.pull(2)
    assert [each.payload for each in got] == [b"", b""]
    assert got[0].header == "NATS/1.0\r\nNats-Msg-Size: 4\r\n\r\n"
    assert got[1].header == "NATS/1.0\r\nName: value\r\nNats-Msg-Size: 0\r\n\r\n"


def test_only_what_matches_is_sent(consume: Consume) -> None:
    driver = consume()
    driver.create(filter_subjects=("S.a", "S.b.*"))
    driver.fill("S.a", "S.b", "S.b.c", "S.a", "S.c")
    assert [(each.sequence, each.left) for each in driver.pull(9)] == [(1, 2), (3, 1), (4, 0)]


def test_a_filter_that_matches_nothing_waits(consume: Consume) -> None:
    driver = consume()
    driver.create(filter_subject="S.z")
    driver.fill("S.a", "S.b")
    assert not driver.pull(1, expires=100)
    assert driver.figures() == ((0, 0), (0, 0))
    driver.fill("S.z")
    assert sequences(driver.take()) == [3]
    assert driver.figures() == ((1, 3), (0, 0))


def test_nothing_above_the_watermark_is_sent(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.hold()
    driver.fill("S.a", "S.a")
    assert not driver.pull(5)
    assert driver.consumer().position.pending_count() == 0
    driver.release_oldest()
    assert sequences(driver.take()) == [1, 2]


# --- the last of each subject ---------------------------------------------------------------------


@pytest.fixture
def lasts(consume: Consume) -> ConsumerDriver:
    """A stream whose consumer begins with the last messages of four subjects: 2, 3, 5, 6."""
    driver = consume()
    driver.fill("S.a", "S.a", "S.b", "S.c", "S.c", "S.d")
    driver.create(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="S.>")
    return driver


def test_those_come_first_and_then_all_that_is_new(lasts: ConsumerDriver) -> None:
    lasts.fill("S.a", "S.a")
    assert [(each.sequence, each.left) for each in lasts.pull(3)] == [(2, 5), (3, 4), (5, 3)]
    assert sequences(lasts.pull(9)) == [6, 7, 8]


def test_those_that_are_gone_do_not_cost_the_others(lasts: ConsumerDriver) -> None:
    lasts.delete(2)
    assert sequences(lasts.pull(1)) == [3]
    lasts.delete(5)
    assert lasts.consumer().position.pending_count() == 1
    assert sequences(lasts.pull(1)) == [6]


def test_all_of_those_may_be_gone(lasts: ConsumerDriver) -> None:
    lasts.delete(2, 3, 5, 6)
    lasts.fill("S.e")
    assert lasts.consumer().position.pending_count() == 1
    assert sequences(lasts.pull(9)) == [7]


def test_half_way_it_goes_on_after_a_restart(lasts: ConsumerDriver) -> None:
    lasts.pull(2)
    lasts.fill("S.a")
    if lasts.is_on_disk:
        lasts.restart()
    assert lasts.consumer().position.pending_count() == 3
    assert sequences(lasts.pull(9)) == [5, 6, 7]


def test_other_subjects_have_other_last_messages(lasts: ConsumerDriver) -> None:
    lasts.pull(1)
    lasts.change(filter_subject="", filter_subjects=("S.c", "S.d"))
    if lasts.is_on_disk:
        lasts.restart()
    assert lasts.consumer().position.pending_count() == 2
    assert sequences(lasts.pull(9)) == [5, 6]


# --- once more ------------------------------------------------------------------------------------


def test_what_is_not_acknowledged_in_time_comes_again(consume: Consume) -> None:
    driver = consume()
    driver.create(ack_wait=10 * NS_PER_S)
    driver.fill("S.a", "S.a", "S.a")
    driver.pull(2)
    driver.advance(9.9)
    assert counts(driver.pull(1)) == [(3, 1)]
    driver.advance(0.1)
    assert counts(driver.pull(5)) == [(1, 2), (2, 2)]
    assert driver.figures() == ((5, 3), (0, 0))


def test_who_waits_gets_it_when_it_is_due(consume: Consume) -> None:
    driver = consume()
    driver.create(ack_wait=10 * NS_PER_S)
    driver.fill("S.a")
    driver.pull(3)
    driver.advance(100)
    assert counts(driver.take()) == [(1, 1), (1, 2), (1, 3)]


def test_too_much_without_an_ack_does_not_hold_back_what_is_due(consume: Consume) -> None:
    driver = consume()
    driver.create(ack_wait=10 * NS_PER_S, max_ack_pending=2)
    driver.fill("S.a", "S.a", "S.a")
    driver.pull(9)
    driver.take()
    driver.advance(10)
    assert counts(driver.take()) == [(1, 2), (2, 2)]


def test_many_are_sent_again_in_several_turns(consume: Consume) -> None:
    driver = consume()
    driver.create(max_ack_pending=-1)
    driver.fill(*["S.a"] * 2100)
    driver.pull(2100)
    driver.advance(31)
    driver.take()
    assert counts(driver.pull(3000)) == [(number, 2) for number in range(1, 2101)]


def test_backoff(consume: Consume) -> None:
    driver = consume()
    driver.create(backoff=(NS_PER_S, 5 * NS_PER_S), max_deliver=4)
    driver.fill("S.a")
    driver.pull(9)
    (first,) = driver.take()
    driver.advance(60)
    waits = [(got.at_ns - first.at_ns) / NS_PER_S for got in driver.take()]
    assert waits == [1, 6, 11]


# --- not more often than it may be ----------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 2, 3])
def test_after_so_many_deliveries_it_is_given_up(consume: Consume, times: int) -> None:
    driver = consume()
    driver.create(max_deliver=times, ack_wait=NS_PER_S)
    driver.fill("S.a", "S.a")
    driver.pull(1)
    for _ in range(times - 1):
        driver.advance(1)
        driver.pull(1)
    assert counts(driver.take()) == [(1, number) for number in range(1, times + 1)]
    driver.advance(1)
    assert counts(driver.pull(1)) == [(2, 1)]
    assert driver.take_events() == [DeliveriesExceeded(1, times)]
    assert driver.pending() == [2]
    assert 1 in driver.consumer().state.redelivered
    assert driver.sequences == [1, 2], "the message stays"


def test_a_nak_of_the_last_delivery_gives_it_up(consume: Consume) -> None:
    driver = consume()
    driver.create(max_deliver=1)
    driver.fill("S.a", "S.a")
    driver.ack(*driver.pull(1), payload=b"-NAK")
    driver.take_events()
    assert counts(driver.pull(1)) == [(2, 1)]
    assert driver.take_events() == [DeliveriesExceeded(1, 1)]


def test_what_was_given_up_makes_room(consume: Consume) -> None:
    driver = consume()
    driver.create(max_deliver=1, max_ack_pending=1, ack_wait=NS_PER_S)
    driver.fill("S.a", "S.a")
    driver.pull(5)
    driver.take()
    driver.advance(1)
    assert counts(driver.take()) == [(2, 1)]


# --- messages that leave meanwhile ----------------------------------------------------------------


def test_a_pending_message_that_is_deleted_is_settled_and_told(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.fill("S.a", "S.a", "S.a")
    driver.pull(2)
    driver.delete(1)
    reason = "Unacknowledged message was deleted"
    assert driver.take_events() == [Terminated(1, 1, 1, reason)]
    assert driver.pending() == [2]
    assert driver.figures() == ((2, 2), (1, 1))


def test_limits_settle_what_they_remove(consume: Consume) -> None:
    driver = consume(max_msgs=2)
    driver.create()
    driver.fill("S.a", "S.a")
    driver.pull(2)
    driver.fill("S.a", "S.a", "S.a")
    assert driver.pending() == []
    assert driver.figures() == ((2, 2), (2, 2))
    assert driver.consumer().position.pending_count() == 2
    assert sequences(driver.pull(9)) == [4, 5]


def test_a_message_that_leaves_makes_room(consume: Consume) -> None:
    driver = consume()
    driver.create(max_ack_pending=1)
    driver.fill("S.a", "S.a", "S.a")
    driver.pull(9)
    driver.take()
    driver.delete(1)
    assert sequences(driver.take()) == [2]
    driver.purge(before=3)
    assert sequences(driver.take()) == [3]


def test_what_was_given_up_and_leaves_is_forgotten(consume: Consume) -> None:
    driver = consume()
    driver.create(max_deliver=1, ack_wait=NS_PER_S)
    driver.fill("S.a", "S.a", "S.a")
    driver.pull(1)
    driver.advance(1)
    driver.pull(1)
    driver.delete(1, 2)
    assert not driver.consumer().state.redelivered
    assert driver.pending() == []


def test_a_purge_settles_everything_without_a_word(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.fill(*["S.a"] * 4)
    driver.pull(2)
    driver.purge()
    assert driver.figures() == ((2, 4), (2, 4))
    assert not driver.take_events()
    assert driver.consumer().position.pending_count() == 0


def test_a_purge_of_the_beginning_moves_on(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.fill(*["S.a"] * 5)
    driver.pull(2)
    driver.purge(before=4)
    assert driver.figures() == ((2, 3), (2, 3))
    assert sequences(driver.pull(9)) == [4, 5]


def test_a_purge_of_its_subjects_moves_on_too(consume: Consume) -> None:
    driver = consume()
    driver.create(filter_subject="S.a")
    driver.fill("S.a", "S.b", "S.a", "S.b")
    driver.pull(1)
    driver.purge(b"S.a")
    assert driver.figures() == ((1, 4), (1, 4))


def test_a_purge_of_other_subjects_drops_what_is_gone(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.fill("S.a", "S.b", "S.a", "S.b")
    driver.pull(3)
    driver.purge(b"S.a")
    assert driver.pending() == [2]
    driver.advance(31)
    assert counts(driver.pull(9)) == [(2, 2), (4, 1)]


def test_a_purge_does_not_cost_what_it_was_about_once(consume: Consume) -> None:
    driver = consume()
    driver.create(filter_subject="S.b")
    driver.fill("S.b", "S.a", "S.a")
    driver.pull(1)
    driver.change(filter_subject="S.a")
    driver.purge(b"S.a")
    driver.advance(31)
    assert counts(driver.pull(9)) == [(1, 2)]


# --- without acknowledgements ---------------------------------------------------------------------


def test_without_acks_nothing_comes_again(consume: Consume) -> None:
    driver = consume()
    driver.create(ack_policy=AckPolicy.NONE)
    driver.fill("S.a", "S.a", "S.a")
    assert sequences(driver.pull(2)) == [1, 2]
    assert driver.figures() == ((2, 2), (2, 2))
    driver.advance(1000)
    assert sequences(driver.pull(9)) == [3]


# --- pauses ---------------------------------------------------------------------------------------


def paused_until(driver: ConsumerDriver, seconds: int) -> Time:
    time_ns = driver.now_ns + seconds * NS_PER_S
    return Time(time_ns, format_time(time_ns))


def test_a_paused_consumer_sends_nothing_until_it_is_over(consume: Consume) -> None:
    driver = consume()
    driver.create(ack_wait=NS_PER_S)
    driver.fill("S.a", "S.a")
    (got,) = driver.pull()
    driver.change(pause_until=paused_until(driver, 10))
    driver.pull(5)
    driver.take()
    driver.advance(9)
    assert not driver.take()
    assert driver.consumer().info(driver.now_ns).paused
    driver.advance(1)
    assert counts(driver.take()) == [(1, 2), (2, 1)]
    driver.ack(got)
    driver.advance(100)


def test_a_paused_consumer_takes_acks_and_sends_heartbeats(consume: Consume) -> None:
    driver = consume()
    driver.create(deliver_subject=DELIVER, idle_heartbeat=NS_PER_S)
    driver.listen()
    driver.fill("S.a")
    (got,) = driver.take()
    driver.change(pause_until=paused_until(driver, 10))
    driver.ack(got)
    assert driver.pending() == []
    driver.advance(1)
    assert driver.texts() == ["100 Idle Heartbeat"]


def test_without_waiting_a_pause_is_an_end(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.fill("S.a")
    driver.change(pause_until=paused_until(driver, 10))
    driver.pull(1, no_wait=True)
    assert driver.texts() == ["404 No Messages"]


def test_a_pause_that_is_over_wakes_nobody(consume: Consume) -> None:
    driver = consume()
    driver.create(pause_until=paused_until(driver, -10))
    driver.pull(1, expires=100)
    driver.advance(10)
    driver.fill("S.a")
    assert sequences(driver.take()) == [1]
