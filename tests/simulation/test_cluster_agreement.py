"""Whole servers of a cluster agree on one leader, whatever fails, many seeds."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from headwater.jetstream.meta.codec import encode_entry
from headwater.jetstream.meta.records import ServerRemoved
from headwater.raft.membership import membership_of
from headwater.raft.node import RaftNode
from headwater.raft.role import RoleName
from headwater.runtime.environment import Environment, Scheduler
from headwater.server.cluster.consensus.cluster_file import ClusterFile
from headwater.server.configuration.options import (
    ClusterOptions,
    JetStreamOptions,
    Options,
    RouteUrl,
)
from headwater.server.lifecycle import Server
from headwater.testing import FaultPlan, Host, World, seeds, simulated_environment

SEEDS = 20
EPISODES = 3
CLUSTER_PORT = 6222
NAMES = ("s1", "s2", "s3")
SETTLED_S_MAX = 60
T = TypeVar("T")


class Agreeing:
    """Three servers with streams, and the leaders that each term has had."""

    def __init__(self) -> None:
        self.servers: dict[str, Server] = {}
        self.leaders: dict[tuple[bytes, int], str] = {}

    async def run(self, world: World) -> None:
        """Faults, then quiet, then one leader; repeated. At the end all lose power at once."""
        for name in NAMES:
            await self._start(world, world.host(name))
        watch = asyncio.get_running_loop().create_task(self._watch())
        await self._agreed()
        for episode in FaultPlan.drawn(
            world.rng("faults"), servers=[*NAMES], clients=[], episodes=EPISODES
        ):
            await episode.run(world)
            await self._agreed()
        # A restart may be under way.
        await asyncio.sleep(5)
        for name in NAMES:
            world.crash(name, "power")
            del self.servers[name]
        for name in NAMES:
            restarted = world.restart(name)
            if restarted is not None:
                await restarted
        await self._agreed()
        watch.cancel()

    def environment(self, world: World, host: Host) -> Environment:
        """The environment of a server."""
        return simulated_environment(world, host)

    async def _start(self, world: World, host: Host) -> None:
        options = Options(
            server_name=host.name,
            host="0.0.0.0",
            port=4222,
            ping_interval_s=1.0,
            write_deadline_s=2.0,
            jetstream=JetStreamOptions(enabled=True, store_dir="/data"),
            cluster=ClusterOptions(
                name="C",
                host=host.name,
                port=CLUSTER_PORT,
                routes=tuple(RouteUrl(name, CLUSTER_PORT) for name in NAMES),
            ),
        )

        async def boot() -> None:
            self.servers.pop(host.name, None)
            server = Server(options, self.environment(world, host), lambda line: None)
            await server.start()
            self.servers[host.name] = server

        host.boot = boot
        await host.run(boot())

    def _metas(self) -> list[RaftNode]:
        drivers = [server.node.consensus for server in self.servers.values()]
        metas = [each.meta for each in drivers if each is not None]
        return [meta for meta in metas if meta is not None]

    async def _watch(self) -> None:
        """Look at all servers often: a term has one leader."""
        while True:
            for server in self.servers.values():
                driver = server.node.consensus
                if driver is None or driver.birth is None or driver.meta is None:
                    continue
                meta = driver.meta
                if meta.role is RoleName.LEADER:
                    key = (driver.birth.identity, meta.term)
                    assert self.leaders.setdefault(key, meta.name) == meta.name
            await asyncio.sleep(0.01)

    async def _agreed(self) -> None:
        """Wait until all servers are members, vote, and follow one leader."""
        for _ in range(SETTLED_S_MAX * 10):
            metas = self._metas()
            leaders = {meta.leader for meta in metas}
            if (
                len(metas) == len(NAMES)
                and len(leaders) == 1
                and leaders != {""}
                and all(meta.may_vote for meta in metas)
                and all(meta.membership == membership_of(NAMES) for meta in metas)
            ):
                return
            await asyncio.sleep(0.1)
        raise AssertionError([(each.name, each.term, each.leader) for each in self._metas()])


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_servers_agree_on_one_leader_between_faults(seed: int) -> None:
    world = World(seed)
    story = Agreeing()
    world.run(story.run)
    assert len({birth for birth, _ in story.leaders}) == 1, "one cluster is born"
    print(world.summary())


def test_the_same_seed_gives_the_same_run() -> None:
    hashes = []
    for _ in range(2):
        world = World(3)
        world.run(Agreeing().run)
        hashes.append(world.trace_hash)
    assert hashes[0] == hashes[1]


def test_servers_that_forget_the_birth_of_their_cluster_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The planted defect: a server that starts does not read its file."""

    def is_red(seed: int) -> bool:
        story = Agreeing()
        try:
            World(seed).run(story.run)
        except AssertionError:
            return True
        return len({birth for birth, _ in story.leaders}) != 1

    monkeypatch.setattr(ClusterFile, "_decode", lambda file, data: None)
    assert any(is_red(seed) for seed in range(6))


# --- a disk that stalls --------------------------------------------------------------------------


class StallingScheduler:
    """A scheduler whose work off the loop, the syncs of the disk, can be held back."""

    def __init__(self, inner: Scheduler) -> None:
        self._inner = inner
        self.call_soon = inner.call_soon
        self.call_later = inner.call_later
        self.is_stalled = False
        self._held: list[Callable[[], None]] = []

    def offload(self, work: Callable[[], T], done: Callable[[T], object]) -> None:
        if self.is_stalled:
            self._held.append(lambda: self._inner.offload(work, done))
        else:
            self._inner.offload(work, done)

    def release(self) -> None:
        """Let the disk go on."""
        self.is_stalled = False
        held, self._held = self._held, []
        for each in held:
            each()


class Stalling(Agreeing):
    """The disk of the leader stalls while an entry is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.schedulers: dict[str, StallingScheduler] = {}

    def environment(self, world: World, host: Host) -> Environment:
        environment = super().environment(world, host)
        scheduler = self.schedulers[host.name] = StallingScheduler(environment.scheduler)
        return replace(environment, scheduler=scheduler)

    async def run(self, world: World) -> None:
        """One leader, a stall, another leader; all agree during the stall and after it."""
        for name in NAMES:
            await self._start(world, world.host(name))
        await self._agreed()
        first = self._metas()[0].leader
        self.schedulers[first].is_stalled = True
        driver = self.servers[first].node.consensus
        assert driver is not None
        assert driver.birth is not None
        now_ns = self.servers[first].node.environment.clock.monotonic_ns()
        entry = encode_entry([ServerRemoved("s9")])
        driver.groups.propose(driver.birth.identity, [entry], now_ns)
        driver.committed()
        await asyncio.sleep(5)
        await self._agreed()
        second = self._metas()[0].leader
        assert second != first
        self.schedulers[first].release()
        await asyncio.sleep(5)
        await self._agreed()
        assert self._metas()[0].leader == second
        assert len({meta.log.applied for meta in self._metas()}) == 1


@pytest.mark.parametrize("seed", seeds(3))
def test_a_leader_whose_disk_stalls_hands_over(seed: int) -> None:
    story = Stalling()
    World(seed).run(story.run)
    assert len(story.servers) == len(NAMES)
