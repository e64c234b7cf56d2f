"""Logins: operations before CONNECT, credentials, slow checks, and the time for them."""

from dataclasses import replace

import bcrypt
import pytest

from headwater.server.configuration.options import (
    AccountOptions,
    UserOptions,
)
from tests.kit.world import Peer, World, connect_document
from tests.unit.server.conftest import MakeWorld

# The cheapest cost bcrypt has; a check takes a millisecond.
HASHED = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
ALICE = UserOptions("alice", "pa")
VIOLATION = b"-ERR 'Authorization Violation'\r\n"
UNKNOWN = b"-ERR 'Unknown Protocol Operation'\r\n"


FIRST_OPERATIONS = [
    (b"PING\r\n", b"PONG\r\n", False),
    (b"PONG\r\n", b"", False),
    (b"+OK\r\n", b"", False),
    (b"INFO {}\r\n", b"", False),
    (b"SUB foo 1\r\n", b"+OK\r\n", False),
    (b"UNSUB 1\r\n", b"+OK\r\n", False),
    (b"PUB foo 1\r\nx\r\n", b"+OK\r\n", False),
    (b"PUB foo..bar 1\r\nx\r\n", b"-ERR 'Invalid Publish Subject'\r\n+OK\r\n", False),
    (b"PIN", b"", False),
    (b"PUB foo 1\r\n", b"", False),
    # Without CONNECT there are no headers.
    (b"HPUB foo 1 1\r\n", b"", True),
    (b"-ERR 'x'\r\n", b"", True),
    (b"GET / HTTP/1.1\r\n", UNKNOWN, True),
    (b"\x16\x03\x01\x02\x00", UNKNOWN, True),
    (b"PUB foo\r\n", b"", True),
    (b"PUB foo 9999999\r\n", b"-ERR 'Maximum Payload Violation'\r\n", True),
]


class TestBeforeConnect:
    @pytest.mark.parametrize(("data", "answer", "closes"), FIRST_OPERATIONS)
    def test_on_an_open_server(
        self, world: World, data: bytes, answer: bytes, closes: bool
    ) -> None:
        peer = world.open()
        assert peer.ask(data) == answer
        assert (peer.reason != "") is closes
        assert (peer.connection.ended == "closed") is closes

    @pytest.mark.parametrize("data", [operation[0] for operation in FIRST_OPERATIONS])
    def test_on_a_server_that_wants_credentials_nothing_else_is_looked_at(
        self, make_world: MakeWorld, data: bytes
    ) -> None:
        peer = make_world(users=(ALICE,)).open()
        assert peer.ask(data) == VIOLATION
        assert peer.reason == "Authentication Failure"
        assert peer.connection.ended == "closed"

    @pytest.mark.parametrize(("data", "answer", "closes"), FIRST_OPERATIONS)
    def test_where_somebody_stands_in_it_is_as_on_an_open_server(
        self, make_world: MakeWorld, data: bytes, answer: bytes, closes: bool
    ) -> None:
        world = make_world(users=(ALICE,), no_auth_user="alice")
        peer = world.open()
        assert peer.ask(data) == answer
        assert (peer.reason != "") is closes
        world.advance(10)
        assert (peer.reason != "") is closes

    @pytest.mark.parametrize(
        ("data", "answer"),
        [
            (b"CONNX", UNKNOWN),
            (b"cat /etc/passwd\r\n", UNKNOWN),
            (b"CONNECT " + b"x" * 5000, b"-ERR 'maximum control line exceeded'\r\n"),
            (b"CONNECT {\r\n", b""),
            (b"CONNECT []\r\n", b""),
            (b'CONNECT {"verbose":1}\r\n', b""),
        ],
    )
    @pytest.mark.parametrize("users", [(), (ALICE,)])
    def test_a_broken_connect_is_told_what_it_is(
        self, make_world: MakeWorld, users: tuple[UserOptions, ...], data: bytes, answer: bytes
    ) -> None:
        peer = make_world(users=users).open()
        assert peer.ask(data) == answer
        assert peer.connection.ended == "closed"

    def test_operations_cut_in_two_are_put_together(self, make_world: MakeWorld) -> None:
        world = make_world(users=(ALICE,), no_auth_user="alice")
        peer = world.open()
        peer.ask(b"PI")
        assert peer.ask(b"NG\r\n") == b"PONG\r\n"
        peer = world.open()
        assert peer.ask(b"C") == b""
        assert peer.ask(b"ONNECT {}\r\n") == b"+OK\r\n"


