"""The processes of a local cluster: started together, watched, and stopped one after another.

Invariant: no server outlives the command, unless the command is killed without a chance to stop
them.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final

from headwater.base.quantities import duration_text
from headwater.cli.cluster.local import HOST, LocalCluster, LocalServer
from headwater.cli.shell.exits import CommandFailed

SERVE: Final = (sys.executable, "-m", "headwater", "serve")
START_WAIT_S: Final = 30.0
# A server hands its leaderships over before it ends.
STOP_WAIT_S: Final = 15.0
LOOK_INTERVAL_S: Final = 0.1
LOG_LINES_SHOWN: Final = 5
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(Exception):
    """A person pressed Ctrl-C, or a signal asked the command to end."""


@dataclass(frozen=True)
class RunningServer:
    """A server and its process."""

    server: LocalServer
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, server: LocalServer) -> "RunningServer":
        """Start a server whose configuration is written. Its log is appended to."""
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("NATS_")
        }
        with server.log_path.open("ab") as log:
            process = subprocess.Popen(
                [*SERVE, "-c", str(server.config_path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                # Ctrl-C at the terminal reaches the command, which stops servers in order.
                start_new_session=True,
            )
        return cls(server, process)

    @property
    def exit_code(self) -> int | None:
        """The exit code of a server that has ended; None for one that runs."""
        return self.process.poll()

    def is_listening(self) -> bool:
        """Whether the server takes connections of clients."""
        try:
            socket.create_connection((HOST, self.server.ports.client), timeout=1).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """End the process, by force if it takes too long."""
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        try:
            self.process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the process at once."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()


class RunningCluster:
    """The processes of a cluster, in the order of their servers."""

    def __init__(self, servers: Sequence[RunningServer]) -> None:
        self._servers = list(servers)
        self._ended: set[str] = set()

    def wait_until_listening(self) -> None:
        """Wait until all servers take clients. Raises CommandFailed for a server that ends."""
        end = time.monotonic() + START_WAIT_S
        waiting = list(self._servers)
        while waiting:
            for each in waiting:
                if each.exit_code is not None:
                    raise failed_start(each)
            waiting = [each for each in waiting if not each.is_listening()]
            if waiting and time.monotonic() > end:
                late = ", ".join(each.server.name for each in waiting)
                raise CommandFailed(
                    f"Not ready within {duration_text(START_WAIT_S)}: {late}",
                    f"See the log: {waiting[0].server.log_path}",
                )
            time.sleep(LOOK_INTERVAL_S if waiting else 0)

    def newly_ended(self) -> list[RunningServer]:
        """The servers that have ended since the last call."""
        found = [
            each
            for each in self._servers
            if each.exit_code is not None and each.server.name not in self._ended
        ]
        self._ended |= {each.server.name for each in found}
        return found

    @property
    def is_over(self) -> bool:
        """Whether no server runs any more."""
        return len(self._ended) == len(self._servers)

    def stop(self) -> Iterator[LocalServer]:
        """Stop the servers that run, one after another; each is named when it has ended."""
        for each in self._servers:
            if each.exit_code is None:
                each.stop()
                yield each.server


def failed_start(running: RunningServer) -> CommandFailed:
    """The failure of a server that ended before it was ready, with the end of its log."""
    lines = running.server.log_path.read_text(errors="replace").splitlines()
    return CommandFailed(
        f"Server {running.server.name} ended with exit code {running.exit_code}:\n"
        + "\n".join(lines[-LOG_LINES_SHOWN:]),
        f"See the whole log: {running.server.log_path}",
    )


@contextmanager
def running_cluster(cluster: LocalCluster) -> Iterator[RunningCluster]:
    """Start all servers of a cluster; those that still run in the end are killed."""
    started: list[RunningServer] = []
    try:
        # One by one: servers that were started are known when the next start is interrupted.
        started.extend(RunningServer.start(server) for server in cluster.servers)
        yield RunningCluster(started)
    finally:
        for each in started:
            each.kill()


@contextmanager
def stop_requested_by_signals() -> Iterator[None]:
    """Raise StopRequested for every signal that asks the command to end."""

    def request_stop(number: int, frame: FrameType | None) -> None:
        raise StopRequested

    before = {each: signal.signal(each, request_stop) for each in STOP_SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
