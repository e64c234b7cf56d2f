"""A cluster of real servers in a simulated world, for tests of programs that use one.

    async def main(world: World) -> None:
        cluster = Cluster(world, 3)
        await cluster.start()
        client = await cluster.connect()
        cluster.kill(1)
        cluster.cut(2, 3)
        ...
        cluster.heal()
        await cluster.restart(1)
        await cluster.ready()

    World(seed=7).run(main)

Servers are numbered from 1; the server of number 2 is named "s2" and runs on the host of that name.
Each has the others as its routes, and streams in a folder that survives a kill. A fault that has no
method here is one of the hosts, by name: `world.network.slow("s1", "s2", latency_s=0.5)`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ProgrammerError
from headwater.base.invariants import check
from headwater.checker.history import Replica, Stored
from headwater.server.configuration.options import (
    ClusterOptions,
    JetStreamOptions,
    Options,
    RouteUrl,
)
from headwater.server.lifecycle import Server
from headwater.store.errors import DamagedMessageError
from headwater.testing.host import Host
from headwater.testing.network import Direction
from headwater.testing.world import CrashMode, World, simulated_environment

if TYPE_CHECKING:
    from nats.aio.client import Client as NatsClient

CLIENT_PORT: Final = 4222
CLUSTER_PORT: Final = 6222
SERVERS_MAX: Final = 64

READY_S_MAX: Final = 120.0
"""Virtual seconds after which `ready` gives up: elections and reconnects take a few."""
_POLL_S: Final = 0.05

# A dead connection is noticed within seconds, so that a test need not wait for minutes.
_OPTIONS: Final = Options(
    host="0.0.0.0",
    port=CLIENT_PORT,
    ping_interval_s=1.0,
    write_deadline_s=2.0,
    jetstream=JetStreamOptions(enabled=True, store_dir="/data"),
    cluster=ClusterOptions(name="C", port=CLUSTER_PORT),
)


class ClusterNotReady(AssertionError):
    """The servers did not find each other and a leader in time."""


class Cluster:
    """Some servers that know each other, each on a host of its own.

    `configure` is given the options of each server before it starts, and returns those to use.
    """

    def __init__(
        self,
        world: World,
        count: int = 3,
        *,
        configure: Callable[[Options], Options] = lambda options: options,
    ) -> None:
        check(1 <= count <= SERVERS_MAX, f"a cluster has 1 to {SERVERS_MAX} servers")
        self._world = world
        self._configure = configure
        self.names: Final = tuple(f"s{number}" for number in range(1, count + 1))
        # The server of each host's latest start that succeeded, by name.
        self.servers: dict[str, Server] = {}
        # The boot of the host in which that was.
        self._boots: dict[str, int] = {}
        # The log of each server, of all its lives.
        self.logs: dict[str, list[str]] = {name: [] for name in self.names}

    # --- servers -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start all servers, and wait until they are ready."""
        for name in self.names:
            host = self._world.host(name)
            host.boot = partial(self._boot, host)
            await host.run(host.boot())
        await self.ready()

    async def _boot(self, host: Host) -> None:
        lines = self.logs[host.name]
        server = Server(
            self._options(host.name),
            simulated_environment(self._world, host),
            lambda line: lines.append(line.decode().rstrip()),
        )
        await server.start()
        self.servers[host.name], self._boots[host.name] = server, host.boots

    def _options(self, name: str) -> Options:
        routes = tuple(RouteUrl(each, CLUSTER_PORT) for each in self.names)
        cluster = replace(_OPTIONS.cluster, host=name, routes=routes)
        return self._configure(replace(_OPTIONS, server_name=name, cluster=cluster))

    def name_of(self, number: int) -> str:
        """The name of a server, and of its host."""
        check(1 <= number <= len(self.names), f"no server {number} among {len(self.names)}")
        return self.names[number - 1]

    def server(self, number: int) -> Server:
        """The server of that number, which has to be running."""
        name = self.name_of(number)
        check(self.is_running(number), f"{name} is not running")
        return self.servers[name]

    def is_running(self, number: int) -> bool:
        """Whether a server has started and was not killed."""
        host = self._world.host(self.name_of(number))
        return host.alive and self._boots.get(host.name) == host.boots

    async def ready(self, wait_s: float = READY_S_MAX) -> None:
        """Wait until all servers that run are connected and agree on a leader."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_s
        while not self.is_ready():
            if loop.time() > deadline_s:
                raise ClusterNotReady(self._describe())
            await asyncio.sleep(_POLL_S)

    def is_ready(self) -> bool:
        """Whether the servers that run are connected to each other and agree on a leader."""
        running = self._running()
        alive = {name for name in self.names if self._world.host(name).alive}
        if not alive or alive != {*running}:
            return False
        nodes = [server.node for server in running.values()]
        ids = {node.server_id for node in nodes}
        for node in nodes:
            peers = {} if node.cluster is None else node.cluster.peers
            if {*peers} != ids - {node.server_id}:
                return False
            if any(len(peer.channels) != 2 for peer in peers.values()):
                return False
        leaders = {*self._leaders().values()}
        return not leaders or (len(leaders) == 1 and leaders <= alive)

    def _describe(self) -> str:
        return f"running: {', '.join(self._running())}; leaders: {self._leaders()}"

    @property
    def leader(self) -> int:
        """The number of the server that leads the meta group; 0 if servers do not agree on one."""
        leaders = {*self._leaders().values()}
        name = leaders.pop() if len(leaders) == 1 else ""
        return self.names.index(name) + 1 if name in self.names else 0

    def _leaders(self) -> dict[str, str]:
        """The leader that each running server follows; no name for a server that knows none."""
        return {
            name: server.node.consensus.meta_leader
            for name, server in self._running().items()
            if server.node.consensus is not None
        }

    def _running(self) -> dict[str, Server]:
        return {
            name: self.servers[name]
            for number, name in enumerate(self.names, 1)
            if self.is_running(number)
        }

    # --- clients -------------------------------------------------------------------------------

    def url(self, number: int) -> str:
        """The URL of a server, for clients in the world."""
        return f"nats://{self.name_of(number)}:{CLIENT_PORT}"

    async def connect(self, number: int = 0, **options: Any) -> "NatsClient":
        """A nats-py client of one server, or of all. Options are those of `nats.connect`."""
        import nats

        numbers = [number] if number else [*range(1, len(self.names) + 1)]
        urls = [self.url(each) for each in numbers]
        return await nats.connect(urls, **options)

    # --- faults --------------------------------------------------------------------------------

    def kill(self, number: int, mode: CrashMode = "kill") -> None:
        """End a server without warning, as `kill -9` does, or by a loss of power."""
        self._world.crash(self.name_of(number), mode)

    async def restart(self, number: int) -> None:
        """Start a server that was killed."""
        started = self._world.restart(self.name_of(number))
        if started is None:
            raise ProgrammerError(f"server {number} was never started")
        await started

    def pause(self, number: int) -> None:
        """Stop a server, as SIGSTOP does."""
        self._world.pause(self.name_of(number))

    def resume(self, number: int) -> None:
        """Let a server continue that was paused."""
        self._world.resume(self.name_of(number))

    def cut(self, one: int, other: int, direction: Direction = "both") -> None:
        """Let nothing pass between two servers; "forward" blocks the way from `one` to `other`."""
        self._world.network.partition(self.name_of(one), self.name_of(other), direction)

    def isolate(self, number: int) -> None:
        """Cut a server off from all other servers. Its clients still reach it."""
        for other in range(1, len(self.names) + 1):
            if other != number:
                self.cut(number, other)

    def heal(self) -> None:
        """End all cuts."""
        self._world.network.heal()

    # --- streams -------------------------------------------------------------------------------

    def replicas(self, stream: str, account: str = "$G") -> list[Replica]:
        """The contents of a stream on every running server that has it, for the checker."""
        found = [replica_of(server, stream, account) for server in self._running().values()]
        return [replica for replica in found if replica is not None]


def replica_of(server: Server, stream: str, account: str = "$G") -> Replica | None:
    """The contents of a stream on one server; None if the server does not have the stream, or is
    fetching a message of it that it cannot read."""
    host = server.node.jetstream
    home = None if host is None else host.accounts.get(account)
    if home is None or stream not in home.streams:
        return None
    contents = home.streams[stream]
    # Ids whose time has come are left out: replicas need not forget them at once.
    try:
        dump = contents.dump(contents.last_ns())
    except DamagedMessageError:
        return None
    stored: Any = dump.pop("messages")
    headers = [(each.sequence, each.header) for each in stored]
    return Replica(
        server=server.node.name,
        last_sequence=contents.log.last_sequence,
        messages={
            each.sequence: Stored(
                each.subject.decode(), each.payload.decode(errors="replace"), each.timestamp_ns
            )
            for each in stored
        },
        state={**dump, "headers": headers},
    )
