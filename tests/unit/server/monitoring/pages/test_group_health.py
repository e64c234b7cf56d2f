"""The health of servers of a cluster."""

from typing import Any

import pytest

from headwater.server.monitoring.pages.healthz import Health, HealthzOptions, healthz
from tests.kit.agreeing_cluster import AgreeingCluster

NO_LEADER = "JetStream has not established contact with a meta leader"


def health_of(world: AgreeingCluster, server: str, **options: Any) -> Health:
    return healthz(world.nodes[server].facts, HealthzOptions(**options))


@pytest.fixture
def world() -> AgreeingCluster:
    return AgreeingCluster()


def test_a_cluster_with_a_leader_is_well(world: AgreeingCluster) -> None:
    world.create("s1", "S")
    world.create("s1", "KEPT", storage="memory")
    for server in world.nodes:
        assert health_of(world, server).status == "ok"
        for name in ("S", "KEPT"):
            assert health_of(world, server, account="$G", stream=name).status == "ok"


def test_a_server_without_the_others_has_no_meta_leader(world: AgreeingCluster) -> None:
    for other in ("s2", "s3"):
        world.stop(other)
    world.quiet()
    for is_meta_only in (False, True):
        health = health_of(world, "s1", js_meta_only=is_meta_only)
        assert (health.status, health.status_code) == ("unavailable", 503)
        assert health.error == NO_LEADER
    assert health_of(world, "s1", js_server_only=True).status == "ok"
    assert health_of(world, "s1", js_enabled_only=True).status == "ok"
    (error,) = health_of(world, "s1", details=True).errors
    assert (error.type, error.error) == ("JETSTREAM", NO_LEADER)


def test_a_stream_is_looked_for_where_it_is_assigned(world: AgreeingCluster) -> None:
    leader = world.create("s1", "LONE", num_replicas=1)["cluster"]["leader"]
    elsewhere = world.other_than(leader)
    assert health_of(world, leader, account="$G", stream="LONE").status == "ok"
    health = health_of(world, elsewhere, account="$G", stream="LONE")
    assert (health.status, health.status_code) == ("unavailable", 404)
    assert health.error == 'JetStream stream "LONE" not found on account "$G"'
    assert health_of(world, elsewhere, account="$G").status == "ok"
    assert health_of(world, elsewhere, account="NONE").status_code == 404


def test_an_assigned_stream_that_is_not_here_is_not_current(world: AgreeingCluster) -> None:
    world.create("s1", "S")
    host, consensus = world.nodes["s1"].jetstream, world.nodes["s1"].consensus
    assert host is not None
    assert consensus is not None
    account = host.accounts["$G"]
    account.remove_stream(account.stream("S"))
    text = "JetStream stream '$G > S' is not current: "
    assert health_of(world, "s1").error == text + "stream catching up"
    (identity,) = host.streams.replicas
    consensus.remove_group(identity)
    assert health_of(world, "s1").error == text + "stream not found"


def test_a_replica_whose_group_has_stopped_is_not_current(world: AgreeingCluster) -> None:
    world.create("s1", "S")
    host, consensus = world.nodes["s1"].jetstream, world.nodes["s1"].consensus
    assert host is not None
    assert consensus is not None
    (identity,) = host.streams.replicas
    consensus.machine_failed(identity, "the disk failed")
    text = "JetStream stream '$G > S' is not current: group node missing"
    assert health_of(world, "s1").error == text
    (error,) = health_of(world, "s1", details=True).errors
    assert (error.type, error.account, error.stream) == ("STREAM", "$G", "S")
    assert health_of(world, "s1", js_meta_only=True).status == "ok"


def test_a_replica_that_has_forgotten_is_not_current(world: AgreeingCluster) -> None:
    leader = world.create("s1", "S")["cluster"]["leader"]
    server = world.other_than(leader, world.meta_leader)
    host, consensus = world.nodes[server].jetstream, world.nodes[server].consensus
    assert host is not None
    assert consensus is not None
    (identity,) = host.streams.replicas
    node = consensus.node(identity)
    assert node is not None
    node.forget(0)
    text = "JetStream stream '$G > S' is not current: group node unhealthy"
    assert health_of(world, server).error == text
