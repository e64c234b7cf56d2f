"""One connection that sends as fast as it can does not hold up the others."""

import pytest

from headwater.server.configuration.options import Options, UserOptions
from headwater.server.connections.subscribing import REMOVED_SUBSCRIPTIONS_MAX
from headwater.server.core.budget import (
    BYTES_PER_UNIT,
    NEWCOMER_UNITS,
    NEWCOMERS_UNITS,
    OPERATION_UNITS,
    SLICE_UNITS,
    TURN_UNITS,
)
from headwater.server.core.client import Subscription
from tests.kit.world import Peer, World
from tests.unit.server.conftest import MakeWorld

PINGS_PER_TURN = TURN_UNITS // OPERATION_UNITS
PINGS_PER_SLICE = SLICE_UNITS // OPERATION_UNITS
BCRYPT_HASH = "$2a$04$X8V0wJ1H8kZrAGyUWKOEh.yWZ8lHjgbSZKmR5W1rSFqmvFKMr.ZTy"


def pings(count: int) -> bytes:
    return b"PING\r\n" * count


def pongs(peer: Peer) -> int:
    return peer.take().count(b"PONG\r\n")


@pytest.fixture
def flooder(world: World) -> Peer:
    """A client that has had its first PONG, and the INFO that comes with it."""
    peer = world.modern()
    peer.ask(b"PING\r\n")
    return peer


@pytest.fixture
def other(world: World) -> Peer:
    peer = world.modern()
    peer.ask(b"PING\r\n")
    return peer


class TestTurns:
    def test_as_much_as_a_turn_affords_is_performed_as_it_arrives(
        self, world: World, flooder: Peer
    ) -> None:
        flooder.push(pings(PINGS_PER_SLICE))
        assert not flooder.client.has_backlog
        assert flooder.connection.reading
        world.settle()
        assert pongs(flooder) == PINGS_PER_SLICE

    def test_the_rest_of_a_read_waits_with_its_socket_unread(
        self, world: World, flooder: Peer
    ) -> None:
        flooder.push(pings(4 * PINGS_PER_TURN))
        assert flooder.client.has_backlog
        assert not flooder.connection.reading
        world.settle()
        assert pongs(flooder) == 4 * PINGS_PER_TURN
        assert not flooder.client.has_backlog
        assert flooder.connection.reading

    def test_a_turn_performs_no_more_than_its_budget(self, world: World, flooder: Peer) -> None:
        flooder.push(pings(4 * PINGS_PER_TURN))
        world.scheduler.run_turn()
        world.scheduler.run_turn()
        assert 0 < pongs(flooder) <= 2 * PINGS_PER_TURN

    def test_another_connection_is_answered_in_the_next_turn(
        self, world: World, flooder: Peer, other: Peer
    ) -> None:
        flooder.push(pings(40 * PINGS_PER_TURN))
        other.push(b"PING\r\n")
        world.scheduler.run_turn()
        world.scheduler.run_turn()
        assert pongs(other) == 1
        assert flooder.client.has_backlog

    def test_connections_that_flood_together_advance_together(
        self, world: World, flooder: Peer, other: Peer
    ) -> None:
        flooder.push(pings(40 * PINGS_PER_TURN))
        other.push(pings(40 * PINGS_PER_TURN))
        for _ in range(20):
            world.scheduler.run_turn()
        ahead, behind = pongs(flooder), pongs(other)
        assert behind > 5 * PINGS_PER_TURN
        # The flooder had a turn for itself before the other client came.
        assert abs(ahead - behind) <= PINGS_PER_TURN + PINGS_PER_SLICE

    def test_bytes_count_as_work(self, world: World, flooder: Peer) -> None:
        frame = b"PUB nobody 1000000\r\n" + b"x" * 1_000_000 + b"\r\n"
        flooder.push(frame)
        assert not flooder.client.has_backlog
        count = TURN_UNITS * BYTES_PER_UNIT // len(frame)
        flooder.push(frame * count)
        assert flooder.client.has_backlog
        world.settle()
        assert flooder.client.in_msgs == 1 + count

    def test_a_request_to_the_server_costs_the_time_it_took(
        self, world: World, flooder: Peer, other: Peer
    ) -> None:
        took_ns = 1_000_000
        calls = 0

        def answer(*_: object) -> None:
            nonlocal calls
            calls += 1
            world.clock.passed_ns += took_ns

        service = Subscription(other.client, b"slow.service", None, b"1", answer)
        other.client.account.index.insert(service.subject, None, service)
        flooder.push(b"PUB slow.service 0\r\n\r\n" * 100)
        assert calls <= TURN_UNITS * 1_000 // took_ns + 1
        world.settle()
        assert calls == 100


