"""Announcements of elections, heard by clients of whole servers."""

import json
from typing import Any

import pytest

from headwater.jetstream.account import AccountLimits
from headwater.jetstream.api.cluster_documents import peer_id
from headwater.server.configuration.options import AccountOptions, UserOptions
from tests.kit.agreeing_cluster import AgreeingCluster
from tests.kit.consumer_world import frames_in
from tests.kit.world import Peer

SYSTEM = {"user": "admin", "pass": "x"}
ACCOUNTS = (
    AccountOptions("$SYS", (UserOptions("admin", "x", "$SYS"),)),
    AccountOptions("A", (UserOptions("a", "x", "A"),), jetstream=AccountLimits()),
)
EVENTS = "$JS.EVENT.ADVISORY."
DURABLE = {"durable_name": "C", "ack_policy": "explicit"}


@pytest.fixture
def world() -> AgreeingCluster:
    return AgreeingCluster(accounts=ACCOUNTS, no_auth_user="a")


def listener(world: AgreeingCluster, server: str, **connect: Any) -> Peer:
    """A client that hears all advisories of its account."""
    peer = world.client(server, **connect)
    peer.send(b"SUB $JS.EVENT.ADVISORY.> 1\r\n")
    world.quiet(0.5)
    peer.take()
    return peer


def heard(peer: Peer, *events: str) -> list[tuple[str, Any]]:
    """The advisories of some events that a client has got, by subject."""
    found = []
    for frame in frames_in(peer.take()):
        subject = frame.subject.removeprefix(EVENTS)
        if any(event in subject.split(".") for event in events):
            found.append((subject, json.loads(frame.payload)))
    return found


def consumer(world: AgreeingCluster, stream: str, **config: Any) -> Any:
    body = {"stream_name": stream, "config": {**DURABLE, **config}}
    return world.call("s1", f"CONSUMER.DURABLE.CREATE.{stream}.C", body)


def test_a_new_stream_has_its_leader_announced_before_its_creation(
    world: AgreeingCluster,
) -> None:
    ear, system = listener(world, "s1"), listener(world, "s2", **SYSTEM)
    leader = world.create("s3", "S")["cluster"]["leader"]
    first, second = heard(ear, "LEADER_ELECTED", "CREATED")
    assert (first[0], second[0]) == ("STREAM.LEADER_ELECTED.S", "STREAM.CREATED.S")
    assert first[1]["leader"] == leader
    assert [each["name"] for each in first[1]["replicas"]] == ["s1", "s2", "s3"]
    assert "account" not in first[1]
    ((subject, told),) = heard(system, "LEADER_ELECTED")
    assert (subject, told["account"]) == ("STREAM.LEADER_ELECTED.S", "A")


def test_a_stream_of_one_server_has_no_election(world: AgreeingCluster) -> None:
    ear = listener(world, "s1")
    world.create("s1", "S", num_replicas=1)
    consumer(world, "S")
    subjects = [subject for subject, _ in heard(ear, "LEADER_ELECTED", "CREATED")]
    assert subjects == ["STREAM.CREATED.S", "CONSUMER.CREATED.S.C"]


def test_a_consumer_is_led_where_its_stream_is(world: AgreeingCluster) -> None:
    before = world.create("s1", "S")["cluster"]["leader"]
    ear = listener(world, world.other_than(before))
    consumer(world, "S")
    first, second = heard(ear, "LEADER_ELECTED", "CREATED")
    assert (first[0], second[0]) == ("CONSUMER.LEADER_ELECTED.S.C", "CONSUMER.CREATED.S.C")
    assert (first[1]["stream"], first[1]["consumer"]) == ("S", "C")
    assert world.call("s1", "STREAM.LEADER.STEPDOWN.S")["success"]
    world.quiet()
    elected = heard(ear, "LEADER_ELECTED")
    assert [subject for subject, _ in elected] == [
        "STREAM.LEADER_ELECTED.S",
        "CONSUMER.LEADER_ELECTED.S.C",
    ]
    assert {told["leader"] for _, told in elected}.isdisjoint({before})


def test_a_consumer_of_one_replica_has_no_election(world: AgreeingCluster) -> None:
    world.create("s1", "S")
    ear = listener(world, "s1")
    consumer(world, "S", num_replicas=1)
    assert [subject for subject, _ in heard(ear, "LEADER_ELECTED")] == []


def test_the_leader_of_the_meta_group_is_announced_by_its_id(world: AgreeingCluster) -> None:
    before = world.meta_leader
    ear = listener(world, world.other_than(before), **SYSTEM)
    assert world.call(before, "META.LEADER.STEPDOWN", **SYSTEM)["success"]
    world.quiet()
    ((subject, told),) = heard(ear, "LEADER_ELECTED")
    assert subject == "DOMAIN.LEADER_ELECTED"
    assert told["leader"] == peer_id(world.meta_leader)
    assert told["cluster"] == "C"
    assert len(told["replicas"]) == 3


def test_a_leader_without_a_quorum_announces_it(world: AgreeingCluster) -> None:
    leader = world.create("s1", "S")["cluster"]["leader"]
    consumer(world, "S")
    ear = listener(world, leader)
    for other in [name for name in world.nodes if name != leader]:
        world.stop(other)
    world.quiet()
    lost = heard(ear, "QUORUM_LOST")
    assert [subject for subject, _ in lost] == [
        "STREAM.QUORUM_LOST.S",
        "CONSUMER.QUORUM_LOST.S.C",
    ]
    assert [each.get("offline", False) for each in lost[0][1]["replicas"]].count(True) == 2


def test_a_leader_that_hands_over_has_lost_no_quorum(world: AgreeingCluster) -> None:
    leader = world.create("s1", "S")["cluster"]["leader"]
    ear = listener(world, leader)
    world.call("s1", "STREAM.LEADER.STEPDOWN.S")
    world.quiet()
    assert heard(ear, "QUORUM_LOST") == []


def test_a_server_announces_that_it_was_removed(world: AgreeingCluster) -> None:
    gone = world.other_than(world.meta_leader)
    ear = listener(world, world.meta_leader, **SYSTEM)
    assert world.call(world.meta_leader, "SERVER.REMOVE", {"peer": gone}, **SYSTEM)["success"]
    world.quiet()
    ((subject, told),) = heard(ear, "REMOVED")
    assert (subject, told["server"], told["cluster"]) == ("SERVER.REMOVED", gone, "C")
    assert told["server_id"] == world.nodes[gone].server_id


def test_audits_name_the_cluster_of_the_client(world: AgreeingCluster) -> None:
    ear = listener(world, "s1")
    world.call("s2", "STREAM.INFO.NONE")
    audits = [json.loads(frame.payload) for frame in frames_in(ear.take())]
    assert [(each["client"]["server"], each["client"]["cluster"]) for each in audits] == [
        ("s2", "C")
    ]
