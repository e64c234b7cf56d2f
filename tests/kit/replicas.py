"""Three servers that keep the same streams: a cluster of one kind on the loopback address.

Questions to the cluster go to any server that answers. An election takes seconds,
and a request that falls into one is not answered; so everything here is asked again until it is.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from tests.kit.stream_servers import HOST, ApiRefusal, Server, free_port

COUNT: Final = 3
PATIENCE_S: Final = 120.0
PAUSE_S: Final = 0.1

Answer = TypeVar("Answer")


class Replicas:
    """The servers, of which some may be down."""

    def __init__(self, servers: list[Server]) -> None:
        self._servers = servers
        self._down: set[Server] = set()

    @property
    def url(self) -> str:
        """All of them, for a client that goes on with another when one is lost."""
        return ",".join(server.url for server in self._servers)

    def ask(self, question: Callable[[Server], Answer]) -> Answer:
        """The first answer of a server that is up."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for server in self._servers:
                if server in self._down:
                    continue
                try:
                    return question(server)
                except (ApiRefusal, AssertionError, OSError) as error:
                    refused = error
                assert not server.has_exited(wait_s=PAUSE_S), f"{server.directory.name} is gone"
            assert time.monotonic() < deadline, refused

    def create_stream(self, name: str, **config: object) -> None:
        """A stream that all of them keep."""
        self.ask(lambda server: server.create_stream(name, num_replicas=COUNT, **config))

    def kill_leader(self, stream: str) -> None:
        """As a crash does; the others have to elect another."""
        leader = self.ask(lambda server: _cluster(server, stream))["leader"]
        [server] = [each for each in self._servers if each.directory.name == leader]
        server.kill()
        self._down.add(server)

    def heal(self, stream: str) -> None:
        """Start what is down, and wait until all have what the leader has."""
        for server in self._down:
            server.start()
        self._down.clear()

        def check(server: Server) -> None:
            cluster = _cluster(server, stream)
            assert cluster["leader"]
            assert all(replica["current"] for replica in cluster["replicas"]), cluster

        self.ask(check)

    def stop(self) -> None:
        for server in self._servers:
            server.stop()


def _cluster(server: Server, stream: str) -> dict[str, Any]:
    found: dict[str, Any] = server.call(f"STREAM.INFO.{stream}")["cluster"]
    return found


@contextmanager
def replicas(directory: Path, kind: str = "nats-server") -> Iterator[Replicas]:
    """A cluster that has elected its leader."""
    names = [f"replica-{number}" for number in range(COUNT)]
    routes = {name: f"{HOST}:{free_port()}" for name in names}
    known = ", ".join(f"nats://{route}" for route in routes.values())

    def start(name: str) -> Server:
        config = (
            f"server_name: {name}\n"
            f'cluster {{ name: replicas, listen: "{routes[name]}", routes: [{known}] }}\n'
        )
        return Server(kind, directory / name, config=config)

    with ThreadPoolExecutor(COUNT) as pool:
        running = Replicas([*pool.map(start, names)])
    try:
        yield running
    finally:
        running.stop()
