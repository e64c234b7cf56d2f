"""A scheduler with a disk that stalls: syncs are held back for as long as a test says."""

from collections.abc import Callable
from typing import TypeVar

from headwater.runtime.environment import Scheduler

T = TypeVar("T")


class StallingScheduler:
    """A scheduler whose work off the loop, the syncs of the disk, can be held back."""

    def __init__(self, inner: Scheduler) -> None:
        self._inner = inner
        self.call_soon = inner.call_soon
        self.call_later = inner.call_later
        self.is_stalled = False
        self._held: list[Callable[[], None]] = []

    def offload(self, work: Callable[[], T], done: Callable[[T], object]) -> None:
        if self.is_stalled:
            self._held.append(lambda: self._inner.offload(work, done))
        else:
            self._inner.offload(work, done)

    def release(self) -> None:
        """Let the disk go on."""
        self.is_stalled = False
        held, self._held = self._held, []
        for each in held:
            each()
