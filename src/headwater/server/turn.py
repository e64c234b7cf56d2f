"""The order of a turn: what happens to everything that came in since the last one.

    1  take in   connections are served; publishes and acknowledgements gather at inlets
    2  decide    each inlet hands its batch over: to its stream, or to the consumers of an account
    3  serve     consumers whose messages were asked for deliver, now that streams have everything
    4  write     one write per connection

Step 1 is the connections' affair (`headwater.server.connections.intake`); the others are ordered
here and nowhere else. A request must see everything that was published before it, so it has the
gathered batches decided first (`decide_gathered`); the steps themselves keep their order.

Must not know: what a batch holds, and what an answer says.
"""

from collections.abc import Callable, Sequence
from typing import final

from headwater.jetstream.streams.publishing.incoming import Incoming
from headwater.runtime.environment import Scheduler
from headwater.server.core.client import Client, Inlet
from headwater.server.core.out_buffers import OutBuffers


@final
class Turn:
    """The turn of the loop that is under way."""

    __slots__ = ("_calls", "_inlets", "_is_planned", "_scheduler", "buffers", "causes")

    def __init__(
        self, scheduler: Scheduler, max_pending: int, overflow: Callable[[Client], None]
    ) -> None:
        self._scheduler = scheduler
        self._is_planned = False
        # Inlets that gathered something, in the order in which they began to.
        self._inlets: list[Inlet] = []
        # Calls for the step that serves.
        self._calls: list[Callable[[], object]] = []
        self.buffers = OutBuffers(max_pending, overflow, self.plan)
        # Clients because of which the server itself sends messages now: the client of a request, or
        # the publishers to the stream that is processed.
        self.causes: Sequence[Client] = ()

    def plan(self) -> None:
        """Have the turn completed after everything that the loop is about to take in."""
        if not self._is_planned:
            self._is_planned = True
            self._scheduler.call_soon(self.complete)

    def open_inlet(self, inlet: Inlet, source: Client | None) -> Incoming:
        """The gathered publishes of an inlet, for more of them from a client or the server."""
        if not inlet.waiting:
            inlet.waiting = True
            self._inlets.append(inlet)
            self.plan()
        if source is not None and (not inlet.publishers or inlet.publishers[-1] is not source):
            inlet.publishers.append(source)
            inlet.starts.append(len(inlet.incoming.subjects))
        return inlet.incoming

    def call_when_decided(self, work: Callable[[], object]) -> None:
        """Have `work` called when streams have everything that came in this turn."""
        self._calls.append(work)
        self.plan()

    def decide_gathered(self) -> None:
        """Have every inlet hand over its batch, also those that gather more because of it."""
        while self._inlets:
            inlets = self._inlets
            self._inlets = []
            done = 0
            causes = self.causes
            try:
                for inlet in inlets:
                    done += 1
                    self.causes = inlet.publishers
                    inlet.owner.process(inlet)
            finally:
                self.causes = causes
                # A bug that shows at one stream must not silence the rest.
                if done < len(inlets):
                    self._inlets = inlets[done:] + self._inlets
                    self.plan()

    def complete(self) -> None:
        """Decide, serve and write: everything that came in is answered as far as it can be now."""
        # Work and frames that come meanwhile belong to this turn: no other one is planned for them.
        self._is_planned = True
        buffers = self.buffers
        try:
            if self._inlets:
                self.decide_gathered()
            while self._calls:
                self._calls.pop(0)()
                if self._inlets:
                    self.decide_gathered()
        finally:
            try:
                buffers.flush()
            finally:
                self._is_planned = False
                # A write may end a client, which causes more work, and a bug that shows in one
                # step must not silence the rest.
                if self._inlets or self._calls or buffers.dirty:
                    self.plan()
