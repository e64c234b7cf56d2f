"""Streams handed out as backups: one object per snapshot under way, from the reply to the end.

What is sent, and when, is decided by `headwater.jetstream.api.snapshot`; here it is joined to
subjects and timers. Reads and publishes go on meanwhile: a snapshot takes a turn, and then lets
everybody else have theirs.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

import msgspec

from headwater.base.clock import NS_PER_S
from headwater.go.json import write
from headwater.go.times import format_time
from headwater.jetstream.advisories import (
    ClientDocument,
    SnapshotCompleteAdvisory,
    SnapshotCreateAdvisory,
    stream_subject,
)
from headwater.jetstream.api.documents import StreamState
from headwater.jetstream.api.snapshot import (
    NO_FLOW,
    NO_INTEREST,
    Outgoing,
    SnapshotRequest,
    SnapshotSender,
)
from headwater.jetstream.backup.writing import BackupWriter
from headwater.jetstream.streams.stream import Stream
from headwater.runtime.environment import TimerHandle
from headwater.server.core.accounts import Account
from headwater.server.core.client import Client, Subscription
from headwater.server.identity import new_event_id

if TYPE_CHECKING:
    from headwater.server.streams.backups.transfers import TransferWorld

_ACK_PREFIX: Final = "$JS.SNAPSHOT.ACK"
# Whoever asked may still be about to listen.
INTEREST_WAIT_NS: Final = 2 * NS_PER_S
INTEREST_LOOK_S: Final = 0.05


@final
class Snapshot:
    """One snapshot on its way out. `ended` is called when it is over, however it ends."""

    __slots__ = (
        "_account",
        "_ack",
        "_client",
        "_consumers",
        "_deliver",
        "_had_interest",
        "_request",
        "_sender",
        "_started_ns",
        "_state",
        "_timer",
        "_turn",
        "_waiting_until_ns",
        "_world",
        "ended",
        "stream",
    )

    def __init__(
        self,
        world: "TransferWorld",
        account: Account,
        stream: Stream,
        request: SnapshotRequest,
        state: StreamState,
        client: ClientDocument | None,
        ended: Callable[["Snapshot"], object],
    ) -> None:
        self._world = world
        self._account = account
        self.stream = stream
        self._request = request
        self._state = state
        self._client = client
        self.ended = ended
        # As many as there are now, also if some go before they are reached; not the server's own.
        self._consumers = [] if request.no_consumers else stream.consumers.shown
        self._deliver = request.deliver_subject.encode(errors="surrogateescape")
        self._started_ns = world.clock.wall_ns()
        self._waiting_until_ns = world.clock.monotonic_ns() + INTEREST_WAIT_NS
        self._had_interest = False
        self._sender: SnapshotSender | None = None
        self._ack: Subscription | None = None
        self._timer: TimerHandle | None = None
        # The call that will go on, if one is planned. The first comes after the reply.
        self._turn: TimerHandle | None = world.scheduler.call_soon(self._announce)

    # --- beginning -----------------------------------------------------------------------------

    def _announce(self) -> None:
        self._world.log(f"Starting snapshot for stream '{self._title}'")
        self._world.advisories.tell(
            self._account,
            stream_subject("SNAPSHOT_CREATE", self.stream.name),
            lambda heading: SnapshotCreateAdvisory(
                **heading._asdict(),
                stream=self.stream.name,
                state=self._state,
                client=self._client,
                domain=self._world.domain,
            ),
        )
        self._await_interest()

    @property
    def _title(self) -> str:
        return f"{self._account.name} > {self.stream.name}"

    def _is_listened_to(self) -> bool:
        return self._account.index.match(self._deliver).size > 0

    def _await_interest(self) -> None:
        """Begin when somebody listens, or in any case after a while."""
        self._turn = None
        world = self._world
        now_ns = world.clock.monotonic_ns()
        self._had_interest = self._is_listened_to()
        if not self._had_interest and now_ns < self._waiting_until_ns:
            self._turn = world.scheduler.call_later(INTEREST_LOOK_S, self._await_interest)
            return
        subject = f"{_ACK_PREFIX}.{self.stream.name}.{new_event_id(world.entropy)}".encode()
        state = msgspec.structs.replace(self._state, consumer_count=len(self._consumers))
        source = BackupWriter(
            self.stream.log, write(state), state.last_seq, self._started_ns, self._consumers
        )
        self._sender = SnapshotSender(self._request, source, subject, now_ns)
        self._ack = world.subscriptions.serve(self._account, subject + b".>", self._acknowledged)
        self._go_on()

    # --- sending -------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Send what can be sent in this turn."""
        self._turn = None
        sender = self._sender
        if sender is None or sender.is_over:
            return
        now_ns = self._world.clock.monotonic_ns()
        if self._had_interest and not self._is_listened_to():
            self._give_up(NO_INTEREST)
            return
        for message in sender.send(now_ns):
            self._send(message)
        if sender.is_over:
            self._end()
        elif sender.can_send:
            self._plan_turn()
        elif self._timer is None:
            self._watch(now_ns)

    def _plan_turn(self) -> None:
        if self._turn is None:
            self._turn = self._world.scheduler.call_soon(self._go_on)

    def _send(self, message: Outgoing) -> None:
        route = self._account.index.match(self._deliver)
        self._world.broker.send(
            route, self._deliver, message.reply, message.payload, message.header
        )

    def _acknowledged(
        self,
        source: Client | None,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
    ) -> None:
        if self._sender is not None:
            self._sender.acknowledged()
            self._plan_turn()

    def _watch(self, now_ns: int) -> None:
        """See to it that it ends if no acknowledgement comes any more."""
        if self._sender is not None:
            delay_s = max(self._sender.deadline_ns - now_ns, 0) / NS_PER_S
            self._timer = self._world.scheduler.call_later(delay_s, self._look_at_deadline)

    def _look_at_deadline(self) -> None:
        self._timer = None
        sender = self._sender
        if sender is None or sender.is_over:
            return
        now_ns = self._world.clock.monotonic_ns()
        if sender.can_send or now_ns < sender.deadline_ns:
            self._watch(now_ns)
            return
        is_gone = self._had_interest and not self._is_listened_to()
        self._give_up(NO_INTEREST if is_gone else NO_FLOW)

    # --- the end -------------------------------------------------------------------------------

    def stream_gone(self) -> None:
        """The stream was deleted."""
        self._give_up("stream was deleted")

    def _give_up(self, reason: str) -> None:
        if self._sender is None:
            # Nobody was sent anything: there is nobody to tell but those who listen for advisories.
            self._conclude(reason)
        elif not self._sender.is_over:
            self._send(self._sender.give_up(reason))
            self._end()

    def stop(self) -> None:
        """The server stops."""
        for timer in (self._turn, self._timer):
            if timer is not None:
                timer.cancel()
        self._turn = self._timer = None
        if self._ack is not None:
            self._world.subscriptions.end(self._ack)
            self._ack = None

    def _end(self) -> None:
        self._conclude("" if self._sender is None else self._sender.error)

    def _conclude(self, error: str) -> None:
        self.stop()
        self.ended(self)
        world = self._world
        end_ns = world.clock.wall_ns()
        if error:
            world.warn(f"Snapshot for stream '{self._title}' failed: {error}")
        else:
            world.log(f"Completed snapshot for stream '{self._title}'")
        world.advisories.tell(
            self._account,
            stream_subject("SNAPSHOT_COMPLETE", self.stream.name),
            lambda heading: SnapshotCompleteAdvisory(
                **heading._asdict(),
                stream=self.stream.name,
                start=format_time(self._started_ns),
                end=format_time(end_ns),
                client=self._client,
                domain=world.domain,
                error=error,
            ),
        )
