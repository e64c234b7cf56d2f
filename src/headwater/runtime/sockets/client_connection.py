"""A client's socket as an asyncio protocol, without any decision of its own."""

import asyncio
from typing import Any, Final, Protocol, cast, final

from headwater.runtime.sockets.tls import Phase, SystemTlsContext, TlsTransport
from headwater.runtime.tls import TlsContext, TlsState

# The write deadline runs while more than the high mark is unsent, and stops at the low mark.
WRITE_HIGH_BYTES: Final = 64 * 1024
WRITE_LOW_BYTES: Final = 0

# The time for a closed connection to send its last bytes.
LAST_WRITE_S_MAX: Final = 2.0


class ConnectionHandler(Protocol):
    """The server's side of connections; the `Any` is the server's own client object."""

    def accept(self, connection: "ClientConnection") -> Any: ...

    def receive(self, client: Any, data: bytes) -> None: ...

    def lost(self, client: Any, was_broken: bool) -> None:
        """`was_broken`: closed by an error, not by either side."""
        ...

    def writable(self, client: Any) -> None: ...

    def unwritable(self, client: Any) -> None: ...


class TlsEvents(Protocol):
    """The server's side of handshakes; the `Any` is the server's own client object."""

    def handshake_begun(self, client: Any) -> None: ...

    def secured(self, client: Any) -> None:
        """The connection has `tls` now, or goes on without because it may."""
        ...

    def handshake_failed(self, client: Any, reason: str) -> None:
        """The connection is to be closed."""
        ...


@final
class ClientConnection(asyncio.Protocol):
    """One accepted socket."""

    __slots__ = (
        "_client",
        "_handler",
        "_receive",
        "_tls_events",
        "_transport",
        "peer_host",
        "peer_port",
        "tls",
    )

    def __init__(self, handler: ConnectionHandler) -> None:
        self._handler = handler
        self._receive = handler.receive
        self._client: Any = None
        self._transport: asyncio.Transport | None = None
        self.peer_host = ""
        self.peer_port = 0
        self._tls_events: TlsEvents | None = None
        # Set when a handshake was completed.
        self.tls: TlsState | None = None

    # --- called by the loop --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop when the socket is open."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        peer = transport.get_extra_info("peername") or ("", 0)
        self.peer_host, self.peer_port = str(peer[0]), int(peer[1])
        self._client = self._handler.accept(self)

    def data_received(self, data: bytes) -> None:
        """Called by the loop with bytes from the socket."""
        self._receive(self._client, data)

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the loop when the socket is closed."""
        self._transport = None
        # The client refers to this connection: held here, neither would be freed.
        client, self._client = self._client, None
        self._tls_events = None
        self._handler.lost(client, error is not None)

    def pause_writing(self) -> None:
        """Called by the loop when the peer reads more slowly than we write."""
        self._handler.unwritable(self._client)

    def resume_writing(self) -> None:
        """Called by the loop when the peer has caught up."""
        self._handler.writable(self._client)

    # --- called by the TLS layer ---------------------------------------------------------------

    def handshake_begun(self) -> None:
        """The peer has begun a handshake."""
        if self._tls_events is not None:
            self._tls_events.handshake_begun(self._client)

    def secured(self, state: TlsState) -> None:
        """The handshake is complete."""
        self.tls = state
        if self._tls_events is not None:
            self._tls_events.secured(self._client)

    def waived(self, transport: asyncio.Transport) -> None:
        """The peer goes on without TLS."""
        self._transport = transport
        if self._tls_events is not None:
            self._tls_events.secured(self._client)

    def handshake_failed(self, reason: str) -> None:
        """The handshake has failed."""
        if self._tls_events is not None:
            self._tls_events.handshake_failed(self._client, reason)

    # --- called by the server ------------------------------------------------------------------

    def expect_tls(self, context: TlsContext, events: TlsEvents, allows_plain: bool) -> None:
        """Have the peer begin a handshake with its next byte, unless it may go on without.

        Bytes that are written before that leave as clear text.
        """
        if self._transport is not None:
            self._tls_events = events
            self._transport = TlsTransport(
                self._transport, self, cast(SystemTlsContext, context), allows_plain
            )

    @property
    def awaits_handshake(self) -> bool:
        """Whether the peer has to begin a handshake, and has not sent anything yet."""
        transport = self._transport
        return isinstance(transport, TlsTransport) and transport.phase is Phase.WAITING

    def write(self, data: bytes) -> int:
        """Queue bytes. Returns `buffered_bytes`."""
        transport = self._transport
        if transport is None:
            return 0
        try:
            transport.write(data)
        except RuntimeError:
            # The loop has closed the socket, and calls `connection_lost` in a later turn.
            return 0
        return transport.get_write_buffer_size()

    def buffered_bytes(self) -> int:
        """Bytes queued and not yet written to the operating system."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Leave the peer's bytes in the socket."""
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self._transport is not None and not self._transport.is_reading():
            self._transport.resume_reading()

    def close(self) -> None:
        """Write the queued bytes, then close; after a timeout the rest is dropped."""
        transport = self._transport
        if transport is None:
            return
        transport.close()
        if transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(LAST_WRITE_S_MAX, transport.abort)

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()
