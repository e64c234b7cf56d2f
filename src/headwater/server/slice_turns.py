"""Whose turn it is among those with long work: one slice of one of them for every turn of the loop.

A slice takes some milliseconds. Were each of a hundred requests given one in every turn, everybody
else would wait for a hundred slices; so all of them together are given one, in order.
"""

from collections import deque
from collections.abc import Callable
from typing import final

from headwater.runtime.environment import Scheduler


@final
class SliceTurns:
    """Those who wait for their turn."""

    __slots__ = ("_scheduler", "_waiting")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: deque[Callable[[], object]] = deque()

    def add(self, work: Callable[[], object]) -> None:
        """Do a slice of work, in a later turn."""
        self._waiting.append(work)
        if len(self._waiting) == 1:
            self._scheduler.call_soon(self._do_next)

    def _do_next(self) -> None:
        work = self._waiting[0]
        try:
            work()
        finally:
            # It stands in line while it is done, so that nobody who joins begins another round.
            self._waiting.popleft()
            if self._waiting:
                self._scheduler.call_soon(self._do_next)
