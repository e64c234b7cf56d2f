"""Reads that wait until a stream is complete up to the sequence that their reader has seen already.

A read is answered as soon as the stream is. After `WAIT_S_MAX` it is answered in any case, and the
answer says that the stream is not complete. A mirror is complete up to a sequence of its origin.
"""

from collections.abc import Callable
from typing import Final, final

from headwater.runtime.environment import Scheduler, TimerHandle

WAIT_S_MAX: Final = 0.250


@final
class AwaitedReads:
    """The waiting reads of one stream."""

    __slots__ = ("_next", "_scheduler", "waiting")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        # Sequence, answer and timer, in the order they came.
        self.waiting: dict[int, tuple[int, Callable[[], object], TimerHandle]] = {}
        self._next = 0

    def add(self, sequence: int, answer: Callable[[], object]) -> None:
        """Call `answer` when the stream is complete up to `sequence`, or after `WAIT_S_MAX`."""
        number = self._next
        self._next += 1
        timer = self._scheduler.call_later(WAIT_S_MAX, lambda: self._answer(number))
        self.waiting[number] = (sequence, answer, timer)

    def advance(self, complete_sequence: int) -> None:
        """Answer the reads that wait for a sequence up to which the stream is complete now."""
        reached = [
            number
            for number, (sequence, _, _) in self.waiting.items()
            if sequence <= complete_sequence
        ]
        for number in reached:
            self._answer(number)

    def answer_all(self) -> None:
        """Answer every waiting read, because the stream ends."""
        for number in [*self.waiting]:
            self._answer(number)

    def _answer(self, number: int) -> None:
        _, answer, timer = self.waiting.pop(number)
        timer.cancel()
        answer()
