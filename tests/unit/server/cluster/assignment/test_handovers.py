"""Leaders that step down, asked of whole servers."""

from typing import Any

import pytest

from tests.kit.agreeing_cluster import AgreeingCluster

DURABLE = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}


@pytest.fixture
def world() -> AgreeingCluster:
    world = AgreeingCluster(s2={"server_tags": ("fast",)})
    world.create("s1", "S")
    return world


def leader_of(world: AgreeingCluster, stream: str = "S") -> Any:
    return world.call("s1", f"STREAM.INFO.{stream}")["cluster"]["leader"]


def test_the_preferred_server_leads_then(world: AgreeingCluster) -> None:
    world.publish("s1", "s.a", 3)
    for name in (world.other_than(leader_of(world)), leader_of(world)):
        other = world.other_than(leader_of(world)) if name == leader_of(world) else name
        body = {"placement": {"preferred": other}}
        assert world.call("s1", "STREAM.LEADER.STEPDOWN.S", body)["success"]
        world.quiet()
        assert leader_of(world) == other
        assert world.call("s1", "STREAM.INFO.S")["state"]["messages"] == 3


def test_without_a_preference_another_server_leads(world: AgreeingCluster) -> None:
    before = leader_of(world)
    assert world.call("s3", "STREAM.LEADER.STEPDOWN.S")["success"]
    world.quiet()
    assert leader_of(world) not in ("", before)


def test_a_consumer_and_its_stream_have_one_leader(world: AgreeingCluster) -> None:
    world.call("s1", "CONSUMER.DURABLE.CREATE.S.C", DURABLE)
    other = world.other_than(leader_of(world))
    body = {"placement": {"preferred": other}}
    assert world.call("s1", "CONSUMER.LEADER.STEPDOWN.S.C", body)["success"]
    world.quiet()
    assert leader_of(world) == other
    assert world.call("s1", "CONSUMER.INFO.S.C")["cluster"]["leader"] == other


def test_a_consumer_of_one_replica_stays_with_its_leader(world: AgreeingCluster) -> None:
    before = leader_of(world)
    config = {**DURABLE["config"], "num_replicas": 1}  # type: ignore[dict-item]
    world.call("s1", "CONSUMER.DURABLE.CREATE.S.C", {**DURABLE, "config": config})
    assert world.call("s1", "CONSUMER.LEADER.STEPDOWN.S.C")["success"]
    world.quiet()
    assert leader_of(world) == before


def test_a_stream_on_one_server_stays_there(world: AgreeingCluster) -> None:
    world.create("s1", "R1", num_replicas=1)
    before = leader_of(world, "R1")
    body = {"placement": {"preferred": "nobody"}}
    assert world.call("s2", "STREAM.LEADER.STEPDOWN.R1", body)["success"]
    assert leader_of(world, "R1") == before


@pytest.mark.parametrize(
    ("placement", "reason"),
    [
        ({"preferred": "nobody"}, 'preferred server "nobody" not known'),
        ({"preferred": "LEADER"}, 'preferred server "LEADER" is already leader'),
        ({"tags": ["nowhere"]}, "no replacement peer connected"),
        ({"cluster": "elsewhere"}, "no replacement peer connected"),
    ],
)
def test_a_server_that_cannot_lead_is_refused_by_name(
    world: AgreeingCluster, placement: dict[str, Any], reason: str
) -> None:
    leader = leader_of(world)
    chosen = {key: leader if value == "LEADER" else value for key, value in placement.items()}
    error = world.call("s1", "STREAM.LEADER.STEPDOWN.S", {"placement": chosen})["error"]
    assert error["err_code"] == 10005
    assert error["description"] == reason.replace("LEADER", leader)
    assert leader_of(world) == leader


def test_a_preferred_server_that_has_stopped_is_refused(world: AgreeingCluster) -> None:
    leader = leader_of(world)
    gone = world.other_than(leader, world.meta_leader)
    world.stop(gone)
    world.quiet()
    body = {"placement": {"preferred": gone}}
    error = world.call(leader, "STREAM.LEADER.STEPDOWN.S", body)["error"]
    assert error["err_code"] == 10041
    assert gone in error["description"]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ("STREAM.LEADER.STEPDOWN.NONE", 10059),
        ("CONSUMER.LEADER.STEPDOWN.NONE.C", 10059),
        ("CONSUMER.LEADER.STEPDOWN.S.NONE", 10014),
    ],
)
def test_a_stream_or_consumer_that_is_not_there(
    world: AgreeingCluster, request_: str, code: int
) -> None:
    assert world.call("s3", request_)["error"]["err_code"] == code


def test_a_malformed_body_is_refused(world: AgreeingCluster) -> None:
    assert world.call("s1", "STREAM.LEADER.STEPDOWN.S", b"{")["error"]["err_code"] == 10025
