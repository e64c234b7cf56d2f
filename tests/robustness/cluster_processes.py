"""A cluster of real server processes, which are killed, paused, stopped, emptied and cut off.

Servers keep their names, ports and stores over restarts. With proxies, every connection between two
servers passes a proxy; the address that servers tell each other then leads nowhere, because it
could not tell who dials it.

Must not know: the load of clients, and the promises that are checked.
"""

import asyncio
import contextlib
import json
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.kit.link_proxies import HOST, LinkProxies
from tests.kit.server_process import HEADWATER, ServerProcess, Setup
from tests.kit.stream_servers import free_port

STORE: Final = "store"
START_ATTEMPTS_MAX: Final = 6
"""The times that the wait for a server of a busy machine is repeated; each is ten seconds."""
# A port at which no server listens.
NOWHERE: Final = f"{HOST}:1"
LOG_LINES_SHOWN: Final = 80


class ClusterProcesses:
    """The servers of one cluster."""

    def __init__(
        self, directory: Path, count: int, *, is_synced: bool = False, has_proxies: bool = False
    ) -> None:
        self._directory = directory
        self._is_synced = is_synced
        self.names = tuple(f"s{number}" for number in range(1, count + 1))
        self._client_ports = {name: free_port() for name in self.names}
        self._route_ports = {name: free_port() for name in self.names}
        self._processes: dict[str, ServerProcess] = {}
        self._logs: dict[str, list[str]] = {name: [] for name in self.names}
        self.proxies = LinkProxies(self._route_ports) if has_proxies else None

    @property
    def urls(self) -> dict[str, str]:
        """The addresses for clients, by server."""
        return {name: f"nats://{HOST}:{port}" for name, port in self._client_ports.items()}

    async def start(self) -> None:
        """Start all servers."""
        if self.proxies is not None:
            await self.proxies.start()
        await self.launch(*self.names)

    async def launch(self, *names: str) -> None:
        """Start servers that do not run, and wait until they take clients."""
        for name in names:
            directory = self._directory / name
            directory.mkdir(exist_ok=True)
            flags = ("-a", HOST, "-p", str(self._client_ports[name]), "-n", name)
            setup = Setup(self._config(name), flags)
            self._processes[name] = ServerProcess(HEADWATER, setup, directory)
        for name in names:
            await asyncio.to_thread(_wait_until_ready, self._processes[name])

    async def kill(self, *names: str) -> None:
        """End servers from one moment to the next, all at once."""
        for name in names:
            self._processes[name].signal(signal.SIGKILL)
        for name in names:
            await self._end(name)

    async def stop(self, name: str) -> None:
        """Have a server hand over its leaderships and end."""
        self._processes[name].signal(signal.SIGTERM)
        await self._end(name)

    async def _end(self, name: str) -> None:
        process = self._processes.pop(name)
        await asyncio.to_thread(process.wait_for_exit)
        await asyncio.to_thread(process.stop)
        self._keep_log(name, process)

    def pause(self, *names: str) -> None:
        """Have the operating system run servers no more; their connections stay open."""
        for name in names:
            self._processes[name].signal(signal.SIGSTOP)

    def resume(self, *names: str) -> None:
        """Have the operating system run paused servers again."""
        for name in names:
            self._processes[name].signal(signal.SIGCONT)

    def empty(self, name: str) -> None:
        """Remove the store of a server that does not run."""
        shutil.rmtree(self._directory / name / STORE)

    async def close(self) -> None:
        """End everything."""
        for name, process in self._processes.items():
            process.signal(signal.SIGKILL)
            await asyncio.to_thread(process.stop)
            self._keep_log(name, process)
        self._processes.clear()
        if self.proxies is not None:
            await self.proxies.stop()

    def print_logs(self) -> None:
        """Print the end of each server's log."""
        for name in self.names:
            lines = self._logs[name]
            print(f"--- {name}", *lines[-LOG_LINES_SHOWN:], sep="\n")

    def _keep_log(self, name: str, process: ServerProcess) -> None:
        self._logs[name] += [f"[{line.level}] {line.text}" for line in process.log]

    def _config(self, name: str) -> str:
        sync = ", sync_interval: always" if self._is_synced else ""
        if self.proxies is None:
            routes: Sequence[str] = [f"{HOST}:{port}" for port in self._route_ports.values()]
            advertised = ""
        else:
            routes = self.proxies.routes_of(name)
            advertised = f"advertise: {json.dumps(NOWHERE)}"
        return f"""
jetstream {{ store_dir: {STORE}{sync} }}
cluster {{
    name: processes
    listen: "{HOST}:{self._route_ports[name]}"
    routes: {json.dumps([f"nats://{route}" for route in routes])}
    {advertised}
}}
"""


def _wait_until_ready(process: ServerProcess) -> None:
    for _ in range(START_ATTEMPTS_MAX - 1):
        with contextlib.suppress(AssertionError):
            process.wait_until_ready()
            return
    process.wait_until_ready()


@asynccontextmanager
async def cluster_processes(
    directory: Path, count: int, *, is_synced: bool = False, has_proxies: bool = False
) -> AsyncIterator[ClusterProcesses]:
    """A running cluster. Its logs are printed if a test of it fails."""
    cluster = ClusterProcesses(directory, count, is_synced=is_synced, has_proxies=has_proxies)
    try:
        await cluster.start()
        yield cluster
    except BaseException:
        await cluster.close()
        cluster.print_logs()
        raise
    await cluster.close()
