"""Three servers of one kind that keep streams together, with the set-up of a case for one server.

A server of nats-server's has its own file of streams once it is up, but assigns none before all
three have met and elected a leader: `start` waits for that moment.

Must not know: what any script compares.
"""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.interop.session import HOST, Session
from tests.interop.trio import NAMES, Trio
from tests.kit.server_process import HEADWATER, Program, ServerProcess, Setup

CLUSTER = "trio"
ZONES = ("left", "left", "right")
"""The values of `SERVER_ZONE` in a set-up, by server; `SERVER_NUMBER` is 1, 2 or 3."""
OWN_SETTINGS = ", OWN_SETTINGS"
"""The place in the JetStream block of a set-up for settings that nats-server does not know."""
SILENT = ", ack_timeout: 0s"
"""Publishes without a quorum are not answered, as by nats-server."""
START_LOOKS_MAX = 20
"""The most rounds of looks for a leader; an election on a busy machine takes several seconds."""


class JetStreamTrio(Trio):
    """Three servers with streams; each has all three as its routes."""

    def __init__(self, program: Program, directory: Path, setup: Setup) -> None:
        super().__init__(program, directory)
        self._setup = setup

    def config(self, number: int, more: str = "", routes: str = "") -> str:
        """The configuration of the set-up, as a member of the cluster."""
        known = routes or ", ".join(f'"nats://{HOST}:{port}"' for port in self.route_ports)
        listen = f"{HOST}:{self.route_ports[number]}"
        block = f'cluster {{ name: {CLUSTER}, listen: "{listen}", routes: [{known}]{more} }}\n'
        own = self._setup.config.replace("SERVER_NUMBER", str(number + 1))
        own = own.replace(OWN_SETTINGS, SILENT if self._program is HEADWATER else "")
        return own.replace("SERVER_ZONE", ZONES[number]) + "\n" + block

    def launch(self, number: int) -> ServerProcess:
        """Start one server, in the directory of its name."""
        directory = self.directory(number)
        directory.mkdir(exist_ok=True)
        flags = self._setup.flags
        named = (*flags[: flags.index("-n")], *flags[flags.index("-n") + 2 :], "-n", NAMES[number])
        setup = Setup(self.config(number), named, self._setup.files, self._setup.environment)
        return ServerProcess(self._program, setup, directory)

    def directory(self, number: int) -> Path:
        return self._directory / NAMES[number]

    def start(self) -> None:
        """Start all servers, and wait until they have a leader that all follow."""
        super().start()
        self.wait_until_all_vote()

    def stop(self) -> None:
        """End all servers at once: each takes a second to leave its groups."""
        with ThreadPoolExecutor(len(NAMES)) as pool:
            list(pool.map(ServerProcess.stop, self.servers))

    def kill(self, number: int) -> None:
        """End a server from one moment to the next."""
        self.servers[number].signal(signal.SIGKILL)
        self.servers[number].wait_for_exit()
        self.servers[number].stop()

    def start_again(self, number: int) -> None:
        """Start a server that was stopped or killed."""
        self.servers[number] = self.launch(number)
        self.servers[number].wait_until_ready()

    def restart(self, number: int) -> None:
        """Start a server again, and wait until all are together."""
        self.start_again(number)
        self.wait_until_whole()
        self.wait_until_all_vote()

    def session(self, number: int) -> Session:
        """A session with one of the servers, which replicates every stream that it creates."""
        directories = tuple(self.directory(each) for each in range(len(NAMES)))
        server = self.servers[number]
        return Session(self._program, server, server.directory, len(NAMES), directories)

    def meta(self, number: int) -> dict[str, Any]:
        """The meta group as a server tells of it; empty before there is one."""
        found: dict[str, Any] = self.get(number, "/jsz").get("meta_cluster", {})
        return found

    def wait_until_all_vote(self) -> None:
        """Wait until the leader has brought all servers to the end of the log."""

        def is_whole() -> bool:
            meta = self.meta(NAMES.index(self.leader()))
            replicas = meta.get("replicas", [])
            is_complete = meta["cluster_size"] == len(NAMES) == len(replicas) + 1
            return is_complete and all(replica["current"] for replica in replicas)

        self.wait_until(is_whole)

    def leader(self, numbers: tuple[int, ...] = (0, 1, 2), other_than: str = "") -> str:
        """The leader of the meta group that some servers agree on."""
        agreed: list[str] = []

        def is_agreed() -> bool:
            leaders = {self.meta(number).get("leader", "") for number in numbers}
            agreed[:] = leaders
            return len(leaders) == 1 and not leaders & {"", other_than}

        for _ in range(START_LOOKS_MAX):
            try:
                self.wait_until(is_agreed)
            except AssertionError:
                continue
            break
        assert is_agreed(), agreed
        return agreed[0]


@contextmanager
def jetstream_trio(program: Program, directory: Path, setup: Setup) -> Iterator[JetStreamTrio]:
    """Three servers with streams, which have a leader."""
    running = JetStreamTrio(program, directory, setup)
    try:
        running.start()
        yield running
    finally:
        running.stop()
