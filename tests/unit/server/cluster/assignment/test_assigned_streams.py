"""The streams of a server are those of its assignments: held, changed and dropped with them."""

import json

import pytest

from headwater.jetstream.records import StreamCreated
from headwater.server.streams.hosted_streams import HostedStreams
from tests.kit.agreeing_cluster import AgreeingCluster
from tests.kit.consumer_world import frames_in
from tests.kit.stored_world import streaming


@pytest.fixture
def world() -> AgreeingCluster:
    return AgreeingCluster()


def streams_on(world: AgreeingCluster, name: str) -> HostedStreams:
    host = world.nodes[name].jetstream
    assert host is not None
    return host.streams


def streams_of(world: AgreeingCluster, name: str) -> list[StreamCreated]:
    """The streams in the catalogue of a server."""
    host = world.nodes[name].jetstream
    assert host is not None
    return [*host.files.set_log.streams]


def terms(world: AgreeingCluster) -> list[int]:
    """The terms of the group of the only stream, on all servers."""
    found = []
    for name, node in world.nodes.items():
        [identity] = streams_on(world, name).replicas
        assert node.consensus is not None
        member = node.consensus.node(identity)
        assert member is not None
        found.append(member.term)
    return found


def held(world: AgreeingCluster, stream: str = "S") -> set[str]:
    """The servers that have a stream."""
    found = set()
    for name, node in world.nodes.items():
        assert node.jetstream is not None
        if stream in node.jetstream.accounts["$G"].streams:
            found.add(name)
    return found


def test_a_stream_is_held_by_the_servers_of_its_assignment(world: AgreeingCluster) -> None:
    alone = world.create("s1", "ONE", num_replicas=1)["cluster"]["leader"]
    world.create("s2", "S")
    assert held(world, "ONE") == {alone}
    assert held(world) == {*world.nodes}


def test_a_stream_that_is_scaled_is_held_by_more_and_then_by_one(world: AgreeingCluster) -> None:
    world.create("s1", "S", num_replicas=1)
    world.publish("s1", "s.a", 5)
    for replicas in (3, 1):
        config = {"name": "S", "subjects": ["s.>"], "num_replicas": replicas}
        assert "error" not in world.call("s2", "STREAM.UPDATE.S", config)
        world.quiet()
        assert len(held(world)) == replicas
        assert world.call("s3", "STREAM.INFO.S")["state"]["messages"] == 5


def test_a_group_that_is_born_again_goes_on_in_later_terms(world: AgreeingCluster) -> None:
    world.create("s1", "S")
    for _ in range(2):
        world.call("s1", "STREAM.LEADER.STEPDOWN.S")
        world.quiet()
    before = terms(world)
    for replicas in (1, 3):
        config = {"name": "S", "subjects": ["s.>"], "num_replicas": replicas}
        assert "error" not in world.call("s2", "STREAM.UPDATE.S", config)
        world.quiet()
    assert min(terms(world)) > max(before)


def test_messages_in_flight_are_acked_when_their_stream_is_scaled_up() -> None:
    world = AgreeingCluster(jetstream=streaming(max_file_bytes=1 << 28, sync_always=True))
    server = world.create("s1", "S", num_replicas=1)["cluster"]["leader"]
    client = world.client(server)
    client.send(b"SUB inbox 1\r\nPUB s.a inbox 1\r\nm\r\n")
    # The message is written, and waits for a sync.
    world.settle()
    client.take()
    streams = streams_on(world, server)
    [created] = streams_of(world, server)
    replica = streams.become_replica("$G", "S", created.incarnation)
    assert replica.stream.log.last_sequence == 1
    world.settle()
    [ack] = frames_in(client.take())
    assert json.loads(ack.payload)["seq"] == 1


def test_a_deletion_drops_a_stream_everywhere_and_leaves_the_next_of_its_name(
    world: AgreeingCluster,
) -> None:
    world.create("s1", "S")
    world.publish("s1", "s.a", 5)
    before = {*streams_on(world, "s1").replicas}
    assert world.call("s2", "STREAM.DELETE.S")["success"]
    world.quiet(1.0)
    assert held(world) == set()
    world.create("s3", "S")
    assert held(world) == {*world.nodes}
    assert not before & {*streams_on(world, "s1").replicas}
    assert world.call("s1", "STREAM.INFO.S")["state"]["messages"] == 0


def test_a_server_that_was_away_drops_what_was_deleted_meanwhile(world: AgreeingCluster) -> None:
    world.create("s1", "S")
    away = world.other_than(world.meta_leader)
    world.stop(away)
    world.quiet()
    there = world.other_than(away)
    assert world.call(there, "STREAM.DELETE.S")["success"]
    world.start_server(away)
    world.quiet()
    assert held(world) == set()


def test_one_leader_answers_an_update_and_all_replicas_have_it(world: AgreeingCluster) -> None:
    world.create("s1", "S")
    config = {"name": "S", "subjects": ["s.>"], "num_replicas": 3, "max_msgs": 7}
    assert world.call("s2", "STREAM.UPDATE.S", config)["config"]["max_msgs"] == 7
    for name in world.nodes:
        [replica] = streams_on(world, name).replicas.values()
        assert replica.stream.config.max_msgs == 7
