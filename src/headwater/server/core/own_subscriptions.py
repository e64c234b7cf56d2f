"""Subscriptions of the server itself: subjects of streams, and requests to its services.

A subscription needs a client. The server has clients of its own in every account, without a socket.
"""

from collections.abc import Callable
from typing import Final, final

from headwater.server.core.accounts import Account
from headwater.server.core.client import Client, Handler, Inlet, Subscription
from headwater.wire.decoder import ClientDecoder


@final
class ServerConnection:
    """The connection of the server's own clients. It has no socket and writes nothing."""

    __slots__ = ()

    peer_host: Final = ""
    peer_port: Final = 0

    def write(self, data: bytes) -> int:
        """Drop the bytes: the connection has no reader."""
        return 0

    def buffered_bytes(self) -> int:
        """No bytes are queued."""
        return 0

    def pause_reading(self) -> None:
        """Nothing arrives."""

    def resume_reading(self) -> None:
        """Nothing arrives."""

    def close(self) -> None:
        """There is nothing to close."""

    def abort(self) -> None:
        """There is nothing to close."""


def own_client(cid: int, account: Account) -> Client:
    """A client of the server itself in an account; its decoder is never fed."""
    return Client(cid, ServerConnection(), ClientDecoder(0, 0), account)


@final
class OwnSubscriptions:
    """Subscriptions of the server itself; `new_client` makes a client for them in an account."""

    __slots__ = ("_announced", "_clients", "_new_client")

    def __init__(self, new_client: Callable[[Account], Client]) -> None:
        self._new_client = new_client
        self._clients: dict[str, Client] = {}
        # Subscriptions that other servers were told of.
        self._announced: set[Subscription] = set()

    def serve(
        self, account: Account, subject: bytes, handler: Handler, is_announced: bool = False
    ) -> Subscription:
        """Subscribe a handler to a subject, for messages of this server or of all servers."""
        sub = Subscription(self._client(account), subject, None, b"", handler)
        return self._insert(sub, is_announced)

    def take_in(
        self, account: Account, subject: bytes, ingest: Inlet, is_announced: bool = False
    ) -> Subscription:
        """Subscribe an inlet to a subject, for messages of this server or of all servers."""
        sub = Subscription(self._client(account), subject, None, b"")
        sub.ingest = ingest
        return self._insert(sub, is_announced)

    def end(self, sub: Subscription) -> None:
        """End a subscription."""
        account = sub.client.account
        account.index.remove(sub.subject, sub.queue, sub)
        if sub in self._announced:
            self._announced.remove(sub)
            self.withdraw(account, sub.subject)

    def announce(self, account: Account, pattern: bytes) -> None:
        """Tell other servers that messages of a pattern are wanted here.

        A subscription that serves peers takes them; its own pattern may be a wider one.
        """
        if account.ledger is not None:
            account.ledger.add(pattern, None)

    def withdraw(self, account: Account, pattern: bytes) -> None:
        """Tell other servers that messages of an announced pattern are not wanted any more."""
        if account.ledger is not None:
            account.ledger.remove(pattern, None)

    def _insert(self, sub: Subscription, is_announced: bool) -> Subscription:
        account = sub.client.account
        account.index.insert(sub.subject, sub.queue, sub)
        if is_announced:
            sub.serves_peers = True
            self._announced.add(sub)
            self.announce(account, sub.subject)
        return sub

    def _client(self, account: Account) -> Client:
        client = self._clients.get(account.name)
        if client is None or client.account is not account:
            client = self._clients[account.name] = self._new_client(account)
        return client
