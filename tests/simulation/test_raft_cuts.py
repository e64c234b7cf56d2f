"""Cuts that stay: members of a majority that hear each other go on, and nobody disturbs them."""

import pytest

from headwater.raft.leader import Leader
from headwater.raft.node import RaftNode
from headwater.testing import seeds
from tests.simulation.raft_checks import Violation, demand
from tests.simulation.raft_cluster import MS, Cluster, Conditions

SEEDS = 10
NAMES = ["s1", "s2", "s3"]
PATIENCE_NS = 5_000 * MS


def led(seed: int) -> tuple[Cluster, RaftNode]:
    """A group of three with a leader that serves."""
    cluster = Cluster(seed, NAMES, NAMES, Conditions())
    cluster.run(cluster.now_ns + 3_000 * MS)
    (leader,) = cluster.leaders()
    assert leader.is_ready
    return cluster, leader


def demand_progress(cluster: Cluster) -> RaftNode:
    """Demand that the latest leader serves and commits. Returns it."""
    leader = max(cluster.leaders(), key=lambda node: node.term, default=None)
    demand(leader is not None and leader.is_ready, "liveness: nobody serves")
    assert leader is not None
    index = cluster.propose(leader, [b"more"])
    cluster.run(cluster.now_ns + 1_000 * MS)
    demand(index is not None and leader.log.commit >= index, "liveness: nothing is committed")
    return leader


def cut_all_ways(cluster: Cluster, leader: str, *, to: bool, away: bool) -> None:
    """Cut the ways to a server, or away from it, for good."""
    others = [name for name in NAMES if name != leader]
    if to:
        cluster.cuts |= {(name, leader) for name in others}
    if away:
        cluster.cuts |= {(leader, name) for name in others}
    cluster.run(cluster.now_ns + PATIENCE_NS)


@pytest.mark.parametrize("seed", seeds(SEEDS))
@pytest.mark.parametrize(("to", "away"), [(True, False), (False, True), (True, True)])
def test_a_leader_that_is_cut_off_in_any_direction_is_replaced(
    seed: int, to: bool, away: bool
) -> None:
    cluster, old = led(seed)
    term = old.term
    cut_all_ways(cluster, old.name, to=to, away=away)
    new = demand_progress(cluster)
    assert new.name != old.name
    assert new.term > term


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_a_follower_that_cannot_reach_its_leader_disturbs_nobody(seed: int) -> None:
    cluster, leader = led(seed)
    term = leader.term
    lonely = next(name for name in NAMES if name != leader.name)
    cluster.cuts |= {(lonely, leader.name), (leader.name, lonely)}
    cluster.run(cluster.now_ns + PATIENCE_NS)
    assert demand_progress(cluster) is leader
    assert leader.term == term


def test_without_resignation_a_deaf_leader_stays_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leader, "_note_quorum", lambda self, now_ns: None)
    cluster, old = led(1)
    cut_all_ways(cluster, old.name, to=True, away=False)
    with pytest.raises(Violation, match="liveness"):
        demand_progress(cluster)
