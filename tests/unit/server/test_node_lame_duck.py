"""A server of a cluster in lame duck mode: other servers lead, and it goes on voting."""

import pytest

from tests.kit.agreeing_cluster import AgreeingCluster

STREAMS = ("A", "B", "C")


@pytest.fixture
def world() -> AgreeingCluster:
    world = AgreeingCluster()
    for name in STREAMS:
        world.create("s1", name)
    return world


def leaders(world: AgreeingCluster, asked: str) -> dict[str, str]:
    return {name: world.call(asked, f"STREAM.INFO.{name}")["cluster"]["leader"] for name in STREAMS}


def gather(world: AgreeingCluster, leader: str) -> None:
    """Have one server lead everything."""
    preferred = {"placement": {"preferred": leader}}
    for name, there in leaders(world, "s1").items():
        if there != leader:
            assert world.call("s1", f"STREAM.LEADER.STEPDOWN.{name}", preferred)["success"]
    world.quiet(1.0)
    assert leaders(world, "s1") == dict.fromkeys(STREAMS, leader)


def test_all_streams_and_the_meta_group_are_led_elsewhere_at_once(world: AgreeingCluster) -> None:
    leaving = world.meta_leader
    gather(world, leaving)
    world.nodes[leaving].announce_lame_duck()
    world.quiet(0.5)
    asked = world.other_than(leaving)
    assert leaving not in leaders(world, asked).values()
    assert world.meta_leader not in ("", leaving)


def test_a_server_that_leaves_is_elected_no_more_and_still_counts(world: AgreeingCluster) -> None:
    leaving = world.meta_leader
    world.nodes[leaving].announce_lame_duck()
    world.quiet(0.5)
    lost = world.other_than(leaving)
    world.stop(lost)
    world.quiet()
    last = world.other_than(leaving, lost)
    assert world.meta_leader == last
    assert leaders(world, last) == dict.fromkeys(STREAMS, last)
    world.publish(last, "a.b", 2)
    assert world.call(last, "STREAM.INFO.A")["state"]["messages"] == 2


def test_a_new_stream_is_led_by_a_server_that_stays(world: AgreeingCluster) -> None:
    leaving = world.meta_leader
    world.nodes[leaving].announce_lame_duck()
    world.quiet(0.5)
    reply = world.create(world.other_than(leaving), "D")
    assert reply["cluster"]["leader"] not in ("", leaving)
