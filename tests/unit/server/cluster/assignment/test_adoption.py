"""Streams of servers that join a cluster, asked of whole servers."""

import pytest

from headwater.testing.disk import SimDisk
from tests.kit.agreeing_cluster import AgreeingCluster
from tests.kit.stored_world import StoredWorld
from tests.kit.world import SeededEntropy

SUBJECTS = {"subjects": ["s.>"]}


def brought(count: int) -> SimDisk:
    """The disk of a server that ran alone, with a stream S of so many messages."""
    world = StoredWorld(entropy=SeededEntropy(1_000 + count)).start()
    assert "error" not in world.create("S", **SUBJECTS)
    world.modern().ask(b"PUB s.a 1\r\nm\r\n" * count + b"PING\r\n")
    world.node.close_jetstream()
    world.disk.kill()
    return world.disk


@pytest.mark.parametrize("server", ["s1", "s2", "s3"])
def test_a_stream_of_a_server_that_joins_is_the_clusters(server: str) -> None:
    world = AgreeingCluster(disks={server: brought(5)})
    for name in world.nodes:
        (info,) = world.replies(name, "STREAM.INFO.S")
        assert info["cluster"]["leader"] == server
        assert info["state"]["messages"] == 5
    world.publish(world.other_than(server), "s.b")
    assert world.call("s1", "STREAM.INFO.S")["state"]["messages"] == 6
    assert "set aside" not in world.log_of(server)


def test_an_adopted_stream_is_scaled() -> None:
    world = AgreeingCluster(disks={"s2": brought(5)})
    reply = world.call("s1", "STREAM.UPDATE.S", {"name": "S", "num_replicas": 3, **SUBJECTS})
    assert "error" not in reply
    world.quiet(12.0)
    world.stop("s2")
    world.quiet()
    info = world.call("s1", "STREAM.INFO.S")
    assert info["cluster"]["leader"] in ("s1", "s3")
    assert info["state"]["messages"] == 5


def test_one_of_two_streams_of_one_name_is_set_aside() -> None:
    world = AgreeingCluster(disks={"s1": brought(3), "s2": brought(7)})
    info = world.call("s3", "STREAM.INFO.S")
    leader = info["cluster"]["leader"]
    other = {"s1": "s2", "s2": "s1"}[leader]
    assert info["state"]["messages"] == {"s1": 3, "s2": 7}[leader]
    assert world.log_of(other).count("is set aside") == 1
    assert "is set aside" not in world.log_of(leader)
    world.publish(other, "s.b")
    assert world.call(other, "STREAM.INFO.S")["state"]["messages"] == info["state"]["messages"] + 1


def test_the_files_of_a_stream_that_was_set_aside_stay() -> None:
    disks = {"s1": brought(3), "s2": brought(7)}
    world = AgreeingCluster(disks=disks)
    leader = world.call("s3", "STREAM.INFO.S")["cluster"]["leader"]
    other = {"s1": "s2", "s2": "s1"}[leader]
    world.stop(other)
    disks[other].kill()
    alone = StoredWorld(disk=disks[other]).start()
    info = alone.request("$JS.API.STREAM.INFO.S")
    assert info["state"]["messages"] == {"s1": 3, "s2": 7}[other]


def test_a_stream_that_was_deleted_meanwhile_is_not_adopted() -> None:
    world = AgreeingCluster()
    leader = world.create("s1", "S", num_replicas=1)["cluster"]["leader"]
    follower = world.other_than(leader, world.meta_leader)
    if leader == world.meta_leader:
        world.call("s1", "STREAM.DELETE.S")
    else:
        world.stop(leader)
        world.quiet()
        world.call(follower, "STREAM.DELETE.S")
        world.start_server(leader)
    world.quiet()
    assert world.call(follower, "STREAM.NAMES")["total"] == 0
