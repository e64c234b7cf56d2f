"""Replicas of a stream that differ are found by their digests, in whole servers."""

from typing import Any

import pytest

from headwater.jetstream.records import Published
from headwater.jetstream.streams import digests
from headwater.jetstream.streams.digests import Digest
from headwater.jetstream.streams.stream import Stream
from headwater.server.cluster.assignment import comparison
from headwater.server.cluster.assignment.comparison import ReplicaComparison, most_common
from headwater.server.cluster.assignment.digest_frames import encode_digests, encode_order
from headwater.server.cluster.consensus.notices import REFILL
from headwater.server.streams.replica import StreamReplica
from headwater.store.log.file_log import FileLog
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import MessageLog
from tests.kit.agreeing_cluster import AgreeingCluster

SERVERS = ("s1", "s2", "s3")
DIFFERS = "differs from that of server"
ENTRIES = 8
"""Digests this many entries apart, so that a few publishes form some."""


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "ENTRIES", ENTRIES)


@pytest.fixture(autouse=True)
def shadows() -> None:
    """No shadows: a replica that a test makes wrong is not as its shadow."""


@pytest.fixture(params=["file", "memory"])
def world(request: pytest.FixtureRequest) -> AgreeingCluster:
    world = AgreeingCluster()
    world.create("s1", "S", storage=request.param)
    publish(world, 3 * ENTRIES)
    return world


def publish(world: AgreeingCluster, count: int) -> None:
    """Publish messages, each of which is an entry of its own."""
    client = world.client(next(iter(world.nodes)))
    for number in range(count):
        client.send(b"PUB s.%d 4\r\nm%03d\r\n" % (number % 3, number))
        world.quiet(0.05)


def change(world: AgreeingCluster) -> None:
    """Remove a message, and publish so many that digests are formed."""
    assert world.call("s1", "STREAM.MSG.DELETE.S", {"seq": 5})["success"]
    publish(world, 3 * ENTRIES)


def replica_of(world: AgreeingCluster, name: str) -> StreamReplica:
    streams = world.nodes[name].jetstream
    assert streams is not None
    (found,) = streams.streams.replicas.values()
    return found


def leader_of(world: AgreeingCluster) -> str:
    return next(name for name in world.nodes if replica_of(world, name).is_leading)


def kept(world: AgreeingCluster, name: str) -> list[Digest]:
    found = replica_of(world, name).stream.digests
    return [] if found is None else [*found.kept]


def reports(world: AgreeingCluster) -> list[str]:
    lines = [line for name in world.nodes for line in world.logs[name]]
    return [line for line in lines if DIFFERS in line or "most of its replicas" in line]


def contents(world: AgreeingCluster, name: str) -> list[tuple[int, bytes]]:
    log = replica_of(world, name).stream.log
    found = log.read(1, 999, 1 << 20)
    return list(zip(found.sequences, found.payloads, strict=True))


def check_equal(world: AgreeingCluster) -> None:
    """All replicas have equal messages, and equal digests of what came last."""
    publish(world, 3 * ENTRIES)
    world.quiet()
    first, *others = [contents(world, name) for name in SERVERS]
    assert others == [first] * len(others)
    last = [kept(world, name)[-1] for name in SERVERS]
    assert last == [last[0]] * len(SERVERS)
    for name in SERVERS:
        assert not replica_of(world, name).must_refill


def skip_one_removal(patch: pytest.MonkeyPatch, wrong: MessageLog) -> None:
    """Have one log keep the next message that it is to remove."""
    kind: Any = type(wrong)
    delete = kind.delete
    left = [True]

    def delete_less(self: MessageLog, sequences: list[int], *rest: Any, **named: Any) -> int:
        if self is wrong and left and sequences:
            left.clear()
            sequences = sequences[1:]
        removed: int = delete(self, sequences, *rest, **named)
        return removed

    patch.setattr(kind, "delete", delete_less)


def flip_one_bit(patch: pytest.MonkeyPatch, wrong: MessageLog) -> None:
    """Have one log store another payload than the one that comes next."""
    store = Stream._store_messages
    left = [True]

    def store_another(self: Stream, record: Published) -> None:
        if self.log is wrong and left:
            left.clear()
            payload = record.batch.payloads[0]
            record.batch.payloads[0] = bytes([payload[0] ^ 1]) + payload[1:]
            record.encoded = None
        store(self, record)

    patch.setattr(Stream, "_store_messages", store_another)


FAULTS = pytest.mark.parametrize("plant", [skip_one_removal, flip_one_bit])


def test_replicas_that_are_equal_form_equal_digests(world: AgreeingCluster) -> None:
    world.quiet()
    by_server = [kept(world, name) for name in SERVERS]
    assert by_server[0]
    assert by_server == [by_server[0]] * len(SERVERS)
    assert reports(world) == []


