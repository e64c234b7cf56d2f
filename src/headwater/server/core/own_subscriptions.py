"""What the server itself listens for in accounts: subjects of streams, and requests.

A subscription needs a client. The server has one of its own in every account, without a connection.
"""

from collections.abc import Callable
from typing import final

from headwater.server.core.accounts import Account
from headwater.server.core.client import Client, Handler, Subscription
from headwater.server.core.ingest import Ingest


@final
class OwnSubscriptions:
    """Subscriptions of the server itself. `new_client` makes its client in an account."""

    __slots__ = ("_clients", "_new_client")

    def __init__(self, new_client: Callable[[Account], Client]) -> None:
        self._new_client = new_client
        self._clients: dict[str, Client] = {}

    def serve(self, account: Account, subject: bytes, handler: Handler) -> Subscription:
        """Have messages on a subject handled as they come."""
        return self._insert(Subscription(self._client(account), subject, None, b"", handler))

    def take_in(self, account: Account, subject: bytes, ingest: Ingest) -> Subscription:
        """Have messages on a subject gathered for a stream."""
        sub = Subscription(self._client(account), subject, None, b"")
        sub.ingest = ingest
        return self._insert(sub)

    def end(self, sub: Subscription) -> None:
        """Listen no longer."""
        sub.client.account.index.remove(sub.subject, sub.queue, sub)

    def _insert(self, sub: Subscription) -> Subscription:
        sub.client.account.index.insert(sub.subject, sub.queue, sub)
        return sub

    def _client(self, account: Account) -> Client:
        client = self._clients.get(account.name)
        if client is None or client.account is not account:
            client = self._clients[account.name] = self._new_client(account)
        return client
