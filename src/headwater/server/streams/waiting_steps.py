"""Steps that wait at a stream, in order: decisions for the disk, changes and publishes behind them.

A step that waits for a commit has the number of that commit. A step behind sliced work waits until
the work is over. The runner of the stream carries the steps out.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.publishing.decision import Decision, Incoming
from headwater.server.core.ingest import Room, size_of

# No commit has this number: the step waits for sliced work.
WHEN_DONE: Final = 1 << 62


@final
class Change:
    """A change of a stream that a request asks for, and its reply.

    If `make` returns sliced work, the change is made when that work ends. `refuse` sends the reply
    when the disk has failed, before or after the change was made. A change that only looks is
    answered whatever the disk does.
    """

    __slots__ = ("answer", "make", "only_looks", "refuse")

    def __init__(
        self,
        make: Callable[[], object],
        answer: Callable[[], object],
        refuse: Callable[[ApiError], object],
        only_looks: bool = False,
    ) -> None:
        self.make = make
        self.answer = answer
        self.refuse = refuse
        self.only_looks = only_looks


Step: TypeAlias = Decision | Change | Incoming


@final
class WaitingSteps:
    """The steps that wait at one stream; the messages and bytes they hold count in its room."""

    __slots__ = ("_room", "_steps", "undecided")

    def __init__(self, room: Room) -> None:
        # The commit that a step waits for, the step, and the messages and bytes that it holds.
        self._steps: deque[tuple[int, Step, int, int]] = deque()
        self._room = room
        # The number of steps that are not decisions.
        self.undecided = 0

    def __bool__(self) -> bool:
        return bool(self._steps)

    @property
    def first(self) -> Step:
        """The next step."""
        return self._steps[0][1]

    @property
    def last(self) -> Step | None:
        """The step that was added last."""
        return self._steps[-1][1] if self._steps else None

    def add(self, number: int, step: Step, incoming: Incoming | None = None) -> None:
        """Have a step wait for a commit, with the publishes it is about."""
        self._steps.append(self._held(number, step, incoming))

    def add_behind(self, step: Step, incoming: Incoming | None = None) -> None:
        """Have a step wait behind all others, with the publishes it is about."""
        self.add(self._steps[-1][0], step, step if isinstance(step, Incoming) else incoming)

    def add_first(self, steps: Sequence[Step]) -> None:
        """Have steps wait for sliced work, in order and before all others."""
        for step in reversed(steps):
            incoming = step if isinstance(step, Incoming) else None
            self._steps.appendleft(self._held(WHEN_DONE, step, incoming))

    def pop_first(self) -> Step:
        """Remove the next step and return it."""
        _, step, messages, size = self._steps.popleft()
        self._room.hold(-messages, -size)
        self.undecided -= isinstance(step, Change | Incoming)
        return step

    def pop_committed(self, number: int) -> list[Step]:
        """Remove the steps up to the first that waits for a later commit, and return them."""
        taken = []
        while self._steps and self._steps[0][0] <= number:
            taken.append(self.pop_first())
        return taken

    def pop_freed(self, number: int) -> list[Step]:
        """Remove the steps that wait for sliced work or for no later commit, and return them."""
        taken = []
        while self._steps and (self._steps[0][0] == WHEN_DONE or self._steps[0][0] <= number):
            taken.append(self.pop_first())
        return taken

    def _held(
        self, number: int, step: Step, incoming: Incoming | None
    ) -> tuple[int, Step, int, int]:
        messages, size = (0, 0) if incoming is None else (len(incoming), size_of(incoming))
        self._room.hold(messages, size)
        self.undecided += isinstance(step, Change | Incoming)
        return number, step, messages, size
