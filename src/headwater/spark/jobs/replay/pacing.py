"""The pace of a replay: when each message is due.

A pace maps the times at which messages were stored onto the time of the replay: messages a second
apart are published `1 / speed` seconds apart. The schedule is absolute, fixed by one pair of times
(the anchor): a replay that was delayed catches up instead of falling behind for good, and several
tasks with the same anchor keep one schedule.

Stored times may go back, when a server's clock was set or when another server took over. Order
comes before time: a message is never due before the one ahead of it, so messages with earlier times
follow at once.

Times are arguments and results, in nanoseconds since the epoch; nothing here sleeps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headwater.base.invariants import check

FULL_SPEED: Final = 0.0
"""No schedule: everything is due at once."""

SPEED_MAX: Final = 1_000_000.0


@dataclass(frozen=True)
class Anchor:
    """The stored time `stored_ns` is replayed at `replay_ns`."""

    stored_ns: int
    replay_ns: int


class Pace:
    """The schedule of one run of a replay. Its only state is the due time of the last message."""

    __slots__ = ("_anchor", "_due_ns", "_speed")

    def __init__(self, speed: float, anchor: Anchor) -> None:
        check(0.0 <= speed <= SPEED_MAX, "the speed of a replay must have been checked before")
        self._speed = speed
        self._anchor = anchor
        self._due_ns = anchor.replay_ns

    def due_ns(self, stored_ns: int) -> int:
        """When the next message, stored at `stored_ns`, is to be published."""
        if self._speed == FULL_SPEED:
            return self._due_ns
        passed_ns = stored_ns - self._anchor.stored_ns
        return max(self._due_ns, self._anchor.replay_ns + int(passed_ns / self._speed))

    def ready(self, stored_ns: Sequence[int], begin: int, now_ns: int) -> int:
        """The number of messages, stored at these times, that are due by `now_ns`, from `begin` on.

        They count as published: the next message is not due before them.
        """
        if self._speed == FULL_SPEED:
            return len(stored_ns) - begin
        for index in range(begin, len(stored_ns)):
            due_ns = self.due_ns(stored_ns[index])
            if due_ns > now_ns:
                return index - begin
            self._due_ns = due_ns
        return len(stored_ns) - begin
