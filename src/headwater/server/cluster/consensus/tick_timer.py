"""The timer of the next tick of the groups.

Nearly every turn moves the next tick, because each frame that is sent puts the next heartbeat off.
A timer for each move would cost more than the turn does, so a timer that is early stays: the turn
that it causes finds nothing to do, and plans the next one.
"""

from collections.abc import Callable
from typing import final

from headwater.base.clock import NS_PER_S
from headwater.runtime.environment import Scheduler, TimerHandle


@final
class TickTimer:
    """One timer, which fires no later than the time that was planned last."""

    __slots__ = ("_call", "_fires_ns", "_scheduler", "_timer")

    def __init__(self, scheduler: Scheduler, call: Callable[[], object]) -> None:
        self._scheduler = scheduler
        self._call = call
        self._timer: TimerHandle | None = None
        self._fires_ns = 0

    def plan(self, deadline_ns: int, now_ns: int) -> None:
        """Have the call made at a time, or earlier if it is planned for an earlier one."""
        deadline_ns = max(deadline_ns, now_ns)
        if self._timer is not None:
            if self._fires_ns <= deadline_ns:
                return
            self._timer.cancel()
        self._fires_ns = deadline_ns
        self._timer = self._scheduler.call_later((deadline_ns - now_ns) / NS_PER_S, self._fire)

    def cancel(self) -> None:
        """Make no call any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._call()
