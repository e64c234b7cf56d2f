"""/raftz of whole servers."""

import json
from typing import Any

from headwater.jetstream.api.cluster_documents import peer_id
from headwater.server.configuration.options import Options
from headwater.server.monitoring.pages.documents import encode
from headwater.server.monitoring.pages.raftz import RaftzOptions, raftz
from tests.kit.agreeing_cluster import AgreeingCluster
from tests.kit.stored_world import StoredWorld, streaming


def page_of(world: AgreeingCluster, server: str, account: str = "", group: str = "") -> Any:
    options = RaftzOptions(account=account, group=group)
    return json.loads(encode(raftz(world.nodes[server].facts, options)))


def test_the_meta_group_is_in_the_system_account() -> None:
    world = AgreeingCluster()
    leader = world.meta_leader
    found = page_of(world, leader)["$SYS"]
    assert [*found] == ["_meta_"]
    group = found["_meta_"]
    assert group["id"] == group["leader"] == peer_id(leader)
    assert (group["state"], group["size"], group["quorum_needed"]) == ("LEADER", 3, 2)
    assert group["committed"] == group["applied"] == group["wal"]["last_seq"] > 0
    peers = group["peers"]
    assert {each["name"] for each in peers.values()} == {*world.nodes} - {leader}
    assert all(each["last_replicated_index"] == group["pindex"] for each in peers.values())
    other = page_of(world, world.other_than(leader))["$SYS"]["_meta_"]
    assert (other["state"], other["leader"]) == ("FOLLOWER", peer_id(leader))
    assert not any("last_replicated_index" in each for each in other["peers"].values())


def test_streams_and_their_consumers_have_groups_in_their_account() -> None:
    world = AgreeingCluster()
    cluster = world.create("s1", "S")["cluster"]
    body = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    consumer = world.call("s1", "CONSUMER.DURABLE.CREATE.S.C", body)["cluster"]
    world.create("s1", "LONE", num_replicas=1)
    world.publish("s1", "s.a", 3)
    names = {cluster["raft_group"], consumer["raft_group"]}
    for server in world.nodes:
        assert {*page_of(world, server, "$G")["$G"]} == names
    one = page_of(world, cluster["leader"], "$G", cluster["raft_group"])["$G"]
    assert [*one] == [cluster["raft_group"]]
    (group,) = one.values()
    assert group["leader_since"] == cluster["leader_since"]
    assert group["wal"]["messages"] > 0
    assert group["wal"]["bytes"] > 0


def test_filters_that_match_nothing_leave_an_empty_page() -> None:
    world = AgreeingCluster()
    assert page_of(world, "s1", "$G") == {}
    assert page_of(world, "s1", "NONE") == {}
    assert page_of(world, "s1", "", "S-R3F-12345678") == {}


def test_no_group_is_shown_without_a_system_account_or_an_account() -> None:
    world = AgreeingCluster(no_system_account=True)
    assert raftz(world.nodes["s1"].facts, RaftzOptions()) is None


def test_a_server_on_its_own_has_no_groups() -> None:
    world = StoredWorld(Options(jetstream=streaming())).start()
    assert raftz(world.node.facts, RaftzOptions()) == {}
