"""Messages leave a stream because they were consumed."""

from collections.abc import Callable

import pytest

from headwater.base.clock import NS_PER_S
from headwater.base.sliced import at_once
from headwater.jetstream.config.consumer_config import AckPolicy, DeliverPolicy
from headwater.jetstream.config.stream_config import Retention
from headwater.jetstream.consumers.effects import Terminated
from headwater.jetstream.consumers.retention import InterestCounts
from tests.kit.consumer_driver import ConsumerDriver, sequences
from tests.unit.jetstream.consumers.conftest import Consume

# --- counting -------------------------------------------------------------------------------------


def interested(**counts: int) -> Callable[[bytes], int]:
    """The number of consumers that are about a subject."""
    return lambda subject: counts.get(subject.decode(), 0)


def test_a_message_goes_with_the_last_that_needs_it() -> None:
    counts = InterestCounts()
    assert counts.published(5, [b"a", b"b", b"c"], interested(a=2, b=1)) == [7]
    assert counts.released([5, 6]) == [6]
    assert counts.released([5]) == [5]


def test_who_comes_later_needs_what_is_there() -> None:
    counts = InterestCounts()
    counts.published(1, [b"a", b"a"], interested(a=1))
    counts.needed([1, 2])
    assert counts.released([1, 2]) == []
    assert counts.released([2]) == [2]
    assert at_once(counts.gathering_unneeded([1, 2, 3])) == [2, 3]


def test_what_left_is_not_counted() -> None:
    counts = InterestCounts()
    counts.published(1, [b"a", b"a", b"a"], interested(a=1))
    at_once(counts.forgetting([1]))
    at_once(counts.forgetting_missing(lambda sequence: sequence != 2))
    assert at_once(counts.gathering_unneeded([1, 2, 3])) == [1, 2]
    counts.clear()
    assert at_once(counts.gathering_unneeded([3])) == [3]


# --- work queues ----------------------------------------------------------------------------------


@pytest.fixture
def queue(consume: Consume) -> ConsumerDriver:
    """A work queue with one consumer and four messages."""
    driver = consume(retention=Retention.WORKQUEUE)
    driver.create(ack_wait=NS_PER_S)
    driver.fill("S.a", "S.b", "S.a", "S.b")
    return driver


def test_a_message_leaves_with_its_ack(queue: ConsumerDriver) -> None:
    got = queue.pull(3)
    assert queue.sequences == [1, 2, 3, 4]
    queue.ack(got[1])
    assert queue.sequences == [1, 3, 4]
    queue.ack(got[2], payload=b"+TERM")
    assert queue.sequences == [1, 4]
    queue.ack(got[0], payload=b"-NAK")
    assert queue.sequences == [1, 4]


def test_removal_by_ack_is_no_termination(queue: ConsumerDriver) -> None:
    queue.ack(*queue.pull(4))
    assert not queue.take_events()
    assert queue.sequences == []


def test_an_ack_and_what_it_removes_are_one_entry(queue: ConsumerDriver) -> None:
    """After a kill, the ack and the removal are both in the journal, or neither is."""
    got = queue.pull(2)
    queue.stream.consumers.flush()
    queue.ack(*got)
    if queue.is_on_disk:
        assert queue.stream.log.has_queued_journal
        queue.stream.log.write_journal()
        assert not queue.stream.consumers.has_unwritten
        queue.kill()
        assert queue.sequences == [3, 4]
        assert queue.pending() == []
        assert sequences(queue.pull(9)) == [3, 4]


def test_an_ack_that_is_not_written_removes_nothing_for_good(queue: ConsumerDriver) -> None:
    got = queue.pull(2)
    queue.stream.consumers.flush()
    queue.ack(*got)
    assert queue.sequences == [3, 4]
    if queue.is_on_disk:
        queue.kill()
        queue.leave_shadow()
        assert queue.sequences == [1, 2, 3, 4]
        assert queue.pending() == [1, 2]


def test_without_a_consumer_everything_stays(queue: ConsumerDriver) -> None:
    queue.pull(2)
    queue.drop()
    queue.fill("S.a")
    assert queue.sequences == [1, 2, 3, 4, 5]
    queue.create()
    again = queue.pull(9)
    assert [(each.sequence, each.deliveries) for each in again] == [(n, 1) for n in range(1, 6)]


def test_two_consumers_share_it(consume: Consume) -> None:
    driver = consume(retention=Retention.WORKQUEUE)
    driver.create(filter_subject="S.a")
    driver.create("D", filter_subject="S.b")
    driver.fill("S.a", "S.b", "S.a")
    driver.ack(*driver.pull(9))
    assert driver.sequences == [2]
    driver.ack(*driver.pull(9, "J", "D"))
    assert driver.sequences == []


