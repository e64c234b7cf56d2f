"""Messages that some replicas of a stream cannot read, in whole servers."""

from base64 import b64decode
from typing import Any

import pytest

from headwater.server.streams.replica import StreamReplica
from headwater.store.errors import StoreError
from headwater.store.log.file_log import FileLog
from headwater.testing.disk import SimDisk
from tests.kit.agreeing_cluster import AgreeingCluster
from tests.kit.consumer_world import API, frames_in
from tests.kit.damage import flip_bit_of

COUNT = 20
DAMAGED = 8
SERVERS = ("s1", "s2", "s3")


@pytest.fixture
def world() -> AgreeingCluster:
    world = AgreeingCluster()
    world.create("s1", "S")
    for number in range(1, COUNT + 1):
        client = world.client("s1")
        payload = b"m%d" % number
        client.send(b"PUB s.%d %d\r\n%b\r\n" % (number % 3, len(payload), payload))
        world.settle()
    world.quiet(1.0)
    assert info(world)["state"]["messages"] == COUNT
    return world


def replica_of(world: AgreeingCluster, name: str) -> StreamReplica:
    streams = world.nodes[name].jetstream
    assert streams is not None
    (found,) = streams.streams.replicas.values()
    return found


def log_of(world: AgreeingCluster, name: str) -> FileLog:
    log = replica_of(world, name).stream.log
    assert isinstance(log, FileLog)
    return log


def damage(world: AgreeingCluster, *names: str, sequence: int = DAMAGED) -> None:
    for name in names:
        flip_bit_of(world.disk_of(name), log_of(world, name), sequence)


def info(world: AgreeingCluster) -> Any:
    return world.call(next(iter(world.nodes)), "STREAM.INFO.S")


def leader_of(world: AgreeingCluster) -> str:
    leader = info(world)["cluster"]["leader"]
    assert isinstance(leader, str)
    return leader


def lead(world: AgreeingCluster, name: str) -> None:
    """Have a server lead the stream."""
    if leader_of(world) != name:
        body = {"placement": {"preferred": name}}
        assert world.call("s1", "STREAM.LEADER.STEPDOWN.S", body)["success"]
        world.quiet()
    assert leader_of(world) == name


def get(world: AgreeingCluster, sequence: int = DAMAGED) -> Any:
    return world.call(next(iter(world.nodes)), "STREAM.MSG.GET.S", {"seq": sequence})


def check_whole(world: AgreeingCluster) -> None:
    """Every server has every message, and none is lost."""
    state = info(world)["state"]
    assert (state["messages"], "lost" in state) == (COUNT, False)
    for name in world.nodes:
        log = log_of(world, name)
        assert log.read(1, 99, 10_000).sequences == [*range(1, COUNT + 1)]
        assert log.unreadable_count == 0


@pytest.mark.parametrize("damaged", [("follower",), ("leader",), ("leader", "follower")])
def test_a_message_that_another_replica_has_is_read_as_ever(
    world: AgreeingCluster, damaged: tuple[str, ...]
) -> None:
    leader = leader_of(world)
    follower = world.other_than(leader)
    names = [leader if each == "leader" else follower for each in damaged]
    damage(world, *names)
    # The server that cannot read the message leads from now on.
    lead(world, names[-1])
    message = get(world)["message"]
    assert (message["seq"], b64decode(message["data"])) == (DAMAGED, b"m%d" % DAMAGED)
    for name in names:
        with_suppressed_read(log_of(world, name))
    world.quiet()
    check_whole(world)


def with_suppressed_read(log: FileLog) -> None:
    """Have a replica find its damage."""
    try:
        log.get(DAMAGED)
    except StoreError:
        return


def test_a_direct_read_waits_for_the_repair(world: AgreeingCluster) -> None:
    world.call("s1", "STREAM.UPDATE.S", info(world)["config"] | {"allow_direct": True})
    damage(world, leader_of(world))
    client = world.client("s1")
    body = b'{"seq":%d}' % DAMAGED
    client.send(b"SUB in 1\r\nPUB %bDIRECT.GET.S in %d\r\n%b\r\n" % (API.encode(), len(body), body))
    world.quiet(1.0)
    (frame,) = frames_in(client.take())
    assert frame.payload == b"m%d" % DAMAGED


def test_many_damaged_messages_are_repaired(world: AgreeingCluster) -> None:
    leader = leader_of(world)
    for sequence in range(2, COUNT):
        damage(world, leader, sequence=sequence)
    for sequence in (2, 10, COUNT - 1):
        assert get(world, sequence)["message"]["seq"] == sequence
    for sequence in range(2, COUNT):
        assert get(world, sequence)["message"]["seq"] == sequence
    check_whole(world)


