"""A scheduler whose timers and offloaded work run when the test says so."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class HandTimer:
    """A call that has not happened yet."""

    delay_s: float
    call: Callable[[], object]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class HandScheduler:
    """Keeps timers and offloaded work until the test runs them.

    Offloaded work is checked to be one piece at a time, unless `several_at_once`; files to be
    closed are kept apart from it.
    """

    def __init__(self, several_at_once: bool = False) -> None:
        self._several_at_once = several_at_once
        self.timers: list[HandTimer] = []
        self.work: list[tuple[Callable[[], Any], Callable[[Any], object]]] = []
        # Of files that are of no use any more, which may take its time.
        self.closes: list[Callable[[], Any]] = []

    def call_soon(self, call: Callable[[], object]) -> HandTimer:
        """A call of the next turn is a piece of work that has no end of its own."""
        self.work.append((call, lambda _: None))
        return HandTimer(0.0, call)

    def call_later(self, delay_s: float, call: Callable[[], object]) -> HandTimer:
        timer = HandTimer(delay_s, call)
        self.timers.append(timer)
        return timer

    def offload(self, work: Callable[[], Any], done: Callable[[Any], object]) -> None:
        if work.__name__ == "close_file":
            self.closes.append(work)
            return
        self.work.append((work, done))
        assert self._several_at_once or len(self.work) == 1, "one thing at a time"

    def close_files(self) -> None:
        while self.closes:
            self.closes.pop()()

    def pass_time(self) -> float:
        """Let the one timer there is go off; returns how long that took."""
        (timer,) = self.timers
        self.timers.clear()
        self.close_files()
        assert not timer.is_cancelled
        timer.call()
        return timer.delay_s

    def step(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Do the oldest piece of offloaded work, and its end on the loop."""
        work, done = self.work.pop(0)
        meanwhile()
        result = work()
        meanwhile()
        done(result)

    def run_until_quiet(
        self, quiet_s_max: float, meanwhile: Callable[[], object] = lambda: None
    ) -> int:
        """Go on until there was nothing to do for so long; returns in how many steps it was."""
        steps = 0
        quiet_s = 0.0
        while quiet_s <= quiet_s_max:
            if self.work:
                steps += 1
                quiet_s = 0.0
                self.step(meanwhile)
            else:
                quiet_s += self.pass_time()
        return steps
