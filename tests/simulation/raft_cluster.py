"""Members of one group on a simulated network, with simulated disks and one virtual clock.

A run is a queue of events in virtual time. Messages are lost, doubled, delayed and so reordered;
they may arrive after their sender has died. Writes take time; a process that dies loses the rest of
them, a machine that loses power also loses what was not synced. After each event the promises are
checked.
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from headwater.raft.codec import decode, encode
from headwater.raft.config import RaftConfig
from headwater.raft.membership import Membership
from headwater.raft.messages import InstallSnapshot, Message
from headwater.raft.node import RaftNode
from headwater.raft.ready import Ready
from headwater.raft.role import RoleName
from headwater.raft.storage import SavedState, blank, born
from headwater.store.groups.frames import GroupMode
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.raft_disk import Disk
from tests.kit.raft_store import StoredDisk
from tests.simulation.raft_checks import Checks, next_state

MS: Final = 1_000_000
HEARTBEAT_NS: Final = 50 * MS
SILENCE_NS: Final = 300 * MS
TRIM_BEHIND: Final = 12

CONFIG: Final = RaftConfig(
    election_timeout_ns=SILENCE_NS,
    lost_leader_spread_ns=150 * MS,
    resend_ns=200 * MS,
    snapshot_timeout_ns=600 * MS,
    append_bytes_max=200,
    append_entries_max=3,
    window_messages_max=4,
    window_bytes_max=600,
    apply_bytes_max=400,
    log_memory_bytes_max=500,
)


@dataclass
class Conditions:
    """The weather on network and disks."""

    loss: float = 0.0
    doubling: float = 0.0
    late: float = 0.0
    late_ns: int = 400 * MS
    delay_ns: int = 5 * MS
    write_ns: int = 3 * MS
    synced: bool = True
    """Whether each write is synced (`always`), or only term and vote are."""
    append_entries_max: int = 3


class Server:
    """A machine: its disk, and the process on it while there is one."""

    def __init__(self, name: str, disk: Disk | StoredDisk) -> None:
        self.name = name
        self.disk = disk
        self.node: RaftNode | None = None
        self.start_number = 0
        self.has_forgotten = False
        self.slow_until_ns = 0
        self.turn_planned = False
        self.tick_ns: int | None = None
        self.heard: dict[str, tuple[int, int]] = {}
        self.writes: deque[Ready] = deque()
        self.writes_end_ns = 0
        self.state = 0
        self.states: dict[int, int] = {}
        self.shipped: dict[int, int] = {}
        self.commit_seen = 0


class Cluster:
    """All servers and the events to come."""

    def __init__(self, seed: int, names: list[str], voters: list[str], weather: Conditions) -> None:
        self.now_ns = 1_000 * MS
        self.rng = labelled_rng(seed, "cluster")
        self.seed = seed
        self.weather = weather
        self.config = replace(CONFIG, append_entries_max=weather.append_entries_max)
        self.checks = Checks()
        self.cuts: set[tuple[str, str]] = set()
        self.events = 0
        self._order = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        first = Membership(tuple(sorted(voters)))
        self.servers = {
            name: Server(name, self.make_disk(name, born(first) if name in voters else blank()))
            for name in names
        }
        for server in self.servers.values():
            self.start(server)
        self.at(HEARTBEAT_NS, self._heartbeats)

    def make_disk(self, name: str, saved: SavedState) -> Disk | StoredDisk:
        """The disk of a server."""
        return Disk(saved)

    def has_forgotten(self, server: Server) -> bool:
        """Whether a process that starts now has to be told that it may have forgotten."""
        return server.has_forgotten

    # --- time -----------------------------------------------------------------------------------

    def at(self, delay_ns: int, action: Callable[[], None]) -> None:
        """Plan an event."""
        self._order += 1
        heapq.heappush(self._queue, (self.now_ns + delay_ns, self._order, action))

    def run(self, until_ns: int) -> None:
        """Perform events until a time."""
        while self._queue and self._queue[0][0] <= until_ns:
            self.now_ns, _, action = heapq.heappop(self._queue)
            self.events += 1
            action()
        self.now_ns = until_ns

    # --- processes ------------------------------------------------------------------------------

    def nodes(self) -> list[RaftNode]:
        """The members that run."""
        return [server.node for server in self.servers.values() if server.node is not None]

    def start(self, server: Server) -> None:
        """Start a process on what the disk has."""
        if server.node is not None:
            return
        server.start_number += 1
        entropy = SeededEntropy(labelled_rng(self.seed, server.name, server.start_number))
        saved = server.disk.saved()
        server.node = RaftNode(
            server.name,
            self.config,
            entropy,
            server.disk,
            saved,
            self.now_ns,
            has_forgotten=self.has_forgotten(server),
        )
        server.state = server.disk.files.state
        server.states = {server.disk.files.snapshot.index: server.state}
        server.commit_seen = server.node.log.commit
        self.plan_turn(server)

    def stop(self, server: Server, *, power: bool = False) -> None:
        """End a process, or its machine; writes on their way may have reached the disk."""
        if server.node is None:
            return
        arrived = self.rng.randrange(len(server.writes) + 1)
        for _, ready in zip(range(arrived), server.writes, strict=False):
            self._write(server, ready)
        if power and self.rng.random() < 0.8:
            server.disk.lose_power()
        elif power:
            server.disk.sync()
        server.has_forgotten |= power and not self.weather.synced
        server.node = None
        server.writes.clear()
        server.writes_end_ns = 0
        server.tick_ns = None
        server.turn_planned = False
        server.heard.clear()
        server.shipped.clear()
        if not power:
            # The kernel resets the connections of a process; a dead machine is silent.
            for other in self.servers.values():
                self._lose(other, server.name)

    # --- turns ----------------------------------------------------------------------------------

    def plan_turn(self, server: Server) -> None:
        """Take the work of a member soon; events until then are one turn."""
        if not server.turn_planned:
            server.turn_planned = True
            number = server.start_number
            self.at(self.rng.randrange(MS), lambda: self._turn(server, number))

    def _turn(self, server: Server, start_number: int) -> None:
        node = server.node
        if node is None or server.start_number != start_number:
            return
        server.turn_planned = False
        while (ready := node.ready(self.now_ns)) is not None:
            self._observe(server)
            self._begin(server, node, ready)
        self._observe(server)
        self._plan_tick(server, node)
        self._trim(server, node)

    def _observe(self, server: Server) -> None:
        node = server.node
        if node is not None:
            self.checks.observe(node, server.commit_seen, self.nodes)
            server.commit_seen = node.log.commit

    def _begin(self, server: Server, node: RaftNode, ready: Ready) -> None:
        """Do what may be done at once, and plan the write."""
        if ready.entries:
            self.checks.observe_entries(ready.entries, node.log.term_at(ready.entries[0].index - 1))
        for message in ready.messages:
            self.send(message)
        for entry in ready.committed:
            server.state = next_state(server.state, entry)
            server.states[entry.index] = server.state
            self.checks.observe_apply(server.name, entry, server.state)
        if ready.committed:
            node.applied_to(ready.committed[-1].index)
        server.writes.append(ready)
        delay_ns = self.rng.randrange(self.weather.write_ns) if ready.has_write else 0
        if ready.has_write and self.now_ns < server.slow_until_ns:
            delay_ns = delay_ns * 40 + 100 * MS
        server.writes_end_ns = max(server.writes_end_ns, self.now_ns + delay_ns)
        number = server.start_number
        self.at(server.writes_end_ns - self.now_ns, lambda: self._end_write(server, number))

    def _end_write(self, server: Server, start_number: int) -> None:
        node = server.node
        if node is None or server.start_number != start_number:
            return
        ready = server.writes.popleft()
        self._write(server, ready)
        for message in ready.replies:
            self.send(message)
        node.written(ready, self.now_ns)
        if ready.snapshot is not None:
            server.state = server.disk.files.state
            server.states = {ready.snapshot.index: server.state}
        self.plan_turn(server)

    def _write(self, server: Server, ready: Ready) -> None:
        state = 0
        if ready.snapshot is not None:
            state = server.shipped[ready.snapshot.index]
        server.disk.files.write(ready, state)
        if ready.hard_state is not None:
            # From now on the disk says whether the member has forgotten.
            server.has_forgotten = False
        if self.must_sync(ready):
            server.disk.sync()

    def must_sync(self, ready: Ready) -> bool:
        """Whether a write reaches the medium before it is reported."""
        return ready.must_sync or self.weather.synced

    def _trim(self, server: Server, node: RaftNode) -> None:
        """Trim a long log, if nothing newer is on its way to the disk."""
        applied = node.log.applied
        on_disk = server.disk.files.snapshot.index
        if server.writes or node.log.snapshot.index != on_disk:
            return
        if applied - on_disk > TRIM_BEHIND and self.rng.random() < 0.3:
            snapshot = node.trim(applied - self.rng.randrange(TRIM_BEHIND))
            server.disk.files.trim(snapshot, server.states[snapshot.index])
            server.disk.sync()
            server.states = {i: s for i, s in server.states.items() if i >= snapshot.index}

    def _plan_tick(self, server: Server, node: RaftNode) -> None:
        deadline_ns = node.deadline_ns
        if deadline_ns is None or (server.tick_ns is not None and server.tick_ns <= deadline_ns):
            return
        server.tick_ns = deadline_ns
        number = server.start_number
        self.at(max(0, deadline_ns - self.now_ns), lambda: self._tick(server, number))

    def _tick(self, server: Server, start_number: int) -> None:
        if server.node is not None and server.start_number == start_number:
            server.tick_ns = None
            server.node.tick(self.now_ns)
            self._observe(server)
            self.plan_turn(server)

    # --- network --------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Let a message leave its sender."""
        self.checks.observe_message(message)
        sender = self.servers[message.sender]
        weather = self.weather
        state = 0
        if isinstance(message, InstallSnapshot):
            state = sender.states[message.snapshot.index]
        data = encode(message)
        for _ in range(1 + (self.rng.random() < weather.doubling)):
            if self.rng.random() < weather.loss:
                continue
            delay_ns = self.rng.randrange(weather.delay_ns)
            if self.rng.random() < weather.late:
                delay_ns += self.rng.randrange(weather.late_ns)
            number = sender.start_number
            self.at(
                delay_ns, partial(self._deliver, data, message.sender, message.to, number, state)
            )

    def _deliver(self, data: bytes, sender: str, to: str, start_number: int, state: int) -> None:
        message = decode(data, sender, to)
        server = self.servers[message.to]
        node = server.node
        if node is None or (message.sender, message.to) in self.cuts:
            return
        self._hear(server, message.sender, start_number)
        if isinstance(message, InstallSnapshot):
            server.shipped[message.snapshot.index] = state
        node.step(message, self.now_ns)
        self._observe(server)
        self.plan_turn(server)

    def _hear(self, server: Server, peer: str, start_number: int) -> None:
        """Note a sign of life; two servers that meet again exchange digests."""
        node = server.node
        known = server.heard.get(peer)
        if node is None or (known is not None and known[1] > start_number):
            return
        if self.servers[peer].start_number != start_number and known is None:
            # A late message of a process that has ended is no sign of life.
            return
        if known is not None and known[1] < start_number:
            self._lose(server, peer)
            known = None
        server.heard[peer] = (self.now_ns, start_number)
        if known is None:
            node.peer_alive(peer, self.now_ns)
            self.compare(server, peer)

    def compare(self, server: Server, peer: str) -> None:
        """Send a digest, as servers do that meet again."""
        if server.node is not None:
            self.send(server.node.digest(peer))
            self.plan_turn(server)

    def _lose(self, server: Server, peer: str) -> None:
        if server.node is not None and server.heard.pop(peer, None) is not None:
            server.node.peer_lost(peer, self.now_ns)
            self.plan_turn(server)

    def reset_connection(self, first: str, second: str) -> None:
        """Let two servers lose each other for a moment."""
        self._lose(self.servers[first], second)
        self._lose(self.servers[second], first)

    def _heartbeats(self) -> None:
        for sender in self.servers.values():
            for server in self.servers.values():
                if sender is server or server.node is None:
                    continue
                is_heard = sender.node is not None and (sender.name, server.name) not in self.cuts
                if is_heard and self.rng.random() >= self.weather.loss:
                    self._hear(server, sender.name, sender.start_number)
                known = server.heard.get(sender.name)
                if known is not None and self.now_ns - known[0] > SILENCE_NS:
                    self._lose(server, sender.name)
        self.at(HEARTBEAT_NS, self._heartbeats)

    # --- clients --------------------------------------------------------------------------------

    def leaders(self) -> list[RaftNode]:
        """Members that believe to lead."""
        return [node for node in self.nodes() if node.role is RoleName.LEADER]

    def propose(self, node: RaftNode, data: list[bytes]) -> int | None:
        """Propose entries to a member."""
        self.checks.proposed.update(data)
        index = node.propose(data, self.now_ns)
        self.plan_turn(self.servers[node.name])
        return index


class StoredCluster(Cluster):
    """Members whose groups are in stores, on disks that lose what was not synced."""

    def make_disk(self, name: str, saved: SavedState) -> Disk | StoredDisk:
        mode = GroupMode.SYNCED if self.weather.synced else GroupMode.WRITTEN
        return StoredDisk(saved, mode, labelled_rng(self.seed, "disk", name).randrange(2**32))

    def has_forgotten(self, server: Server) -> bool:
        """The store knows it: nobody else tells the process."""
        assert isinstance(server.disk, StoredDisk)
        return server.disk.may_have_forgotten

    def must_sync(self, ready: Ready) -> bool:
        """The store has synced what it has to."""
        return False
