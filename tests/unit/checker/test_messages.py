"""Messages of a stream: none lost, none invented, each once under its sequence."""

from headwater.checker.evidence import Evidence
from headwater.checker.history import History, Loss, Stored
from headwater.checker.messages import (
    check_density,
    check_ids,
    check_origin,
    check_presence,
    check_sequences,
)
from tests.kit.histories import Story, with_message, with_message_everywhere


def good_history() -> History:
    """A stream with every kind of operation."""
    story = Story()
    story.publish("x", message_id="i")
    story.publish("y", is_answered=False)
    story.publish("x", message_id="i")
    story.batch("b1", "b2")
    story.publish("gone", is_stored=False, is_answered=False)
    story.deliver(2)
    story.delete(3)
    story.scan()
    return story.end()


def test_a_good_history_holds() -> None:
    evidence = Evidence(good_history())
    for check in (check_presence, check_origin, check_sequences, check_density, check_ids):
        assert check(evidence).holds, check(evidence)


def test_an_acked_message_that_is_missing_is_found() -> None:
    history = good_history()
    with_message(history, 1, 1, None)
    [offence] = check_presence(Evidence(history)).offences
    assert offence.operations == (history.operations[0],)
    assert "missing on s2" in offence.text


def test_a_message_that_was_only_seen_may_not_be_missing() -> None:
    history = good_history()
    with_message_everywhere(history, 2, None)
    assert len(check_presence(Evidence(history)).offences) == 3


def test_an_acked_message_under_another_sequence_is_found() -> None:
    history = good_history()
    with_message_everywhere(history, 1, None)
    with_message_everywhere(history, 5, Stored("a", "x"))
    assert "is at [5]" in check_presence(Evidence(history)).offences[0].text


def test_a_message_that_is_there_twice_is_found() -> None:
    history = good_history()
    with_message_everywhere(history, 5, Stored("a", "x"))
    assert not check_presence(Evidence(history)).holds
    assert not check_ids(Evidence(history)).holds


def test_a_message_without_an_ack_may_be_missing() -> None:
    story = Story()
    story.publish("x", is_stored=False, is_answered=False)
    assert check_presence(Evidence(story.end())).holds


def test_a_loss_excuses_messages_that_were_acked_within_its_window() -> None:
    story = Story()
    story.publish("x")
    ack = story.publish("y")
    history = story.end()
    with_message_everywhere(history, 2, None)
    assert not check_presence(Evidence(history)).holds
    history.losses.append(Loss(ack.end_s + 0.5, 1.0))
    assert check_presence(Evidence(history)).holds
    with_message_everywhere(history, 1, None)
    assert not check_presence(Evidence(history)).holds


def test_a_message_that_nobody_published_is_found() -> None:
    history = good_history()
    with_message(history, 0, 5, Stored("a", "strange"))
    [offence] = check_origin(Evidence(history)).offences
    assert "strange at 5 on s1 was never published" in offence.text


def test_a_delivery_that_nobody_published_is_found() -> None:
    story = Story()
    story.publish("x")
    delivery = story.deliver(1)
    delivery.body = "strange"
    [offence] = check_origin(Evidence(story.end())).offences
    assert offence.operations == (delivery,)


def test_a_message_with_another_subject_is_found() -> None:
    history = good_history()
    with_message(history, 0, 1, Stored("b", "x"))
    assert "has the subject b" in check_origin(Evidence(history)).offences[0].text


def test_a_message_that_was_refused_is_found() -> None:
    story = Story()
    story.publish("x", is_answered=False).refuse(2, "10071")
    assert "was refused" in check_origin(Evidence(story.end())).offences[0].text


def test_a_message_that_is_seen_before_its_publish_is_found() -> None:
    story = Story()
    publish = story.publish("x")
    delivery = story.deliver(1)
    publish.begin_s, publish.end_s = 100, 101
    assert delivery in check_origin(Evidence(story.end())).offences[0].operations


def test_a_sequence_of_two_messages_is_found() -> None:
    story = Story()
    one, other = story.publish("x"), story.publish("y", is_stored=False)
    other.sequence = 1
    [offence] = check_sequences(Evidence(story.end())).offences
    assert offence.operations == (one, other)


def test_a_sequence_is_not_given_again_after_a_loss() -> None:
    story = Story()
    lost = story.publish("x")
    history = story.end()
    history.losses.append(Loss(lost.end_s, 1))
    with_message_everywhere(history, 1, Stored("a", "y"))
    assert not check_sequences(Evidence(history)).holds


def test_two_replicas_that_differ_at_a_sequence_are_found() -> None:
    history = good_history()
    with_message(history, 2, 2, Stored("a", "gone"))
    assert not check_sequences(Evidence(history)).holds


def test_a_skipped_sequence_is_found() -> None:
    story = Story()
    story.publish("x")
    story.last += 2
    story.publish("y")
    [offence] = check_density(Evidence(story.end())).offences
    assert offence.text == "the stream has skipped 2 to 3"


def test_a_message_without_an_ack_that_was_purged_explains_a_sequence() -> None:
    story = Story()
    story.publish("unseen", is_answered=False)
    story.publish("x", subject="b")
    story.purge(subject="a")
    assert check_density(Evidence(story.end())).holds
    story.last += 1
    story.publish("y", subject="b")
    assert not check_density(Evidence(story.end())).holds


def test_the_stream_may_skip_sequences_once_after_a_loss() -> None:
    story = Story()
    ack = story.publish("x")
    story.history.losses.append(Loss(ack.end_s, 1))
    story.last += 1000
    story.publish("y")
    assert check_density(Evidence(story.end())).holds
    story.last += 1000
    story.publish("z")
    assert not check_density(Evidence(story.end())).holds


def test_an_id_with_two_sequences_is_found() -> None:
    story = Story()
    first = story.publish("x", message_id="i")
    story.ids.clear()
    second = story.publish("x", message_id="i")
    [offence] = check_ids(Evidence(story.end())).offences
    assert offence.operations == (first, second)


def test_an_id_may_be_stored_again_after_its_window() -> None:
    story = Story(duplicate_window_s=10)
    story.publish("x", message_id="i")
    story.ids.clear()
    story.now_s = 100
    story.publish("x", message_id="i")
    assert check_ids(Evidence(story.end())).holds
