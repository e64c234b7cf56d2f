"""A copy whose disk stalls slows neither the publisher of its origin nor another copy."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from headwater.runtime.environment import Environment
from headwater.server.configuration.options import Options
from headwater.testing import Cluster, Host, World, cluster
from headwater.testing.world import simulated_environment
from tests.kit.stalling_scheduler import StallingScheduler

VIRTUAL_S_MAX = 300.0
MESSAGES = 400
SIZE = 2_000
IN_FLIGHT = 20
POLL_S = 0.05
# A copy is this far behind its origin at most, and the publisher this much slower.
BEHIND_S = 2.0
SLOWER = 1.5
STALLED = "s3"
COPIES = {"FAST": "s2", "SLOW": STALLED}


class SlowCopy:
    """One run: a publisher, two copies, and perhaps a disk that stalls under one of them."""

    def __init__(self, stalls: bool) -> None:
        self.stalls = stalls
        self.scheduler: StallingScheduler | None = None
        # Virtual seconds: until all was published, and until the other copy had it.
        self.published_s = 0.0
        self.copied_s = 0.0

    def environment(self, world: World, host: Host) -> Environment:
        """The environment of a server; that of one has a disk that can stall."""
        found = simulated_environment(world, host)
        if host.name != STALLED:
            return found
        self.scheduler = StallingScheduler(found.scheduler)
        return replace(found, scheduler=self.scheduler)

    async def run(self, world: World) -> None:
        """The whole story."""
        world.loop.executor_delay_s_max = 0.002
        self.cluster = Cluster(world, 3, configure=_configured)
        await self.cluster.start()
        self.client = await self.cluster.connect(1)
        await self._create("O", "s1", {"subjects": ["o"]})
        for name, server in COPIES.items():
            await self._create(name, server, {"mirror": {"name": "O"}})
        await asyncio.gather(self._publish(1))
        await self._await(1, *COPIES)
        assert self.scheduler is not None
        self.scheduler.is_stalled = self.stalls
        begin_s = world.loop.now_s()
        for _ in range(MESSAGES // IN_FLIGHT):
            await self._publish(IN_FLIGHT)
        self.published_s = world.loop.now_s() - begin_s
        await self._await(MESSAGES + 1, "FAST")
        self.copied_s = world.loop.now_s() - begin_s
        if self.stalls:
            assert self._last("SLOW") < MESSAGES + 1
        self.scheduler.release()
        await self._await(MESSAGES + 1, *COPIES)

    async def _create(self, name: str, server: str, config: dict[str, Any]) -> None:
        body = {"name": name, "placement": {"tags": [server]}, **config}
        request = json.dumps(body).encode()
        reply = await self.client.request(f"$JS.API.STREAM.CREATE.{name}", request, timeout=5)
        assert "error" not in json.loads(reply.data), reply.data

    async def _publish(self, count: int) -> None:
        some = [self.client.request("o", b"x" * SIZE, timeout=5) for _ in range(count)]
        for reply in await asyncio.gather(*some):
            assert "seq" in json.loads(reply.data), reply.data

    def _last(self, name: str) -> int:
        return max((each.last_sequence for each in self.cluster.replicas(name)), default=0)

    async def _await(self, sequence: int, *names: str) -> None:
        while True:
            if all(self._last(name) >= sequence for name in names):
                return
            await asyncio.sleep(POLL_S)


def _configured(options: Options) -> Options:
    jetstream = replace(options.jetstream, sync_always=True)
    return replace(options, jetstream=jetstream, server_tags=(options.server_name,))


def _story(stalls: bool, monkeypatch: pytest.MonkeyPatch) -> SlowCopy:
    story = SlowCopy(stalls)
    monkeypatch.setattr(cluster, "simulated_environment", story.environment)
    World(1, virtual_s_max=VIRTUAL_S_MAX).run(story.run)
    return story


def test_a_copy_with_a_disk_that_stalls_slows_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, beside = _story(False, monkeypatch), _story(True, monkeypatch)
    assert beside.published_s < SLOWER * alone.published_s
    assert beside.copied_s - beside.published_s < BEHIND_S
