"""Streams that were deleted and created again, on servers that lost their power soon after.

A member of a group knows after a start only the entries that it has noted as committed: those may
end before the deletion, whose effects the disk has.
"""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from headwater.jetstream.meta.assignments import Assignments
from headwater.raft.storage import SavedState
from headwater.server.cluster.consensus import driver, group_storage
from headwater.store.groups.frames import GroupMode
from headwater.store.groups.group_log import GroupLog
from tests.kit.agreeing_cluster import AgreeingCluster

STARTS = 6
# Groups whose members may have forgotten something wait for each other.
RECOVERY_S = 15.0


def knows_less(saved: Callable[..., SavedState], commit: int) -> Callable[..., SavedState]:
    """A start of the meta group that knows no later entry to be committed."""

    def saved_state(log: GroupLog, applied: int) -> SavedState:
        found = saved(log, applied)
        if log.mode is GroupMode.SYNCED:
            found.hard_state.commit = min(found.hard_state.commit, commit)
        return found

    return saved_state


def crash(world: AgreeingCluster, is_power_lost: bool) -> None:
    """Kill all servers, or cut their power, and start them again."""
    names = [*world.nodes]
    for name in names:
        world.crash(name, is_power_lost)
    for name in names:
        world.start_server(name)
    world.quiet(RECOVERY_S)


@pytest.fixture
def reborn(monkeypatch: pytest.MonkeyPatch) -> AgreeingCluster:
    """Servers with a stream that was created twice, which know of the first creation at a start."""
    world = AgreeingCluster()
    world.create("s1", "S")
    streams = world.nodes["s1"].cluster_streams
    assert streams is not None
    first = streams.meta.applied_index
    world.call("s1", "STREAM.DELETE.S")
    world.create("s1", "S")
    world.publish("s1", "s.a", 3)
    monkeypatch.setattr(driver, "saved_state", knows_less(group_storage.saved_state, first))
    world.quiet()
    return world


@pytest.mark.parametrize("is_power_lost", [False, True], ids=["kill", "power loss"])
def test_a_stream_that_was_created_again_outlives_a_crash(
    reborn: AgreeingCluster, is_power_lost: bool
) -> None:
    for _ in range(STARTS):
        crash(reborn, is_power_lost)
        for name in reborn.nodes:
            assert "set aside" not in reborn.log_of(name)
            assert "cannot be held" not in reborn.log_of(name)
            (reply,) = reborn.answers(reborn.client(name), "STREAM.INFO.S", b"")
            assert "error" not in reply


def test_a_replica_that_is_set_aside_leads_no_more() -> None:
    world = AgreeingCluster()
    leader = world.create("s1", "S")["cluster"]["leader"]
    world.publish(leader, "s.a", 3)
    streams = world.nodes[leader].cluster_streams
    assert streams is not None
    (assignment,) = streams.meta.assignments
    other = replace(assignment, incarnation=bytes(16))
    streams.meta.assignments = Assignments([other], streams.meta.assignments.servers.values())
    streams.adoption.look()
    world.quiet()
    assert world.log_of(leader).count("is set aside") == 1
    other_server = world.other_than(leader)
    info = world.call(other_server, "STREAM.INFO.S")
    assert info["cluster"]["leader"] != leader
    assert info["state"]["messages"] == 3
    world.publish(other_server, "s.b")
    assert world.call(other_server, "STREAM.INFO.S")["state"]["messages"] == 4