@FAULTS
def test_a_follower_that_differs_is_reported_once_and_filled_again(
    world: AgreeingCluster, monkeypatch: pytest.MonkeyPatch, plant: Any
) -> None:
    leader = leader_of(world)
    follower = world.other_than(leader)
    plant(monkeypatch, replica_of(world, follower).stream.log)
    change(world)
    world.quiet()
    (report,) = reports(world)
    assert f"'$G > S': the replica of server '{follower}' differs" in report
    assert report in world.logs[leader]
    assert "The state of the leader replaces that of this server" in world.log_of(follower)
    check_equal(world)
    assert len(reports(world)) == 1


@FAULTS
def test_a_leader_that_differs_hands_over_and_is_filled_again(
    world: AgreeingCluster, monkeypatch: pytest.MonkeyPatch, plant: Any
) -> None:
    leader = leader_of(world)
    plant(monkeypatch, replica_of(world, leader).stream.log)
    change(world)
    world.quiet(15.0)
    assert leader_of(world) != leader
    assert "hands over to server" in world.log_of(leader)
    assert "The state of the leader replaces that of this server" in world.log_of(leader)
    (by_next,) = [line for line in reports(world) if f"replica of server '{leader}'" in line]
    assert by_next in world.logs[leader_of(world)]
    check_equal(world)


@FAULTS
def test_without_the_comparison_a_follower_stays_different(
    world: AgreeingCluster, monkeypatch: pytest.MonkeyPatch, plant: Any
) -> None:
    monkeypatch.setattr(ReplicaComparison, "compare", lambda self, replica: None)
    follower = world.other_than(leader_of(world))
    plant(monkeypatch, replica_of(world, follower).stream.log)
    change(world)
    world.quiet()
    assert reports(world) == []
    assert contents(world, follower) != contents(world, leader_of(world))


def test_an_order_counts_if_it_comes_from_the_leader_about_a_digest_that_is_there(
    world: AgreeingCluster,
) -> None:
    leader = leader_of(world)
    follower = world.other_than(leader)
    third = world.other_than(leader, follower)
    replica = replica_of(world, follower)
    entry = kept(world, follower)[-1].entry
    host = world.nodes[leader].consensus
    other = world.nodes[third].consensus
    assert host is not None
    assert other is not None
    other.tell(follower, REFILL, encode_order(replica.identity, entry))
    host.tell(follower, REFILL, encode_order(replica.identity, entry + 1))
    host.tell(follower, REFILL, encode_order(bytes(16), entry))
    other.tell(leader, REFILL, encode_order(replica.identity, entry))
    world.quiet()
    assert "replaces that of this server" not in world.log_of(follower) + world.log_of(leader)
    host.tell(follower, REFILL, encode_order(replica.identity, entry))
    world.quiet()
    assert "replaces that of this server" in world.log_of(follower)
    check_equal(world)


def test_nothing_is_told_while_a_stream_is_idle(
    world: AgreeingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.quiet()
    told: list[object] = []

    def encode(group: bytes, found: list[Digest]) -> bytes:
        told.append(found)
        return encode_digests(group, found)

    monkeypatch.setattr(comparison, "encode_digests", encode)
    world.quiet(20.0)
    assert told == []
    publish(world, ENTRIES)
    world.quiet()
    assert told


def test_nobody_is_filled_while_the_third_replica_is_away(
    world: AgreeingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = leader_of(world)
    follower = world.other_than(leader)
    world.stop(world.other_than(leader, follower))
    world.quiet()
    log = replica_of(world, follower).stream.log
    assert isinstance(log, FileLog | MemoryLog)
    skip_one_removal(monkeypatch, log)
    change(world)
    world.quiet()
    assert len(reports(world)) == 1
    assert not replica_of(world, follower).must_refill
    assert "replaces that of this server" not in world.log_of(follower)


def test_a_server_that_restarts_is_compared_from_the_next_whole_interval_on(
    world: AgreeingCluster,
) -> None:
    follower = world.other_than(leader_of(world))
    is_file = isinstance(replica_of(world, follower).stream.log, FileLog)
    world.stop(follower)
    publish(world, ENTRIES // 2)
    world.start_server(follower)
    world.quiet(10.0)
    # A stream in memory has every entry applied again.
    assert (kept(world, follower) == []) is is_file
    publish(world, 3 * ENTRIES)
    world.quiet()
    found = kept(world, follower)
    assert found
    assert found == kept(world, leader_of(world))[-len(found) :]
    assert reports(world) == []


def test_most_replicas_have_a_digest_if_more_than_half_of_the_voters_do() -> None:
    one, other = Digest(*range(9)), Digest(*range(1, 10))
    assert most_common({"a": one, "b": one, "c": other}, 3) == one
    assert most_common({"a": one, "b": other}, 3) is None
    assert most_common({"a": one, "b": other}, 2) is None
    assert most_common({"a": one, "b": one}, 4) is None
