"""The Network and Scheduler protocols on the running asyncio loop.

The loop may be uvloop's, asyncio's or the simulated one: these adapters only use the loop's own
`create_server`, `create_connection`, `call_soon`, `call_later` and `run_in_executor`.
"""

import asyncio
import os
from collections.abc import Callable
from typing import TypeVar

from headwater.runtime.environment import TimerHandle
from headwater.runtime.sockets.client_connection import ClientConnection, ConnectionHandler

T = TypeVar("T")


class LoopListener:
    """A bound port of an asyncio loop."""

    __slots__ = ("_server", "port")

    def __init__(self, server: asyncio.AbstractServer, port: int) -> None:
        self._server = server
        self.port = port

    def close(self) -> None:
        """Stop accepting."""
        self._server.close()


class LoopNetwork:
    """Network protocol on the running loop; `find_addresses` knows those of the machine."""

    __slots__ = ("_dials", "_find_addresses")

    def __init__(self, find_addresses: Callable[[], list[str]] = list) -> None:
        self._find_addresses = find_addresses
        # The loop itself keeps no reference to tasks under way.
        self._dials: set[asyncio.Task[None]] = set()

    async def listen(
        self, host: str, port: int, factory: Callable[[], asyncio.Protocol]
    ) -> LoopListener:
        """Bind `host:port` with a deep backlog."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(factory, host, max(port, 0), backlog=4096)
        sockets = server.sockets
        return LoopListener(server, sockets[0].getsockname()[1])

    def dial(
        self,
        host: str,
        port: int,
        handler: ConnectionHandler,
        timeout_s: float,
        failed: Callable[[str], object],
    ) -> None:
        """Connect in a task of its own."""
        task = asyncio.get_running_loop().create_task(
            self._dial(host, port, handler, timeout_s, failed)
        )
        self._dials.add(task)
        task.add_done_callback(self._dials.discard)

    async def _dial(
        self,
        host: str,
        port: int,
        handler: ConnectionHandler,
        timeout_s: float,
        failed: Callable[[str], object],
    ) -> None:
        where = f"dial tcp {f'[{host}]' if ':' in host else host}:{port}"
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                await loop.create_connection(lambda: ClientConnection(handler), host, port)
        except TimeoutError:
            failed(f"{where}: i/o timeout")
        except OSError as error:
            cause = os.strerror(error.errno).lower() if error.errno else str(error)
            failed(f"{where}: connect: {cause}")
        except (ValueError, OverflowError) as error:
            # No resolver is asked for a name with a part of more than 63 characters.
            failed(f"{where}: lookup: {error}")

    def addresses(self) -> list[str]:
        """The addresses that were found for this machine."""
        return self._find_addresses()


class LoopScheduler:
    """Scheduler protocol on the loop that was running at construction."""

    __slots__ = ("_loop", "_pending", "call_later", "call_soon")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        # The functions of the loop, without methods around them: every turn is planned by them.
        self.call_soon: Callable[[Callable[[], object]], TimerHandle] = self._loop.call_soon
        self.call_later: Callable[[float, Callable[[], object]], TimerHandle] = (
            self._loop.call_later
        )
        # The loop itself keeps no reference to work under way.
        self._pending: set[object] = set()

    def offload(self, work: Callable[[], T], done: Callable[[T], object]) -> None:
        """Run `work` in the loop's executor, then `done` on the loop."""
        future = self._loop.run_in_executor(None, work)
        self._pending.add(future)

        def finished(future: "asyncio.Future[T]") -> None:
            self._pending.discard(future)
            if not future.cancelled():
                done(future.result())

        future.add_done_callback(finished)
