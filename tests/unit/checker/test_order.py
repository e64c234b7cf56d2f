"""The order of a stream: real time, expected sequences, batches."""

from headwater.checker.evidence import Evidence
from headwater.checker.history import Delivery, Loss, Stored
from headwater.checker.order import (
    check_batches,
    check_expectations,
    check_real_time,
    check_times,
)
from tests.kit.histories import Story, with_message, with_message_everywhere


def test_messages_one_after_the_other_have_rising_sequences() -> None:
    story = Story()
    for body in "xyz":
        story.publish(body)
    story.deliver(1)
    story.batch("b1", "b2")
    assert check_real_time(Evidence(story.end())).holds


def test_publishes_at_the_same_time_may_have_any_order() -> None:
    story = Story()
    one, other = story.publish("x"), story.publish("y")
    one.sequence, other.sequence = 2, 1
    assert not check_real_time(Evidence(story.end())).holds
    other.begin_s = one.begin_s
    assert check_real_time(Evidence(story.history)).holds


def test_a_later_publish_with_a_lower_sequence_is_found() -> None:
    story = Story()
    one, middle, other = (story.publish(body) for body in "xyz")
    one.sequence, other.sequence = 3, 1
    offences = check_real_time(Evidence(story.end())).offences
    assert [each.operations for each in offences] == [(one, middle), (one, other)]


def test_a_delivery_before_a_publish_counts_as_an_ack() -> None:
    story = Story()
    story.publish("x", is_answered=False)
    delivery = story.deliver(1)
    delivery.sequence = 5
    publish = story.publish("y")
    [offence] = check_real_time(Evidence(story.end())).offences
    assert offence.operations == (delivery, publish)


def test_a_duplicate_has_the_place_of_its_first_attempt() -> None:
    story = Story()
    story.publish("x", message_id="i", is_answered=False)
    story.publish("y")
    story.publish("x", message_id="i")
    assert check_real_time(Evidence(story.end())).holds


def test_a_publish_gets_the_sequence_after_the_expected_one() -> None:
    story = Story()
    story.publish("x")
    story.publish("y", expected=1)
    story.publish("z", expected=0, is_stored=False, is_answered=False).refuse(9, "10071")
    assert check_expectations(Evidence(story.end())).holds


def test_a_publish_after_another_than_the_expected_message_is_found() -> None:
    story = Story()
    story.publish("x")
    story.publish("y")
    publish = story.publish("z", expected=1)
    [offence] = check_expectations(Evidence(story.end())).offences
    assert offence.operations == (publish,)


def test_batches_are_whole_or_absent() -> None:
    story = Story()
    story.batch("b1", "b2", "b3")
    story.batch("c1", "c2", is_answered=False)
    story.batch("d1", "d2", is_stored=False, is_answered=False)
    story.batch("e1", "e2")
    story.delete(7)
    assert check_batches(Evidence(story.end())).holds


def test_half_a_batch_is_found() -> None:
    story = Story()
    batch = story.batch("b1", "b2", "b3", is_answered=False)
    history = story.end()
    with_message(history, 1, 3, None)
    [offence] = check_batches(Evidence(history)).offences
    assert offence.operations == (batch,)
    assert "missing on s2: b3" in offence.text


def test_a_batch_that_was_seen_in_part_is_found() -> None:
    story = Story()
    batch = story.batch("b1", "b2", is_answered=False)
    delivery = story.deliver(1)
    delivery.sequence = 9
    [offence] = check_batches(Evidence(story.end())).offences
    assert offence.operations == (batch, delivery)


def test_a_batch_with_another_message_within_is_found() -> None:
    story = Story()
    story.batch("b1", "b2", is_answered=False)
    history = story.end()
    with_message_everywhere(history, 2, Stored("a", "x"))
    with_message_everywhere(history, 3, Stored("a", "b2"))
    assert "scattered" in check_batches(Evidence(history)).offences[0].text


def timed(*times_ns: int) -> Story:
    """A stream whose messages were delivered with these times."""
    story = Story()
    for number, time_ns in enumerate(times_ns, 1):
        story.publish(f"m{number}")
        story.deliver(number).time_ns = time_ns
    return story


def test_times_may_stand_still() -> None:
    assert check_times(Evidence(timed(5, 5, 7).end())).holds


def test_a_delivery_with_a_time_before_that_of_an_earlier_message_is_found() -> None:
    [offence] = check_times(Evidence(timed(5, 4, 7).end())).offences
    assert [getattr(each, "sequence", 0) for each in offence.operations] == [1, 2]


def test_a_message_with_two_times_is_found() -> None:
    story = timed(5, 6)
    story.deliver(1).time_ns = 6
    assert len(check_times(Evidence(story.end())).offences) == 1


def test_a_time_that_a_loss_may_have_undone_does_not_count() -> None:
    history = timed(5, 9, 7).end()
    lost = history.all_of(Delivery)[1]
    history.losses.append(Loss(lost.end_s, 0.1))
    history.all_of(Delivery)[0].end_s = history.all_of(Delivery)[2].end_s = 0.0
    assert check_times(Evidence(history)).holds


def test_a_replica_with_a_time_before_that_of_an_earlier_message_is_found() -> None:
    history = timed(5, 6).end()
    with_message(history, 0, 1, Stored("a", "m1", 6))
    with_message(history, 0, 2, Stored("a", "m2", 5))
    [offence] = check_times(Evidence(history)).offences
    assert "2 is of 5, 1 of 6" in offence.text
