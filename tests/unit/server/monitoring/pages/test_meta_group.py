"""The meta group on pages of whole servers."""

import json

from msgspec import UNSET

from headwater.jetstream.api.cluster_documents import peer_id
from headwater.server.monitoring.pages.documents import encode
from headwater.server.monitoring.pages.jsz import jetstream_part
from headwater.server.monitoring.pages.meta_group import MetaCluster, meta_cluster, meta_summary
from tests.kit.agreeing_cluster import AgreeingCluster


def group_of(world: AgreeingCluster, server: str) -> MetaCluster:
    found = meta_cluster(world.nodes[server].facts)
    assert isinstance(found, MetaCluster)
    return found


def test_every_server_tells_the_leader_and_the_size() -> None:
    world = AgreeingCluster()
    leader = world.meta_leader
    for server in world.nodes:
        group = group_of(world, server)
        assert (group.name, group.leader, group.peer) == ("C", leader, peer_id(leader))
        assert (group.cluster_size, group.quorum_needed, group.pending) == (3, 2, 0)
        assert jetstream_part(world.nodes[server].facts).meta == group


def test_the_leader_knows_which_servers_are_current() -> None:
    world = AgreeingCluster()
    leader = world.meta_leader
    others = {each.name: each.current for each in group_of(world, leader).replicas or ()}
    assert others == {name: True for name in world.nodes if name != leader}
    follower = world.other_than(leader)
    seen = {each.name: each.current for each in group_of(world, follower).replicas or ()}
    assert seen == {name: name == leader for name in world.nodes if name != follower}


def test_a_server_that_has_stopped_is_offline() -> None:
    world = AgreeingCluster()
    leader = world.meta_leader
    gone = world.other_than(leader)
    world.stop(gone)
    world.quiet()
    shown = json.loads(encode(group_of(world, leader)))["replicas"]
    assert [each["name"] for each in shown if each.get("offline")] == [gone]


def test_only_the_leader_lists_the_others_in_statsz() -> None:
    world = AgreeingCluster()
    leader = world.meta_leader
    assert meta_summary(world.nodes[leader].facts) == group_of(world, leader)
    group = meta_summary(world.nodes[world.other_than(leader)].facts)
    assert isinstance(group, MetaCluster)
    assert (group.name, group.leader, group.replicas) == ("_meta_", leader, UNSET)
    assert group.cluster_size == 3
    fields = json.loads(encode(group))
    assert (fields["pending_requests"], fields["pending_infos"]) == (0, 0)
