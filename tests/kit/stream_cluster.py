"""Several servers that know each other, each with streams that clients of all of them reach.

A stream is created, and its consumers are, by clients of the server that it runs on. Everything
else may come from any server.
"""

import json
from dataclasses import replace
from typing import Any

from headwater.runtime.environment import Environment
from headwater.server.node import Node
from headwater.server.streams.advisories import ServerTitle
from headwater.server.streams.host import StreamHost
from headwater.testing.disk import SimDisk
from tests.kit.cluster_world import ClusterWorld
from tests.kit.consumer_world import API, Frame, frames_in
from tests.kit.stored_world import streaming
from tests.kit.world import Peer


class StreamCluster(ClusterWorld):
    """Servers `s1`, `s2` and so on, each with JetStream on a disk of its own."""

    def __init__(self, count: int = 3, is_announced: bool = True, **options: Any) -> None:
        super().__init__()
        roomy = streaming(max_file_bytes=1 << 28, max_memory_bytes=1 << 28)
        self.start_all(count, jetstream=roomy, **options)
        for node in self.nodes.values():
            self._open_streams(node, is_announced)
        self.settle()
        self._askers = {name: self.client(name) for name in self.nodes}

    def environment_of(self, name: str) -> Environment:
        """The environment of a server, with a disk."""
        disk = SimDisk()
        return replace(super().environment_of(name), disk=disk, boot_id=disk.boot_id)

    def _open_streams(self, node: Node, is_announced: bool) -> None:
        node.jetstream = StreamHost(
            node.options,
            node.environment,
            node.log,
            node.broker,
            node.accounts,
            ServerTitle(node.name, node.server_id, node.options.jetstream.domain),
            node.roster.next_cid,
            is_announced,
        )
        node.jetstream.start()

    def call(self, name: str, operation: str, body: object = None) -> Any:
        """The reply of a server to a request of one of its own clients."""
        asker = self._askers[name]
        payload = b"" if body is None else json.dumps(body).encode()
        asker.take()
        line = f"SUB inbox 9\r\nPUB {API}{operation} inbox {len(payload)}\r\n".encode()
        asker.send(line + payload + b"\r\nUNSUB 9\r\n")
        self.sync()
        (reply,) = frames_in(asker.take())
        return json.loads(reply.payload)

    def create(self, name: str, stream: str = "S", **config: Any) -> None:
        """Create a stream on a server."""
        chosen = {"name": stream, "subjects": [f"{stream.lower()}.>"], **config}
        reply = self.call(name, f"STREAM.CREATE.{stream}", chosen)
        assert "error" not in reply, reply

    def consumer(self, name: str, consumer: str = "C", stream: str = "S", **config: Any) -> None:
        """Create a consumer on the server of its stream."""
        chosen = {"durable_name": consumer, "ack_policy": "explicit", **config}
        body = {"stream_name": stream, "config": chosen}
        reply = self.call(name, f"CONSUMER.CREATE.{stream}.{consumer}", body)
        assert "error" not in reply, reply

    def state(self, name: str, stream: str = "S") -> Any:
        """The state of a stream."""
        return self.call(name, f"STREAM.INFO.{stream}")["state"]

    def consumer_info(self, name: str, consumer: str = "C", stream: str = "S") -> Any:
        """The information about a consumer."""
        return self.call(name, f"CONSUMER.INFO.{stream}.{consumer}")

    def listener(self, name: str, *patterns: str) -> Peer:
        """A client of a server that is subscribed."""
        peer = self.client(name)
        lines = (f"SUB {each} {sid}\r\n" for sid, each in enumerate(patterns))
        peer.send("".join(lines).encode())
        return peer

    def told(self, peer: Peer) -> list[Frame]:
        """The messages that a client has got since the last look."""
        self.sync()
        return frames_in(peer.take())

    def sync(self) -> None:
        """Let the disks finish what they were given, and what follows from that."""
        self.settle()
        while self.scheduler.offloaded:
            self.scheduler.finish_offloaded()
            self.settle()
