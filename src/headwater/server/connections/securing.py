"""The handshake of TLS, before the login of a connection.

    accepted ─▶ INFO as clear text ─▶ handshake ─▶ login       `handshake_first`: INFO comes last
        └─▶ no handshake before the time is over, or a bad one ─▶ closed

The connection makes the handshake, in other threads. This module judges its outcome: it compares
the key with the pinned ones, logs failures, and tells the connections, which go on with the login.
"""

from collections.abc import Callable
from typing import Final, Protocol, final

from headwater.base.errors import PeerError
from headwater.runtime.environment import Scheduler
from headwater.runtime.sockets.client_connection import TlsEvents
from headwater.runtime.tls import TlsContext, TlsState
from headwater.server.configuration.options import TlsOptions
from headwater.server.connections import closing
from headwater.server.connections.closing import Close
from headwater.server.core.client import Client
from headwater.server.log import Log
from headwater.server.settings import Settings
from headwater.wire.credentials.certificates import check, key_fingerprint

NOT_PINNED: Final = "certificate not pinned"
# Reasons that tell of a client that does not know TLS, and not of an attack or a wrong certificate.
_USUAL: Final = ("tls: first record does not look like a TLS handshake", "i/o timeout")


class SecurableConnection(Protocol):
    """A socket that can be secured."""

    @property
    def tls(self) -> TlsState | None: ...

    @property
    def awaits_handshake(self) -> bool:
        """Whether the peer has to begin a handshake, and has not sent anything yet."""
        ...

    def expect_tls(self, context: TlsContext, events: TlsEvents, allows_plain: bool) -> None:
        """Have the peer begin a handshake with its next byte, unless it may go on without."""
        ...


@final
class _Handshake:
    """The handshake of a client, without an outcome yet."""

    __slots__ = ("connection", "is_greeted")

    def __init__(self, connection: SecurableConnection, is_greeted: bool) -> None:
        self.connection = connection
        # Whether the client has got INFO.
        self.is_greeted = is_greeted


@final
class Securing:
    """The handshakes of all clients of a server.

    `greet` sends INFO at once, `go_on` begins the login, `close` ends a connection.
    """

    __slots__ = ("_close", "_go_on", "_greet", "_handshakes", "_log", "_scheduler", "_settings")

    def __init__(
        self,
        settings: Settings,
        scheduler: Scheduler,
        log: Log,
        greet: Callable[[Client], None],
        go_on: Callable[[Client], None],
        close: Close,
    ) -> None:
        self._settings = settings
        self._scheduler = scheduler
        self._log = log
        self._greet = greet
        self._go_on = go_on
        self._close = close
        self._handshakes: dict[Client, _Handshake] = {}

    @property
    def is_first(self) -> bool:
        """Whether a connection begins with a handshake, and INFO comes after it."""
        options = self._settings.options
        return options.tls is not None and options.tls.is_first and not options.allow_non_tls

    def expect(self, client: Client, connection: SecurableConnection) -> None:
        """Wait for a handshake. A client that may do without one goes on at once."""
        options, context = self._settings.options, self._settings.tls_context
        if options.tls is None or context is None:
            self._go_on(client)
            return
        self._handshakes[client] = _Handshake(connection, not self.is_first)
        connection.expect_tls(context, self, options.allow_non_tls)
        if options.allow_non_tls:
            self._go_on(client)
            return
        if self.is_first and options.tls.first_wait_s:
            client.timers.handshake = self._scheduler.call_later(
                options.tls.first_wait_s, lambda: self._greet_silent(client)
            )
        else:
            self._limit_time(client, options.tls)

    def _limit_time(self, client: Client, tls: TlsOptions) -> None:
        client.timers.handshake = self._scheduler.call_later(
            tls.timeout_s, lambda: self._time_out(client)
        )

    def _greet_silent(self, client: Client) -> None:
        """Send INFO to a client that seems to wait for it."""
        client.timers.handshake = None
        handshake = self._handshakes[client]
        if handshake.connection.awaits_handshake:
            self._greet(client)
            handshake.is_greeted = True
        tls = self._settings.options.tls
        self._limit_time(client, TlsOptions() if tls is None else tls)

    def _time_out(self, client: Client) -> None:
        client.timers.handshake = None
        self._log.debug(f"{client.label} - TLS handshake timeout")
        self.handshake_failed(client, "i/o timeout")

    # --- called by the connection --------------------------------------------------------------

    def handshake_begun(self, client: Client) -> None:
        """The client has begun a handshake."""
        self._log.debug(f"{client.label} - Starting TLS client connection handshake")
        tls = self._settings.options.tls
        if tls is not None and client in self._handshakes and client.timers.handshake is None:
            # The client could have done without.
            self._limit_time(client, tls)

    def secured(self, client: Client) -> None:
        """The handshake is complete, or the client goes on without one."""
        handshake = self._handshakes.pop(client, None)
        if handshake is None or client.close_reason:
            return
        client.timers.cancel_handshake()
        options, state = self._settings.options, handshake.connection.tls
        if state is not None:
            self._log.debug(f"{client.label} - TLS handshake complete")
            self._log.debug(
                f"{client.label} - TLS version {state.version}, cipher suite {state.cipher_suite}"
            )
            fault = _fault_of(state)
            if not fault and not self._is_pinned(client, state):
                fault = NOT_PINNED
            if fault:
                self.handshake_failed(client, fault)
                return
        client.tls = state
        if not handshake.is_greeted:
            client.is_tls_first = True
            self._greet(client)
        # A client that may do without TLS has begun its login at once.
        if not options.allow_non_tls:
            self._go_on(client)

    def _is_pinned(self, client: Client, state: TlsState) -> bool:
        """Whether the key of the client is among those that are allowed."""
        tls = self._settings.options.tls
        if tls is None or not tls.pinned_keys:
            return True
        key = key_fingerprint(state.peer_certificates[0]) if state.peer_certificates else ""
        if key in tls.pinned_keys:
            return True
        self._log.debug(f"{client.label} - Failed pinned cert test for key id: {key}")
        return False

    def handshake_failed(self, client: Client, reason: str) -> None:
        """The handshake has failed."""
        line = f"{client.label} - TLS handshake error: {reason}"
        if reason in _USUAL:
            self._log.debug(line)
        else:
            self._log.error(line)
        self._close(client, closing.TLS_HANDSHAKE_ERROR)

    def forget(self, client: Client) -> None:
        """The connection has ended."""
        self._handshakes.pop(client, None)

    def recheck(self, client: Client, old: TlsOptions | None) -> None:
        """Hold a client to the keys that a reload has pinned."""
        tls = self._settings.options.tls
        before = frozenset[str]() if old is None else old.pinned_keys
        if tls is None or tls.pinned_keys in (frozenset(), before) or client in self._handshakes:
            return
        if client.tls is None or not self._is_pinned(client, client.tls):
            self._close(client, closing.TLS_HANDSHAKE_ERROR)

    def is_waiting(self, client: Client) -> bool:
        """Whether the client has to make a handshake before anything else."""
        return client in self._handshakes and not self._settings.options.allow_non_tls


def _fault_of(state: TlsState) -> str:
    """The reason for which the certificates of a client cannot be read; empty if they can."""
    try:
        for certificate in state.peer_certificates:
            check(certificate)
    except PeerError as error:
        return f"tls: failed to parse client certificate: {error}"
    return ""
