"""The parts of a server that agree with its peers, as the links between servers know them."""

from typing import Protocol


class PeerListener(Protocol):
    """The part of a server that agrees with its peers, which it knows by their names."""

    def peer_joined(self, peer: str) -> None:
        """The channel for consensus is open."""
        ...

    def peer_left(self, peer: str) -> None:
        """The channel for consensus has ended."""
        ...

    def peer_unreachable(self, peer: str) -> None:
        """A server that was connected before refuses connections."""
        ...

    def peer_heard(self, peer: str) -> None:
        """Bytes have come on a channel of the peer, perhaps not yet a whole payload."""
        ...

    def consensus_received(self, peer: str, payload: bytes) -> None:
        """A payload that the peer's listener gave to `send_consensus`."""
        ...

    def catch_up_received(self, peer: str, payload: bytes) -> None:
        """A payload that the peer's listener gave to `send_catch_up`."""
        ...

    def members_expected(self, count: int) -> None:
        """The number of configured servers is known better, or has changed."""
        ...


class NoListener:
    """The listener of a server without replicated streams."""

    def peer_joined(self, peer: str) -> None:
        """Nothing is told to the peer."""

    def peer_left(self, peer: str) -> None:
        """Nothing was told to the peer."""

    def peer_unreachable(self, peer: str) -> None:
        """Nothing is expected of the peer."""

    def peer_heard(self, peer: str) -> None:
        """Nobody asks whether the peer is alive."""

    def consensus_received(self, peer: str, payload: bytes) -> None:
        """The payload is dropped."""

    def catch_up_received(self, peer: str, payload: bytes) -> None:
        """The payload is dropped."""

    def members_expected(self, count: int) -> None:
        """The number is of no use."""


class RequestListener(Protocol):
    """The part of a server that answers requests of clients of other servers."""

    def forwarded(
        self,
        peer: str,
        account: str,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
        client: bytes,
    ) -> None:
        """A request that the peer gave to `Cluster.forward`.

        The account need not be there. `client` is the JSON that describes the client, as the peer
        wrote it; empty without one.
        """
        ...


class NoRequestListener:
    """The listener of a server that answers the requests of its own clients only."""

    def forwarded(
        self,
        peer: str,
        account: str,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
        client: bytes,
    ) -> None:
        """The request is dropped."""
