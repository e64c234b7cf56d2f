"""A nats-py client that logs in by this project's own code, and never in plain text under `tls://`.

nats-py takes the scheme of a URL for a hint: it speaks TLS where the server requires it, and else
sends CONNECT with all credentials in the clear. It also needs a further package for nkeys. So it is
given URLs without credentials and no credentials at all; both come in here, when CONNECT is made.

Invariants: CONNECT is made only on a connection that is encrypted, where TLS was asked for by the
target or is required by the server; after a refusal nothing more is written to the connection.

Two methods of nats-py that are not part of its interface are replaced. A version without them would
skip the check in silence, so it is refused.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import Any, Final

import nats.errors
from nats.aio.client import Client
from nats.aio.transport import TcpTransport

from headwater.cli.shell.exits import CommandFailed
from headwater.client.link.login import Login, LoginError, login_proof
from headwater.client.link.server_urls import Server
from headwater.client.link.tls import needs_tls, tls_context

CLIENT_NAME: Final = "headwater cli"
_CONNECT: Final = b"CONNECT "
_REPLACED_METHODS: Final = ("_process_info", "_connect_command")


class LoginRefused(nats.errors.Error):
    """This side refuses to log in to the server it reached; `reason` says why.

    An error of nats-py's family, because nats-py lets no other end an attempt to reconnect.
    """

    def __init__(self, reason: LoginError) -> None:
        super().__init__(reason.reason)
        self.reason = reason


class LoginClient(Client):
    """A client for the servers of one login."""

    def __init__(self, login: Login) -> None:
        missing = [name for name in _REPLACED_METHODS if not hasattr(Client, name)]
        if missing:
            raise CommandFailed(
                f"This version of nats-py cannot be held to TLS: it lacks {', '.join(missing)}",
                "Install another version of nats-py.",
            )
        super().__init__()
        self._login = login
        self.server_info: dict[str, Any] = {}
        """The fields of all INFO so far; the second one tells of the account."""
        self._named_servers = {(each.host.lower(), each.port): each for each in login.servers()}

    async def open(self, **options: Any) -> None:
        """Connect; `options` are those of nats-py that are not about servers, users and TLS."""
        login = self._login
        if login.tls_ca is not None or login.tls_cert is not None:
            options["tls"] = tls_context(login.tls_files)
        servers = [server.address for server in self._named_servers.values()]
        await self.connect(servers, name=CLIENT_NAME, **options)

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """Before nats-py looks at INFO: decide about TLS, which nats-py then reads from it."""
        if initial_connection:
            with self._refusing():
                info["tls_required"] = needs_tls(
                    self._login.tls_files, self._reached_server(), info
                )
            self.server_info = {}
        self.server_info |= info
        await super()._process_info(info, initial_connection)

    def _connect_command(self) -> bytes:
        """The line that nats-py would send, with the credentials for the server it reached."""
        document = json.loads(super()._connect_command().removeprefix(_CONNECT))
        server, info = self._reached_server(), self._server_info
        with self._refusing():
            if needs_tls(self._login.tls_files, server, info) and not self._is_encrypted():
                raise LoginError("tls", f"the connection to {server.address} is not encrypted")
            document |= login_proof(self._login, server, str(info.get("nonce", "")))
        return _CONNECT + json.dumps(document).encode() + b"\r\n"

    def _reached_server(self) -> Server:
        """The server of this attempt; one that only INFO names has no credentials of its own."""
        assert self._current_server is not None
        uri = self._current_server.uri
        host, port = uri.hostname or "", uri.port or 0
        named = self._named_servers.get((host, port))
        return named or Server(host, port, self._login.wants_tls)

    def _is_encrypted(self) -> bool:
        transport = self._transport
        if not isinstance(transport, TcpTransport) or transport._io_writer is None:
            return False
        return transport._io_writer.get_extra_info("ssl_object") is not None

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        """Make a LoginError one that nats-py knows, and the end of the connection."""
        try:
            yield
        except LoginError as error:
            if self._transport is not None:
                # nats-py writes what waits to be published when the client is closed.
                self._transport.close()  # type: ignore[no-untyped-call]
            raise LoginRefused(error) from error
