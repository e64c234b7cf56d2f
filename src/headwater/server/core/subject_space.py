"""The subject space of an account: its subscriptions, its clients, and what went through it.

The space does not know its clients and subscriptions: it keeps them and gives them back. So the
types of both are parameters, and a client may hold the space that it is in.
"""

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar, final

from headwater.server.configuration.options import AccountLimits
from headwater.server.core.budget import Budget
from headwater.subjects.index import SubscriptionIndex
from headwater.wire.batch import Publishes, Run

C = TypeVar("C")
S = TypeVar("S")
Source = TypeVar("Source", contravariant=True)


class RemoteInterest(Protocol[Source]):
    """The subscriptions of other servers in an account."""

    def hears(self, subject: bytes) -> bool:
        """Whether another server listens to a subject."""
        ...

    def has_subscription(self, pattern: bytes, queue: bytes | None) -> bool:
        """Whether another server has a subscription to just this pattern and queue group."""
        ...

    @property
    def may_be_behind(self) -> bool:
        """Whether `is_behind` may be true of any subject."""
        ...

    def is_behind(self, subject: bytes) -> bool:
        """Whether a server that listens to a subject has so much to read that it gets no more."""
        ...

    def publish(
        self, source: Source, segment: Publishes | Run, budget: Budget
    ) -> Publishes | Run | None:
        """Route publishes of a client here and to other servers.

        Returns the publishes for which the budget was too small.
        """
        ...

    def relay(
        self,
        source: Source | None,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
    ) -> None:
        """Send a publish of a client to the servers that listen to its subject."""
        ...

    def send(self, subject: bytes, reply: bytes | None, header: bytes, payload: bytes) -> None:
        """Send a message of this server itself to the servers that listen to its subject."""
        ...

    def send_replies(
        self, subjects: list[bytes], payloads: Sequence[bytes], headers: Sequence[bytes]
    ) -> None:
        """Send many messages of this server itself; `headers` of all, or of none."""
        ...

    def send_messages(
        self,
        subjects: list[bytes],
        replies: list[bytes],
        headers: list[bytes],
        payloads: list[bytes],
        to: bytes,
    ) -> None:
        """Send messages of a stream to the servers that listen to `to`."""
        ...


class InterestLedger(Protocol):
    """The count of subscriptions by which other servers are told of them."""

    def add(self, pattern: bytes, queue: bytes | None) -> None:
        """A subscription has come."""
        ...

    def remove(self, pattern: bytes, queue: bytes | None) -> None:
        """A subscription has gone."""
        ...

    def mark(self) -> int:
        """A number that each other server echoes once it has heard from this server after now."""
        ...


@final
class SubjectSpace(Generic[C, S]):
    """One subject space and the connections in it."""

    __slots__ = (
        "clients",
        "in_bytes",
        "in_msgs",
        "index",
        "ledger",
        "limits",
        "name",
        "out_bytes",
        "out_msgs",
        "remote",
        "slow_consumers",
        "total_connections",
        "watched",
    )

    def __init__(self, name: str, caching: bool = True) -> None:
        self.name = name
        self.limits = AccountLimits()
        self.index: SubscriptionIndex[S] = SubscriptionIndex(caching)
        self.clients: dict[C, None] = {}
        self.total_connections = 0
        # Of clients that have left; those that are here count their own.
        self.in_msgs = 0
        self.in_bytes = 0
        self.out_msgs = 0
        self.out_bytes = 0
        self.slow_consumers = 0
        # None on a server that has no cluster.
        self.ledger: InterestLedger | None = None
        # None while no other server listens to anything in the account.
        self.remote: RemoteInterest[C] | None = None
        # Calls to make when a subscription to a subject comes or goes, by subject and watcher.
        self.watched: dict[bytes, dict[object, Callable[[], object]]] = {}

    def is_heard(self, subject: bytes) -> bool:
        """Whether a subscription matches a subject, here or on another server."""
        route = self.index.match(subject)
        if route.plain or route.groups:
            return True
        return self.remote is not None and self.remote.hears(subject)

    def watch(self, subject: bytes, watcher: object, changed: Callable[[], object]) -> None:
        """Have `changed` called whenever a subscription to just this subject comes or goes."""
        self.watched.setdefault(subject, {})[watcher] = changed

    def unwatch(self, subject: bytes, watcher: object) -> None:
        """End the calls of a watcher."""
        watchers = self.watched.get(subject, {})
        watchers.pop(watcher, None)
        if not watchers:
            self.watched.pop(subject, None)

    def subscribed(self, subject: bytes, queue: bytes | None) -> None:
        """A subscription of a client was added to the index."""
        if self.ledger is not None:
            self.ledger.add(subject, queue)
        if self.watched:
            self.interest_changed(subject)

    def unsubscribed(self, subject: bytes, queue: bytes | None) -> None:
        """A subscription of a client was removed from the index."""
        if self.ledger is not None:
            self.ledger.remove(subject, queue)
        if self.watched:
            self.interest_changed(subject)

    def interest_changed(self, subject: bytes) -> None:
        """A subscription to a subject came or went: call those who watch it."""
        for changed in [*self.watched.get(subject, {}).values()]:
            changed()
