"""The due times of the messages of a replay: a schedule without a clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.clock import NS_PER_S
from headwater.base.invariants import InvariantViolation
from headwater.spark.jobs.replay.pacing import FULL_SPEED, SPEED_MAX, Anchor, Pace

STORED = 1_000 * NS_PER_S
START = 9_000 * NS_PER_S
ANCHOR = Anchor(STORED, START)


@pytest.mark.parametrize(("speed", "seconds"), [(1.0, 10.0), (2.0, 5.0), (0.5, 20.0)])
def test_what_came_apart_comes_apart_again(speed: float, seconds: float) -> None:
    pace = Pace(speed, ANCHOR)
    assert pace.due_ns(STORED) == START
    assert pace.due_ns(STORED + 10 * NS_PER_S) == START + int(seconds * NS_PER_S)


def test_the_schedule_is_absolute() -> None:
    """A message that is late does not move those after it, and tasks share one schedule."""
    stored = [STORED + second * NS_PER_S for second in range(10)]
    pace = Pace(1.0, ANCHOR)
    late = START + 5 * NS_PER_S
    assert pace.ready(stored, 0, late) == 6
    assert pace.ready(stored, 6, late) == 0
    assert pace.due_ns(stored[6]) == START + 6 * NS_PER_S
    assert Pace(1.0, ANCHOR).due_ns(stored[9]) == START + 9 * NS_PER_S


def test_order_comes_before_time() -> None:
    """The clock of the server was set back by an hour: the messages behind are due at once."""
    pace = Pace(1.0, ANCHOR)
    ahead = START + 60 * NS_PER_S
    assert pace.ready([STORED + 60 * NS_PER_S], 0, ahead) == 1
    assert pace.due_ns(STORED - 3_540 * NS_PER_S) == ahead
    assert pace.due_ns(STORED + 61 * NS_PER_S) == ahead + NS_PER_S


def test_nothing_is_due_before_the_start() -> None:
    assert Pace(1.0, ANCHOR).due_ns(STORED - NS_PER_S) == START


def test_at_full_speed_everything_is_ready() -> None:
    pace = Pace(FULL_SPEED, ANCHOR)
    assert pace.ready([STORED, STORED + 10**18], 0, 0) == 2
    assert pace.ready([STORED, STORED + 10**18], 1, 0) == 1
    assert pace.ready([], 0, 0) == 0


def test_asking_twice_is_asking_once() -> None:
    pace = Pace(1.0, ANCHOR)
    stored = [STORED, STORED + NS_PER_S]
    assert [pace.ready(stored, 0, START) for _ in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("speed", [-1.0, SPEED_MAX * 2])
def test_a_speed_that_should_have_been_refused(speed: float) -> None:
    with pytest.raises(InvariantViolation):
        Pace(speed, ANCHOR)


@given(
    speed=st.floats(0.001, 1_000.0),
    offsets_ns=st.lists(st.integers(-(10**12), 10**12), min_size=1),
    waits_ns=st.lists(st.integers(0, 10**12)),
)
def test_all_are_published_in_order_and_none_before_its_time(
    speed: float, offsets_ns: list[int], waits_ns: list[int]
) -> None:
    """The pauses between two looks may have any length, up to the end."""
    stored = [STORED + each for each in offsets_ns]
    pace = Pace(speed, ANCHOR)
    now_ns, done = START, 0
    for wait_ns in [*waits_ns, 10**16]:
        now_ns += wait_ns
        ready = pace.ready(stored, done, now_ns)
        for each in stored[done : done + ready]:
            assert (each - STORED) / speed <= now_ns - START + 1
        done += ready
        if done < len(stored):
            assert pace.due_ns(stored[done]) > now_ns
    assert done == len(stored)
