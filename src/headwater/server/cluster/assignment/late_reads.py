"""Linearizable reads that were sent to a leader which may be cut off.

A link that carries nothing looks like a slow one until the server at its other end is given up. A
client whose read went there is told that nobody is sure to lead, instead of being left to wait. One
look at the silence of a leader decides for all reads that were sent to it lately.

The leader may have answered before it fell silent. Then the client has its answer, and does not
hear the second one.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, final

from headwater.base.clock import NS_PER_MS
from headwater.runtime.environment import Scheduler
from headwater.server.streams.routing import Call

# Two looks are so far apart, and a read is looked after so many times.
LOOK_S: Final = 0.25
LOOKS_MAX: Final = 4
# A leader that was not heard for so long is taken to be cut off: five heartbeats.
SILENCE_NS: Final = 500 * NS_PER_MS
# The reads of one leader that are watched between two looks. More of them are left to the patience
# of their clients.
WATCHED_MAX: Final = 10_000


@final
class LateReads:
    """The reads that this server has sent on lately. `refuse` answers one whose leader is silent;
    `silence_ns` tells the time since a server was heard, and `is_alive` whether it is given up."""

    __slots__ = ("_is_alive", "_is_planned", "_refuse", "_scheduler", "_sent", "_silence_ns")

    def __init__(
        self,
        silence_ns: Callable[[str], int],
        is_alive: Callable[[str], bool],
        refuse: Callable[[Call], object],
        scheduler: Scheduler,
    ) -> None:
        self._silence_ns = silence_ns
        self._is_alive = is_alive
        self._refuse = refuse
        self._scheduler = scheduler
        # Reads by the leader that they were sent to, between two looks each; the last ones are new.
        self._sent: deque[dict[str, list[Call]]] = deque([{}], maxlen=LOOKS_MAX)
        self._is_planned = False

    def watch(self, leader: str, call: Call) -> None:
        """Note a read that was sent to a leader."""
        calls = self._sent[-1].setdefault(leader, [])
        if len(calls) < WATCHED_MAX:
            calls.append(call)
        self._plan()

    def _plan(self) -> None:
        if not self._is_planned and any(self._sent):
            self._is_planned = True
            self._scheduler.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        """Refuse the reads whose leader is not heard any more."""
        self._is_planned = False
        for leader in sorted({name for sent in self._sent for name in sent}):
            if not self._is_alive(leader) or self._silence_ns(leader) >= SILENCE_NS:
                for sent in self._sent:
                    for call in sent.pop(leader, ()):
                        self._refuse(call)
        self._sent.append({})
        self._plan()
