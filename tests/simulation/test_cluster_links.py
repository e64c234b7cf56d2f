"""Whole servers of a cluster whose links are reset, or whose leader is killed."""

import asyncio

import pytest

from headwater.testing import World, seeds
from tests.simulation.agreement_scenario import NAMES, Agreeing

SEEDS = 5


class Reset(Agreeing):
    """All connections of the leader are reset, several times."""

    async def run(self, world: World) -> None:
        """One leader, of one term, before and after it; links are whole again within 100 ms."""
        await self.start_all(world)
        first = self.metas()[0]
        leader, term = first.leader, first.term
        for _ in range(3):
            await asyncio.sleep(3)
            for other in NAMES:
                for connection in world.network.connections(leader, other) * (other != leader):
                    world.network.cut(connection)
            await asyncio.sleep(0.001)
            assert not self._is_whole()
            await asyncio.sleep(0.1)
            assert self._is_whole()
        await asyncio.sleep(3)
        assert {(meta.leader, meta.term) for meta in self.metas()} == {(leader, term)}

    def _is_whole(self) -> bool:
        clusters = [server.node.cluster for server in self.servers.values()]
        return all(
            cluster is not None
            and len(cluster.peers) == len(NAMES) - 1
            and all(len(peer.channels) == 2 for peer in cluster.peers.values())
            for cluster in clusters
        )


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_connections_that_are_reset_cost_no_election(seed: int) -> None:
    story = Reset()
    World(seed).run(story.run)
    assert len(story.servers) == len(NAMES)


class Killed(Agreeing):
    """The process of the leader is killed."""

    async def run(self, world: World) -> None:
        """Another leader, long before the silence of an election timeout."""
        await self.start_all(world)
        await asyncio.sleep(3)
        first = self.metas()[0].leader
        world.crash(first, "kill")
        del self.servers[first]
        # A refused renewal takes 30 ms; the rest is the spread of the candidates and the election.
        await asyncio.sleep(0.5)
        (second,) = {meta.leader for meta in self.metas()}
        assert second in {*NAMES} - {first}


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_a_leader_that_is_killed_is_replaced_before_it_was_silent_for_long(seed: int) -> None:
    story = Killed()
    World(seed).run(story.run)
    assert len(story.servers) == len(NAMES) - 1
