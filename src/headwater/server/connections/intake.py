"""The bytes of all clients on their way into the server, and the turns that connections take.

One connection that sends as fast as it can must not hold up the others. So a turn of the loop has a
budget of work, and connections that send more than fits are served in turn: each has its backlog
(reads, and segments decoded from them, in the order they came), its socket is not read while it has
a backlog, and a queue hands out slices until the turn's budget is spent. A connection
without a backlog is served as its bytes arrive, while the turn has budget left; this is the usual
case. A connection that had no backlog and comes when the budget is spent is a newcomer: newcomers
go first in the next turn, with a small slice each, and their answers leave before the connections
with a longer backlog are served. So a client that asks for little waits for one turn, not for two.

    read ──▶ no backlog, budget left ──▶ decoded and performed at once
      ├────▶ no backlog ──▶ newcomers ──▶ a small slice, its answers written ──▶ read again
      └────▶ backlog ──▶ queue ──▶ a slice per round, until the turn is over ──▶ read again

Must not know: the meaning of an operation, which a `Performer` knows. `server.core.budget` has
the units in which work is counted.
"""

from collections import deque
from typing import Protocol, final

from headwater.runtime.environment import Scheduler
from headwater.server.core.budget import (
    BYTES_PER_UNIT,
    NEWCOMER_UNITS,
    NEWCOMERS_UNITS,
    SLICE_UNITS,
    TURN_UNITS,
    Budget,
)
from headwater.server.core.client import Client
from headwater.wire.batch import Segment


class Performer(Protocol):
    """The part of a server that knows what operations mean."""

    def perform(self, client: Client, segment: Segment, budget: Budget) -> Segment | None:
        """Perform a segment and charge the budget.

        Returns the publishes of the segment for which the budget was too small.
        """
        ...

    def decoded(self, client: Client) -> None:
        """Every whole operation of a client has been performed; a part of another may be left.

        Not called for a client whose session performs everything.
        """
        ...

    def forget(self, client: Client, reason: str) -> None:
        """The backlog of a connection that was lost has been performed."""
        ...

    def write_answers(self) -> None:
        """Write the frames that the operations of this turn have produced so far."""
        ...


