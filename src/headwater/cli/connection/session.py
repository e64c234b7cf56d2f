"""One connection of nats-py for the length of one command.

Must not know: subjects, messages, the JetStream API.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any, Final, TypeVar

import nats.errors

from headwater.cli.connection.failures import not_connected, reason
from headwater.cli.connection.login_client import LoginClient, LoginRefused
from headwater.cli.connection.target import Target
from headwater.cli.shell.exits import CommandFailed, ExitCode

T = TypeVar("T")

FLUSH_TIMEOUT_S: Final = 10
# For a connection that was never made: the socket is closed at once, and nothing is left to write.
ABANDON_WAIT_S: Final = 0.1
RECONNECT_WAIT_S: Final = 1
RECONNECT_ATTEMPTS_MAX: Final = 60

STATUS_NO_RESPONDERS: Final = "503"


class Session:
    """One connection for the length of one command.

    A failure that no call has caused (a refused permission, a connection that ended for good) is
    kept and raised by the next `until` or `flush`.
    """

    def __init__(self, target: Target, notice: Callable[[str], None]) -> None:
        self._target = target
        self.notice = notice
        self._closing = False
        self._is_open = False
        self._cause: Exception | None = None
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.client = LoginClient(target.login)
        self.dropped = 0
        # Called when a lost connection is back. The server has subscriptions again by then, and
        # has forgotten whatever else it was asked.
        self.on_reconnected: Callable[[], None] = lambda: None

    async def __aenter__(self) -> "Session":
        target = self._target
        try:
            # nats-py retries a first connection for minutes unless told otherwise; a person at a
            # shell wants to know now. Later losses are worth waiting for, so reconnecting is
            # allowed once there was a connection.
            await self.client.open(
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=target.connect_timeout_s,
                error_cb=self._on_error,
                disconnected_cb=self._on_disconnected,
                reconnected_cb=self._on_reconnected,
                closed_cb=self._on_closed,
            )
            if not self.client.is_connected:
                # nats-py takes the end of the connection for an answer to CONNECT.
                raise ConnectionResetError
        except (OSError, nats.errors.Error) as error:
            failure = not_connected(target, self._cause or error)
            await self._close(ABANDON_WAIT_S)
            raise failure from error
        self._is_open = True
        self.client.options.update(
            allow_reconnect=True,
            max_reconnect_attempts=RECONNECT_ATTEMPTS_MAX,
            reconnect_time_wait=RECONNECT_WAIT_S,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close(FLUSH_TIMEOUT_S)
        # Read, so that asyncio does not report a failure that no call has waited for.
        if self._failed.done() and not self._failed.cancelled():
            self._failed.exception()

    async def _close(self, wait_s: float) -> None:
        self._closing = True
        # nats-py writes what is left, and a connection that is gone need not take it. It also
        # waits for the end of a connection, which after a failed TLS handshake never comes.
        with contextlib.suppress(OSError):
            await asyncio.wait_for(self.client.close(), wait_s)

    async def until(self, done: "asyncio.Future[T]", timeout_s: float | None = None) -> T:
        """The result of `done`. Raises TimeoutError, or the failure that ended the session."""
        either: set[asyncio.Future[Any]] = {done, self._failed}
        await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if done.done():
            return done.result()
        self.check()
        raise TimeoutError

    async def flush(self) -> None:
        """Return once the server has seen all that was sent and has not complained."""
        try:
            # nats-py writes its PING at once and what was published or subscribed just before a
            # moment later. The second PING is the one that comes after all of it.
            await self.client.flush(FLUSH_TIMEOUT_S)
            await self.client.flush(FLUSH_TIMEOUT_S)
        except nats.errors.TimeoutError as error:
            self.check()
            raise CommandFailed(
                f"The server did not confirm within {FLUSH_TIMEOUT_S}s",
                "It may be overloaded or unreachable; some messages may not have arrived.",
            ) from error
        except OSError as error:
            # A broken pipe to the server must not pass for a reader of the output who went away.
            raise CommandFailed(
                f"The connection was lost: {error.strerror or reason(error)}",
                code=ExitCode.NOT_CONNECTED,
            ) from error
        self.check()

    def check(self) -> None:
        """Raise the failure that has ended the session, if one has."""
        if self._failed.done():
            self._failed.result()

    async def _on_error(self, error: Exception) -> None:
        if isinstance(error, nats.errors.SlowConsumerError):
            self.dropped += 1
            return
        # A name that is not found says less than another server's refusal.
        if self._cause is None or not isinstance(error, socket.gaierror):
            self._cause = error
        if self._is_open and isinstance(error, LoginRefused):
            self._fail(not_connected(self._target, error))
        if "permissions violation" in str(error).lower():
            self._fail(
                CommandFailed(
                    f"The server refused: {reason(error)}",
                    "Connect as a user that may do this: --user, --token or --creds.",
                )
            )

    async def _on_disconnected(self) -> None:
        if not self._closing and not self.client.is_closed:
            self.notice("Connection lost, reconnecting ...")

    async def _on_reconnected(self) -> None:
        self.notice("Connected again.")
        self.on_reconnected()

    async def _on_closed(self) -> None:
        if not self._closing:
            cause = self.client.last_error or self._cause
            self._fail(
                CommandFailed(
                    "The connection was closed by the server"
                    + (f": {reason(cause)}" if cause else ""),
                    code=ExitCode.NOT_CONNECTED,
                )
            )

    def _fail(self, failure: CommandFailed) -> None:
        if not self._failed.done():
            self._failed.set_exception(failure)
