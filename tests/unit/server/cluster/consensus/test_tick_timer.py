"""The timer of the next tick: early at most, and one at a time."""

from headwater.base.clock import NS_PER_MS, NS_PER_S
from headwater.server.cluster.consensus.tick_timer import TickTimer
from tests.kit.world import ManualClock, ManualScheduler


class Ticks:
    """A timer on a clock that the test moves, and the times at which it fired."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.fired_ms: list[int] = []
        self._begun_ns = self.clock.monotonic_ns()
        self.timer = TickTimer(self.scheduler, self._note)

    @property
    def now_ns(self) -> int:
        return self.clock.monotonic_ns()

    def _note(self) -> None:
        self.fired_ms.append((self.now_ns - self._begun_ns) // NS_PER_MS)

    def plan(self, delay_ms: int) -> None:
        self.timer.plan(self.now_ns + delay_ms * NS_PER_MS, self.now_ns)


def test_a_later_time_leaves_the_timer_as_it_is() -> None:
    ticks = Ticks()
    ticks.plan(100)
    ticks.scheduler.advance(0.05)
    ticks.plan(100)
    ticks.scheduler.advance(1)
    assert ticks.fired_ms == [100]


def test_an_earlier_time_replaces_the_timer() -> None:
    ticks = Ticks()
    ticks.plan(100)
    ticks.plan(30)
    ticks.scheduler.advance(1)
    assert ticks.fired_ms == [30]


def test_a_time_that_has_passed_is_now() -> None:
    ticks = Ticks()
    ticks.timer.plan(ticks.now_ns - NS_PER_S, ticks.now_ns)
    ticks.scheduler.advance(0)
    assert ticks.fired_ms == [0]


def test_a_timer_that_has_fired_is_planned_again() -> None:
    ticks = Ticks()
    ticks.plan(10)
    ticks.scheduler.advance(0.01)
    ticks.plan(10)
    ticks.scheduler.advance(0.01)
    assert ticks.fired_ms == [10, 20]


def test_a_cancelled_timer_does_not_fire() -> None:
    ticks = Ticks()
    ticks.plan(10)
    ticks.timer.cancel()
    ticks.timer.cancel()
    ticks.scheduler.advance(1)
    assert ticks.fired_ms == []
