"""Pings: when they come, and when a connection is stale."""

import pytest

from headwater.base.clock import NS_PER_S
from headwater.server.configuration.options import (
    Options,
)
from tests.kit.world import World
from tests.unit.server.conftest import MakeWorld


class TestPings:
    def test_the_first_comes_early_and_measures_the_round_trip(self, world: World) -> None:
        peer = world.modern()
        peer.ask(b"SUB foo 1\r\n")
        world.advance(1.999)
        assert peer.take() == b""
        waited_ms = 0
        while not peer.take():
            world.advance(0.001)
            waited_ms += 1
        # Up to a fifth later, so that clients that came together are not pinged together.
        assert waited_ms <= 401
        world.advance(0.050)
        peer.send(b"PONG\r\n")
        assert 50_000_000 <= peer.client.rtt_ns <= 51_000_000

    def test_also_on_a_machine_that_has_just_started(self) -> None:
        world = World(Options(), uptime_ns=0)
        peer = world.modern()
        world.advance(1.5)
        peer.ask(b"PUB foo 1\r\nx\r\n")
        world.advance(1.0)
        assert peer.take() == b"PING\r\n"

    def test_one_that_only_answers_is_pinged_every_interval(self, make_world: MakeWorld) -> None:
        world = make_world(ping_interval_s=10.0)
        peer = world.modern()
        pinged = 0
        for _ in range(1000):
            world.advance(0.1)
            if peer.take() == b"PING\r\n":
                pinged += 1
                peer.send(b"PONG\r\n")
        assert pinged in (10, 11)

    @pytest.mark.parametrize("activity", [b"PUB foo 1\r\nx\r\n", b"SUB foo 1\r\n", b"PING\r\n"])
    def test_one_that_is_active_is_not_pinged(self, make_world: MakeWorld, activity: bytes) -> None:
        world = make_world(ping_interval_s=10.0)
        peer = world.modern()
        world.advance(3)
        assert peer.ask(b"PONG\r\n" + activity).count(b"PING") == 0
        for _ in range(100):
            world.advance(1)
            peer.push(activity)
        world.settle()
        assert b"PING\r\n" not in peer.take()

    def test_the_round_trip_is_measured_again_after_an_hour(self, make_world: MakeWorld) -> None:
        world = make_world(ping_interval_s=60.0)
        peer = world.modern()
        world.advance(3)
        peer.ask(b"PONG\r\n")
        for _ in range(3700):
            world.advance(1)
            peer.push(b"PUB foo 1\r\nx\r\n")
        world.settle()
        assert peer.take().count(b"PING\r\n") == 1

    def test_without_answers_the_connection_is_stale(self, make_world: MakeWorld) -> None:
        world = make_world(ping_interval_s=1.0, ping_max=2)
        peer = world.modern()
        world.advance(3.0)
        assert peer.take() == b"PING\r\n" * 2
        world.advance(0.3)
        assert peer.take() == b"-ERR 'Stale Connection'\r\n"
        assert peer.reason == "Stale Connection"
        assert world.node.roster.stale_connections == 1

    def test_an_answer_in_time_starts_the_count_again(self, make_world: MakeWorld) -> None:
        world = make_world(ping_interval_s=1.0, ping_max=2)
        peer = world.modern()
        for _ in range(10):
            world.advance(1.5)
            peer.send(b"PONG\r\n")
        assert peer.reason == ""

    def test_one_that_never_connected_is_pinged_too(self, make_world: MakeWorld) -> None:
        world = make_world(ping_interval_s=1.0, ping_max=1)
        peer = world.open()
        peer.take()
        world.advance(1.0)
        assert peer.take() == b"PING\r\n"
        world.advance(1.0)
        assert peer.take() == b"-ERR 'Stale Connection'\r\n"

    def test_a_pong_nobody_asked_for_measures_no_more_than_the_connection_s_age(
        self, world: World
    ) -> None:
        peer = world.modern()
        world.advance(1)
        peer.send(b"PONG\r\n")
        assert peer.client.rtt_ns == NS_PER_S
