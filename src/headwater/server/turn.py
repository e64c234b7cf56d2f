"""The order of a turn: what happens to everything that came in since the last one.

    1  take in   connections are served; publishes and acknowledgements gather at inlets, frames of
                 other servers come to their groups, and a sync that has ended advances its streams
    2  decide    each inlet hands its batch over: to its stream, or to the consumers of an account
    3  serve     consumers whose messages were asked for deliver, now that streams have everything
    4  agree     groups propose what streams have decided, apply what is committed, and keep what is
                 to be written; what that decides and delivers belongs to the turn
    5  send      one write per link: a leader sends before it writes
    6  write     one write of all entries, of streams and of groups; their sync begins off the loop
    7  answer    groups answer other servers as far as the write allows
    8  flush     one write per connection

Step 1 is the affair of connections (`headwater.server.connections.intake`), links and the driver of
syncs; the others are ordered here and nowhere else. A step that nobody wants is left out. Work that
a step causes for one before it belongs to the next turn, except that a request must see everything
that was published before it: it has the gathered batches decided first (`decide_gathered`).

Must not know: what a batch holds, and what an answer says.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, final

from headwater.jetstream.streams.publishing.incoming import Incoming
from headwater.runtime.environment import Scheduler
from headwater.server.core.client import Client, Inlet
from headwater.server.core.out_buffers import OutBuffers


class Agreement(Protocol):
    """The consensus groups of a server."""

    def agree(self) -> None:
        """Do the work of all groups in which something happened, and keep what is to be written."""
        ...

    def answer_written(self) -> None:
        """Send the replies that rest on writes which are done."""
        ...


@final
class Turn:
    """The turn of the loop that is under way."""

    __slots__ = (
        "_calls",
        "_inlets",
        "_is_agreement_wanted",
        "_is_commit_wanted",
        "_is_planned",
        "_is_sending_wanted",
        "_scheduler",
        "agreement",
        "buffers",
        "causes",
        "commit",
        "send",
    )

    def __init__(
        self, scheduler: Scheduler, max_pending: int, overflow: Callable[[Client], None]
    ) -> None:
        self._scheduler = scheduler
        self._is_planned = False
        # Inlets that gathered something, in the order in which they began to.
        self._inlets: list[Inlet] = []
        # Calls for the step that serves.
        self._calls: list[Callable[[], object]] = []
        # The steps that are there on a server with other servers, or with streams, and whether they
        # are wanted in this turn: the groups, the writes to links, and the commit of the store.
        self.agreement: Agreement | None = None
        self.send: Callable[[], object] = _nothing
        self.commit: Callable[[], object] = _nothing
        self._is_agreement_wanted = self._is_sending_wanted = self._is_commit_wanted = False
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

    def want_agreement(self) -> None:
        """Have the groups of the server do their work in this turn."""
        self._is_agreement_wanted = True
        self.plan()

    def want_sending(self) -> None:
        """Have the bytes for other servers written in this turn."""
        self._is_sending_wanted = True
        self.plan()

    def want_commit(self) -> None:
        """Have the entries of the turn written, and synced, when everything is decided."""
        self._is_commit_wanted = True
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
        """Take all steps: everything that came in is answered as far as it can be now."""
        # Work and frames that come meanwhile belong to this turn: no other one is planned for them.
        self._is_planned = True
        buffers = self.buffers
        has_agreed = False
        try:
            while self._inlets or self._calls or (self._is_agreement_wanted and not has_agreed):
                if self._inlets:
                    self.decide_gathered()
                elif self._calls:
                    self._calls.pop(0)()
                else:
                    # Messages that are committed now may be delivered, and republished to others.
                    has_agreed = True
                    self._agree()
            if self._is_sending_wanted:
                self._send()
            if self._is_commit_wanted:
                self._write()
        finally:
            try:
                buffers.flush()
            finally:
                self._is_planned = False
                # A write may end a client, which causes more work, and a bug that shows in one
                # step must not silence the rest.
                is_step_wanted = (
                    self._is_agreement_wanted or self._is_sending_wanted or self._is_commit_wanted
                )
                if self._inlets or self._calls or buffers.dirty or is_step_wanted:
                    self.plan()

    def _agree(self) -> None:
        self._is_agreement_wanted = False
        if self.agreement is not None:
            self.agreement.agree()

    def _send(self) -> None:
        self._is_sending_wanted = False
        self.send()

    def _write(self) -> None:
        self._is_commit_wanted = False
        self.commit()
        if self.agreement is not None:
            self.agreement.answer_written()
            if self._is_sending_wanted:
                self._send()


def _nothing() -> None:
    """The step of a server that has no part for it."""
