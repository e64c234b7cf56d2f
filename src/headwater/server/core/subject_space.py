"""The subject space of an account: its subscriptions, its clients, and what went through it.

The space does not know its clients and subscriptions: it keeps them and gives them back. So the
types of both are parameters, and a client may hold the space that it is in.
"""

from collections.abc import Callable
from typing import Generic, TypeVar, final

from headwater.server.configuration.options import AccountLimits
from headwater.subjects.index import SubscriptionIndex

C = TypeVar("C")
S = TypeVar("S")


@final
class SubjectSpace(Generic[C, S]):
    """One subject space and the connections in it."""

    __slots__ = (
        "clients",
        "in_bytes",
        "in_msgs",
        "index",
        "limits",
        "name",
        "out_bytes",
        "out_msgs",
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
        self.in_msgs = 0
        self.in_bytes = 0
        # Of clients that have left; those that are here count their own.
        self.out_msgs = 0
        self.out_bytes = 0
        self.slow_consumers = 0
        # Calls to make when a subscription to a subject comes or goes, by subject and watcher.
        self.watched: dict[bytes, dict[object, Callable[[], object]]] = {}

    def watch(self, subject: bytes, watcher: object, changed: Callable[[], object]) -> None:
        """Have `changed` called whenever a subscription to just this subject comes or goes."""
        self.watched.setdefault(subject, {})[watcher] = changed

    def unwatch(self, subject: bytes, watcher: object) -> None:
        """End the calls of a watcher."""
        watchers = self.watched.get(subject, {})
        watchers.pop(watcher, None)
        if not watchers:
            self.watched.pop(subject, None)

    def interest_changed(self, subject: bytes) -> None:
        """A subscription to a subject came or went: call those who watch it."""
        for changed in [*self.watched.get(subject, {}).values()]:
            changed()
