"""Pings between servers, and channels that answer none."""

from headwater.server.cluster.pulse import CHALLENGE_S
from headwater.wire.peer_info import Purpose
from tests.kit.cluster_world import ClusterWorld


def test_an_answered_ping_measures_the_round_trip() -> None:
    world = ClusterWorld()
    world.start_all(2)
    (peer,) = world.cluster_of("s1").peers.values()
    for channel in peer.channels.values():
        assert channel.liveness.pings_out == 0
        assert channel.liveness.rtt_ns > 0


def test_a_link_that_answers_stays() -> None:
    world = ClusterWorld()
    world.start_all(2, ping_interval_s=1.0)
    world.advance(600)
    assert world.is_whole()
    assert world.cluster_of("s1").stale_connections == 0


def test_routes_are_pinged_at_least_every_half_minute() -> None:
    world = ClusterWorld()
    world.start_all(2, ping_interval_s=3600.0, ping_max=1)
    world.lose("s2")
    world.advance(61)
    assert world.links() == set()
    assert world.cluster_of("s1").stale_connections == 2


def test_a_link_on_which_bytes_still_come_stays_though_a_ping_waits() -> None:
    world = ClusterWorld()
    world.start("s1", ping_interval_s=1.0, ping_max=2)
    world.start("s2", "s1", ping_interval_s=30.0)
    (end,) = [
        far
        for near, far in world.pipes_between("s1", "s2")
        if far.channel.purpose is Purpose.CONSENSUS
    ]
    twin = end.twin
    assert twin is not None
    twin.pause_reading()
    for _ in range(10):
        world.advance(0.9)
        world.cluster_of("s2").send_consensus("s1", b"part of much")
    assert world.cluster_of("s1").stale_connections == 0
    world.advance(3)
    assert world.cluster_of("s1").stale_connections == 1


def test_a_challenged_channel_stays_if_its_peer_answers() -> None:
    world = ClusterWorld()
    world.start_all(2)
    world.start("s3", "s1", server_name="s2")
    world.advance(CHALLENGE_S * 2)
    assert world.cluster_of("s1").stale_connections == 0
    assert ("s1", "s2", "messages") in world.links()
