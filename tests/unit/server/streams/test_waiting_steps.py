"""Steps leave in the order they came, no earlier than their commit or the work before them."""

from typing import Final

import pytest

from headwater.jetstream.streams.publishing.decision import Decision, Incoming
from headwater.server.core.ingest import Room, RoomLimits
from headwater.server.streams.waiting_steps import Change, WaitingSteps

NO_LIMIT: Final = RoomLimits(-1, -1, 0)


def change() -> Change:
    return Change(lambda: None, lambda: None, lambda _: None)


def publishes(count: int) -> Incoming:
    incoming = Incoming()
    for _ in range(count):
        incoming.add(b"s", b"reply", -1, b"payload")
    return incoming


@pytest.fixture
def room() -> Room:
    return Room(NO_LIMIT)


@pytest.fixture
def steps(room: Room) -> WaitingSteps:
    return WaitingSteps(room)


def test_steps_wait_for_their_commit_in_order(steps: WaitingSteps) -> None:
    first, second, third = Decision(), Decision(), Decision()
    for number, step in ((1, first), (1, second), (2, third)):
        steps.add(number, step)
    assert (steps.first, steps.last) == (first, third)
    assert steps.pop_committed(0) == []
    assert steps.pop_committed(1) == [first, second]
    assert steps.pop_committed(2) == [third]
    assert not steps


def test_a_step_behind_others_leaves_with_the_last_of_them(steps: WaitingSteps) -> None:
    decision, behind = Decision(), change()
    steps.add(3, decision)
    steps.add_behind(behind)
    assert steps.pop_committed(2) == []
    assert steps.pop_committed(3) == [decision, behind]


def test_steps_that_wait_for_sliced_work_leave_with_no_commit(steps: WaitingSteps) -> None:
    walked, waiting, decision = change(), change(), Decision()
    steps.add(5, decision)
    steps.add_first([walked, waiting])
    assert steps.first is walked
    assert steps.pop_committed(5) == []
    assert steps.pop_first() is walked
    assert steps.pop_freed(4) == [waiting]
    assert steps.pop_freed(5) == [decision]


def test_steps_that_are_not_decided_are_counted(steps: WaitingSteps) -> None:
    steps.add(1, Decision())
    assert steps.undecided == 0
    steps.add_behind(change())
    steps.add_behind(publishes(1))
    assert steps.undecided == 2
    steps.pop_committed(1)
    assert steps.undecided == 0


def test_publishes_count_in_the_room_while_they_wait(steps: WaitingSteps, room: Room) -> None:
    steps.add(1, Decision(), publishes(2))
    steps.add_behind(publishes(3))
    assert room.messages == 5
    assert room.size > 0
    steps.pop_first()
    assert room.messages == 3
    steps.pop_first()
    assert (room.messages, room.size) == (0, 0)
