"""Histories of a stream that keeps its promises pass every check; one planted fault is found."""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from headwater.checker.history import (
    WORK_QUEUE,
    Ack,
    Batch,
    History,
    Publish,
    Replica,
    Scan,
    Stored,
)
from headwater.checker.judge import judge
from tests.kit.histories import Story, with_message_everywhere

Step = tuple[str, int, bool]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("publish", "repeat", "expect", "batch", "read", "work", "delete", "purge", "scan")
        ),
        st.integers(0, 50),
        st.booleans(),
    ),
    min_size=3,
    max_size=30,
)
LIMITS = st.fixed_dictionaries(
    {}, optional={"retention": st.just(WORK_QUEUE), "max_msgs": st.integers(3, 6)}
)


def told(steps: list[Step], limits: dict[str, object]) -> History:
    """The history of a stream that carries out the steps one after the other."""
    story = Story(**limits)
    for number, (kind, choice, is_answered) in enumerate(steps):
        subject = "ab"[choice % 2]
        if kind == "publish":
            story.publish(f"m{number}", subject, f"i{number}", is_answered=is_answered)
        elif kind == "repeat" and (known := story.history.all_of(Publish)):
            earlier = known[choice % len(known)]
            if earlier.message_id:
                story.publish(earlier.body, earlier.subject, earlier.message_id)
        elif kind == "expect":
            story.publish(f"m{number}", subject, expected=story.last, is_answered=is_answered)
        elif kind == "batch":
            story.batch(f"m{number}.1", f"m{number}.2", subject=subject, is_answered=is_answered)
        elif kind == "purge":
            story.purge(subject, is_answered=is_answered)
        elif kind == "scan":
            story.scan()
        elif story.stored:
            sequence = sorted(story.stored)[choice % len(story.stored)]
            _use(story, kind, sequence, is_answered)
        _keep_limits(story)
    return story.end()


def _use(story: Story, kind: str, sequence: int, is_answered: bool) -> None:
    if kind == "read":
        story.read(sequence)
    elif kind == "delete":
        story.delete(sequence, is_answered)
    elif kind == "work":
        is_acked = any(ack.is_done and ack.sequence == sequence for ack in _acks(story.history))
        if not is_acked:
            story.deliver(sequence)
            story.ack(sequence, is_answered=is_answered)


def _keep_limits(story: Story) -> None:
    limit = story.history.rules.max_msgs
    while limit and len(story.stored) > limit:
        del story.stored[min(story.stored)]


def _acks(history: History) -> list[Ack]:
    return history.all_of(Ack)


@given(STEPS, LIMITS)
def test_a_good_history_holds(steps: list[Step], limits: dict[str, object]) -> None:
    for verdict in judge(told(steps, limits)):
        assert verdict.holds, verdict


# --- faults ------------------------------------------------------------------------------------


def _lose_an_acked_message(history: History, choice: int) -> str:
    acked = [each for each in history.all_of(Publish) if each.is_done]
    sequences = [each.sequence for each in acked if each.sequence in _reference(history).messages]
    assume(sequences)
    with_message_everywhere(history, sequences[choice % len(sequences)], None)
    return "acked messages are there once"


def _store_twice(history: History, choice: int) -> str:
    stored = [*_reference(history).messages.values()]
    assume(stored)
    with_message_everywhere(
        history, _reference(history).last_sequence + 1, stored[choice % len(stored)]
    )
    return "message ids are stored once"


def _invent(history: History, choice: int) -> str:
    with_message_everywhere(
        history, _reference(history).last_sequence + 1, Stored("a", f"strange {choice}")
    )
    return "no message is invented"


def _skip_sequences(history: History, choice: int) -> str:
    last = _reference(history).last_sequence + 40 + choice
    history.replicas = [replace(each, last_sequence=last) for each in history.replicas]
    return "sequences are dense"


def _give_a_sequence_twice(history: History, choice: int) -> str:
    acked = [each for each in history.all_of(Publish) if each.is_done and not each.is_duplicate]
    assume(len(acked) > 1)
    acked[-1].sequence = acked[choice % (len(acked) - 1)].sequence
    return "no sequence is given twice"


def _swap_sequences(history: History, choice: int) -> str:
    acked = [each for each in history.all_of(Publish) if each.is_done and not each.is_duplicate]
    assume(len(acked) > 1)
    one, other = acked[choice % (len(acked) - 1)], acked[-1]
    one.sequence, other.sequence = other.sequence, one.sequence
    return "an ack before a publish means a lower sequence"


