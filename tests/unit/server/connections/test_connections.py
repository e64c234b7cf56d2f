"""Connections: accepted within limits, closed for a reason, and forgotten."""

import pytest

from tests.kit.world import World, infos_in
from tests.unit.server.conftest import MakeWorld

UNKNOWN = b"-ERR 'Unknown Protocol Operation'\r\n"


class TestConnections:
    def test_one_too_many_is_told_and_closed(self, make_world: MakeWorld) -> None:
        world = make_world(max_connections=2)
        first, _ = world.modern(), world.modern()
        third = world.open()
        answer = third.take()
        assert len(infos_in(answer)) == 1
        assert answer.endswith(b"-ERR 'maximum connections exceeded'\r\n")
        assert third.connection.ended == "closed"
        first.connection.leave()
        world.settle()
        assert world.open().reason == ""

    @pytest.mark.parametrize(
        ("was_broken", "reason"), [(False, "Client Closed"), (True, "Read Error")]
    )
    def test_why_one_is_gone(self, world: World, was_broken: bool, reason: str) -> None:
        peer = world.modern()
        world.node.connections.lost(peer.client, was_broken)
        assert peer.reason == reason

    def test_below_zero_nobody_is_let_in(self, make_world: MakeWorld) -> None:
        assert make_world(max_connections=-1).open().reason == "Maximum Connections Exceeded"

    def test_one_that_leaves_leaves_nothing_behind(self, world: World) -> None:
        before = world.node.accounts.default.index.count
        waiting = world.scheduler.waiting
        peer = world.modern()
        peer.send(b"SUB foo 1\r\nSUB foo.> 2\r\nSUB bar q 3\r\n")
        peer.connection.leave()
        world.settle()
        node = world.node
        assert node.roster.open == {}
        assert node.accounts.default.clients == {}
        assert node.accounts.default.index.count == before
        assert world.scheduler.waiting == waiting
        assert [client.close_reason for client in node.roster.closed] == ["Client Closed"]

    def test_closed_clients_are_remembered_up_to_a_limit(self, make_world: MakeWorld) -> None:
        world = make_world(max_closed_clients=3)
        peers = [world.modern() for _ in range(10)]
        for peer in peers:
            peer.connection.leave()
            world.settle()
        closed = [client.cid for client in world.node.roster.closed]
        assert closed == [peer.client.cid for peer in peers[-3:]]

    def test_an_account_counts_a_connection_once(self, world: World) -> None:
        world.modern()
        world.open()
        assert world.node.accounts.default.total_connections == 2
        assert len(world.node.accounts.default.clients) == 2

    def test_what_is_queued_is_read_before_the_end(self, world: World) -> None:
        peer = world.modern()
        answer = peer.ask(b"PING\r\nNONSENSE\r\nPING\r\n")
        assert answer.startswith(b"PONG\r\n")
        assert answer.endswith(UNKNOWN)

    def test_an_error_of_the_client_ends_it_silently(self, world: World) -> None:
        peer = world.modern()
        assert peer.ask(b"-ERR 'sorry'\r\nPING\r\n") == b""
        assert peer.reason == "Parse Error"

    def test_closing_all(self, world: World) -> None:
        peers = [world.modern() for _ in range(3)]
        world.node.close_all("Server Shutdown")
        world.settle()
        assert [peer.reason for peer in peers] == ["Server Shutdown"] * 3
        assert world.scheduler.waiting == 0

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (b"PUB foo 9999999\r\n", "Maximum Message Payload Exceeded"),
            (b"SUB " + b"x" * 5000 + b" 1\r\n", "Maximum Control Line Exceeded"),
            (b"NONSENSE\r\n", "Protocol Violation"),
            (b"SUB foo\r\n", "Protocol Violation"),
        ],
    )
    def test_reasons(self, world: World, data: bytes, reason: str) -> None:
        peer = world.modern()
        peer.send(data)
        assert peer.reason == reason
