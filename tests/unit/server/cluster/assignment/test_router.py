"""The server that answers a call of the API, and the answers where there is none."""

import json

import pytest

from tests.kit.agreeing_cluster import AgreeingCluster
from tests.kit.consumer_world import frames_in


def test_every_server_answers_once_for_every_stream() -> None:
    world = AgreeingCluster()
    world.create("s1", "R3")
    world.create("s2", "R1", num_replicas=1)
    for name in world.nodes:
        for stream in ("R1", "R3"):
            (reply,) = world.replies(name, f"STREAM.INFO.{stream}")
            assert reply["config"]["name"] == stream
        (reply,) = world.replies(name, "STREAM.INFO.NONE")
        assert reply["error"]["err_code"] == 10059


def test_every_server_says_at_once_that_nobody_answers_a_direct_read() -> None:
    world = AgreeingCluster()
    world.create("s1", "S", allow_direct=False)
    for name in world.nodes:
        for call in ("DIRECT.GET.S", "DIRECT.GET.S.s", "DIRECT_LEADER.GET.S", "DIRECT.GET.NONE"):
            asker = world.client(name, headers=True, no_responders=True)
            line = f"SUB i 1\r\nPUB $JS.API.{call} i 0\r\n\r\n"
            assert b"NATS/1.0 503" in asker.ask(line.encode())


def test_a_cluster_without_a_leader_says_so() -> None:
    world = AgreeingCluster()
    world.stop("s2")
    world.stop("s3")
    world.quiet()
    for operation in ("STREAM.NAMES", "STREAM.CREATE.S", "STREAM.INFO.NONE"):
        (reply,) = world.replies("s1", operation)
        assert reply["error"]["err_code"] == 10008


@pytest.mark.parametrize(
    ("operation", "code"), [("STREAM.INFO.S", 10118), ("CONSUMER.INFO.S.C", 10119)]
)
def test_a_stream_whose_servers_are_gone_is_offline(operation: str, code: int) -> None:
    world = AgreeingCluster()
    leader = world.create("s1", "S", num_replicas=1)["cluster"]["leader"]
    world.stop(leader)
    world.quiet()
    for name in world.nodes:
        (reply,) = world.replies(name, operation)
        assert reply["error"]["err_code"] == code


def test_a_create_that_is_repeated_gets_the_answer_of_the_first() -> None:
    world = AgreeingCluster()
    first = world.create("s1", "S")
    for name in world.nodes:
        again = world.create(name, "S")
        assert "error" not in again
        assert again["config"] == first["config"]
        assert again["created"] == first["created"]


def test_a_call_during_an_election_is_answered_when_it_is_over() -> None:
    world = AgreeingCluster()
    leader = world.create("s1", "S")["cluster"]["leader"]
    asker = world.client(world.other_than(leader))
    world.stop(leader)
    (reply,) = world.answers(asker, "STREAM.INFO.S", b"")
    assert reply["cluster"]["leader"] != leader


@pytest.mark.parametrize("through_meta_leader", [True, False])
def test_a_create_that_is_repeated_during_an_election_is_answered_when_it_is_over(
    through_meta_leader: bool,
) -> None:
    world = AgreeingCluster()
    leader = world.other_than(world.meta_leader)
    if world.create("s1", "S")["cluster"]["leader"] != leader:
        world.call("s1", "STREAM.LEADER.STEPDOWN.S", {"placement": {"preferred": leader}})
    other = world.other_than(leader, world.meta_leader)
    asker = world.client(world.meta_leader if through_meta_leader else other)
    world.stop(leader)
    config = {"name": "S", "subjects": ["s.>"], "num_replicas": 3}
    (reply,) = world.answers(asker, "STREAM.CREATE.S", json.dumps(config).encode())
    assert reply["cluster"]["leader"] != leader
    assert reply["config"]["name"] == "S"


@pytest.fixture
def stalled() -> AgreeingCluster:
    """Five servers, of which two are gone, and with them the quorum of the stream S."""
    world = AgreeingCluster(5)
    cluster = world.create("s1", "S")["cluster"]
    held = [cluster["leader"], *(each["name"] for each in cluster["replicas"])]
    for name in [each for each in held if each != world.meta_leader][:2]:
        world.stop(name)
    world.quiet()
    return world


def test_a_create_of_a_stream_without_a_quorum_is_not_kept(stalled: AgreeingCluster) -> None:
    asked = stalled.meta_leader
    config = {"name": "S", "subjects": ["s.>"], "num_replicas": 3}
    assert stalled.replies(asked, "STREAM.CREATE.S", config) == []
    streams = stalled.nodes[asked].cluster_streams
    assert streams is not None
    assert streams.router.waiting == 0


def test_a_create_that_waits_does_not_undo_a_deletion(stalled: AgreeingCluster) -> None:
    config = json.dumps({"name": "S", "subjects": ["s.>"], "num_replicas": 3}).encode()
    asker = stalled.client(stalled.meta_leader)
    asker.take()
    line = b"SUB i 1\r\nPUB $JS.API.STREAM.CREATE.S i %d\r\n%b\r\n" % (len(config), config)
    asker.send(line)
    stalled.quiet(0.3)
    stalled.replies(stalled.meta_leader, "STREAM.DELETE.S")
    assert frames_in(asker.take()) == []
    info = stalled.call(stalled.meta_leader, "STREAM.INFO.S")
    assert info["error"]["err_code"] == 10059


def test_calls_to_a_stream_without_a_quorum_are_not_kept() -> None:
    world = AgreeingCluster()
    leader = world.create("s1", "S")["cluster"]["leader"]
    rest = [name for name in world.nodes if name != leader]
    for name in rest:
        world.stop(name)
    world.quiet()
    assert world.replies(leader, "STREAM.PURGE.S") == []
    streams = world.nodes[leader].cluster_streams
    assert streams is not None
    assert streams.router.waiting == 0


def reads(world: AgreeingCluster, name: str) -> bytes:
    """The answer to a direct read of O through a server."""
    asker = world.client(name, headers=True, no_responders=True)
    asker.take()
    asker.send(b"SUB i 1\r\nPUB $JS.API.DIRECT.GET.O.o.a i 0\r\n\r\n")
    world.quiet(1.0)
    return bytes(asker.take())


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_mirror_answers_for_a_deleted_origin_through_every_server(replicas: int) -> None:
    world = AgreeingCluster()
    world.create("s1", "O", num_replicas=replicas, allow_direct=True)
    world.publish("s1", "o.a")
    mirror = {"subjects": [], "mirror": {"name": "O"}, "mirror_direct": True}
    assert "error" not in world.create("s1", "M", num_replicas=replicas, **mirror)
    world.quiet()
    world.call("s1", "STREAM.DELETE.O")
    for name in world.nodes:
        assert b"Nats-Stream: M" in reads(world, name)
    world.call("s1", "STREAM.DELETE.M")
    for name in world.nodes:
        assert b"NATS/1.0 503" in reads(world, name)


@pytest.mark.parametrize("replicas", [1, 3])
def test_the_leader_of_a_stream_answers_direct_reads_through_every_server(replicas: int) -> None:
    world = AgreeingCluster()
    world.create("s1", "O", num_replicas=replicas, allow_direct=True)
    world.publish("s1", "o.a")
    for name in world.nodes:
        assert b"Nats-Stream: O" in reads(world, name)