def test_a_message_that_no_replica_can_read_goes_at_the_same_place_everywhere(
    world: AgreeingCluster,
) -> None:
    damage(world, *SERVERS)
    world.replies("s1", "STREAM.MSG.GET.S", {"seq": DAMAGED})
    world.quiet()
    state = info(world)["state"]
    assert (state["messages"], state["lost"]) == (COUNT - 1, {"msgs": [DAMAGED], "bytes": 0})
    assert get(world)["error"]["err_code"] == 10037
    for name in SERVERS:
        log = log_of(world, name)
        assert (list(log.lost), log.messages) == ([(DAMAGED, DAMAGED)], COUNT - 1)
        assert log.losses.damage.first(9) == []
    applied = {replica_of(world, name).applied_index for name in SERVERS}
    assert len(applied) == 1
    world.stop("s2")
    world.quiet()
    world.start_server("s2")
    world.quiet()
    assert list(log_of(world, "s2").lost) == [(DAMAGED, DAMAGED)]


def test_nothing_is_lost_while_a_replica_that_may_have_it_is_away(world: AgreeingCluster) -> None:
    leader = leader_of(world)
    away = world.other_than(leader)
    damage(world, *[name for name in SERVERS if name != away])
    world.stop(away)
    world.quiet()
    lead(world, leader_of(world))
    error = get(world)["error"]
    assert (error["code"], error["err_code"]) == (503, 10008)
    state = info(world)["state"]
    assert (state["messages"], "lost" in state) == (COUNT, False)
    world.start_server(away)
    world.quiet(40.0)
    assert get(world)["message"]["seq"] == DAMAGED
    for name in SERVERS:
        with_suppressed_read(log_of(world, name))
    world.quiet()
    check_whole(world)


def test_a_damaged_message_is_found_again_after_a_restart(world: AgreeingCluster) -> None:
    follower = world.other_than(leader_of(world))
    damage(world, follower)
    world.stop(follower)
    world.quiet()
    world.start_server(follower)
    world.quiet()
    lead(world, follower)
    assert info(world)["state"]["messages"] == COUNT
    assert get(world)["message"]["seq"] == DAMAGED
    check_whole(world)


@pytest.mark.parametrize("is_away", [False, True])
def test_a_consumer_delivers_all_messages_in_order(world: AgreeingCluster, is_away: bool) -> None:
    durable = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    leader = leader_of(world)
    others = [name for name in SERVERS if name != leader]
    damage(world, leader, *others[1:])
    if is_away:
        world.stop(others[0])
        world.quiet()
        leader = leader_of(world)
    world.call(leader, "CONSUMER.DURABLE.CREATE.S.C", durable)
    client = world.client(leader)
    body = b'{"batch":%d,"expires":600000000000}' % COUNT
    line = b"SUB in 1\r\nPUB %bCONSUMER.MSG.NEXT.S.C in %d\r\n%b\r\n"
    client.send(line % (API.encode(), len(body), body))
    world.quiet(1.0)
    got = [frame.payload for frame in frames_in(client.take())]
    if is_away:
        assert got == [b"m%d" % number for number in range(1, DAMAGED)]
        pending = world.call(leader, "CONSUMER.INFO.S.C")["num_pending"]
        assert pending == COUNT - len(got)
        world.start_server(others[0])
        world.quiet(40.0)
        got += [frame.payload for frame in frames_in(client.take())]
    assert got == [b"m%d" % number for number in range(1, COUNT + 1)]


def test_an_emptied_server_is_filled_with_the_messages_that_its_source_cannot_read(
    world: AgreeingCluster,
) -> None:
    leader = leader_of(world)
    emptied = world.other_than(leader)
    damage(world, leader)
    world.stop(emptied)
    world.empty_disk(emptied)
    world.start_server(emptied)
    world.quiet(30.0)
    assert log_of(world, emptied).read(1, 99, 10_000).sequences == [*range(1, COUNT + 1)]
    check_whole(world)


def test_a_stream_of_one_server_loses_what_it_cannot_read() -> None:
    world = AgreeingCluster()
    world.create("s1", "S", num_replicas=1)
    (leader,) = [info(world)["cluster"]["leader"]]
    world.publish(leader, "s.a", 3)
    disk = world.disk_of(leader)
    assert isinstance(disk, SimDisk)
    streams = world.nodes[leader].jetstream
    assert streams is not None
    log = streams.accounts["$G"].streams["S"].log
    assert isinstance(log, FileLog)
    flip_bit_of(disk, log, 2)
    assert get(world, 2)["error"]["err_code"] == 10037
    assert info(world)["state"]["lost"]["msgs"] == [2]
