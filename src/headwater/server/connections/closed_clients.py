"""Connections that have ended, as /connz shows them.

A closed connection is a small value: it holds no socket, decoder or account, so that the client
itself is freed when it goes. The operator chooses the number of closed connections that are kept
(`max_closed_clients`); their bytes have a bound too, because a client chooses its name and its
subscriptions.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple, final

from headwater.server.core.client import Client, Subscription

# Subscriptions that are listed of one closed connection; the rest are only counted. A page of
# /connz shows as many connections.
CLOSED_SUBSCRIPTIONS_MAX: Final = 1024
# All closed connections together: ten thousand of usual clients with a few subscriptions each.
CLOSED_BYTES_MAX: Final = 32 * 1024 * 1024

# The memory of one record and of one subscription in it, without the texts of the client.
_RECORD_BYTES: Final = 1024
_SUBSCRIPTION_BYTES: Final = 256


class ClosedSubscription(NamedTuple):
    """A subscription that a client had at its end."""

    subject: bytes
    queue: bytes | None
    sid: bytes
    delivered: int
    limit: int

    @classmethod
    def of(cls, sub: Subscription) -> "ClosedSubscription":
        """The subscription as it is now."""
        return cls(sub.subject, sub.queue, sub.sid, sub.delivered, sub.limit)


@final
class ClosedClient:
    """One connection that has ended. Its fields are named as those of a Client."""

    __slots__ = (
        "account_name",
        "authorized_user",
        "cid",
        "close_reason",
        "in_bytes",
        "in_msgs",
        "is_tls_first",
        "lang",
        "last_activity_wall_ns",
        "name",
        "out_bytes",
        "out_msgs",
        "peer_host",
        "peer_port",
        "rtt_ns",
        "size_bytes",
        "started_wall_ns",
        "stopped_wall_ns",
        "subscription_count",
        "subscriptions",
        "tls",
        "version",
    )

    def __init__(self, client: Client) -> None:
        self.cid = client.cid
        self.peer_host = client.peer_host
        self.peer_port = client.peer_port
        self.account_name = client.account_name
        self.authorized_user = client.authorized_user
        self.name = client.name
        self.lang = client.lang
        self.version = client.version
        self.close_reason = client.close_reason
        # Without the certificates, which may be long.
        self.tls = client.tls and replace(client.tls, peer_certificates=())
        self.is_tls_first = client.is_tls_first
        self.started_wall_ns = client.started_wall_ns
        self.stopped_wall_ns = client.stopped_wall_ns
        self.last_activity_wall_ns = client.last_activity_wall_ns
        self.rtt_ns = client.rtt_ns
        self.in_msgs = client.in_msgs
        self.in_bytes = client.in_bytes
        self.out_msgs = client.out_msgs
        self.out_bytes = client.out_bytes
        self.subscription_count = client.subscription_count
        listed = islice(client.subscriptions.values(), CLOSED_SUBSCRIPTIONS_MAX)
        self.subscriptions = tuple(ClosedSubscription.of(sub) for sub in listed)
        # About how many bytes of memory the record takes.
        self.size_bytes = _RECORD_BYTES + sum(
            map(len, (self.name, self.lang, self.version, self.authorized_user))
        )
        for sub in self.subscriptions:
            self.size_bytes += _SUBSCRIPTION_BYTES + len(sub.subject) + len(sub.sid)
            self.size_bytes += len(sub.queue or b"")

    @property
    def pending_bytes(self) -> int:
        """No bytes are queued for a connection that has ended."""
        return 0


@final
class ClosedClients:
    """The last connections that have ended, oldest first."""

    __slots__ = ("_clients", "_count_max", "_size_bytes")

    def __init__(self, count_max: int) -> None:
        self._count_max = max(count_max, 0)
        self._clients: deque[ClosedClient] = deque()
        self._size_bytes = 0

    def __iter__(self) -> Iterator[ClosedClient]:
        return iter(self._clients)

    def __len__(self) -> int:
        return len(self._clients)

    def add(self, client: Client) -> None:
        """Remember a client that goes; the oldest records make room for it."""
        closed = ClosedClient(client)
        self._clients.append(closed)
        self._size_bytes += closed.size_bytes
        while len(self._clients) > self._count_max or self._size_bytes > CLOSED_BYTES_MAX:
            self._size_bytes -= self._clients.popleft().size_bytes
