"""A server inside a Python program, in one line.

In a coroutine:

    async with running() as server:
        client = await nats.connect(server.url)

Anywhere else, where the server gets a thread of its own:

    with EmbeddedServer() as server:
        print(server.url)

Both listen on a free port of the loopback address unless the options say otherwise.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, final

from headwater.runtime.loop_thread import LoopThread
from headwater.runtime.real import real_environment
from headwater.server.lifecycle import Server
from headwater.server.options import Options

LOOPBACK: Final = Options(host="127.0.0.1", port=-1)

LogLine = Callable[[bytes], None]


def _silent(line: bytes) -> None:
    """Nobody asked for the log."""


async def start_server(options: Options = LOOPBACK, log: LogLine = _silent) -> Server:
    """Start a server on the running loop; `await server.stop()` ends it."""
    server = Server(options, real_environment(), log)
    await server.start()
    return server


@asynccontextmanager
async def running(options: Options = LOOPBACK, log: LogLine = _silent) -> AsyncIterator[Server]:
    """A server for the length of an `async with` block."""
    server = await start_server(options, log)
    try:
        yield server
    finally:
        await server.stop()


@final
class EmbeddedServer:
    """A server with a thread of its own, for programs without an event loop."""

    def __init__(self, options: Options = LOOPBACK, log: LogLine = _silent) -> None:
        self._thread = LoopThread("headwater-server")
        try:
            self._server = self._thread.run(start_server(options, log))
        except BaseException:
            self._thread.close()
            raise

    @property
    def url(self) -> str:
        """Where clients connect."""
        return self._server.url

    @property
    def port(self) -> int:
        """The port clients connect to."""
        return self._server.client_port

    @property
    def monitoring_port(self) -> int:
        """The HTTP port, 0 if the options ask for none."""
        return self._server.monitoring_port

    def stop(self) -> None:
        """Stop the server and its thread."""
        self._thread.run(self._server.stop())
        self._thread.close()

    def __enter__(self) -> "EmbeddedServer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
