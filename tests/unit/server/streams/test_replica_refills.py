"""Replicas that are filled again get what they lack."""

from typing import Any

import pytest

from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.snapshots.reader import SnapshotReader
from headwater.server.cluster.consensus import compaction, transfers
from tests.kit.agreeing_cluster import AgreeingCluster


@pytest.fixture(autouse=True)
def _logs_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that was away needs a snapshot."""
    monkeypatch.setattr(compaction, "LOG_ENTRIES_MAX", 20)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sequences of messages that snapshots have carried."""
    found: list[int] = []
    read = SnapshotReader._read_some

    def note(reader: Any) -> Any:
        runs = read(reader)
        # The shadows of streams have snapshots of their own.
        if reader._incarnation != bytes(16):
            for run in runs:
                found.extend(range(run.first_sequence, run.last_sequence + 1))
        return runs

    monkeypatch.setattr(SnapshotReader, "_read_some", note)
    return found


def state_of(world: AgreeingCluster, name: str) -> tuple[object, ...]:
    """The state of the stream on a server, message by message."""
    host = world.nodes[name].jetstream
    assert host is not None
    (replica,) = host.streams.replicas.values()
    log = replica.stream.log
    found = [log.get(each) for each in range(1, log.last_sequence + 1)]
    assert not replica.must_refill
    consumers = sorted(replica.stream.consumers.by_name)
    return [each and (each.subject, each.payload) for each in found], consumers, log.messages


def config_on(world: AgreeingCluster, name: str) -> StreamConfig:
    """The configuration of the stream on a server."""
    host = world.nodes[name].jetstream
    assert host is not None
    (replica,) = host.streams.replicas.values()
    return replica.stream.config


def publish(world: AgreeingCluster, name: str, count: int) -> None:
    """Publish messages, each as an entry of its own."""
    client = world.client(name)
    for number in range(count):
        client.send(b"PUB s.a %d\r\n%b\r\n" % (len(b"%d" % number), b"%d" % number))
        world.quiet(0.05)


def leader_of(world: AgreeingCluster, name: str) -> str:
    return str(world.call(name, "STREAM.INFO.S")["cluster"]["leader"])


def part(world: AgreeingCluster, away: str) -> None:
    for other in world.nodes:
        if other != away:
            world.cut(away, other)
    world.quiet()


def join(world: AgreeingCluster, away: str) -> None:
    for other in world.nodes:
        if other != away:
            world.heal(away, other)
    world.quiet(12)


def behind(**config: Any) -> tuple[AgreeingCluster, str, str]:
    """A cluster with a follower that was away, and lacks entries that its leader has given up."""
    world = AgreeingCluster()
    world.create("s1", "S", **config)
    publish(world, "s1", 30)
    leader = leader_of(world, "s1")
    away = world.other_than(leader)
    part(world, away)
    world.call(leader, "STREAM.MSG.DELETE.S", {"seq": 7})
    durable = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    world.call(leader, "CONSUMER.DURABLE.CREATE.S.C", durable)
    publish(world, leader, 60)
    for name in world.nodes:
        # The state has the effects of all entries, so that they may be given up.
        make_durable(world, name)
    publish(world, leader, 10)
    return world, leader, away


def make_durable(world: AgreeingCluster, name: str) -> None:
    host = world.nodes[name].jetstream
    assert host is not None
    host.files.store.sync()
    host.files.store.group_commit.secure_frames()


def test_a_follower_that_is_merely_behind_gets_what_it_lacks(sent: list[int]) -> None:
    world, leader, away = behind()
    join(world, away)
    assert sent
    assert min(sent) == 31
    assert state_of(world, away) == state_of(world, leader)


def test_a_follower_with_no_message_that_is_left_begins_anew(sent: list[int]) -> None:
    world, leader, away = behind()
    world.call(leader, "STREAM.PURGE.S", {"seq": 60})
    publish(world, leader, 3)
    join(world, away)
    assert min(sent) == 60
    assert state_of(world, away) == state_of(world, leader)


def test_a_follower_that_is_filled_has_the_configuration_of_its_leader_after_a_crash() -> None:
    world, leader, away = behind()
    config = {"name": "S", "subjects": ["s.>"], "num_replicas": 3, "max_msgs": 1000}
    assert "error" not in world.call(leader, "STREAM.UPDATE.S", config)
    for name in world.nodes:
        make_durable(world, name)
    publish(world, leader, 30)
    join(world, away)
    assert config_on(world, away).max_msgs == 1000
    world.crash(away, is_power_lost=False)
    world.start_server(away)
    assert config_on(world, away).max_msgs == 1000


def test_a_replica_that_found_no_room_takes_part_again_when_there_is_room() -> None:
    world = AgreeingCluster()
    world.create("s1", "S")
    publish(world, "s1", 5)
    leader = leader_of(world, "s1")
    full = world.other_than(leader)
    disk, node = world.disk_of(full), world.nodes[full]
    assert node.jetstream is not None
    assert node.consensus is not None
    [replica] = node.jetstream.streams.replicas.values()
    disk.capacity_bytes = disk.used_bytes
    publish(world, leader, 5)
    assert replica.stream.log.is_full
    replica._failed("no room for an entry")
    world.quiet()
    assert node.consensus.node(replica.identity) is None
    disk.capacity_bytes = None
    world.quiet(20)
    assert node.consensus.node(replica.identity) is not None
    assert state_of(world, full) == state_of(world, leader)


def test_a_stream_in_memory_is_filled_anew(sent: list[int]) -> None:
    world, leader, away = behind(storage="memory")
    join(world, away)
    assert min(sent) == 1
    assert state_of(world, away) == state_of(world, leader)


@pytest.mark.parametrize("restarted", ["nobody", "follower", "leader"])
def test_an_interrupted_transfer_goes_on_where_it_ended(
    monkeypatch: pytest.MonkeyPatch, sent: list[int], restarted: str
) -> None:
    monkeypatch.setattr("headwater.jetstream.snapshots.reader.CHUNK_BYTES_MAX", 1_000)
    world, leader, away = behind()
    taken: list[int] = []
    received = transfers.IncomingSnapshots.received

    def lose_some(self: Any, sender: str, piece: Any, chunk: bytes) -> None:
        if len(taken) < 3:
            taken.append(piece.position)
            received(self, sender, piece, chunk)

    monkeypatch.setattr(transfers.IncomingSnapshots, "received", lose_some)
    join(world, away)
    assert len(taken) == 3
    part(world, away)
    monkeypatch.setattr(transfers.IncomingSnapshots, "received", received)
    if restarted != "nobody":
        name = away if restarted == "follower" else leader
        world.stop(name)
        world.start_server(name)
    first, sent[:] = [*sent], []
    join(world, away)
    assert min(first) == 31
    assert not sent or min(sent) > 31
    assert state_of(world, away) == state_of(world, leader)


def test_a_refill_under_load_causes_no_election(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.jetstream.snapshots.reader.CHUNK_BYTES_MAX", 1_000)
    world, leader, away = behind()
    before = world.log_of(leader).count("new stream leader")
    for other in world.nodes:
        if other != away:
            world.heal(away, other)
    for _ in range(20):
        publish(world, leader, 5)
        world.quiet(0.5)
    world.quiet()
    assert leader_of(world, leader) == leader
    assert world.log_of(leader).count("new stream leader") == before
    assert state_of(world, away) == state_of(world, leader)