@final
class Intake:
    """Bytes and operations that clients have sent and the server has not performed yet."""

    __slots__ = (
        "_budget",
        "_is_planned",
        "_newcomers",
        "_perform",
        "_performer",
        "_queue",
        "_scheduler",
        "_spent",
    )

    def __init__(self, scheduler: Scheduler, performer: Performer) -> None:
        self._scheduler = scheduler
        self._performer = performer
        self._perform = performer.perform
        # Clients with a backlog; each stands once in one of the two queues.
        self._newcomers: deque[Client] = deque()
        self._queue: deque[Client] = deque()
        self._is_planned = False
        self._budget = Budget()
        # Units spent since the queue was last served.
        self._spent = 0

    def receive(self, client: Client, data: bytes) -> None:
        """Bytes arrived from a client."""
        if client.close_reason:
            return
        if client.is_held_back:
            # Reading is paused; a loop may still hand over what it had already read.
            client.backlog.reads.append(data)
        elif self._spent >= TURN_UNITS:
            client.backlog.reads.append(data)
            self._enqueue(client, self._newcomers)
        else:
            segments = client.decoder.feed(data)
            self._spent += len(data) // BYTES_PER_UNIT
            is_alone = not (self._queue or self._newcomers)
            units = TURN_UNITS - self._spent if is_alone else SLICE_UNITS
            if len(segments) == 1 and units > 0 and not client.decoder.stopped:
                self._serve_one(client, segments[0], units)
            else:
                client.backlog.segments = segments
                self._serve(client, units)

    def resume(self, client: Client) -> None:
        """Go on with a client that was held back, unless something else holds it back."""
        if client.close_reason or client.is_held_back:
            return
        if client.has_backlog:
            self._enqueue(client, self._queue)
        else:
            self._release(client)

    def lose(self, client: Client, reason: str) -> None:
        """A connection is gone; the client is forgotten when its backlog has been performed.

        The backlog of a client that is not authenticated yet is not performed.
        """
        if client.session.waits or not client.has_backlog:
            self._performer.forget(client, reason)
        else:
            client.backlog.lost_reason = reason
            self.resume(client)

    def _enqueue(self, client: Client, queue: deque[Client]) -> None:
        client.backlog.is_queued = True
        client.connection.pause_reading()
        queue.append(client)
        self._plan_turn()

    def _plan_turn(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._scheduler.call_soon(self._take_turn)

    def _release(self, client: Client) -> None:
        """A client has no backlog: its socket is read again, if it has one."""
        if client.backlog.lost_reason:
            self._performer.forget(client, client.backlog.lost_reason)
        else:
            client.connection.resume_reading()

    def _take_turn(self) -> None:
        """Serve the clients that wait until the turn's budget is spent."""
        self._is_planned = False
        self._spent = 0
        queue, newcomers = self._queue, self._newcomers
        try:
            if queue or len(newcomers) > 1:
                self._serve_newcomers()
            elif newcomers:
                # No other client waits.
                queue.append(newcomers.popleft())
            while queue and self._spent < TURN_UNITS:
                self._serve_first(queue, SLICE_UNITS)
        finally:
            # A bug that shows at one client must not silence the rest.
            if queue or newcomers:
                self._plan_turn()

    def _serve_newcomers(self) -> None:
        """Serve clients that ask for little, and have their answers written."""
        newcomers = self._newcomers
        if not newcomers:
            return
        while newcomers and self._spent < NEWCOMERS_UNITS:
            self._serve_first(newcomers, NEWCOMER_UNITS)
        self._performer.write_answers()

    def _serve_first(self, queue: deque[Client], slice_units: int) -> None:
        client = queue.popleft()
        client.backlog.is_queued = False
        if client.close_reason or client.awaited:
            return
        is_alone = not (self._queue or self._newcomers)
        self._serve(client, TURN_UNITS - self._spent if is_alone else slice_units)
        if not (client.close_reason or client.has_backlog or client.is_held_back):
            self._release(client)

    def _serve_one(self, client: Client, segment: Segment, units: int) -> None:
        """Perform the only segment of a client that is not held back: `_serve` in fewer steps."""
        budget = self._budget
        budget.units = units
        try:
            rest = self._perform(client, segment, budget)
        finally:
            self._spent += units - budget.units
        if rest is not None:
            client.backlog.segments = [rest]
            if not client.is_held_back and not client.close_reason:
                self._enqueue(client, self._queue)
        elif not (client.session.performs_all or client.close_reason or client.is_held_back):
            self._performer.decoded(client)

    def _serve(self, client: Client, units: int) -> None:
        """Perform a backlog until it is empty, the budget is spent, or the client is held back."""
        budget, backlog = self._budget, client.backlog
        budget.units = units
        try:
            while backlog.segments or self._decode_some(client, budget):
                if not self._perform_some(client, budget):
                    break
            else:
                if not client.session.performs_all:
                    self._performer.decoded(client)
                return
        finally:
            self._spent += units - budget.units
        if client.has_backlog and not client.is_held_back and not client.close_reason:
            self._enqueue(client, self._queue)

    def _perform_some(self, client: Client, budget: Budget) -> bool:
        """Perform the decoded operations. Returns False if the client is held back or gone."""
        perform = self._perform
        backlog = client.backlog
        segments = backlog.segments
        backlog.segments = []
        for done, segment in enumerate(segments, start=1):
            if budget.units <= 0 or client.is_held_back:
                backlog.segments = segments[done - 1 :]
                return False
            rest = perform(client, segment, budget)
            if client.close_reason:
                return False
            if rest is not None:
                backlog.segments = [rest, *segments[done:]]
                return False
        return not client.is_held_back

    def _decode_some(self, client: Client, budget: Budget) -> bool:
        """Decode the next part of the oldest read. Returns whether there was one."""
        decoder, backlog = client.decoder, client.backlog
        if decoder.stopped:
            backlog.segments = decoder.feed(b"")
            return True
        if not backlog.reads:
            return False
        data = backlog.reads.pop(0)
        budget.charge(len(data) // BYTES_PER_UNIT)
        backlog.segments = decoder.feed(data)
        return True
