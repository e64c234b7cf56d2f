"""The times at which a server process looks for garbage and gives memory back."""

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from headwater.runtime import memory_upkeep
from headwater.runtime.memory_upkeep import (
    GROWTH_BYTES_MIN,
    LOOK_S,
    PASS_PART_MAX,
    QUIET_CPU_PART,
    WORK_CPU_S_MIN,
    YOUNG_OBJECTS,
    YOUNG_PASSES,
    Look,
    MemoryPolicy,
    MemoryUpkeep,
    Step,
    SystemHeap,
)
from headwater.runtime.process import SystemProcess
from tests.kit.hand_scheduler import HandScheduler

EPSILON_S = 1e-6


@dataclass
class Life:
    """A process that works, rests and grows as a test says, under a policy that looks at it."""

    now_s: float = 100.0
    cpu_s: float = 7.0
    rss_bytes: int = 50_000_000
    is_alone: bool = False
    policy: MemoryPolicy = field(init=False)

    def __post_init__(self) -> None:
        self.policy = MemoryPolicy(self.look)

    @property
    def look(self) -> Look:
        return Look(self.now_s, self.cpu_s, self.rss_bytes, self.is_alone)

    def after(self, cpu_s: float = 0.0, grown_bytes: int = 0) -> Step:
        """Let a second with this work and growth pass; returns the step that the policy takes."""
        self.now_s += LOOK_S
        self.cpu_s += cpu_s
        self.rss_bytes += grown_bytes
        return self.policy.step(self.look)

    def passed(self, took_s: float = 0.0) -> None:
        self.policy.done(self.look, took_s)


def test_a_process_that_did_nothing_is_left_alone() -> None:
    life = Life()
    assert [life.after(0.001) for _ in range(100)] == [Step.NOTHING] * 100


def test_a_pass_comes_with_the_first_quiet_moment_after_work() -> None:
    life = Life()
    assert life.after(0.9) is Step.NOTHING
    assert life.after(0.9) is Step.NOTHING
    assert life.after(0.0) is Step.TIDY
    life.passed()
    assert life.after(0.0) is Step.NOTHING


@pytest.mark.parametrize(
    ("cpu_s", "step"),
    [
        (QUIET_CPU_PART * LOOK_S - EPSILON_S, Step.TIDY),
        (QUIET_CPU_PART * LOOK_S + EPSILON_S, Step.NOTHING),
    ],
)
def test_a_process_is_quiet_below_a_part_of_a_core(cpu_s: float, step: Step) -> None:
    life = Life()
    life.after(0.9)
    assert life.after(cpu_s) is step


@pytest.mark.parametrize(
    ("cpu_s", "step"),
    [(WORK_CPU_S_MIN, Step.TIDY), (WORK_CPU_S_MIN - EPSILON_S, Step.NOTHING)],
)
def test_little_work_is_not_worth_a_pass(cpu_s: float, step: Step) -> None:
    life = Life(cpu_s=0.0)
    life.after(cpu_s)
    assert life.after(0.0) is step


@pytest.mark.parametrize(
    ("grown_bytes", "step"),
    [(GROWTH_BYTES_MIN, Step.COLLECT), (GROWTH_BYTES_MIN - 1, Step.NOTHING)],
)
def test_a_busy_process_that_grows_gets_a_pass(grown_bytes: int, step: Step) -> None:
    life = Life()
    assert life.after(0.9, grown_bytes) is step
    life.passed()
    assert life.after(0.9) is Step.NOTHING, "it has not grown since"


def test_frozen_objects_are_looked_at_when_nobody_is_connected() -> None:
    life = Life(is_alone=True)
    life.after(0.9)
    assert life.after(0.0) is Step.TIDY_ALL


def test_passes_take_a_small_part_of_the_time() -> None:
    life = Life()
    took_s = 0.1
    life.after(0.9, GROWTH_BYTES_MIN)
    life.passed(took_s)
    looks = round(took_s / PASS_PART_MAX / LOOK_S)
    steps = [life.after(0.9, GROWTH_BYTES_MIN) for _ in range(looks)]
    assert steps == [Step.NOTHING] * (looks - 1) + [Step.COLLECT]


# --- a real heap ----------------------------------------------------------------------------------


class Knot:
    """An object that holds itself."""

    def __init__(self) -> None:
        self.itself = self


@contextmanager
def as_it_was() -> Iterator[None]:
    """Leave the collector of the tests as it was found."""
    threshold = gc.get_threshold()
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()


def test_a_pass_frees_what_is_not_frozen_and_a_pass_over_all_the_rest() -> None:
    heap = SystemHeap()
    with as_it_was():
        knot = Knot()
        frozen = weakref.ref(knot)
        gc.freeze()
        knot = Knot()
        new = weakref.ref(knot)
        del knot
        heap.collect(with_frozen=False)
        assert new() is None
        assert frozen() is not None
        heap.collect(with_frozen=True)
        assert frozen() is None
        assert gc.get_freeze_count() > 0, "what is alive is not looked at again"


@pytest.mark.parametrize(("freezing_s", "is_frozen"), [(-1.0, True), (1e9, False)])
def test_what_a_long_pass_found_alive_is_frozen(
    freezing_s: float, is_frozen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_upkeep, "PASS_S_FREEZING", freezing_s)
    with as_it_was():
        SystemHeap().collect(with_frozen=False)
        assert (gc.get_freeze_count() > 0) is is_frozen


def test_old_objects_wait_for_the_policy_and_young_ones_do_not() -> None:
    with as_it_was():
        SystemHeap().settle()
        young, passes, old = gc.get_threshold()
        assert gc.get_freeze_count() > 0
    assert (young, passes) == (YOUNG_OBJECTS, YOUNG_PASSES)
    assert old > 1_000_000_000


def test_memory_may_be_given_back_on_every_system() -> None:
    SystemHeap().trim()


# --- looking --------------------------------------------------------------------------------------


class HandHeap:
    """A heap that notes what is done to it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def settle(self) -> None:
        self.done.append("settle")

    def collect(self, with_frozen: bool) -> float:
        self.done.append("collect all" if with_frozen else "collect")
        return 0.0

    def trim(self) -> None:
        self.done.append("trim")


@pytest.mark.parametrize(
    ("step", "done"),
    [
        (Step.NOTHING, []),
        (Step.COLLECT, ["collect"]),
        (Step.TIDY, ["collect", "trim"]),
        (Step.TIDY_ALL, ["collect all", "trim"]),
    ],
)
def test_every_look_does_what_the_policy_says(
    step: Step, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heap, scheduler = HandHeap(), HandScheduler()
    monkeypatch.setattr(MemoryPolicy, "step", lambda self, look: step)
    upkeep = MemoryUpkeep(heap, scheduler, SystemProcess(), lambda: False)
    upkeep.start()
    assert [scheduler.pass_time(), scheduler.pass_time()] == [LOOK_S, LOOK_S]
    assert heap.done == ["settle", *done, *done]
    upkeep.stop()
    assert [timer.is_cancelled for timer in scheduler.timers] == [True]
