"""Whole servers of a cluster agree on one leader, whatever fails, many seeds."""

import pytest

from headwater.server.cluster.consensus.cluster_file import ClusterFile
from headwater.testing import World, seeds
from tests.simulation.agreement_scenario import Agreeing

SEEDS = 20


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
