"""Reads of the last message of a subject: no answer is older than its level allows."""

from collections.abc import Callable

import pytest

from headwater.checker.evidence import Evidence
from headwater.checker.history import LastRead, Loss, ReadLevel
from headwater.checker.read_levels import (
    check_linearizable_reads,
    check_sequential_reads,
    check_session_reads,
)
from headwater.checker.verdict import Offence, Verdict
from tests.kit.histories import Story

SEQUENTIAL, SESSION, WEAK = ReadLevel.SEQUENTIAL, ReadLevel.SESSION, ReadLevel.WEAK


def offences(check: Callable[[Evidence], Verdict], story: Story) -> tuple[Offence, ...]:
    return check(Evidence(story.end())).offences


def forget(read: LastRead) -> LastRead:
    """Have a read answered as if there were no message."""
    read.sequence, read.body = 0, None
    return read


def show(read: LastRead, sequence: int, body: str) -> LastRead:
    read.sequence, read.body = sequence, body
    return read


class TestLinearizable:
    def test_an_answer_has_every_write_that_was_acked(self) -> None:
        story = Story()
        story.read_last("a")
        story.publish("x")
        story.publish("y", subject="b")
        story.batch("b1", "b2")
        story.read_last("a")
        story.read_last("b")
        assert not offences(check_linearizable_reads, story)

    def test_an_answer_without_an_acked_write_is_found(self) -> None:
        story = Story()
        story.publish("x")
        publish = story.publish("y")
        read = show(story.read_last("a"), 1, "x")
        [offence] = offences(check_linearizable_reads, story)
        assert offence.operations == (publish, read)

    def test_an_answer_without_any_message_is_found(self) -> None:
        story = Story()
        publish = story.publish("x")
        read = forget(story.read_last("a"))
        [offence] = offences(check_linearizable_reads, story)
        assert offence.operations == (publish, read)

    def test_a_write_that_was_not_acked_may_be_shown_or_not(self) -> None:
        story = Story()
        story.publish("x")
        story.publish("y", is_answered=False)
        show(story.read_last("a"), 1, "x")
        story.read_last("a")
        assert not offences(check_linearizable_reads, story)

    def test_an_answer_behind_one_that_another_reader_had_is_found(self) -> None:
        story = Story()
        story.publish("x")
        story.publish("y", is_answered=False)
        first = story.read_last("a")
        second = show(story.read_last("a"), 1, "x")
        [offence] = offences(check_linearizable_reads, story)
        assert offence.operations == (first, second)

    def test_the_answer_for_one_subject_tells_the_place_of_another(self) -> None:
        story = Story()
        story.publish("x", is_answered=False)
        story.publish("y", subject="b", is_answered=False)
        first = story.read_last("b")
        second = forget(story.read_last("a"))
        [offence] = offences(check_linearizable_reads, story)
        assert offence.operations == (first, second)

    def test_reads_at_the_same_time_may_differ(self) -> None:
        story = Story()
        story.publish("x")
        publish = story.publish("y")
        read = show(story.read_last("a"), 1, "x")
        read.begin_s = publish.begin_s
        assert not offences(check_linearizable_reads, story)

    def test_a_weak_read_may_be_older(self) -> None:
        story = Story()
        story.publish("x")
        forget(story.read_last("a", WEAK))
        assert not offences(check_linearizable_reads, story)

    def test_a_message_may_be_removed_by_a_request(self) -> None:
        story = Story()
        story.publish("x")
        story.publish("y")
        story.delete(2)
        story.read_last("a")
        assert not offences(check_linearizable_reads, story)

    def test_a_message_that_is_replaced_leaves_a_newer_one(self) -> None:
        story = Story(max_msgs_per_subject=1)
        story.publish("x")
        publish = story.publish("y")
        story.publish("z", is_answered=False)
        read = show(story.read_last("a"), 1, "x")
        [offence] = offences(check_linearizable_reads, story)
        assert offence.operations == (publish, read)

    def test_a_write_that_a_power_loss_may_have_undone_is_no_mark(self) -> None:
        story = Story()
        story.publish("x")
        publish = story.publish("y")
        story.history.losses.append(Loss(publish.end_s, 1))
        show(story.read_last("a"), 1, "x")
        assert not offences(check_linearizable_reads, story)


class TestSequential:
    def test_an_answer_may_be_old_and_never_goes_back(self) -> None:
        story = Story()
        story.publish("x")
        story.publish("y")
        show(story.read_last("a", SEQUENTIAL, mirror="M"), 1, "x")
        story.read_last("a", SEQUENTIAL, mirror="M")
        assert not offences(check_sequential_reads, story)

    def test_an_answer_that_goes_back_is_found(self) -> None:
        story = Story()
        story.publish("x")
        story.publish("y")
        first = story.read_last("a", SEQUENTIAL, mirror="M")
        second = show(story.read_last("a", SEQUENTIAL, mirror="M"), 1, "x")
        [offence] = offences(check_sequential_reads, story)
        assert offence.operations == (first, second)

    def test_each_mirror_has_a_pace_of_its_own(self) -> None:
        story = Story()
        story.publish("x")
        story.read_last("a", SEQUENTIAL, mirror="M")
        forget(story.read_last("a", SEQUENTIAL, mirror="N"))
        assert not offences(check_sequential_reads, story)


class TestSession:
    def test_an_answer_has_the_sequence_that_was_asked_for(self) -> None:
        story = Story()
        story.publish("x")
        story.publish("y", subject="b")
        forget(story.read_last("b", SESSION, min_sequence=1)).complete_to = 1
        story.read_last("b", SESSION, min_sequence=2)
        assert not offences(check_session_reads, story)

    @pytest.mark.parametrize("mark", [1, 2])
    def test_an_answer_behind_its_mark_is_found(self, mark: int) -> None:
        story = Story()
        story.publish("x")
        story.publish("y")
        read = show(story.read_last("a", SESSION, min_sequence=mark), mark - 1, "x")
        [offence] = offences(check_session_reads, story)
        assert offence.operations == (read,)

    def test_an_answer_that_admits_to_be_behind_is_found(self) -> None:
        story = Story()
        story.publish("x")
        story.publish("y", subject="b")
        read = story.read_last("a", SESSION, min_sequence=2)
        read.complete_to = 1
        [offence] = offences(check_session_reads, story)
        assert offence.text == "the answer says 1, and was asked for 2"
