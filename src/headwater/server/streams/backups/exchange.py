"""The connection of one backup with its client: a subscription, turns, a deadline and advisories.

Snapshots and restores use it alike. They decide which messages are sent, when the deadline is, and
how a transfer ends.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, final

from headwater.base.clock import NS_PER_S, Clock
from headwater.base.entropy import Entropy
from headwater.go.times import format_time
from headwater.jetstream.advisories import Advisory, ClientDocument, stream_subject
from headwater.runtime.environment import Scheduler, TimerHandle
from headwater.server.core.accounts import Account
from headwater.server.core.broker import Broker
from headwater.server.core.client import Handler, Subscription
from headwater.server.core.own_subscriptions import OwnSubscriptions
from headwater.server.identity import new_event_id
from headwater.server.log import Log
from headwater.server.streams.advisories import Advisories


class TransferServer(NamedTuple):
    """The parts of a server that transfers use."""

    clock: Clock
    entropy: Entropy
    scheduler: Scheduler
    broker: Broker
    log: Log
    subscriptions: OwnSubscriptions
    advisories: Advisories
    domain: str


@final
class Exchange:
    """The messages and timers of one transfer, until `close`. `client` has asked for it."""

    __slots__ = (
        "_client",
        "_deadline",
        "_server",
        "_started_ns",
        "_subscription",
        "_turn",
        "account",
        "stream_name",
    )

    def __init__(
        self,
        server: TransferServer,
        account: Account,
        stream_name: str,
        client: ClientDocument | None,
    ) -> None:
        self._server = server
        self.account = account
        self.stream_name = stream_name
        self._client = client
        self._started_ns = server.clock.wall_ns()
        self._subscription: Subscription | None = None
        self._turn: TimerHandle | None = None
        self._deadline: TimerHandle | None = None

    @property
    def title(self) -> str:
        """The stream, as log lines name it."""
        return f"stream '{self.account.name} > {self.stream_name}'"

    @property
    def started_ns(self) -> int:
        """The time at which the transfer was asked for."""
        return self._started_ns

    # --- messages ------------------------------------------------------------------------------

    def new_subject(self, prefix: str) -> str:
        """A subject for this transfer alone."""
        return f"{prefix}.{self.stream_name}.{new_event_id(self._server.entropy)}"

    def subscribe(self, subject: bytes, handler: Handler) -> None:
        """Have messages of clients of all servers on a subject handled; one per transfer."""
        self._subscription = self._server.subscriptions.serve(
            self.account, subject, handler, is_announced=True
        )

    def send(
        self, subject: bytes, payload: bytes, reply: bytes | None = None, header: bytes = b""
    ) -> None:
        """Send a message to the subscribers of a subject."""
        self._server.broker.send(self.account, subject, reply, payload, header)

    # --- time ----------------------------------------------------------------------------------

    def plan_turn(self, work: Callable[[], object], delay_s: float = 0) -> None:
        """Call `work` in a later turn, unless a turn is planned already."""
        if self._turn is None:
            run = partial(self._run_turn, work)
            scheduler = self._server.scheduler
            self._turn = scheduler.call_later(delay_s, run) if delay_s else scheduler.call_soon(run)

    def _run_turn(self, work: Callable[[], object]) -> None:
        self._turn = None
        work()

    @property
    def has_deadline(self) -> bool:
        """Whether a deadline is set."""
        return self._deadline is not None

    def set_deadline(self, deadline_ns: int, look: Callable[[], object]) -> None:
        """Call `look` when the monotonic clock has reached a time."""
        delay_s = max(deadline_ns - self._server.clock.monotonic_ns(), 0) / NS_PER_S
        run = partial(self._run_deadline, look)
        self._deadline = self._server.scheduler.call_later(delay_s, run)

    def _run_deadline(self, look: Callable[[], object]) -> None:
        self._deadline = None
        look()

    def close(self) -> None:
        """End the subscription and cancel the timers."""
        for timer in (self._turn, self._deadline):
            if timer is not None:
                timer.cancel()
        self._turn = self._deadline = None
        if self._subscription is not None:
            self._server.subscriptions.end(self._subscription)
            self._subscription = None

    # --- advisories ----------------------------------------------------------------------------

    def advise(self, event: str, advisory: Callable[..., Advisory], **fields: object) -> None:
        """Publish an advisory of the transfer, with the fields of its kind."""
        self._server.advisories.publish(
            self.account,
            stream_subject(event, self.stream_name),
            lambda heading: advisory(
                **heading._asdict(),
                stream=self.stream_name,
                client=self._client,
                domain=self._server.domain,
                **fields,
            ),
        )

    def advise_end(self, event: str, advisory: Callable[..., Advisory], **fields: object) -> None:
        """Publish the advisory of the end, with the fields of its kind."""
        start, end = format_time(self._started_ns), format_time(self._server.clock.wall_ns())
        self.advise(event, advisory, start=start, end=end, **fields)
