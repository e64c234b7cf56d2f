"""Three whole servers with streams, which agree on one leader whenever the faults are over."""

import asyncio

from headwater.raft.membership import membership_of
from headwater.raft.node import RaftNode
from headwater.raft.role import RoleName
from headwater.runtime.environment import Environment
from headwater.server.configuration.options import (
    ClusterOptions,
    JetStreamOptions,
    Options,
    RouteUrl,
)
from headwater.server.lifecycle import Server
from headwater.testing import FaultPlan, Host, World, simulated_environment

EPISODES = 3
CLUSTER_PORT = 6222
NAMES = ("s1", "s2", "s3")
SETTLED_S_MAX = 60


class Agreeing:
    """Three servers with streams, and the leaders that each term has had."""

    def __init__(self) -> None:
        self.servers: dict[str, Server] = {}
        self.leaders: dict[tuple[bytes, int], str] = {}
        self.lines: dict[str, list[str]] = {}
        """The logs of the servers."""

    async def run(self, world: World) -> None:
        """Faults, then quiet, then one leader; repeated. At the end all lose power at once."""
        for name in NAMES:
            await self.start(world, world.host(name))
        watch = asyncio.get_running_loop().create_task(self._watch())
        await self.agreed()
        for episode in FaultPlan.drawn(
            world.rng("faults"), servers=[*NAMES], clients=[], episodes=EPISODES
        ):
            await episode.run(world)
            await self.agreed()
        # A restart may be under way.
        await asyncio.sleep(5)
        for name in NAMES:
            world.crash(name, "power")
            del self.servers[name]
        for name in NAMES:
            restarted = world.restart(name)
            if restarted is not None:
                await restarted
        await self.agreed()
        watch.cancel()

    def environment(self, world: World, host: Host) -> Environment:
        """The environment of a server."""
        return simulated_environment(world, host)

    async def start_all(self, world: World) -> None:
        """Start all servers, and wait until they agree."""
        for name in NAMES:
            await self.start(world, world.host(name))
        await self.agreed()

    async def start(self, world: World, host: Host) -> None:
        """Start a server, now and whenever its host is restarted."""
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
            lines = self.lines.setdefault(host.name, [])
            server = Server(
                options,
                self.environment(world, host),
                lambda line: lines.append(line.decode(errors="replace")),
            )
            await server.start()
            self.servers[host.name] = server

        host.boot = boot
        await host.run(boot())

    def metas(self) -> list[RaftNode]:
        """The members of the meta group that run."""
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

    async def agreed(self) -> None:
        """Wait until all servers are members, vote, and follow one leader."""
        for _ in range(SETTLED_S_MAX * 10):
            metas = self.metas()
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
        raise AssertionError([(each.name, each.term, each.leader) for each in self.metas()])
