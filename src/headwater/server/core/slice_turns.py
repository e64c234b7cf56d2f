"""Turns for long work: every turn of the loop does one slice of one piece of such work.

A slice takes some milliseconds. If each of a hundred requests were given one in every turn, all
other clients would wait for a hundred slices; so the requests together are given one, in order.
"""

from collections import deque
from collections.abc import Callable
from typing import final

from headwater.runtime.environment import Scheduler


@final
class SliceTurns:
    """Pieces of long work that wait for their turn."""

    __slots__ = ("_scheduler", "_waiting")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: deque[Callable[[], object]] = deque()

    def add(self, work: Callable[[], object]) -> None:
        """Have a slice of work done in a later turn."""
        self._waiting.append(work)
        if len(self._waiting) == 1:
            self._scheduler.call_soon(self._do_next)

    def _do_next(self) -> None:
        work = self._waiting[0]
        try:
            work()
        finally:
            # The work stays in line while it is done, so that work added by it plans no other turn.
            self._waiting.popleft()
            if self._waiting:
                self._scheduler.call_soon(self._do_next)
