"""A stream with replicas whose leader may be cut off from the others, and its clients."""

import json
from typing import Any

from headwater.jetstream.streams.stream import Stream
from headwater.server.streams.replica import StreamReplica
from tests.kit.agreeing_cluster import AgreeingCluster
from tests.kit.cluster_world import PipeEnd
from tests.kit.consumer_world import Frame, frames_in
from tests.kit.world import Peer

NS_PER_MS = 1_000_000
# Shorter than the time after which a leader without a quorum resigns.
TIMEOUT_MS = 300
UNKNOWN = {
    "error": {
        "code": 503,
        "err_code": 10901,
        "description": "publish status unknown: replication timeout",
    },
    "stream": "S",
    "seq": 0,
}
NOT_AVAILABLE = 10008


class QuorumWorld(AgreeingCluster):
    """The stream `S`, led by `leader`, and a client of that server."""

    def __init__(self, timeout_ms: int | None = TIMEOUT_MS, count: int = 3, **config: Any) -> None:
        super().__init__(count)
        if timeout_ms is not None:
            config["ack_timeout"] = timeout_ms * NS_PER_MS
        reply = self.create("s1", "S", **{"num_replicas": count, **config})
        assert "error" not in reply, reply
        self.quiet(1.0)
        self.leader = next(name for name in self.nodes if self.replica(name).is_leading)
        self.peer = self.listener(self.leader, "inbox.>")

    def listener(self, name: str, pattern: str) -> Peer:
        """A client of a server that listens."""
        peer = self.client(name)
        peer.send(b"SUB %b 1\r\n" % pattern.encode())
        return peer

    def replica(self, name: str) -> StreamReplica:
        """The replica of a server."""
        host = self.nodes[name].jetstream
        assert host is not None
        [replica] = host.streams.replicas.values()
        return replica

    @property
    def stream(self) -> Stream:
        """The stream of the leader."""
        return self.replica(self.leader).stream

    @property
    def others(self) -> list[str]:
        """The servers that did not lead."""
        return [name for name in self.nodes if name != self.leader]

    def part(self) -> None:
        """Cut the leader off from all others."""
        for name in self.others:
            self.cut(self.leader, name)

    def stall(self, to_leader: bool = True, to_others: bool = True) -> None:
        """Have nothing arrive at the leader, or at the others, for now."""
        for end in self._ends(to_leader, to_others):
            end.reads = False

    def flow(self, to_leader: bool = True, to_others: bool = True) -> None:
        """Have everything arrive that was sent meanwhile."""
        for end in self._ends(to_leader, to_others):
            end.resume_reading()
        self.settle()

    def _ends(self, to_leader: bool, to_others: bool) -> list[PipeEnd]:
        """The ends of links at the leader, and those at the others."""
        home = self.host_of(self.leader)
        found: list[PipeEnd] = []
        for source, target, near, far in self.pipes:
            if home in (source, target) and not near.ended and not far.ended:
                at_leader, at_other = (near, far) if source == home else (far, near)
                found += [at_leader] * to_leader + [at_other] * to_others
        return found

    def join(self) -> None:
        """Let all servers reach each other again, until one leads and all have the log."""
        for name in self.others:
            self.heal(self.leader, name)
        self.quiet()

    def pass_ms(self, ms: int) -> None:
        """Let time pass."""
        self.quiet(ms / 1000 + 0.01)

    def say(self, body: str, number: int = 1, subject: str = "s.a", **headers: str) -> None:
        """Publish a message that is answered at inbox.<number>."""
        block = b""
        if headers:
            lines = (f"{key.replace('_', '-')}: {value}\r\n" for key, value in headers.items())
            block = f"NATS/1.0\r\n{''.join(lines)}\r\n".encode()
        data = block + body.encode()
        verb = f"HPUB {subject} inbox.{number} {len(block)} {len(data)}"
        if not headers:
            verb = f"PUB {subject} inbox.{number} {len(data)}"
        self.peer.send(b"%b\r\n%b\r\n" % (verb.encode(), data))

    def ask(self, operation: str, body: object = None, number: int = 1) -> None:
        """Send a request that is answered at inbox.<number>."""
        data = b"" if body is None else json.dumps(body).encode()
        self.peer.send(b"PUB $JS.API.%b inbox.%d %d\r\n" % (operation.encode(), number, len(data)))
        self.peer.send(data + b"\r\n")

    def heard(self) -> list[Frame]:
        """The frames of the client since the last look."""
        return frames_in(self.peer.take())

    def told(self) -> list[Any]:
        """The documents that the client has got since the last look."""
        return [json.loads(frame.payload) for frame in self.heard()]

    def stored(self, name: str = "") -> list[tuple[int, bytes]]:
        """The messages that a replica has, with their sequences."""
        log = self.replica(name or self.leader).stream.log
        found = [(each, log.get(each)) for each in range(log.first_sequence, log.last_sequence + 1)]
        return [(sequence, message.payload) for sequence, message in found if message is not None]