class TestConnect:
    def test_verbose_is_the_default_and_is_confirmed(self, world: World) -> None:
        assert world.open().ask(b"CONNECT {}\r\n") == b"+OK\r\n"
        assert world.open().ask(b'CONNECT {"verbose":false}\r\n') == b""

    @pytest.mark.parametrize(
        ("document", "answer", "reason"),
        [
            (b'{"protocol":2}', b"invalid client protocol", "Bad Client Protocol Version"),
            (b'{"protocol":-1}', b"invalid client protocol", "Bad Client Protocol Version"),
            (
                b'{"no_responders":true}',
                b"no responders requires headers support",
                "No Responders Requires Headers",
            ),
            (b'{"account":"A"}', b"Authorization Violation", "Authentication Failure"),
            (b'{"new_account":true}', b"Authorization Violation", "Authentication Failure"),
        ],
    )
    def test_what_is_refused(
        self, world: World, document: bytes, answer: bytes, reason: str
    ) -> None:
        peer = world.open()
        assert peer.ask(b"CONNECT %b\r\nPING\r\n" % document) == b"-ERR '%b'\r\n" % answer
        assert peer.reason == reason

    def test_no_responders_on_a_server_without_headers(self, make_world: MakeWorld) -> None:
        peer = make_world(no_header_support=True).open()
        answer = peer.ask(b"CONNECT %b\r\n" % connect_document())
        assert answer == b"-ERR 'no responders requires headers support'\r\n"

    @pytest.mark.parametrize(
        ("fields", "let_in"),
        [
            ({"user": "alice", "password": "pa"}, True),
            ({"user": "alice", "password": "wrong"}, False),
            ({"user": "nobody", "password": "pa"}, False),
            ({}, False),
        ],
    )
    def test_credentials(self, make_world: MakeWorld, fields: dict[str, str], let_in: bool) -> None:
        world = make_world(users=(ALICE,))
        peer = world.open()
        answer = peer.ask(b"CONNECT %b\r\nPING\r\n" % connect_document(**fields))
        assert answer.startswith(b"PONG\r\n" if let_in else VIOLATION)
        assert (peer.reason == "") is let_in
        assert len(world.node.roster.open) == let_in

    def test_a_second_connect_ends_all_subscriptions_and_changes_what_it_names(
        self, world: World
    ) -> None:
        peer = world.modern(name="first")
        answer = peer.ask(
            b'SUB foo 1\r\nCONNECT {"name":"second","verbose":true}\r\nPUB foo 1\r\nx\r\n'
        )
        assert answer == b"+OK\r\n+OK\r\n"
        assert peer.client.connect.name == "second"
        assert peer.client.headers
        assert peer.ask(b"SUB foo 1\r\n") == b"+OK\r\n"

    def test_a_second_connect_can_become_somebody_else(self, make_world: MakeWorld) -> None:
        bob = UserOptions("bob", "pb", account_name="B")
        world = make_world(users=(ALICE,), accounts=(AccountOptions("B", (bob,)),))
        peer = world.modern(user="alice", password="pa")
        peer.send(b'SUB foo 1\r\nCONNECT {"user":"bob","pass":"pb"}\r\nSUB foo 1\r\n')
        other = world.modern(user="alice", password="pa")
        other.send(b"PUB foo 1\r\nx\r\n")
        assert peer.take() == b""
        assert (peer.client.account.name, peer.client.username) == ("B", "bob")
        assert peer.client not in world.node.accounts.default.clients
        assert peer.ask(b"PUB foo 1\r\nx\r\n") == b"MSG foo 1 1\r\nx\r\n"

    def test_a_failed_second_connect_closes(self, make_world: MakeWorld) -> None:
        peer = make_world(users=(ALICE,)).modern(user="alice", password="pa")
        assert peer.ask(b'CONNECT {"pass":"wrong"}\r\n') == VIOLATION
        assert peer.connection.ended == "closed"

    def test_headers_of_a_client_that_did_not_ask_for_them(self, world: World) -> None:
        sub = world.modern()
        sub.send(b"SUB foo 1\r\n")
        peer = world.connect()
        assert peer.ask(b"PUB foo 1\r\nx\r\nHPUB foo 12 12\r\n") == b""
        assert peer.reason == "Protocol Violation"
        assert sub.take() == b"MSG foo 1 1\r\nx\r\n"