def _break_an_expectation(history: History, choice: int) -> str:
    expecting = [
        each for each in history.all_of(Publish) if each.is_done and each.expected is not None
    ]
    assume(expecting)
    publish = expecting[choice % len(expecting)]
    publish.expected = (publish.expected or 0) + 1 + choice
    return "expected sequences hold"


def _halve_a_batch(history: History, choice: int) -> str:
    messages = _reference(history).messages
    places = {stored.body: sequence for sequence, stored in messages.items()}
    whole = [each for each in history.all_of(Batch) if all(body in places for body in each.bodies)]
    assume(whole)
    batch = whole[choice % len(whole)]
    with_message_everywhere(history, places[batch.bodies[choice % 2]], None)
    return "batches are whole or absent"


def _deliver_an_acked_message(history: History, choice: int) -> str:
    acks = [each for each in _acks(history) if each.is_done]
    assume(acks)
    ack = acks[choice % len(acks)]
    story = Story()
    story.stored[ack.sequence] = Stored("a", "x")
    delivery = story.deliver(ack.sequence)
    delivery.begin_s, delivery.end_s = ack.end_s + 0.1, ack.end_s + 0.2
    history.operations.append(delivery)
    return "double acks are final"


def _hide_from_a_new_consumer(history: History, choice: int) -> str:
    scans = [each for each in history.all_of(Scan) if each.messages]
    assume(scans)
    scan = scans[choice % len(scans)]
    seen = {
        each.sequence
        for each in history.all_of(Publish)
        if each.is_done and each.end_s < scan.begin_s
    }
    hidden = [sequence for sequence in scan.messages if sequence in seen]
    assume(hidden)
    del scan.messages[hidden[choice % len(hidden)]]
    return "a new consumer sees every acked write"


def _change_one_replica(history: History, choice: int) -> str:
    at = choice % len(history.replicas)
    history.replicas[at] = replace(history.replicas[at], state={"ids": f"other {choice}"})
    return "replicas are equal"


def _reference(history: History) -> Replica:
    return history.replicas[0]


Fault = Callable[[History, int], str]

FAULTS: tuple[Fault, ...] = (
    _lose_an_acked_message,
    _store_twice,
    _invent,
    _skip_sequences,
    _give_a_sequence_twice,
    _swap_sequences,
    _break_an_expectation,
    _halve_a_batch,
    _deliver_an_acked_message,
    _hide_from_a_new_consumer,
    _change_one_replica,
)
# So that every fault has an operation to strike.
PRELUDE: list[Step] = [
    ("publish", 0, True),
    ("publish", 1, True),
    ("expect", 0, True),
    ("batch", 0, True),
    ("work", 0, True),
    ("scan", 0, True),
]
# Without purges and deletions, every message that was acked has to be there.
LASTING = ("publish", "repeat", "expect", "batch", "read", "work", "scan")


@given(STEPS, st.sampled_from(FAULTS), st.integers(0, 20))
def test_a_planted_fault_is_found(steps: list[Step], fault: Fault, choice: int) -> None:
    history = told([*PRELUDE, *(step for step in steps if step[0] in LASTING)], {})
    rule = fault(history, choice)
    assert rule in [verdict.rule for verdict in judge(history) if not verdict.holds]


def _bring_back(history: History, choice: int) -> str:
    messages = _reference(history).messages
    removed = [
        each
        for each in history.all_of(Publish)
        if each.is_done and not each.is_duplicate and each.sequence not in messages
    ]
    assume(removed)
    publish = removed[choice % len(removed)]
    with_message_everywhere(history, publish.sequence, Stored(publish.subject, publish.body))
    return "removed messages stay away"


@given(STEPS, st.integers(0, 20))
def test_a_removed_message_that_is_back_is_found(steps: list[Step], choice: int) -> None:
    purge: Step = ("purge", 0, True)
    history = told([*PRELUDE, purge, *((kind, number, True) for kind, number, _ in steps)], {})
    rule = _bring_back(history, choice)
    assert rule in [verdict.rule for verdict in judge(history) if not verdict.holds]


@given(STEPS, st.integers(0, 20))
def test_work_that_is_left_after_its_ack_is_found(steps: list[Step], choice: int) -> None:
    history = told([*PRELUDE, *steps], {"retention": WORK_QUEUE})
    acks = [each for each in _acks(history) if each.is_done]
    assume(acks)
    sequence = acks[choice % len(acks)].sequence
    with_message_everywhere(history, sequence, Stored("a", "x"))
    broken = [verdict.rule for verdict in judge(history) if not verdict.holds]
    assert "work queues are exact" in broken
