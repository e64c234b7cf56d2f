"""Items that have work to do at a time of their own, and the one timer that serves them all.

An item that is planned again for a later time keeps its earlier one: its work is called too early,
and plans the item again. The heap holds times and numbers only, so that an entry that no longer
counts keeps no item alive until its time has come.

Knows the scheduler and the clock, and nothing of the items.
"""

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar, final

from headwater.base.clock import NS_PER_S
from headwater.runtime.environment import Scheduler, TimerHandle

# Entries that do not count are removed when there are this many, and more than of those that do.
STALE_MAX: Final = 16

T = TypeVar("T", bound=Hashable)


@final
class DueTimes(Generic[T]):
    """The planned items of a server, each with the function that does its work.

    The timer is set at least `delay_s_min` ahead, so that work is gathered, and at most
    `delay_s_max`, where a clock that is set forward must be noticed. A turn serves at most
    `turn_max` items, so that clients are read in between; zero is no limit.
    """

    __slots__ = (
        "_by_number",
        "_delay_s_max",
        "_delay_s_min",
        "_heap",
        "_is_stopped",
        "_now_ns",
        "_number",
        "_scheduler",
        "_timer",
        "_timer_ns",
        "_turn_max",
        "planned",
    )

    def __init__(
        self,
        scheduler: Scheduler,
        now_ns: Callable[[], int],
        *,
        delay_s_min: float,
        delay_s_max: float = float("inf"),
        turn_max: int = 0,
    ) -> None:
        self._scheduler = scheduler
        self._now_ns = now_ns
        self._delay_s_min = delay_s_min
        self._delay_s_max = delay_s_max
        self._turn_max = turn_max
        self._heap: list[tuple[int, int]] = []
        self._by_number: dict[int, tuple[T, Callable[[T, int], object]]] = {}
        # The time and the number of the entry that counts, by item.
        self.planned: dict[T, tuple[int, int]] = {}
        self._number = 0
        self._timer: TimerHandle | None = None
        self._timer_ns = 0
        self._is_stopped = False

    @property
    def entries(self) -> int:
        """The number of entries in memory, with those that no longer count."""
        return len(self._heap)

    def plan(self, item: T, due_ns: int, work: Callable[[T, int], object]) -> None:
        """Call `work` with the item and the time at `due_ns`, unless it is planned earlier."""
        if self._is_stopped:
            return
        planned = self.planned.get(item)
        if planned is not None:
            if planned[0] <= due_ns:
                return
            del self._by_number[planned[1]]
        self._number += 1
        self.planned[item] = due_ns, self._number
        self._by_number[self._number] = item, work
        heappush(self._heap, (due_ns, self._number))
        self._drop_stale()
        self._set_timer()

    def cancel(self, item: T) -> None:
        """Forget an item."""
        planned = self.planned.pop(item, None)
        if planned is not None:
            del self._by_number[planned[1]]
            if self._delay_s_max < float("inf"):
                # A timer with a longest delay would fire for the entry again and again.
                self._heap.remove(planned)
                heapify(self._heap)
            self._drop_stale()

    def stop(self) -> None:
        """Forget all items and the timer; no item is planned from now on."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._heap.clear()
        self._by_number.clear()
        self.planned.clear()

    def _drop_stale(self) -> None:
        """Keep entries that do not count from filling the memory."""
        if len(self._heap) > 2 * len(self.planned) + STALE_MAX:
            self._heap = [entry for entry in self._heap if entry[1] in self._by_number]
            heapify(self._heap)

    def _set_timer(self) -> None:
        due_ns = self._heap[0][0]
        if self._timer is not None:
            if self._timer_ns <= due_ns:
                return
            self._timer.cancel()
        self._timer_ns = due_ns
        delay_s = max((due_ns - self._now_ns()) / NS_PER_S, self._delay_s_min)
        self._timer = self._scheduler.call_later(min(delay_s, self._delay_s_max), self._fire)

    def _fire(self) -> None:
        self._timer = None
        now_ns = self._now_ns()
        try:
            for item, work in self._pop_due(now_ns):
                work(item, now_ns)
        finally:
            if self._heap:
                self._set_timer()

    def _pop_due(self, now_ns: int) -> list[tuple[T, Callable[[T, int], object]]]:
        """The items whose time has come, in order; they are planned no longer."""
        due: list[tuple[T, Callable[[T, int], object]]] = []
        while self._heap and self._heap[0][0] <= now_ns:
            if self._turn_max and len(due) == self._turn_max:
                break
            found = self._by_number.pop(heappop(self._heap)[1], None)
            if found is not None:
                del self.planned[found[0]]
                due.append(found)
        return due
