"""Consumers ahead of the log: what is committed meanwhile comes before their records."""

import pytest

from headwater.jetstream.config.consumer_config import AckPolicy
from headwater.jetstream.config.stream_config import Retention, Storage
from headwater.jetstream.consumers import codec
from headwater.jetstream.consumers.effects import Terminated
from headwater.jetstream.consumers.records import Pinned
from headwater.jetstream.consumers.state import ConsumerState
from headwater.jetstream.proposal import ConsumerServed
from tests.kit.consumer_driver import ConsumerDriver, sequences
from tests.unit.jetstream.consumers.conftest import Consume


def test_an_ack_removes_a_message_when_it_is_committed(consume: Consume) -> None:
    driver = consume(retention=Retention.WORKQUEUE)
    driver.create()
    driver.fill("S.a", "S.a")
    driver.hold_all()
    (got,) = driver.pull()
    driver.ack(got)
    assert driver.pending() == []
    assert driver.sequences == [1, 2]
    driver.release()
    assert driver.sequences == [2]


def test_a_client_that_waits_gets_messages_again_whose_delivery_was_undone(
    consume: Consume,
) -> None:
    driver = consume()
    driver.create()
    driver.fill("S.a", "S.a")
    driver.hold_all()
    assert sequences(driver.pull(5, expires=30)) == [1, 2]
    driver.retreat(1)
    assert driver.stream.consumers.take_news() == [ConsumerServed("C")]
    driver.release()
    driver.fill("S.b")
    assert [each.sequence for each in driver.take()] == [1, 2, 1, 2, 3]


def test_a_purge_comes_before_the_acks_that_are_behind_it(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.fill("S.a", "S.b", "S.a")
    got = driver.pull(3)
    driver.hold_all()
    driver.purge(b"S.b")
    driver.ack(got[1])
    assert driver.pending() == [1, 3]
    driver.release_oldest()
    driver.check()
    assert driver.pending() == [1, 3]
    driver.release()
    assert driver.pending() == [1, 3]


def test_a_message_that_left_before_its_delivery_is_committed_is_not_pending(
    consume: Consume,
) -> None:
    driver = consume()
    driver.create()
    driver.fill("S.a", "S.a", "S.a")
    driver.hold_all()
    driver.delete(2)
    assert sequences(driver.pull(3)) == [1, 2, 3]
    driver.release()
    assert driver.pending() == [1, 3]


def test_the_ack_of_one_consumer_comes_before_the_delivery_of_another(consume: Consume) -> None:
    driver = consume(retention=Retention.INTEREST)
    driver.create("C")
    driver.create("D")
    driver.fill("S.a", "S.a")
    ours, theirs = driver.pull(2, name="C"), driver.pull(2, name="D")
    driver.hold_all()
    driver.ack(ours[0])
    driver.ack(theirs[0], payload=b"+TERM")
    driver.delete(2)
    driver.ack(ours[1])
    driver.release_oldest()
    driver.check()
    assert driver.sequences == [1, 2]
    driver.release_oldest()
    driver.check()
    assert driver.sequences == [2]
    driver.take_events()
    driver.release_oldest()
    driver.check()
    lost = [event for event in driver.take_events() if isinstance(event, Terminated)]
    # The acknowledgement of the other consumer stands behind the removal in the log.
    assert [event.stream_sequence for event in lost] == [2, 2]
    driver.release()


@pytest.mark.parametrize("retention", Retention)
def test_records_that_are_not_committed_leave_no_trace(retention: Retention) -> None:
    driver = ConsumerDriver(Storage.FILE, retention=retention)
    driver.create()
    driver.fill("S.a", "S.a", "S.a")
    got = driver.pull(2)
    driver.hold_all()
    before = driver.stream.dump(driver.now_ns)
    driver.ack(got[0])
    driver.ack(got[1], payload=b"+WPI")
    driver.pull(1)
    assert driver.stream.dump(driver.now_ns) == before
    forgotten = [each for records in driver.waiting_records for each in records]
    driver.retreat(3)
    assert driver.pending() == [1, 2]
    # A failure of the disk may be noticed twice.
    driver.stream.consumers.retreat(forgotten)
    assert driver.stream.dump(driver.now_ns) == before
    driver.release()
    driver.check()
    assert sequences(driver.pull(1)) == [3]


def test_a_rewritten_journal_tells_what_is_committed() -> None:
    driver = ConsumerDriver(Storage.FILE)
    driver.create()
    driver.fill("S.a", "S.a", "S.a")
    got = driver.pull(2)
    driver.hold_all()
    driver.ack(got[0])
    driver.pull(1)
    (entry,) = [body for kind, body in driver.stream.consumers.snapshot() if kind == codec.STATE]
    state = ConsumerState(AckPolicy.EXPLICIT, 1)
    codec.restore_state(state, codec.decode_state(entry)[1])
    assert sorted(state.pending) == [1, 2]
    assert state.delivered_stream == 2
    driver.release()
    assert driver.pending() == [2, 3]


def test_a_request_comes_before_the_steps_that_are_behind_it(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.fill("S.a", "S.a")
    driver.hold_all()
    driver.pull(1)
    driver.stream.consumers.apply(Pinned("C", "", 7))
    driver.shadow.apply(Pinned("C", "", 7))
    driver.check()
    driver.release()
    assert driver.pending() == [1]


def test_a_record_of_a_deleted_consumer_has_no_effect(consume: Consume) -> None:
    driver = consume(retention=Retention.WORKQUEUE)
    driver.create()
    driver.fill("S.a")
    (got,) = driver.pull()
    driver.hold_all()
    driver.ack(got)
    (acked,) = driver.waiting_records
    driver.retreat(1)
    driver.release()
    driver.drop()
    driver.stream.apply(acked[0])
    driver.check()
    assert driver.sequences == [1]
