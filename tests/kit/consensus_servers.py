"""Servers that agree with each other: real drivers and stores on simulated disks and links."""

from collections.abc import Callable
from typing import TypeVar

from headwater.raft.config import RaftConfig
from headwater.raft.node import RaftNode
from headwater.runtime.environment import TimerHandle
from headwater.server.cluster.cluster import REFUSAL_DELAY_S
from headwater.server.cluster.consensus.cluster_file import ClusterFile, Order
from headwater.server.cluster.consensus.driver import ConsensusDriver
from headwater.server.cluster.consensus.liveness import LivenessSettings
from headwater.server.cluster.consensus.orders import carry_out_order
from headwater.server.cluster.consensus.peers import ServerFacts
from headwater.server.log import Log
from headwater.server.turn import Turn
from headwater.store.disk.wal import FILE_BYTES_MAX
from headwater.store.store import Store, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.world import ManualClock, ManualScheduler

T = TypeVar("T")
LATENCY_S = 0.001
WRITE_S = 0.002


class LifeScheduler:
    """The scheduler of one process: nothing happens after its end."""

    def __init__(self, scheduler: ManualScheduler) -> None:
        self._scheduler = scheduler
        self.is_over = False

    def _alive(self, call: Callable[[], object]) -> Callable[[], object]:
        return lambda: None if self.is_over else call()

    def call_soon(self, call: Callable[[], object]) -> TimerHandle:
        return self._scheduler.call_soon(self._alive(call))

    def call_later(self, delay_s: float, call: Callable[[], object]) -> TimerHandle:
        return self._scheduler.call_later(delay_s, self._alive(call))

    def offload(self, work: Callable[[], T], done: Callable[[T], object]) -> None:
        raise NotImplementedError


class ConsensusServer:
    """One machine with a disk, and the process on it."""

    def __init__(self, name: str, servers: "ConsensusServers") -> None:
        self.name = name
        self.servers = servers
        self.starts = 0
        self.disk = SimDisk(ord(name), page_bytes=512)
        self.disk.make_folder("/data")
        self.disk.sync_folder("/")
        self.lines: list[str] = []
        self.refused: list[str] = []
        """The servers that were refused, in order."""
        self.is_running = False
        self.is_stalled = False
        """Whether the disk takes no write, while the process goes on."""

    def start(self, is_doubtful: bool = False) -> None:
        """Start a process on what the disk has, or on what may be a part of it."""
        self.starts += 1
        entropy = SeededEntropy(labelled_rng(self.starts, self.name))
        self.store: Store = open_store(
            self.disk,
            "/data",
            entropy,
            self.disk.boot_id,
            ahead_bytes_max=self.servers.ahead_bytes_max,
        )
        self.store.mark_in_use()
        for identity in self.store.groups.identities() if is_doubtful else ():
            self.store.groups[identity].may_have_forgotten = True
        self.life = LifeScheduler(self.servers.scheduler)
        self.is_running = True
        self._is_committing = self._is_wanted = False
        turn = Turn(self.life, 0, lambda client: None)
        turn.commit = self.commit
        log = Log(lambda line: self.lines.append(line.decode()), self.servers.clock, 1)
        file = ClusterFile(self.disk, "/data")
        if line := carry_out_order(file, self.store, self.name, entropy, self.forget):
            log.warn(line)
        facts = ServerFacts(self.store.identity, self.store.start_number, entropy.random_bytes(8))
        self.driver = ConsensusDriver(
            facts,
            self.name,
            self.store.groups,
            file,
            self,
            turn,
            self.servers.expected,
            self.servers.clock,
            self.life,
            entropy,
            log,
            *self.servers.settings,
        )
        self.driver.start()

    # --- the store ------------------------------------------------------------------------------

    def commit(self) -> None:
        """Write now, sync a while later, as the sync driver does it."""
        self._is_wanted = True
        if self._is_committing or self.is_stalled:
            return
        self._is_committing, self._is_wanted = True, False
        self.store.group_commit.begin()
        self.life.call_later(WRITE_S, self._finish)

    def _finish(self) -> None:
        self._is_committing = False
        self.store.group_commit.sync()
        self.store.group_commit.finish()
        self.driver.committed()
        if self.store.group_commit.is_trim_due:
            self.store.group_commit.finish_trim(self.store.group_commit.begin_trim())
        if self._is_wanted:
            self.commit()

    # --- links ----------------------------------------------------------------------------------

    def send_consensus(self, peer: str, payload: bytes) -> None:
        self.servers.send(self.name, peer, payload, "consensus_received")

    def send_catch_up(self, peer: str, payload: bytes) -> None:
        self.servers.send(self.name, peer, payload, "catch_up_received")

    def welcome(self, peer: str) -> None:
        """Nobody else has to know of the server."""

    def refuse(self, peer: str, reason: str) -> None:
        self.refused.append(peer)
        self.life.call_later(REFUSAL_DELAY_S, lambda: self.servers.cut(self.name, peer))

    def disconnect(self, peer: str, reason: str) -> None:
        self.servers.cut(self.name, peer)

    # --- ends -----------------------------------------------------------------------------------

    def kill(self) -> None:
        """End the process; its machine goes on."""
        self.is_running = False
        self.life.is_over = True
        for peer in self.servers.names:
            self.servers.cut(self.name, peer)
        self.disk.kill()

    def forget(self) -> None:
        """Have no state of the meta group beside its log."""

    def order(self, order: Order) -> None:
        """Give an order while no process runs."""
        file = ClusterFile(self.disk, "/data")
        file.order = order
        file.save(file.birth)

    def empty(self) -> None:
        """End the process and put an empty disk in place of its own."""
        self.kill()
        self.disk = SimDisk(99, page_bytes=512)
        self.disk.make_folder("/data")
        self.disk.sync_folder("/")

    @property
    def meta(self) -> RaftNode:
        meta = self.driver.meta
        assert meta is not None, f"server {self.name} is in no cluster"
        return meta