class TestSlowCheck:
    """A password that is checked on another thread."""

    def started(self, make_world: MakeWorld, password: str, rest: bytes = b"") -> Peer:
        world = make_world(users=(UserOptions("u", HASHED),))
        peer = world.open()
        peer.take()
        peer.send(b"CONNECT %b\r\n%b" % (connect_document(user="u", password=password), rest))
        return peer

    def test_what_came_with_connect_waits_for_the_verdict(self, make_world: MakeWorld) -> None:
        peer = self.started(make_world, "secret", b"SUB foo 1\r\nPUB foo 1\r\nx\r\nPI")
        assert peer.take() == b""
        peer.world.finish_checks()
        assert peer.take() == b"MSG foo 1 1\r\nx\r\n"
        assert peer.ask(b"NG\r\n").startswith(b"PONG\r\n")

    def test_what_comes_later_waits_in_the_socket(self, make_world: MakeWorld) -> None:
        peer = self.started(make_world, "secret")
        assert not peer.connection.reading
        assert peer.ask(b"PING\r\n") == b""
        peer.world.finish_checks()
        assert peer.take().startswith(b"PONG\r\n")

    def test_bytes_that_arrive_all_the_same_are_not_acted_on(self, make_world: MakeWorld) -> None:
        peer = self.started(make_world, "wrong")
        peer.world.node.connections.receive(peer.client, b"SUB > 1\r\nPUB foo 1\r\nx\r\nPING\r\n")
        peer.world.settle()
        assert peer.take() == b""
        assert peer.client.subscriptions == {}
        assert peer.client.in_msgs == 0
        peer.world.finish_checks()
        assert peer.take() == VIOLATION

    def test_a_wrong_password_drops_what_waited(self, make_world: MakeWorld) -> None:
        peer = self.started(make_world, "wrong", b"SUB foo 1\r\nPING\r\n")
        peer.world.finish_checks()
        assert peer.take() == VIOLATION
        assert peer.reason == "Authentication Failure"
        assert peer.client.subscriptions == {}

    def test_a_client_that_leaves_meanwhile_is_forgotten(self, make_world: MakeWorld) -> None:
        peer = self.started(make_world, "secret", b"SUB foo 1\r\n")
        peer.connection.leave()
        peer.world.settle()
        peer.world.finish_checks()
        assert peer.reason == "Client Closed"
        assert peer.world.node.roster.open == {}
        assert peer.world.node.accounts.default.clients == {}

    def test_the_time_for_connect_does_not_run_meanwhile(self, make_world: MakeWorld) -> None:
        peer = self.started(make_world, "secret")
        peer.world.advance(60)
        assert peer.reason == ""

    @pytest.mark.parametrize(
        ("password", "stays"),
        [(HASHED, True), ("secret", True), ("x", False)],
        ids=["hashed", "plain", "changed"],
    )
    def test_a_reload_in_between_has_the_last_word(
        self, make_world: MakeWorld, password: str, stays: bool
    ) -> None:
        peer = self.started(make_world, "secret", b"PING\r\n")
        node = peer.world.node
        node.reload(replace(node.options, users=(UserOptions("u", password),)))
        peer.world.finish_checks()
        peer.world.finish_checks()
        assert (peer.reason == "") is stays
        assert peer.take().startswith(b"PONG\r\n" if stays else VIOLATION)

    def test_a_user_removed_in_between_is_not_let_in(self, make_world: MakeWorld) -> None:
        peer = self.started(make_world, "secret", b"SUB foo 1\r\n")
        node = peer.world.node
        node.reload(replace(node.options, users=(ALICE,)))
        peer.world.finish_checks()
        assert peer.take() == VIOLATION
        assert peer.client.subscriptions == {}

    def test_two_in_a_row(self, make_world: MakeWorld) -> None:
        again = b"CONNECT %b\r\nPING\r\n" % connect_document(user="u", password="secret")
        peer = self.started(make_world, "secret", again)
        peer.world.finish_checks()
        assert peer.take() == b""
        peer.world.finish_checks()
        assert peer.take().startswith(b"PONG\r\n")


class TestAuthTimeout:
    def test_closes_one_that_says_nothing(self, make_world: MakeWorld) -> None:
        world = make_world(users=(ALICE,), auth_timeout_s=2.0)
        peer = world.open()
        peer.ask(b"CONN")
        world.advance(1.9)
        assert peer.take() == b""
        world.advance(0.2)
        assert peer.take() == b"-ERR 'Authentication Timeout'\r\n"
        assert peer.reason == "Authentication Timeout"

    def test_leaves_one_that_connected(self, make_world: MakeWorld) -> None:
        world = make_world(users=(ALICE,), auth_timeout_s=2.0)
        peer = world.modern(user="alice", password="pa")
        world.advance(10)
        assert peer.reason == ""

    def test_there_is_none_on_an_open_server(self, world: World) -> None:
        peer = world.open()
        world.advance(60)
        assert peer.reason == ""
