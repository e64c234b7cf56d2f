"""A scheduler by which nothing happens until the test says so."""

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
    """Keeps timers and offloaded work. One piece of work at a time, but for files to be closed."""

    def __init__(self) -> None:
        self.timers: list[HandTimer] = []
        self.work: list[tuple[Callable[[], Any], Callable[[Any], object]]] = []
        # Of files that are of no use any more, which may take its time.
        self.closes: list[Callable[[], Any]] = []

    def call_soon(self, call: Callable[[], object]) -> HandTimer:
        return self.call_later(0.0, call)

    def call_later(self, delay_s: float, call: Callable[[], object]) -> HandTimer:
        timer = HandTimer(delay_s, call)
        self.timers.append(timer)
        return timer

    def offload(self, work: Callable[[], Any], done: Callable[[Any], object]) -> None:
        if work.__name__ == "close_file":
            self.closes.append(work)
            return
        self.work.append((work, done))
        assert len(self.work) == 1, "one thing at a time"

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
        """Do what was offloaded, and its end on the loop."""
        work, done = self.work.pop()
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
