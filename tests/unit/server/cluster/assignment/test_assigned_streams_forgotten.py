"""Streams of servers whose stores were emptied: groups that are born later are as any others."""

from typing import Any

import pytest

from headwater.jetstream.meta.assignments import StreamAssignment
from headwater.server.cluster.consensus.driver import ConsensusDriver
from tests.kit.agreeing_cluster import AgreeingCluster

# Groups whose members have forgotten wait for those that remember.
RECOVERY_S = 15.0


def empty(world: AgreeingCluster, name: str) -> None:
    """Kill a server, and start it again with an empty disk."""
    world.crash(name, is_power_lost=False)
    world.empty_disk(name)
    world.start_server(name)
    world.quiet(RECOVERY_S)


def messages_of(world: AgreeingCluster, name: str) -> int:
    info = world.call(name, "STREAM.INFO.S")
    assert "error" not in info, info
    return int(info["state"]["messages"])


def assigned(world: AgreeingCluster, name: str) -> list[StreamAssignment]:
    streams = world.nodes[name].cluster_streams
    assert streams is not None
    return [*streams.meta.assignments]


def test_a_stream_on_an_emptied_server_can_be_scaled_up() -> None:
    world = AgreeingCluster(s1={"server_tags": ("first",)})
    empty(world, "s1")
    world.create("s2", "S", num_replicas=1, placement={"tags": ["first"]})
    world.publish("s2", "s.a", 2)
    scaled = {"name": "S", "subjects": ["s.>"], "num_replicas": 3}
    assert "error" not in world.call("s2", "STREAM.UPDATE.S", scaled)
    world.quiet()
    world.publish("s2", "s.a")
    assert messages_of(world, "s3") == 3


def test_a_stream_of_servers_that_were_emptied_one_after_the_other_has_a_leader() -> None:
    world = AgreeingCluster()
    empty(world, "s1")
    empty(world, "s2")
    answer = world.create("s3", "S")
    assert answer.get("cluster", {}).get("leader"), answer
    world.publish("s3", "s.a")
    assert messages_of(world, "s1") == 1


def test_an_emptied_server_may_have_been_in_the_groups_that_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    added: list[bool] = []
    add_group = ConsensusDriver.add_group

    def note(self: ConsensusDriver, *arguments: Any, is_new: bool) -> None:
        added.append(is_new)
        add_group(self, *arguments, is_new=is_new)

    monkeypatch.setattr(ConsensusDriver, "add_group", note)
    world = AgreeingCluster()
    world.create("s1", "S")
    world.publish("s1", "s.a")
    assert added == [True] * 3
    empty(world, "s1")
    assert added[3:] == [False]
    assert messages_of(world, "s1") == 1


def test_a_stream_is_led_again_when_most_of_its_servers_have_lost_the_log() -> None:
    world = AgreeingCluster()
    leader = world.create("s1", "S")["cluster"]["leader"]
    world.publish("s1", "s.a", 2)
    world.quiet()
    (assignment,) = assigned(world, leader)
    for name, node in world.nodes.items():
        if name != leader and node.consensus is not None:
            node.consensus.refill(assignment.incarnation, "it is damaged")
            world.settle()
    world.crash(leader, is_power_lost=True)
    world.start_server(leader)
    world.quiet(RECOVERY_S)
    world.publish("s2", "s.a")
    # The others were not synced.
    assert messages_of(world, "s3") == 1
    assert "confirmed changes may be lost" in "".join(map(world.log_of, world.nodes))
