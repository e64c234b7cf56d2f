"""Several Nodes that know each other, in a world without sockets, threads or time of its own.

All nodes share one scheduler and one clock, moved by the test. A connection between two servers is
a pipe: bytes that one end writes are read by the other in a later turn. A pipe can be cut, so that
its bytes vanish, and an end can be told to stop reading.
"""

from dataclasses import replace
from typing import Any, cast

from headwater.runtime.environment import Environment
from headwater.runtime.sockets.client_connection import WRITE_HIGH_BYTES, ConnectionHandler
from headwater.server.cluster.cluster import Cluster
from headwater.server.configuration.options import ClusterOptions, Options, RouteUrl
from headwater.server.log import Log
from headwater.server.node import Node
from headwater.testing.marks import SimMarks
from tests.kit.monitored_world import FixedProcess
from tests.kit.world import (
    FakeConnection,
    ManualClock,
    ManualScheduler,
    Peer,
    SeededEntropy,
    connect_document,
)

CLUSTER_PORT = 6222


class PipeEnd:
    """One end of a connection between two servers."""

    def __init__(self, scheduler: ManualScheduler, host: str, port: int) -> None:
        self._scheduler = scheduler
        self.peer_host = host
        self.peer_port = port
        self.handler: ConnectionHandler | None = None
        self.channel: Any = None
        self.twin: PipeEnd | None = None
        self.is_cut = False
        self.reads = True
        self.unread = bytearray()
        self.written = bytearray()
        self.writes = 0
        self.ended = ""

    def write(self, data: bytes) -> int:
        if self.ended or self.twin is None:
            return 0
        self.writes += 1
        self.written += data
        if not self.is_cut:
            self.twin.unread += data
            self._scheduler.call_soon(self.twin.deliver)
        waiting = self.buffered_bytes()
        if waiting > WRITE_HIGH_BYTES and self.handler is not None:
            self.handler.unwritable(self.channel)
        return waiting

    def buffered_bytes(self) -> int:
        return 0 if self.twin is None or self.twin.reads else len(self.twin.unread)

    def deliver(self) -> None:
        if self.unread and self.reads and not self.ended and self.handler is not None:
            data = bytes(self.unread)
            self.unread.clear()
            self.handler.receive(self.channel, data)

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True
        self._scheduler.call_soon(self.deliver)

    def close(self) -> None:
        self._end("closed")

    def abort(self) -> None:
        self._end("aborted")

    def _end(self, how: str) -> None:
        if self.ended:
            return
        self.ended = how
        twin = self.twin
        if twin is not None and not self.is_cut:
            # Bytes that were written before arrive before.
            self._scheduler.call_soon(twin.lose)
        self._scheduler.call_soon(self._lost)

    def lose(self) -> None:
        """The other end has closed the connection, or the network has lost it."""
        if not self.ended:
            self.ended = "lost"
            self._lost()

    def _lost(self) -> None:
        handler, self.handler = self.handler, None
        if handler is not None:
            handler.lost(self.channel, False)


class PipeNetwork:
    """The network of one server in a `ClusterWorld`."""

    def __init__(self, world: "ClusterWorld", host: str) -> None:
        self._world = world
        self._host = host
        self.is_silent = False
        """Whether the server has fallen silent: nobody hears its attempts to connect."""

    async def listen(self, host: str, port: int, factory: Any) -> Any:
        raise NotImplementedError

    def addresses(self) -> list[str]:
        return [self._host]

    def dial(
        self, host: str, port: int, handler: ConnectionHandler, timeout_s: float, failed: Any
    ) -> None:
        if not self.is_silent:
            self._world.scheduler.call_soon(
                lambda: self._world.connect_servers(self._host, host, port, handler, failed)
            )


