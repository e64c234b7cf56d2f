"""A cluster with one replicated stream that is read at every level."""

import json
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from headwater.raft.node import RaftNode
from headwater.server.configuration.options import LinearizableReads
from headwater.server.streams.replica import StreamReplica
from tests.kit.agreeing_cluster import AgreeingCluster
from tests.kit.consumer_world import Frame, frames_in
from tests.kit.stored_world import streaming

LEASE_S = 1.0
# Longer than the way of a request and its answer through the cluster.
ANSWER_S = 0.2

BY_ROUNDS = replace(
    streaming(max_file_bytes=1 << 28, max_memory_bytes=1 << 28),
    linearizable_reads=LinearizableReads.QUORUM,
)


NO_CONFIG: Final[Mapping[str, object]] = MappingProxyType({})


class Reading(AgreeingCluster):
    """A cluster with the stream S, whose messages have the subject `s.a`."""

    def __init__(
        self, level: str = "strong", config: Mapping[str, object] = NO_CONFIG, **options: Any
    ) -> None:
        super().__init__(**options)
        reply = self.create("s1", "S", read_consistency=level, **config)
        assert "error" not in reply, reply
        self.incarnation = self._incarnation()
        self.quiet(1.0)

    def _incarnation(self) -> bytes:
        streams = self.nodes["s1"].cluster_streams
        assert streams is not None
        found = streams.meta.assignments.get("$G", "S")
        assert found is not None
        return found.incarnation

    def node(self, name: str) -> RaftNode:
        """The member of the group of S on a server."""
        consensus = self.nodes[name].consensus
        assert consensus is not None
        node = consensus.node(self.incarnation)
        assert node is not None
        return node

    @property
    def leader(self) -> str:
        """The server that leads S and serves."""
        return next((name for name in self.nodes if self.node(name).is_ready), "")

    def ask(
        self, name: str, call: str, body: object = None, wait_s: float = ANSWER_S
    ) -> list[Frame]:
        """The answers to a request of a client of a server."""
        asker = self.client(name, headers=True, no_responders=True)
        asker.take()
        payload = b"" if body is None else json.dumps(body).encode()
        asker.send(
            b"SUB i 1\r\nPUB $JS.API.%b i %d\r\n%b\r\n" % (call.encode(), len(payload), payload)
        )
        self.quiet(wait_s)
        return frames_in(asker.take())

    def last(self, name: str, call: str = "DIRECT_LEADER.GET.S.s.a") -> str:
        """The payload of the last message, or the status of the answer."""
        (frame,) = self.ask(name, call)
        return frame.status or frame.payload.decode()

    def put(self, name: str, payload: str) -> int:
        """Publish a message through a server. Returns its sequence."""
        asker = self.client(name)
        asker.take()
        asker.send(f"SUB i 1\r\nPUB s.a i {len(payload)}\r\n{payload}\r\n".encode())
        self.quiet(ANSWER_S)
        (frame,) = frames_in(asker.take())
        return int(json.loads(frame.payload)["seq"])

    def replica(self, name: str) -> StreamReplica:
        """The replica of S on a server."""
        host = self.nodes[name].jetstream
        assert host is not None
        replica = host.streams.replica(self.incarnation)
        assert replica is not None
        return replica

    def isolate(self, name: str) -> None:
        """Cut a server off from all others. Its clients still reach it."""
        for other in self.nodes:
            if other != name:
                self.cut(name, other)

    def muffle(self, name: str) -> None:
        """Have nothing pass between a server and the others, over links that stay open."""
        for other in self.nodes:
            for pipes in self.pipes_between(name, other) if other != name else ():
                for pipe in pipes:
                    pipe.is_cut = True
