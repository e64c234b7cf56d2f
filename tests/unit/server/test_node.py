"""The life of a client: handshake, liveness, limits, and what a reload does to it."""

from dataclasses import replace

import bcrypt
import msgspec
import pytest

from headwater.base.clock import NS_PER_S
from headwater.server.configuration.options import (
    AccountOptions,
    Options,
    Permissions,
    SubjectPermission,
    UserOptions,
)
from tests.kit.world import Peer, World, connect_document
from tests.unit.server.conftest import MakeWorld

# The cheapest cost bcrypt has; a check takes a millisecond.
HASHED = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()

ALICE = UserOptions("alice", "pa")
VIOLATION = b"-ERR 'Authorization Violation'\r\n"
UNKNOWN = b"-ERR 'Unknown Protocol Operation'\r\n"


def infos(data: bytes) -> list[dict[str, object]]:
    lines = [line for line in data.split(b"\r\n") if line.startswith(b"INFO ")]
    return [msgspec.json.decode(line[5:]) for line in lines]


class TestFirstInfo:
    def test_tells_what_clients_need(self, world: World) -> None:
        peer = world.open()
        [info] = infos(peer.take())
        assert info["server_id"] == info["server_name"] == world.node.server_id
        assert info["version"] == "2.15.1"
        expected: dict[str, object] = {
            "proto": 1,
            "headers": True,
            "max_payload": 1048576,
            "client_id": peer.client.cid,
            "client_ip": "127.0.0.1",
        }
        assert expected.items() <= info.items()
        assert not {"auth_required", "connect_info", "ldm"} & info.keys()

    def test_no_two_clients_have_the_same_id(self, world: World) -> None:
        ids = [infos(world.open().take())[0]["client_id"] for _ in range(3)]
        assert ids == [peer.cid for peer in world.node.roster.open.values()]
        assert len(set(ids)) == 3

    def test_says_that_credentials_are_needed(self, make_world: MakeWorld) -> None:
        assert infos(make_world(users=(ALICE,)).open().take())[0]["auth_required"] is True
        assert infos(make_world(token="t").open().take())[0]["auth_required"] is True

    def test_but_not_where_somebody_stands_in(self, make_world: MakeWorld) -> None:
        world = make_world(users=(ALICE,), no_auth_user="alice")
        assert "auth_required" not in infos(world.open().take())[0]

    def test_a_name_and_a_payload_of_ones_own(self, make_world: MakeWorld) -> None:
        world = make_world(server_name="mine", max_payload=100, no_header_support=True)
        [info] = infos(world.open().take())
        assert (info["server_name"], info["max_payload"], info["headers"]) == ("mine", 100, False)


# The first thing a client says, what an open server answers, and whether that closes it.
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


class TestSecondInfo:
    def test_follows_the_first_pong_only(self, world: World) -> None:
        peer = world.modern()
        answer = peer.ask(b"PING\r\n")
        assert answer.startswith(b"PONG\r\nINFO ")
        [info] = infos(answer)
        assert (info["connect_info"], info["remote_account"]) == (True, "$G")
        assert peer.ask(b"PING\r\n") == b"PONG\r\n"

    def test_is_not_sent_to_those_who_can_not_read_it(self, world: World) -> None:
        assert world.modern(protocol=0).ask(b"PING\r\n") == b"PONG\r\n"

    def test_a_ping_before_connect_does_not_use_it_up(self, world: World) -> None:
        peer = world.open()
        assert peer.ask(b"PING\r\n") == b"PONG\r\n"
        assert len(infos(peer.ask(b'CONNECT {"protocol":1}\r\nPING\r\n'))) == 1

    def test_names_the_account(self, make_world: MakeWorld) -> None:
        admin = UserOptions("admin", "p", account_name="OPS")
        world = make_world(accounts=(AccountOptions("OPS", (admin,)),), system_account="OPS")
        [info] = infos(world.modern(user="admin", password="p").ask(b"PING\r\n"))
        assert (info["remote_account"], info["acc_is_sys"]) == ("OPS", True)


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