class ClusterWorld:
    """Some servers, their links, and their clients."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.logs: dict[str, list[str]] = {}
        self.nodes: dict[str, Node] = {}
        # The connections that were ever made between servers, each with the hosts of its ends.
        self.pipes: list[tuple[str, str, PipeEnd, PipeEnd]] = []
        # Pairs of hosts that cannot reach each other.
        self.cuts: set[frozenset[str]] = set()
        self._clients = 0
        self._seeds = 0

    # --- servers -------------------------------------------------------------------------------

    def host_of(self, name: str) -> str:
        """The address of a server: its name is its number."""
        return f"10.0.0.{name.removeprefix('s')}"

    def start(self, name: str, routes: str = "", **options: Any) -> Node:
        """Start a server whose routes are the servers named."""
        host = self.host_of(name)
        cluster = ClusterOptions(
            **{"name": "C", "host": host, "port": CLUSTER_PORT, **options.pop("cluster", {})}
        )
        urls = tuple(
            RouteUrl(self.host_of(each), CLUSTER_PORT, cluster.username, cluster.password)
            for each in routes.split()
        )
        settings = Options(
            **{"server_name": name, "host": host, **options},
            cluster=replace(cluster, routes=cluster.routes or urls),
        )
        return self.run(name, settings)

    def run(self, name: str, options: Options) -> Node:
        """Start a server with these options."""
        lines = self.logs.setdefault(name, [])
        log = Log(lambda line: lines.append(line.decode().rstrip()), self.clock, pid=7)
        log.time_on, log.debug_on = False, options.debug
        options.validate()
        node = self.nodes[name] = Node(options, self.environment_of(name), log)
        self.prepare(node)
        if node.cluster is not None:
            node.cluster.start()
        self.settle()
        return node

    def prepare(self, node: Node) -> None:
        """Prepare a server that does not listen to others yet."""

    def environment_of(self, name: str) -> Environment:
        """The environment of a server, without files and without a disk."""
        self._seeds += 1
        nothing = cast(Any, None)
        return Environment(
            clock=self.clock,
            entropy=SeededEntropy(self._seeds),
            files=nothing,
            network=PipeNetwork(self, self.host_of(name)),
            scheduler=self.scheduler,
            process=FixedProcess(),
            disk=nothing,
            boot_id="",
            marks_in=lambda folder: SimMarks(),
            find_zone=nothing,
            load_tls=nothing,
        )

    def start_all(self, count: int, **options: Any) -> list[str]:
        """Start servers that all have the first one as their route."""
        names = [f"s{number}" for number in range(1, count + 1)]
        for name in names:
            self.start(name, "s1", **options)
        return names

    def stop(self, name: str) -> None:
        """Stop a server in an orderly way."""
        self.nodes.pop(name).close_all("Server Shutdown")
        self.settle()

    def lose(self, name: str) -> None:
        """A server falls silent: nobody hears from it, and its connections look open."""
        host = self.host_of(name)
        node = self.nodes.pop(name)
        for one, other, *ends in self.pipes:
            if host in (one, other):
                for end in ends:
                    end.is_cut = True
        cast(PipeNetwork, node.environment.network).is_silent = True
        node.environment = cast(Any, None)

    def cluster_of(self, name: str) -> Cluster:
        """The links of a server."""
        cluster = self.nodes[name].cluster
        assert cluster is not None
        return cluster

    def log_of(self, name: str) -> str:
        """The log of a server."""
        return "\n".join(self.logs[name])

    def links(self) -> set[tuple[str, str, str]]:
        """Every open channel: the server, the peer, and the purpose."""
        return {
            (name, peer.name, purpose.value)
            for name, node in self.nodes.items()
            if node.cluster is not None
            for peer in node.cluster.peers.values()
            for purpose in peer.channels
        }

    def is_whole(self) -> bool:
        """Whether every server has both channels to every other one, and no other connection."""
        names = [*self.nodes]
        expected = {
            (one, other, purpose)
            for one in names
            for other in names
            if one != other
            for purpose in ("messages", "consensus")
        }
        channels = sum(len(self.cluster_of(name).channels) for name in names)
        return self.links() == expected and channels == len(expected)

    # --- the network ---------------------------------------------------------------------------

    def connect_servers(
        self, source: str, host: str, port: int, handler: ConnectionHandler, failed: Any
    ) -> None:
        """Connect a server to an address."""
        listening = {
            (self.nodes[name].options.cluster.host, self.cluster_of(name).port): name
            for name in self.nodes
            if self.nodes[name].cluster is not None
        }
        name = listening.get((host, port))
        if name is None or frozenset((source, host)) in self.cuts:
            failed(f"dial tcp {host}:{port}: connect: connection refused")
            return
        near = PipeEnd(self.scheduler, host, port)
        far = PipeEnd(self.scheduler, source, 40_000 + len(self.pipes))
        near.twin, far.twin = far, near
        self.pipes.append((source, host, near, far))
        far.handler = cast(ConnectionHandler, self.cluster_of(name))
        far.channel = far.handler.accept(cast(Any, far))
        near.handler = handler
        near.channel = handler.accept(cast(Any, near))

    def stranger(self, name: str) -> PipeEnd:
        """The outer end of a connection of anybody to a server's cluster port."""
        near = PipeEnd(self.scheduler, self.host_of(name), CLUSTER_PORT)
        far = PipeEnd(self.scheduler, "10.9.9.9", 50_000 + len(self.pipes))
        near.twin, far.twin = far, near
        far.handler = cast(ConnectionHandler, self.cluster_of(name))
        far.channel = far.handler.accept(cast(Any, far))
        self.settle()
        return near

    def pipes_between(self, one: str, other: str) -> list[tuple[PipeEnd, PipeEnd]]:
        """The connections between two servers that are still open."""
        hosts = {self.host_of(one), self.host_of(other)}
        return [
            (near, far)
            for source, target, near, far in self.pipes
            if {source, target} == hosts and not near.ended and not far.ended
        ]

    def cut(self, one: str, other: str) -> None:
        """Break the connections of two servers, and let them make no others."""
        self.cuts.add(frozenset((self.host_of(one), self.host_of(other))))
        for near, far in self.pipes_between(one, other):
            near.lose()
            far.lose()
        self.settle()

    def heal(self, one: str, other: str) -> None:
        """Let two servers reach each other again."""
        self.cuts.discard(frozenset((self.host_of(one), self.host_of(other))))

    # --- clients and time ----------------------------------------------------------------------

    def client(self, name: str, **connect: object) -> Peer:
        """A client of a server, as today's libraries make them."""
        self._clients += 1
        connection = FakeConnection(self.scheduler, 30_000 + self._clients)
        node = connection.node = self.nodes[name]
        client = connection.client = node.connections.accept(connection)
        peer = Peer(connection, client, cast(Any, self))
        self.settle()
        peer.ask(b"CONNECT %b\r\nPING\r\n" % connect_document(**connect))
        return peer

    def settle(self) -> None:
        """Let every turn end, on all servers."""
        self.scheduler.run_turns()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.scheduler.advance(seconds)
