"""Publishes that wait for the quorum of their stream, and the one timer of a server for them all.

A publish that has waited for `ack_timeout` is withdrawn with all that is behind it, and its client
is told that the result is unknown (docs/consistency.md). The work is done by the runner of the
stream; this module knows the times.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, final

from headwater.base.clock import NS_PER_MS, NS_PER_S, Clock
from headwater.jetstream.committers import Quorum
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record
from headwater.jetstream.streams.publishing.incoming import Incoming
from headwater.jetstream.streams.view import StreamView
from headwater.runtime.environment import Scheduler
from headwater.server.streams.due_times import DueTimes
from headwater.server.streams.requests import Request

# The timer is set at least this far ahead, and a withdrawal that is not possible is tried again
# after this time: the publish is committed then, or long work on its stream has ended.
DELAY_NS: Final = 10 * NS_PER_MS


@final
class AckTimers:
    """The parts that the waits of all streams of a server share."""

    __slots__ = ("default_ns", "due", "now_ns")

    def __init__(self, scheduler: Scheduler, clock: Clock, default_ns: int) -> None:
        """`default_ns` is the timeout of streams without one of their own; 0 for none."""
        self.default_ns = default_ns
        self.now_ns = clock.monotonic_ns
        self.due: DueTimes[AckWaits] = DueTimes(
            scheduler, self.now_ns, delay_s_min=DELAY_NS / NS_PER_S
        )


@final
class AckWaits:
    """The publishes of one stream that wait, oldest first.

    `withdraw` has them answered, and returns whether that was possible. `undecided` are the steps
    that wait for a decision, behind all publishes in flight.
    """

    __slots__ = ("_in_flight", "_quorum", "_stream", "_timers", "_undecided", "_withdraw")

    def __init__(
        self,
        timers: AckTimers,
        stream: StreamView,
        quorum: Quorum,
        undecided: Iterable[Incoming | Request],
        withdraw: Callable[[], bool],
    ) -> None:
        self._timers = timers
        self._stream = stream
        self._quorum = quorum
        self._undecided = undecided
        self._withdraw: Callable[[], bool] | None = withdraw
        # Publishes in flight, with the times from which on they wait.
        self._in_flight: deque[tuple[int, Proposal[Record]]] = deque()

    @property
    def timeout_ns(self) -> int:
        """The time for which publishes wait; 0 if they wait without end."""
        own_ns = self._stream.config.ack_timeout
        return self._timers.default_ns if own_ns is None else own_ns

    def begin(self, incoming: Incoming) -> None:
        """Note publishes that wait from now on, or wait already."""
        if not incoming.waits_since_ns:
            incoming.waits_since_ns = self._timers.now_ns()
        timeout_ns = self.timeout_ns
        if timeout_ns:
            self._timers.due.plan(self, incoming.waits_since_ns + timeout_ns, AckWaits._look)

    def propose(self, proposal: Proposal[Record], incoming: Incoming) -> None:
        """Note publishes in flight."""
        self.begin(incoming)
        self._in_flight.append((incoming.waits_since_ns, proposal))

    def end(self, proposal: Proposal[Record]) -> None:
        """Note that a proposal is answered; the oldest is so first."""
        if self._in_flight and self._in_flight[0][1] is proposal:
            self._in_flight.popleft()

    def withdraw(self) -> int | None:
        """Have the log withdraw the entries from the oldest publish in flight on. Returns the index
        of the first; 0 if there are none, None if that is not possible now."""
        if not self._in_flight:
            return 0
        return self._quorum.withdraw(self._in_flight[0][1].index) or None

    def disown(self) -> bool:
        """Have the log withdraw the publishes in flight if this server leads it again. Returns
        whether clients are told that their results are unknown."""
        if self.timeout_ns and self._in_flight:
            self._quorum.disown(self._in_flight[0][1].index)
        return self.timeout_ns > 0

    @property
    def _since_ns(self) -> int:
        """The time from which on the oldest publish waits; 0 if none does."""
        if self._in_flight:
            return self._in_flight[0][0]
        waiting = (step for step in self._undecided if isinstance(step, Incoming))
        return next((step.waits_since_ns for step in waiting), 0)

    def _look(self, now_ns: int) -> None:
        """Have publishes answered that have waited long enough, or look again later."""
        since_ns, timeout_ns, due = self._since_ns, self.timeout_ns, self._timers.due
        if not since_ns or not timeout_ns or self._withdraw is None:
            return
        if now_ns < since_ns + timeout_ns:
            due.plan(self, since_ns + timeout_ns, AckWaits._look)
        elif not self._withdraw():
            due.plan(self, now_ns + DELAY_NS, AckWaits._look)

    def close(self) -> None:
        """Look at no publish any more, because the stream is not led here."""
        self._timers.due.cancel(self)
        self._in_flight.clear()
        self._withdraw = None
