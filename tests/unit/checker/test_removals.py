"""Messages that may be gone, and messages that must be."""

import pytest

from headwater.checker.evidence import Evidence
from headwater.checker.history import INTEREST, WORK_QUEUE, History, Loss, Stored
from headwater.checker.removals import check_removals, may_be_gone
from tests.kit.histories import Story, with_message, with_message_everywhere


def is_free(history: History, body: str, sequence: int | None, by_s: float = 1e9) -> bool:
    evidence = Evidence(history)
    return may_be_gone(evidence, evidence.messages[body], sequence, by_s)


def test_a_message_stays_unless_something_removes_it() -> None:
    story = Story()
    story.publish("x")
    story.ack(1)
    assert not is_free(story.end(), "x", 1)


@pytest.mark.parametrize(
    ("removal", "expected"),
    [
        ({}, True),
        ({"subject": "a"}, True),
        ({"subject": "b"}, False),
        ({"below": 2}, True),
        ({"below": 1}, False),
    ],
)
def test_a_purge_may_remove_messages_of_its_subject_and_below_its_sequence(
    removal: dict[str, object], expected: bool
) -> None:
    story = Story()
    story.publish("x", subject="a")
    story.purge(**removal, is_answered=False)  # type: ignore[arg-type]
    assert is_free(story.end(), "x", 1) is expected


def test_a_purge_that_ended_before_the_publish_removes_nothing_of_it() -> None:
    story = Story()
    story.purge()
    story.publish("x")
    assert not is_free(story.end(), "x", 1)
    story.history.operations[0].end_s = 1e6
    assert is_free(story.history, "x", 1)


def test_a_refused_purge_removes_nothing() -> None:
    story = Story()
    story.publish("x")
    story.purge(is_answered=False).refuse(9, "denied")
    assert not is_free(story.end(), "x", 1)


def test_a_removal_that_begins_later_excuses_nothing_earlier() -> None:
    story = Story()
    story.publish("x")
    begin_s = story.delete(1).begin_s
    assert is_free(story.end(), "x", 1, begin_s)
    assert not is_free(story.history, "x", 1, begin_s - 0.5)


def test_a_deletion_is_about_its_sequence() -> None:
    story = Story()
    story.publish("x")
    story.publish("y")
    story.delete(2)
    assert not is_free(story.end(), "x", 1)
    assert is_free(story.history, "y", 2)


def test_a_limit_of_messages_removes_the_oldest() -> None:
    story = Story(max_msgs=2)
    for body in "xyz":
        story.publish(body)
    assert is_free(story.end(), "x", 1)
    assert not is_free(story.history, "y", 2)


def test_a_limit_of_a_subject_counts_messages_of_that_subject() -> None:
    story = Story(max_msgs_per_subject=1)
    story.publish("x", subject="a")
    story.publish("y", subject="b")
    assert not is_free(story.end(), "x", 1)
    story.publish("z", subject="a", is_answered=False)
    assert is_free(story.end(), "x", 1)
    assert not is_free(story.history, "z", 3)


def test_a_message_may_be_gone_at_its_age() -> None:
    story = Story(max_age_s=10)
    story.publish("x")
    assert not is_free(story.end(), "x", 1)
    story.now_s = 20
    story.publish("y")
    assert is_free(story.end(), "x", 1)


@pytest.mark.parametrize("retention", [WORK_QUEUE, INTEREST])
def test_an_ack_may_remove_a_message_of_a_queue(retention: str) -> None:
    story = Story(retention=retention)
    story.publish("x")
    assert not is_free(story.end(), "x", 1)
    story.ack(1, is_answered=False)
    assert is_free(story.end(), "x", 1)


def test_removed_messages_are_away() -> None:
    story = Story()
    for body in "wxyz":
        story.publish(body)
    story.delete(1)
    story.purge(below=3)
    story.read(1)
    story.purge(keep=1)
    story.deliver(4)
    assert check_removals(Evidence(story.end())).holds


def test_a_duplicate_of_a_removed_message_is_no_message() -> None:
    story = Story()
    story.publish("x", message_id="i")
    story.purge()
    story.publish("x", message_id="i")
    assert check_removals(Evidence(story.end())).holds


def test_a_removed_message_in_a_replica_is_found() -> None:
    story = Story()
    ack, purge = story.publish("x"), story.purge(subject="a")
    history = story.end()
    with_message(history, 2, 1, Stored("a", "x"))
    [offence] = check_removals(Evidence(history)).offences
    assert offence.operations == (ack, purge)
    assert "s3" in offence.text


def test_a_removed_message_that_is_read_is_found() -> None:
    story = Story()
    story.publish("x")
    story.delete(1)
    read = story.read(1)
    read.body = "x"
    [offence] = check_removals(Evidence(story.end())).offences
    assert read in offence.operations


def test_a_removal_that_a_loss_undid_is_no_fault() -> None:
    story = Story()
    story.publish("x")
    removal = story.delete(1)
    history = story.end()
    with_message_everywhere(history, 1, Stored("a", "x"))
    assert not check_removals(Evidence(history)).holds
    history.losses.append(Loss(removal.end_s + 0.1, 0.5))
    assert check_removals(Evidence(history)).holds
