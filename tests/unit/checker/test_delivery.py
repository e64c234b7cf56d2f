"""Deliveries: double acks are final, work queues exact, new consumers complete."""

from headwater.checker.delivery import check_double_acks, check_new_consumers, check_work_queue
from headwater.checker.evidence import Evidence
from headwater.checker.history import WORK_QUEUE, Loss, Stored
from tests.kit.histories import Story, with_message


def test_messages_may_come_again_until_their_ack_is_confirmed() -> None:
    story = Story()
    story.publish("x")
    story.deliver(1)
    story.ack(1, is_answered=False)
    story.deliver(1)
    story.ack(1, is_double=False)
    story.deliver(1)
    story.ack(1)
    story.deliver(1, consumer="other")
    assert check_double_acks(Evidence(story.end())).holds


def test_a_delivery_after_a_confirmed_ack_is_found() -> None:
    story = Story()
    story.publish("x")
    story.deliver(1)
    ack, delivery = story.ack(1), story.deliver(1)
    [offence] = check_double_acks(Evidence(story.end())).offences
    assert offence.operations == (ack, delivery)


def test_a_delivery_that_was_asked_for_before_the_confirmation_may_arrive_after_it() -> None:
    story = Story()
    story.publish("x")
    ack, delivery = story.ack(1), story.deliver(1)
    delivery.begin_s = ack.end_s
    assert check_double_acks(Evidence(story.end())).holds


def test_a_loss_may_undo_a_double_ack() -> None:
    story = Story()
    story.publish("x")
    ack = story.ack(1)
    story.deliver(1)
    story.history.losses.append(Loss(ack.end_s, 1))
    assert check_double_acks(Evidence(story.end())).holds


def test_a_work_queue_gives_a_message_to_one_worker() -> None:
    story = Story(retention=WORK_QUEUE)
    story.publish("x")
    story.publish("y")
    story.deliver(1)
    story.ack(1)
    story.deliver(2, consumer="other")
    assert check_work_queue(Evidence(story.end())).holds


def test_a_message_of_a_work_queue_that_stays_after_its_ack_is_found() -> None:
    story = Story(retention=WORK_QUEUE)
    story.publish("x")
    ack = story.ack(1)
    history = story.end()
    with_message(history, 0, 1, Stored("a", "x"))
    [offence] = check_work_queue(Evidence(history)).offences
    assert offence.operations == (ack,)


def test_work_that_is_given_to_two_consumers_is_found() -> None:
    story = Story(retention=WORK_QUEUE)
    story.publish("x")
    early = story.deliver(1, consumer="other")
    ack = story.ack(1)
    assert check_work_queue(Evidence(story.end())).holds
    early.begin_s = ack.end_s + 1
    [offence] = check_work_queue(Evidence(story.history)).offences
    assert offence.operations == (ack, early)


def test_a_stream_with_other_retention_keeps_acked_messages() -> None:
    story = Story()
    story.publish("x")
    story.ack(1)
    assert check_work_queue(Evidence(story.end())).holds


def test_a_new_consumer_delivers_all_that_is_there() -> None:
    story = Story()
    story.publish("x")
    story.publish("gone")
    story.publish("unsure", is_stored=False, is_answered=False)
    story.delete(2)
    story.scan()
    story.publish("later")
    assert check_new_consumers(Evidence(story.end())).holds


def test_a_new_consumer_that_leaves_a_message_out_is_found() -> None:
    story = Story()
    story.publish("x")
    ack = story.publish("y")
    scan = story.scan()
    del scan.messages[2]
    [offence] = check_new_consumers(Evidence(story.end())).offences
    assert offence.operations == (ack, scan)


def test_a_scan_that_was_not_completed_promises_nothing() -> None:
    story = Story()
    story.publish("x")
    scan = story.scan()
    scan.messages.clear()
    scan.outcome = story.publish("y", is_answered=False).outcome
    assert check_new_consumers(Evidence(story.end())).holds


def test_a_removal_after_a_scan_does_not_excuse_it() -> None:
    story = Story()
    story.publish("x")
    story.scan().messages.clear()
    story.delete(1)
    assert not check_new_consumers(Evidence(story.end())).holds