class TestSubscribing:
    @pytest.mark.parametrize("subject", [b"foo..bar", b".", b"foo.", b"foo.>.bar", b">.foo"])
    def test_what_is_no_pattern_is_refused_and_the_client_stays(
        self, world: World, subject: bytes
    ) -> None:
        peer = world.modern(verbose=True)
        answer = peer.ask(b"SUB %b 1\r\nSUB ok 1\r\n" % subject)
        assert answer == b"-ERR 'Invalid Subject'\r\n+OK\r\n"

    def test_a_sid_in_use_keeps_its_subscription(self, world: World) -> None:
        peer = world.modern(verbose=True)
        assert peer.ask(b"SUB foo 1\r\nSUB bar 1\r\nSUB no..subject 1\r\n") == b"+OK\r\n" * 3
        answer = peer.ask(b"PUB bar 1\r\nx\r\nPUB foo 1\r\nx\r\n")
        assert answer == b"+OK\r\n+OK\r\nMSG foo 1 1\r\nx\r\n"

    def test_unsubscribing_what_is_not_there(self, world: World) -> None:
        assert world.modern(verbose=True).ask(b"UNSUB 9\r\nUNSUB 9 5\r\n") == b"+OK\r\n" * 2

    @pytest.mark.parametrize("limit", [b"0", b"x", b"-1", b"99999999999"])
    def test_a_limit_that_is_none_ends_it_at_once(self, world: World, limit: bytes) -> None:
        peer = world.modern()
        assert peer.ask(b"SUB foo 1\r\nUNSUB 1 %b\r\nPUB foo 1\r\nx\r\n" % limit) == b""

    def test_the_queue_of_servers_is_closed_to_clients(self, world: World) -> None:
        text = b'-ERR \'Permissions Violation for Subscription to "foo" using queue "_sys_"\'\r\n'
        assert world.modern().ask(b"SUB foo _sys_ 1\r\n") == text

    def test_refusals_name_subject_and_queue(self, make_world: MakeWorld) -> None:
        user = replace(ALICE, permissions=Permissions(subscribe=SubjectPermission(deny=("foo",))))
        world = make_world(users=(user,))
        peer = world.modern(user="alice", password="pa")
        assert peer.ask(b"SUB foo 1\r\nSUB foo q 2\r\nSUB bar 3\r\n") == (
            b"-ERR 'Permissions Violation for Subscription to \"foo\"'\r\n"
            b'-ERR \'Permissions Violation for Subscription to "foo" using queue "q"\'\r\n'
        )
        assert list(peer.client.subscriptions) == [b"3"]

    def test_max_subscriptions(self, make_world: MakeWorld) -> None:
        peer = make_world(max_subscriptions=2).modern()
        full = b"-ERR 'maximum subscriptions exceeded'\r\n"
        assert peer.ask(b"SUB a 1\r\nSUB b 2\r\n") == b""
        # Also for a sid that is in use.
        assert peer.ask(b"SUB c 3\r\nSUB a 1\r\n") == full * 2
        assert peer.ask(b"UNSUB 1\r\nSUB c 3\r\n") == b""
        assert peer.reason == ""

    def test_max_subscription_tokens(self, make_world: MakeWorld) -> None:
        peer = make_world(max_subscription_tokens=2).modern()
        text = b"-ERR 'Permissions Violation for Subscription to \"a.b.c\", too many tokens'\r\n"
        assert peer.ask(b"SUB a.b 1\r\nSUB a.b.c 2\r\n") == text


class TestConnections:
    def test_one_too_many_is_told_and_closed(self, make_world: MakeWorld) -> None:
        world = make_world(max_connections=2)
        first, _ = world.modern(), world.modern()
        third = world.open()
        answer = third.take()
        assert len(infos(answer)) == 1
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


