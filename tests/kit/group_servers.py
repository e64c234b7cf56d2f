"""Servers that share many groups, joined by ordered links, with virtual time and instant disks."""

import heapq
from collections.abc import Callable
from typing import Final

from headwater.raft.config import RaftConfig
from headwater.raft.membership import membership_of
from headwater.raft.messages import InstallSnapshot
from headwater.raft.node import RaftNode
from headwater.raft.storage import born
from headwater.server.cluster.consensus.groups import Frames, Groups
from headwater.server.cluster.consensus.liveness import LivenessSettings
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.raft_disk import Disk

MS: Final = 1_000_000
LATENCY_NS: Final = MS
SETTINGS: Final = LivenessSettings()


def group_identity(number: int) -> bytes:
    """The identity of a group by its number."""
    return number.to_bytes(16, "little")


class GroupServer:
    """One server: its groups, and the links that it has open."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.groups = Groups(name, SETTINGS)
        self.disks: dict[bytes, Disk] = {}
        self.applied: dict[bytes, list[bytes]] = {}
        self.turn_planned = False
        self.tick_ns: int | None = None
        self.is_running = True


class GroupServers:
    """All servers, and the events to come."""

    def __init__(self, names: str, group_count: int) -> None:
        self.now_ns = 1_000 * MS
        self._order = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self.links: dict[tuple[str, str], int] = {}
        self.frames: list[tuple[int, str, str, bytes]] = []
        """All frames that were sent: time, sender, receiver and bytes."""
        self.snapshots: list[tuple[bytes, InstallSnapshot]] = []
        self.servers = {name: GroupServer(name) for name in names}
        for server in self.servers.values():
            for number in range(group_count):
                self.add_group(server, group_identity(number), names)

    def add_group(self, server: GroupServer, identity: bytes, names: str) -> None:
        saved = born(membership_of(names))
        disk = server.disks[identity] = Disk(saved)
        entropy = SeededEntropy(labelled_rng(len(server.disks), server.name))
        node = RaftNode(server.name, RaftConfig(), entropy, disk, saved, self.now_ns)
        server.groups.add(identity, node, self.now_ns)
        self.plan_turn(server)

    # --- time -----------------------------------------------------------------------------------

    def at(self, delay_ns: int, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._queue, (self.now_ns + delay_ns, self._order, action))

    def run(self, duration_ms: int) -> None:
        """Let time pass."""
        until_ns = self.now_ns + duration_ms * MS
        while self._queue and self._queue[0][0] <= until_ns:
            self.now_ns, _, action = heapq.heappop(self._queue)
            action()
        self.now_ns = until_ns

    def plan_turn(self, server: GroupServer) -> None:
        if not server.turn_planned:
            server.turn_planned = True
            self.at(0, lambda: self._turn(server))

    def _turn(self, server: GroupServer) -> None:
        server.turn_planned = False
        if not server.is_running:
            return
        groups = server.groups
        groups.tick(self.now_ns)
        while portion := groups.take(self.now_ns):
            for peer in portion.disconnected:
                self.cut(server.name, peer)
            self._send(server, portion.frames)
            self.snapshots += portion.snapshots
            for identity, entries in portion.committed:
                server.applied.setdefault(identity, []).extend(
                    entry.data for entry in entries if entry.data
                )
                groups.applied_to(identity, entries[-1].index)
            for identity, ready in portion.writes:
                server.disks[identity].files.write(ready, 0)
            self._send(server, groups.written(portion, self.now_ns))
        deadline_ns = groups.deadline_ns
        if deadline_ns is not None and deadline_ns != server.tick_ns:
            server.tick_ns = deadline_ns
            self.at(max(0, deadline_ns - self.now_ns), lambda: self.plan_turn(server))

    # --- links ----------------------------------------------------------------------------------

    def connect(self, one: str, other: str) -> None:
        """Open a link, which both ends notice."""
        self._order += 1
        number = self._order
        for name, peer in ((one, other), (other, one)):
            self.links[name, peer] = number
            self.servers[name].groups.connected(peer, self.now_ns)
            self.plan_turn(self.servers[name])

    def connect_all(self) -> None:
        names = [*self.servers]
        for position, one in enumerate(names):
            for other in names[position + 1 :]:
                self.connect(one, other)

    def cut(self, one: str, other: str) -> None:
        """Reset a link. Frames on their way are lost, and both ends notice."""
        for name, peer in ((one, other), (other, one)):
            if self.links.pop((name, peer), None) is not None:
                self.servers[name].groups.disconnected(peer, self.now_ns)
                self.plan_turn(self.servers[name])

    def kill(self, name: str) -> None:
        """End a server; its links are reset."""
        self.servers[name].is_running = False
        for peer in self.servers:
            self.cut(name, peer)

    def _send(self, server: GroupServer, frames: Frames) -> None:
        for peer, sent in frames.items():
            link = self.links.get((server.name, peer))
            for frame in sent:
                self.frames.append((self.now_ns, server.name, peer, frame))
                self.at(LATENCY_NS, self._delivery(server.name, peer, link, frame))

    def _delivery(
        self, sender: str, receiver: str, link: int | None, frame: bytes
    ) -> Callable[[], None]:
        def deliver() -> None:
            server = self.servers[receiver]
            if link is not None and self.links.get((receiver, sender)) == link:
                server.groups.receive(sender, frame, self.now_ns)
                self.plan_turn(server)

        return deliver

    # --- facts ----------------------------------------------------------------------------------

    def leaders(self, number: int) -> list[str]:
        """The servers that lead a group."""
        return [
            server.name
            for server in self.servers.values()
            if server.is_running and self.node(server.name, number).leader == server.name
        ]

    def node(self, name: str, number: int) -> RaftNode:
        node = self.servers[name].groups.node(group_identity(number))
        assert node is not None
        return node
