"""A replica of a stream leads or follows, and is filled again when it lacks something."""

from errno import ENOSPC

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.server.streams.replica import StreamReplica
from headwater.store.errors import StoreError
from headwater.testing.disk_faults import DiskFault
from tests.kit.agreeing_cluster import AgreeingCluster


@pytest.fixture
def world() -> AgreeingCluster:
    world = AgreeingCluster()
    world.create("s1", "S")
    world.publish("s1", "s.a", 3)
    return world


def replica_on(world: AgreeingCluster, name: str) -> StreamReplica:
    host = world.nodes[name].jetstream
    assert host is not None
    [replica] = host.streams.replicas.values()
    return replica


def leader_of(world: AgreeingCluster) -> str:
    return next(name for name in world.nodes if replica_on(world, name).is_leading)


def test_one_replica_leads_and_the_others_follow_it(world: AgreeingCluster) -> None:
    leader = leader_of(world)
    for name in world.nodes:
        replica = replica_on(world, name)
        assert replica.leader == leader
        assert (replica.runner is None) is (name != leader)
        assert (replica.follower is None) is (name == leader)


def test_all_replicas_apply_equal_entries(world: AgreeingCluster) -> None:
    replicas = [replica_on(world, name) for name in world.nodes]
    assert len({replica.applied_index for replica in replicas}) == 1
    assert {replica.stream.log.last_sequence for replica in replicas} == {3}


def test_a_leader_that_steps_down_follows(world: AgreeingCluster) -> None:
    before = leader_of(world)
    assert world.call("s1", "STREAM.LEADER.STEPDOWN.S")["success"]
    world.quiet()
    replica = replica_on(world, before)
    assert not replica.is_leading
    assert replica.quorum is None
    assert replica.follower is not None
    world.publish("s2", "s.a")
    assert replica.stream.log.last_sequence == 4


def test_a_leader_neither_gives_up_its_log_nor_is_filled(world: AgreeingCluster) -> None:
    replica = replica_on(world, leader_of(world))
    with pytest.raises(InvariantViolation):
        replica.give_up()
    with pytest.raises(InvariantViolation):
        replica.open_sink()


def test_a_snapshot_without_its_state_is_refused(world: AgreeingCluster) -> None:
    replica = replica_on(world, world.other_than(leader_of(world)))
    replica.open_sink()
    with pytest.raises(StoreError, match="no state"):
        replica.install(1)


def test_a_replica_that_is_filled_equals_the_one_it_is_filled_from(world: AgreeingCluster) -> None:
    leader = replica_on(world, leader_of(world))
    replica = replica_on(world, world.other_than(leader_of(world)))
    source, sink = leader.open_snapshot(), replica.open_sink()
    while (chunk := source.next_chunk()) is not None:
        sink.add(chunk)
    assert replica.must_refill
    replica.install(source.index)
    assert not replica.must_refill
    now_ns = leader.stream.last_ns()
    assert replica.stream.dump(now_ns) == leader.stream.dump(now_ns)
    assert replica.applied_index == leader.applied_index


# --- a server without room --------------------------------------------------------------------


def without_room(world: AgreeingCluster, name: str) -> DiskFault:
    """Have a server find no room for messages, though it has some for the log of its groups."""
    return world.disk_of(name).fail("write", "*/segment-*", code=ENOSPC, times=None)


def test_a_leader_without_room_hands_over_and_has_every_entry_when_there_is_room(
    world: AgreeingCluster,
) -> None:
    before = leader_of(world)
    fault = without_room(world, before)
    world.publish(world.other_than(before), "s.a", 2)
    world.quiet()
    assert leader_of(world) != before
    world.publish(before, "s.b", 2)
    replica = replica_on(world, before)
    others = [replica_on(world, name) for name in world.nodes if name != before]
    assert {each.stream.log.last_sequence for each in others} == {7}
    assert replica.stream.log.last_sequence == 3
    world.disk_of(before).heal(fault)
    world.quiet()
    assert replica.applied_index == others[0].applied_index
    now_ns = replica.stream.last_ns()
    assert replica.stream.dump(now_ns) == others[0].stream.dump(now_ns)
    assert not replica.stream.log.offline


def test_a_follower_without_room_applies_its_entries_when_there_is_some(
    world: AgreeingCluster,
) -> None:
    leader = leader_of(world)
    name = world.other_than(leader)
    fault = without_room(world, name)
    world.publish(leader, "s.a", 2)
    replica = replica_on(world, name)
    assert replica.stream.log.last_sequence == 3
    world.disk_of(name).heal(fault)
    world.quiet()
    assert replica.stream.log.last_sequence == 5
    assert replica.applied_index == replica_on(world, leader).applied_index