class TestLameDuck:
    def test_clients_are_told_once_they_have_seen_a_pong(self, world: World) -> None:
        ready, fresh, old = world.modern(), world.modern(), world.modern(protocol=0)
        for peer in (ready, old):
            peer.ask(b"PING\r\n")
        world.node.announce_lame_duck()
        world.settle()
        [info] = infos(ready.take())
        assert (info["ldm"], info["client_id"]) == (True, ready.client.cid)
        assert "connect_info" not in info
        assert fresh.take() == b""
        assert old.take() == b""


class TestReload:
    def reload(self, world: World, **changes: object) -> None:
        options = replace(world.node.options, **changes)  # type: ignore[arg-type]
        options.validate()
        world.node.reload(options)
        world.settle()

    def test_a_user_who_is_gone_goes(self, make_world: MakeWorld) -> None:
        world = make_world(users=(ALICE, UserOptions("bob", "pb")))
        alice = world.modern(user="alice", password="pa")
        bob = world.modern(user="bob", password="pb")
        self.reload(world, users=(ALICE,))
        # Without a word, like one who has moved to another account.
        assert bob.take() == b""
        assert (bob.reason, bob.connection.ended) == ("Client Closed", "closed")
        assert alice.ask(b"PING\r\n").startswith(b"PONG")

    @pytest.mark.parametrize("stays", [True, False])
    def test_a_changed_password(self, make_world: MakeWorld, stays: bool) -> None:
        world = make_world(users=(ALICE,))
        peer = world.modern(user="alice", password="pa")
        self.reload(world, users=(UserOptions("alice", "pa" if stays else "new"),))
        assert (peer.reason == "") is stays

    @pytest.mark.parametrize(("password", "stays"), [("secret", True), ("other", False)])
    def test_a_password_that_is_now_hashed(
        self, make_world: MakeWorld, password: str, stays: bool
    ) -> None:
        world = make_world(users=(UserOptions("alice", password),))
        peer = world.modern(user="alice", password=password)
        self.reload(world, users=(UserOptions("alice", HASHED),))
        world.finish_checks()
        assert (peer.reason == "") is stays

    def test_of_two_in_a_row_the_second_counts(self, make_world: MakeWorld) -> None:
        world = make_world(users=(UserOptions("alice", "secret"),))
        peer = world.modern(user="alice", password="secret")
        rights = Permissions(SubjectPermission(deny=("foo",)))
        self.reload(world, users=(UserOptions("alice", HASHED),))
        self.reload(world, users=(UserOptions("alice", HASHED, permissions=rights),))
        # Other threads may finish in any order.
        world.scheduler.offloaded.reverse()
        world.finish_checks()
        assert b"Permissions Violation" in peer.ask(b"PUB foo 1\r\nx\r\n")

    def test_a_shorter_control_line_holds_for_lines_read_before(self, world: World) -> None:
        peer = world.modern()
        line = b"PUB %b 1\r\nx\r\n" % (b"x" * 100)
        peer.send(line)
        self.reload(world, max_control_line=50)
        assert b"maximum control line exceeded" in peer.ask(line)

    def test_a_hashed_token_that_did_not_change(self, make_world: MakeWorld) -> None:
        world = make_world(token=HASHED)
        peer = world.open()
        peer.send(b"CONNECT %b\r\n" % connect_document(auth_token="secret"))
        world.finish_checks()
        self.reload(world, max_subscriptions=10)
        world.finish_checks()
        assert peer.reason == ""

    def test_credentials_that_are_asked_for_now(self, world: World) -> None:
        anonymous = world.modern()
        self.reload(world, users=(ALICE,))
        assert anonymous.take() == VIOLATION
        assert world.modern(user="alice", password="pa").reason == ""

    def test_a_user_in_another_account_has_to_come_again(self, make_world: MakeWorld) -> None:
        world = make_world(users=(ALICE,))
        peer = world.modern(user="alice", password="pa")
        moved = replace(ALICE, account_name="A")
        self.reload(world, users=(), accounts=(AccountOptions("A", (moved,)),))
        assert peer.take() == b""
        assert (peer.reason, peer.connection.ended) == ("Client Closed", "closed")

    def test_subscriptions_no_longer_allowed_end(self, make_world: MakeWorld) -> None:
        world = make_world(users=(ALICE,))
        peer = world.modern(user="alice", password="pa")
        peer.ask(b"SUB foo 1\r\nSUB foo q 2\r\nSUB bar 3\r\nSUB bar.* 4\r\n")
        rights = Permissions(subscribe=SubjectPermission(deny=("foo", "bar.x")))
        self.reload(world, users=(replace(ALICE, permissions=rights),))
        text = b'-ERR \'Permissions Violation for Subscription to "foo"%b (sid "%b")\'\r\n'
        assert peer.take() == text % (b"", b"1") + text % (b' using queue "q"', b"2")
        answer = peer.ask(b"PUB foo 1\r\nx\r\nPUB bar 1\r\nx\r\nPUB bar.x 1\r\nx\r\n")
        assert answer == b"MSG bar 3 1\r\nx\r\n"

    def test_new_rights_to_publish_hold_at_once(self, make_world: MakeWorld) -> None:
        world = make_world(users=(ALICE,))
        peer = world.modern(user="alice", password="pa")
        assert peer.ask(b"PUB foo 1\r\nx\r\n") == b""
        rights = Permissions(publish=SubjectPermission(deny=("foo",)))
        self.reload(world, users=(replace(ALICE, permissions=rights),))
        assert b"Permissions Violation" in peer.ask(b"PUB foo 1\r\nx\r\n" * 3)
        self.reload(world, users=(ALICE,))
        assert peer.ask(b"PUB foo 1\r\nx\r\n" * 3) == b""

    def test_limits_hold_at_once(self, make_world: MakeWorld) -> None:
        world = make_world()
        peer = world.modern()
        peer.ask(b"PUB foo 5\r\nhello\r\n" * 3)
        self.reload(world, max_payload=4)
        answer = peer.ask(b"PUB foo 5\r\nhello\r\n")
        assert answer == b"-ERR 'Maximum Payload Violation'\r\n"

    def test_max_pending_holds_at_once(self, make_world: MakeWorld) -> None:
        world = make_world()
        slow = world.modern()
        slow.send(b"SUB foo 1\r\n")
        slow.connection.stop_reading()
        self.reload(world, max_pending=100, max_payload=100)
        world.modern().send(b"PUB foo 90\r\n%b\r\n" % (b"x" * 90))
        assert slow.reason == "Slow Consumer (Pending Bytes)"

    def test_fewer_connections(self, make_world: MakeWorld) -> None:
        world = make_world()
        peers = [world.modern() for _ in range(5)]
        self.reload(world, max_connections=3)
        closed = [peer for peer in peers if peer.reason]
        assert len(closed) == 2
        assert all(p.take() == b"-ERR 'maximum connections exceeded'\r\n" for p in closed)

    @pytest.mark.parametrize("users", [(), (ALICE,)])
    def test_one_that_has_not_connected_yet_has_shown_nothing(
        self, make_world: MakeWorld, users: tuple[UserOptions, ...]
    ) -> None:
        world = make_world(users=users)
        peer = world.open()
        peer.take()
        self.reload(world, users=(UserOptions("bob", "pb"),))
        assert peer.take() == VIOLATION

    def test_one_that_has_not_connected_to_an_open_server_stays(self, world: World) -> None:
        peer = world.open()
        self.reload(world, max_payload=100)
        assert peer.ask(b"PING\r\n") == b"PONG\r\n"

    def test_a_new_limit_is_not_announced(self, world: World) -> None:
        peer = world.modern()
        peer.ask(b"PING\r\n")
        self.reload(world, max_payload=100)
        assert peer.take() == b""
        assert infos(world.open().take())[0]["max_payload"] == 100
