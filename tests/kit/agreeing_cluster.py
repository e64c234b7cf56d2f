"""Several whole servers that keep streams together, and clients of them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headwater.runtime.environment import Environment
from headwater.server.node import Node
from headwater.testing.disk import SimDisk
from tests.kit.cluster_world import ClusterWorld
from tests.kit.consumer_world import API, frames_in
from tests.kit.stored_world import streaming
from tests.kit.world import Peer

# Long enough for an election, and for all that servers tell each other at intervals.
QUIET_S = 6.0


class AgreeingCluster(ClusterWorld):
    """Servers `s1`, `s2` and so on, each with a disk, that have a leader of their meta group.

    `disks` are those of servers that have run before.
    """

    def __init__(
        self, count: int = 3, disks: Mapping[str, SimDisk] | None = None, **options: Any
    ) -> None:
        super().__init__()
        self._names = [f"s{number}" for number in range(1, count + 1)]
        self._disks = {name: SimDisk() for name in self._names} | dict(disks or {})
        self._options = options
        for name in self._names:
            self.start_server(name)
        self.quiet()

    def start_server(self, name: str) -> None:
        """Start a server on its disk."""
        roomy = streaming(max_file_bytes=1 << 28, max_memory_bytes=1 << 28)
        own = self._options.get(name, {})
        shared = {key: value for key, value in self._options.items() if key not in self._names}
        settings = {"jetstream": roomy, **shared, **own}
        self.start(name, " ".join(self._names), **settings)

    def disk_of(self, name: str) -> SimDisk:
        """The disk of a server."""
        return self._disks[name]

    def empty_disk(self, name: str) -> None:
        """Give a server that is stopped an empty disk."""
        self._disks[name] = SimDisk()

    def crash(self, name: str, is_power_lost: bool) -> None:
        """Kill a server, or cut its power: then its disk has what was synced."""
        self.lose(name)
        # The process that is gone keeps the other disk.
        disk = self._disks[name] = self._disks[name].clone()
        if is_power_lost:
            disk.power_loss("strict")
        else:
            disk.kill()

    def stop(self, name: str) -> None:
        """Stop a server in order, and close its store."""
        node = self.nodes[name]
        super().stop(name)
        node.close_jetstream()

    def prepare(self, node: Node) -> None:
        """Open the streams of a server."""
        node.open_jetstream()

    def environment_of(self, name: str) -> Environment:
        """The environment of a server, with its disk."""
        disk = self._disks[name]
        return replace(super().environment_of(name), disk=disk, boot_id=disk.boot_id)

    def quiet(self, seconds: float = QUIET_S) -> None:
        """Let time pass in small steps, so that servers hear each other. Syncs take no time."""
        self._finish_syncs()
        for _ in range(int(seconds / 0.05)):
            self.advance(0.05)
            self.settle()
            self._finish_syncs()

    def _finish_syncs(self) -> None:
        while self.scheduler.offloaded:
            self.scheduler.finish_offloaded()
            self.settle()

    @property
    def meta_leader(self) -> str:
        """The server that leads the meta group."""
        for node in self.nodes.values():
            if node.consensus is not None and node.consensus.meta_leader:
                return node.consensus.meta_leader
        return ""

    def other_than(self, *names: str) -> str:
        """Any server but those named."""
        return next(name for name in self.nodes if name not in names)

    def replies(self, name: str, operation: str, body: object = None, **connect: Any) -> list[Any]:
        """All replies that a client of a server gets to a request."""
        asker = self.client(name, **connect)
        if not isinstance(body, bytes):
            body = b"" if body is None else json.dumps(body).encode()
        return self.answers(asker, operation, body)

    def answers(self, asker: Peer, operation: str, payload: bytes) -> list[Any]:
        """All replies to a request of a client."""
        asker.take()
        line = f"SUB inbox.{id(asker)} 9\r\nPUB {API}{operation} inbox.{id(asker)} {len(payload)}"
        asker.send(line.encode() + b"\r\n" + payload + b"\r\n")
        self.quiet(3.0)
        found = [json.loads(frame.payload) for frame in frames_in(asker.take())]
        asker.send(b"UNSUB 9\r\n")
        return found

    def call(self, name: str, operation: str, body: object = None, **connect: Any) -> Any:
        """The one reply that a client of a server gets to a request."""
        (reply,) = self.replies(name, operation, body, **connect)
        return reply

    def create(self, name: str, stream: str, **config: Any) -> Any:
        """Have a client of a server create a stream of the subject of its name."""
        chosen = {"name": stream, "subjects": [f"{stream.lower()}.>"], "num_replicas": 3, **config}
        return self.call(name, f"STREAM.CREATE.{stream}", chosen)

    def publish(self, name: str, subject: str, count: int = 1) -> None:
        """Have a client of a server publish messages."""
        client = self.client(name)
        client.send(b"".join(b"PUB %b 1\r\nm\r\n" % subject.encode() for _ in range(count)))
        self.quiet(0.5)
