"""Whole servers of a cluster whose disks stall, fail, or lose what was not synced."""

import asyncio
import json
from dataclasses import replace
from typing import Any, Literal

import nats
import pytest

from headwater.jetstream.meta.codec import encode_entry
from headwater.jetstream.meta.records import ServerRemoved
from headwater.runtime.environment import Environment
from headwater.testing import Host, World, seeds
from tests.kit.stalling_scheduler import StallingScheduler
from tests.simulation.agreement_scenario import NAMES, Agreeing


def propose_entry(story: Agreeing, name: str) -> None:
    """Have the leader of the meta group write an entry."""
    driver = story.servers[name].node.consensus
    assert driver is not None
    assert driver.birth is not None
    assert driver.propose(driver.birth.identity, [encode_entry([ServerRemoved("s9")])]) is not None


# --- a disk that stalls --------------------------------------------------------------------------


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
            await self.start(world, world.host(name))
        await self.agreed()
        first = self.metas()[0].leader
        self.schedulers[first].is_stalled = True
        driver = self.servers[first].node.consensus
        assert driver is not None
        assert driver.birth is not None
        now_ns = self.servers[first].node.environment.clock.monotonic_ns()
        entry = encode_entry([ServerRemoved("s9")])
        driver.groups.propose(driver.birth.identity, [entry], now_ns)
        driver.committed()
        await asyncio.sleep(5)
        await self.agreed()
        second = self.metas()[0].leader
        assert second != first
        self.schedulers[first].release()
        await asyncio.sleep(5)
        await self.agreed()
        assert self.metas()[0].leader == second
        assert len({meta.log.applied for meta in self.metas()}) == 1


@pytest.mark.parametrize("seed", seeds(3))
def test_a_leader_whose_disk_stalls_hands_over(seed: int) -> None:
    story = Stalling()
    World(seed).run(story.run)
    assert len(story.servers) == len(NAMES)


# --- a disk that fails ---------------------------------------------------------------------------


class Failing(Agreeing):
    """Each write or each sync of the leader's disk fails from a moment on."""

    def __init__(self, operation: Literal["write", "sync"]) -> None:
        super().__init__()
        self._operation = operation

    async def run(self, world: World) -> None:
        """One leader, a disk that fails, another leader."""
        await self.start_all(world)
        first = self.metas()[0].leader
        world.host(first).disk.fail(self._operation, "*")
        propose_entry(self, first)
        await asyncio.sleep(3)
        (second,) = {meta.leader for meta in self.metas() if meta.name != first}
        assert second in {*NAMES} - {first}
        node = self.servers[first].node
        assert node.jetstream is not None
        assert node.jetstream.store.groups.offline
        propose_entry(self, second)
        await asyncio.sleep(1)
        (last,) = {meta.log.commit for meta in self.metas() if meta.name != first}
        assert last == next(meta for meta in self.metas() if meta.name == second).log.last_index


@pytest.mark.parametrize("operation", ["write", "sync"])
@pytest.mark.parametrize("seed", seeds(3))
def test_a_leader_whose_disk_fails_hands_over(
    seed: int, operation: Literal["write", "sync"]
) -> None:
    story = Failing(operation)
    World(seed).run(story.run)
    assert len(story.servers) == len(NAMES)


# --- a stream with two replicas ------------------------------------------------------------------


class TwoReplicas(Agreeing):
    """One of the two servers of a stream loses what it had not synced."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: dict[str, Any] = {}

    async def run(self, world: World) -> None:
        """A stream, a loss of power, and a publish after the wait for others."""
        await self.start_all(world)
        client = world.host("client")
        place = await client.run(self._create())
        victim = next(name for name in place if name != "s1")
        world.crash(victim, "power")
        del self.servers[victim]
        await asyncio.sleep(1)
        restarted = world.restart(victim)
        assert restarted is not None
        await restarted
        await asyncio.sleep(20)
        self.answer = await client.run(self._publish())

    async def _create(self) -> list[str]:
        self._nats = await nats.connect("nats://s1:4222")
        config = {"name": "T", "subjects": ["t"], "num_replicas": 2, "storage": "file"}
        reply = await self._nats.request(
            "$JS.API.STREAM.CREATE.T", json.dumps(config).encode(), timeout=10
        )
        place = json.loads(reply.data)["cluster"]
        for _ in range(5):
            await self._publish()
        return [place["leader"], *(each["name"] for each in place["replicas"])]

    async def _publish(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads((await self._nats.request("t", b"x", timeout=5)).data)
        return answer


@pytest.mark.parametrize("seed", seeds(3))
def test_a_stream_of_two_goes_on_after_a_loss_of_power_on_one(seed: int) -> None:
    story = TwoReplicas()
    World(seed, virtual_s_max=2_000.0).run(story.run)
    assert story.answer["stream"] == "T"
    # The replica that has forgotten may lead, and goes on above all that it had reserved.
    assert story.answer["seq"] >= 6