def test_what_was_given_up_stays_until_a_late_ack(consume: Consume) -> None:
    driver = consume(retention=Retention.WORKQUEUE)
    driver.create(max_deliver=1, ack_wait=NS_PER_S)
    driver.fill("S.a")
    (got,) = driver.pull()
    driver.advance(1)
    assert driver.pending() == []
    assert driver.sequences == [1]
    if driver.is_on_disk:
        driver.restart()
    driver.ack(got)
    assert driver.sequences == []


def test_limits_and_deletions_hold_too(consume: Consume) -> None:
    driver = consume(retention=Retention.WORKQUEUE, max_msgs=3)
    driver.create()
    driver.fill("S.a", "S.a", "S.a")
    driver.pull(2)
    driver.fill("S.a")
    assert driver.sequences == [2, 3, 4]
    driver.delete(2)
    assert [type(event) for event in driver.take_events()] == [Terminated, Terminated]
    assert driver.pending() == []


def test_a_filter_that_changes_costs_no_message(consume: Consume) -> None:
    """A message that was not delivered was not acknowledged, whatever was delivered behind it."""
    driver = consume(retention=Retention.WORKQUEUE)
    driver.create(filter_subject="S.b")
    driver.fill("S.a", "S.b", "S.a", "S.b")
    driver.ack(*driver.pull(9))
    driver.change(filter_subject="S.a")
    assert driver.sequences == [1, 3]
    if driver.is_on_disk:
        driver.restart()
    assert driver.sequences == [1, 3]


def test_a_reset_costs_no_message(queue: ConsumerDriver) -> None:
    queue.pull(2)
    queue.reset(4)
    if queue.is_on_disk:
        queue.restart()
    assert queue.sequences == [1, 2, 3, 4]


def test_a_late_ack_of_what_is_gone_is_nothing(queue: ConsumerDriver) -> None:
    (got,) = queue.pull()
    queue.purge()
    queue.ack(got, reply=b"R")
    assert queue.answered == [b"R"]
    assert queue.sequences == []


# --- interest -------------------------------------------------------------------------------------


@pytest.fixture
def shared(consume: Consume) -> ConsumerDriver:
    """An interest stream with a consumer for all and one for half of it, and four messages."""
    driver = consume(retention=Retention.INTEREST)
    driver.create()
    driver.create("D", filter_subject="S.a")
    driver.fill("S.a", "S.b", "S.a", "S.b")
    return driver


def test_nothing_is_kept_that_nobody_is_about(consume: Consume) -> None:
    driver = consume(retention=Retention.INTEREST)
    assert driver.publish("S.a").document["seq"] == 1
    driver.create(filter_subject="S.a")
    driver.fill("S.b", "S.a")
    assert driver.sequences == [3]


def test_a_message_leaves_when_all_have_acknowledged_it(shared: ConsumerDriver) -> None:
    shared.ack(*shared.pull(4, "I", "C"))
    assert shared.sequences == [1, 3]
    shared.ack(*shared.pull(1, "J", "D"))
    assert shared.sequences == [3]


def test_one_who_acknowledges_twice_does_not_speak_for_another(shared: ConsumerDriver) -> None:
    (got,) = shared.pull(1, "I", "C")
    shared.ack(got, got)
    assert shared.sequences == [1, 2, 3, 4]
    shared.ack(got)
    assert shared.sequences == [1, 2, 3, 4]
    assert sequences(shared.pull(9, "J", "D")) == [1, 3]


def test_without_acks_a_delivery_is_enough(consume: Consume) -> None:
    driver = consume(retention=Retention.INTEREST)
    driver.create(ack_policy=AckPolicy.NONE)
    driver.fill("S.a", "S.a")
    driver.pull(1)
    assert driver.sequences == [2]


def test_an_ack_of_all_frees_all(consume: Consume) -> None:
    driver = consume(retention=Retention.INTEREST)
    driver.create(ack_policy=AckPolicy.ALL)
    driver.fill("S.a", "S.a", "S.a")
    driver.ack(driver.pull(3)[1])
    assert driver.sequences == [3]


def test_who_comes_late_needs_what_is_still_there(shared: ConsumerDriver) -> None:
    shared.ack(*shared.pull(2, "I", "C"))
    shared.create("E")
    shared.create("F", deliver_policy=DeliverPolicy.NEW)
    shared.ack(*shared.pull(9, "I", "C"))
    shared.ack(*shared.pull(9, "J", "D"))
    assert shared.sequences == [1, 3, 4], "what had left before does not come back"
    assert sequences(shared.pull(9, "K", "E")) == [1, 3, 4]
    assert shared.pull(9, "L", "F") == []


def test_who_begins_later_does_not_need_what_comes_before(consume: Consume) -> None:
    driver = consume(retention=Retention.INTEREST)
    driver.create()
    driver.create("D", deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=3)
    driver.fill("S.a", "S.a", "S.a")
    driver.ack(*driver.pull(9, "I", "C"))
    assert driver.sequences == [3]
    driver.ack(*driver.pull(9, "J", "D"))
    assert driver.sequences == []


