"""/jsz of servers of a cluster."""

import json
from typing import Any

import pytest

from headwater.server.monitoring.pages.documents import Filtered, encode
from headwater.server.monitoring.pages.jsz import JszOptions, jsz
from tests.kit.agreeing_cluster import AgreeingCluster

CONSUMER = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}


def page_of(world: AgreeingCluster, server: str, **options: Any) -> Any:
    return json.loads(encode(jsz(world.nodes[server].facts, JszOptions(**options))))


def streams_of(page: Any) -> list[Any]:
    accounts = page["account_details"]
    return [each for account in accounts for each in account.get("stream_detail", [])]


@pytest.fixture
def world() -> AgreeingCluster:
    return AgreeingCluster()


def test_each_replica_shows_the_group_of_a_stream_and_the_other_servers(
    world: AgreeingCluster,
) -> None:
    cluster = world.create("s1", "S")["cluster"]
    for server in world.nodes:
        (detail,) = streams_of(page_of(world, server, streams=True))
        shown = detail["cluster"]
        assert (shown["leader"], shown["raft_group"]) == (cluster["leader"], cluster["raft_group"])
        others = {each["name"]: each["current"] for each in shown["replicas"]}
        is_leader = server == cluster["leader"]
        assert others == {
            name: is_leader or name == cluster["leader"] for name in world.nodes if name != server
        }
        assert ("leader_since" in shown) is is_leader
        assert "stream_raft_group" not in detail


def test_groups_are_named_on_request(world: AgreeingCluster) -> None:
    cluster = world.create("s1", "S")["cluster"]
    consumer = world.call("s1", "CONSUMER.DURABLE.CREATE.S.C", CONSUMER)["cluster"]
    page = page_of(world, cluster["leader"], streams=True, consumer=True, raft=True)
    (detail,) = streams_of(page)
    assert detail["stream_raft_group"] == cluster["raft_group"]
    assert detail["consumer_raft_groups"] == [{"name": "C", "raft_group": consumer["raft_group"]}]
    assert detail["consumer_detail"][0]["cluster"]["leader"] == cluster["leader"]
    assert (page["streams_leader"], page["consumers_leader"]) == (1, 1)
    other = page_of(world, world.other_than(cluster["leader"]), raft=True)
    assert (other["streams"], other["consumers"]) == (1, 1)
    assert "streams_leader" not in other
    assert "consumers_leader" not in other


def test_a_stream_of_one_server_has_the_name_of_a_group(world: AgreeingCluster) -> None:
    leader = world.create("s1", "S", num_replicas=1)["cluster"]["leader"]
    (detail,) = streams_of(page_of(world, leader, streams=True, raft=True))
    assert detail["cluster"] == {"name": "C", "leader": leader}
    assert detail["stream_raft_group"].startswith("S-R1F-")


def test_the_groups_of_a_server_are_counted(world: AgreeingCluster) -> None:
    assert page_of(world, "s1")["ha_assets"] == 1
    world.create("s1", "S")
    world.create("s1", "LONE", num_replicas=1)
    world.call("s1", "CONSUMER.DURABLE.CREATE.S.C", CONSUMER)
    assert page_of(world, "s1")["ha_assets"] == 3


def test_only_the_leader_of_the_meta_group_tells_if_asked_to(world: AgreeingCluster) -> None:
    assert page_of(world, world.meta_leader, leader_only=True)["streams"] == 0
    with pytest.raises(Filtered, match="filtered response: not leader"):
        page_of(world, world.other_than(world.meta_leader), leader_only=True)


def test_only_the_leader_of_a_stream_shows_it_if_asked_to(world: AgreeingCluster) -> None:
    leader = world.create("s1", "S")["cluster"]["leader"]
    shown = {
        server: bool(streams_of(page_of(world, server, streams=True, stream_leader_only=True)))
        for server in world.nodes
    }
    assert shown == {server: server == leader for server in world.nodes}