class TestNewcomers:
    def test_the_answer_to_a_newcomer_is_written_in_the_next_turn(
        self, world: World, flooder: Peer, other: Peer
    ) -> None:
        flooder.push(pings(40 * PINGS_PER_TURN))
        world.scheduler.run_turn()
        other.push(b"PING\r\n")
        world.scheduler.run_turn()
        assert pongs(other) == 1
        assert flooder.client.has_backlog

    def test_a_newcomer_that_asks_for_much_goes_on_behind_those_who_wait(
        self, world: World, flooder: Peer, other: Peer
    ) -> None:
        flooder.push(pings(40 * PINGS_PER_TURN))
        world.scheduler.run_turn()
        other.push(pings(PINGS_PER_TURN))
        world.scheduler.run_turn()
        assert 0 < pongs(other) <= NEWCOMER_UNITS // OPERATION_UNITS + 1
        world.settle()
        assert pongs(other) > PINGS_PER_TURN // 2

    def test_newcomers_leave_half_a_turn_to_those_who_wait(
        self, world: World, flooder: Peer
    ) -> None:
        others = [world.modern() for _ in range(2 * NEWCOMERS_UNITS // NEWCOMER_UNITS)]
        flooder.push(pings(40 * PINGS_PER_TURN))
        world.scheduler.run_turn()
        for peer in others:
            peer.push(pings(NEWCOMER_UNITS // OPERATION_UNITS))
        pongs(flooder)
        world.scheduler.run_turn()
        # Answers to the flooder that its last turn produced leave with those to the newcomers.
        world.scheduler.run_turn()
        served = pongs(flooder) + flooder.client.out.count(b"PONG\r\n")
        assert served >= 2 * (TURN_UNITS - NEWCOMERS_UNITS - SLICE_UNITS) // OPERATION_UNITS
        world.settle()
        assert all(pongs(peer) == NEWCOMER_UNITS // OPERATION_UNITS for peer in others)


class TestEnds:
    def test_operations_that_were_read_are_performed_when_the_client_has_left(
        self, world: World, flooder: Peer, other: Peer
    ) -> None:
        other.send(b"SUB last 1\r\n")
        flooder.push(pings(4 * PINGS_PER_TURN) + b"PUB last 2\r\nhi\r\n")
        flooder.connection.leave()
        world.scheduler.run_turn()
        assert flooder.client.cid in world.node.roster.open
        world.settle()
        assert other.take() == b"MSG last 1 2\r\nhi\r\n"
        assert flooder.reason == "Client Closed"
        assert flooder.client.cid not in world.node.roster.open

    def test_a_violation_ends_the_connection_and_its_backlog(
        self, world: World, flooder: Peer, other: Peer
    ) -> None:
        other.send(b"SUB last 1\r\n")
        flooder.send(pings(4 * PINGS_PER_TURN) + b"NONSENSE\r\nPUB last 2\r\nhi\r\n")
        assert flooder.reason == "Protocol Violation"
        assert flooder.client.has_backlog is False
        assert other.take() == b""

    def test_a_client_that_left_is_closed_once_for_a_violation_in_its_backlog(
        self, world: World, flooder: Peer
    ) -> None:
        flooder.push(pings(4 * PINGS_PER_TURN) + b"NONSENSE\r\n")
        flooder.connection.leave()
        world.settle()
        (closed,) = world.node.roster.closed
        assert closed.close_reason == flooder.reason == "Protocol Violation"

    def test_a_server_that_closes_a_client_drops_its_backlog(
        self, world: World, flooder: Peer
    ) -> None:
        flooder.push(pings(4 * PINGS_PER_TURN))
        world.node.connections.close(flooder.client, "Server Shutdown")
        world.settle()
        assert not flooder.client.has_backlog
        assert pongs(flooder) <= PINGS_PER_TURN

    def test_bytes_read_while_a_password_is_checked_wait_for_the_verdict(self) -> None:
        world = World(Options(users=(UserOptions("app", BCRYPT_HASH),)))
        peer = world.open()
        peer.push(b'CONNECT {"user":"app","pass":"wrong"}\r\n')
        peer.world.node.connections.receive(peer.client, b"SUB > 1\r\n")
        assert peer.client.is_held_back
        assert peer.client.subscriptions == {}
        world.finish_checks()
        assert b"Authorization Violation" in peer.take()
        assert peer.client.subscriptions == {}

    def test_a_stalled_publisher_keeps_its_backlog_until_it_may_go_on(
        self, make_world: MakeWorld
    ) -> None:
        world = make_world(max_pending=128 * 1024, max_payload=64 * 1024)
        slow, source = world.modern(), world.modern()
        slow.send(b"SUB foo 1\r\n")
        slow.connection.stop_reading()
        large = b"PUB foo 51200\r\n" + b"x" * 51200 + b"\r\n"
        source.send(large * 2)
        source.push(b"PUB foo 1\r\nx\r\nPING\r\nPUB foo 1\r\ny\r\n" * 3)
        world.settle()
        assert source.client.is_stalled
        assert source.client.has_backlog
        slow.connection.start_reading()
        world.advance(0.1)
        assert slow.take().count(b"MSG foo") == 2 + 6
        assert pongs(source) == 3


class TestLeavingManySubscriptions:
    def test_the_subscriptions_of_a_client_that_left_go_in_slices(self, world: World) -> None:
        many, publisher = world.modern(), world.modern()
        count = 3 * REMOVED_SUBSCRIPTIONS_MAX
        many.send(b"".join(b"SUB foo %d\r\n" % sid for sid in range(count)))
        index = world.node.accounts.default.index
        before = index.count
        many.connection.leave()
        world.scheduler.run_turn()
        assert index.count == before - REMOVED_SUBSCRIPTIONS_MAX
        # Nobody listens any more, whatever is left in the index.
        publisher.push(b"SUB reply 1\r\nPUB foo reply 0\r\n\r\n")
        world.settle()
        assert b"HMSG reply 1 " in publisher.take()
        assert index.count == before - count + 1