def test_for_what_nobody_needs_nothing_else_goes(consume: Consume) -> None:
    driver = consume(retention=Retention.INTEREST, max_msgs=1)
    driver.create(filter_subject="S.a")
    driver.create(
        "D",
        filter_subject="S.b",
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=9,
    )
    driver.fill("S.a", "S.b")
    assert driver.sequences == [1]


def test_a_consumer_that_goes_needs_nothing(shared: ConsumerDriver) -> None:
    shared.ack(*shared.pull(4, "I", "C"))
    shared.pull(1, "J", "D")
    shared.drop("D")
    assert shared.sequences == []


def test_what_others_need_stays_when_one_goes(shared: ConsumerDriver) -> None:
    shared.ack(*shared.pull(1, "J", "D"))
    shared.drop("D")
    assert shared.sequences == [1, 2, 3, 4]
    shared.ack(*shared.pull(9, "I", "C"))
    assert shared.sequences == []


def test_with_the_last_consumer_everything_goes(shared: ConsumerDriver) -> None:
    shared.drop("D")
    shared.drop("C")
    assert shared.sequences == []


def test_a_filter_that_changes_frees_what_it_was_about(shared: ConsumerDriver) -> None:
    shared.ack(*shared.pull(4, "I", "C"))
    shared.change("D", filter_subject="S.b")
    assert shared.sequences == []


def test_what_was_delivered_stays_needed_when_the_filter_changes(shared: ConsumerDriver) -> None:
    shared.ack(*shared.pull(4, "I", "C"))
    (got,) = shared.pull(1, "J", "D")
    shared.change("D", filter_subject="S.b")
    assert shared.sequences == [1]
    shared.ack(got)
    assert shared.sequences == []


def test_a_reset_forward_needs_less(shared: ConsumerDriver) -> None:
    shared.ack(*shared.pull(4, "I", "C"))
    shared.reset(3, "D")
    assert shared.sequences == [3]


def test_what_was_given_up_is_kept(consume: Consume) -> None:
    driver = consume(retention=Retention.INTEREST)
    driver.create(max_deliver=1, ack_wait=NS_PER_S)
    driver.fill("S.a", "S.a")
    driver.pull(1)
    driver.advance(1)
    driver.ack(*driver.pull(1))
    assert driver.sequences == [1]


def test_limits_hold_and_leave_no_counts_behind(consume: Consume) -> None:
    driver = consume(retention=Retention.INTEREST, max_msgs=2)
    driver.create()
    driver.fill(*["S.a"] * 5)
    assert driver.sequences == [4, 5]
    assert [*driver.stream.consumers._counts._counts] == [4, 5]


def test_a_stream_that_becomes_one_of_interest_lets_go(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.fill("S.a", "S.a", "S.a")
    driver.ack(*driver.pull(2))
    assert driver.sequences == [1, 2, 3]
    driver.update(retention=Retention.INTEREST)
    assert driver.sequences == [3]
    driver.update(retention=Retention.LIMITS)
    driver.ack(*driver.pull(1))
    assert driver.sequences == [3]


# --- after a restart ------------------------------------------------------------------------------


def test_a_consumer_that_is_not_kept_needs_nothing_after_a_restart(
    shared: ConsumerDriver,
) -> None:
    shared.create("M", mem_storage=True)
    shared.ack(*shared.pull(4, "I", "C"))
    shared.ack(*shared.pull(4, "J", "D"))
    assert shared.sequences == [1, 2, 3, 4]
    if shared.is_on_disk:
        shared.restart()
        assert shared.sequences == []


def test_what_an_unreadable_consumer_needed_is_kept(shared: ConsumerDriver) -> None:
    shared.ack(*shared.pull(4, "I", "C"))
    if not shared.is_on_disk:
        return
    stream = shared.stream
    entries = stream.consumers.snapshot()
    damaged = [(kind, body[:-1] if b"D" in body[:4] else body) for kind, body in entries]
    stream.consumers.flush()
    stream.log.caller_entries = lambda: damaged
    shared.rewrite_journal()
    shared.kill()
    assert shared.stream.consumers.findings
    assert shared.sequences == [1, 3]
    shared.leave_shadow()
    # The messages stay also when the unreadable entry is gone; later messages go as always.
    shared.rewrite_journal()
    shared.restart()
    assert not shared.stream.consumers.findings
    shared.leave_shadow()
    shared.fill("S.a")
    shared.ack(*shared.pull(9, "I", "C"))
    assert shared.sequences == [1, 3]


def test_where_no_consumer_is_left_everything_is_kept(consume: Consume) -> None:
    """The stream does not know why its consumers are missing."""
    driver = consume(retention=Retention.INTEREST)
    driver.create(mem_storage=True)
    driver.fill("S.a", "S.a")
    if driver.is_on_disk:
        driver.kill()
        assert driver.sequences == [1, 2]
        driver.leave_shadow()