class ConsensusServers:
    """A cluster to be, with virtual time."""

    def __init__(
        self,
        names: str,
        expected: int | None = None,
        settings: tuple[RaftConfig, LivenessSettings] | None = None,
        ahead_bytes_max: int = FILE_BYTES_MAX,
    ) -> None:
        self.names = names
        self.ahead_bytes_max = ahead_bytes_max
        self.settings = settings or (RaftConfig(), LivenessSettings())
        self.expected = expected or len(names)
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.servers = {name: ConsensusServer(name, self) for name in names}
        self.links: dict[frozenset[str], int] = {}
        self._made = 0
        self.payloads = 0
        """Payloads that were ever sent."""

    def __getitem__(self, name: str) -> ConsensusServer:
        return self.servers[name]

    def start(self, names: str | None = None, doubtful: str = "") -> None:
        """Start servers and connect them with all that run."""
        for name in names or self.names:
            self[name].start(name in doubtful)
        for name in names or self.names:
            for peer in self.names:
                if peer != name and self[peer].is_running:
                    self.connect(name, peer)

    def run(self, seconds: float) -> None:
        self.scheduler.advance(seconds)

    def connect(self, one: str, other: str) -> None:
        link = frozenset((one, other))
        if link not in self.links:
            self._made += 1
            self.links[link] = self._made
            self[one].driver.peer_joined(other)
            self[other].driver.peer_joined(one)

    def pause(self, name: str) -> None:
        """Let a process do nothing any more; its connections stay open."""
        self[name].is_running = False
        self[name].life.is_over = True

    def cut(self, one: str, other: str) -> None:
        if self.links.pop(frozenset((one, other)), None) is not None:
            for name, peer in ((one, other), (other, one)):
                if self[name].is_running:
                    self[name].driver.peer_left(peer)

    def send(self, sender: str, receiver: str, payload: bytes, method: str) -> None:
        link = frozenset((sender, receiver))
        number = self.links.get(link)
        self.payloads += 1

        def deliver() -> None:
            if number is not None and self.links.get(link) == number and self[receiver].is_running:
                getattr(self[receiver].driver, method)(sender, payload)

        self.scheduler.call_later(LATENCY_S, deliver)

    def leaders(self) -> set[str]:
        """The servers that running ones take for the leader."""
        return {each.driver.meta_leader for each in self.servers.values() if each.is_running}

    @property
    def leader(self) -> str:
        [name] = self.leaders()
        assert name
        return name
