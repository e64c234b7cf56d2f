"""The answers and announcements of a server on `$SYS.>`, and their receivers.

Documents were read off nats-server 2.15.1 under the same traffic.
"""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from headwater.server.configuration.options import (
    AccountOptions,
    Options,
    Permissions,
    ResponsePermission,
    SubjectPermission,
    UserOptions,
)
from headwater.server.connections import closing
from headwater.server.system.services import STATSZ_INTERVAL_S
from tests.kit.monitored_world import CORES, RSS_BYTES, monitored_world
from tests.kit.world import Peer, World

RESTRICTED = Permissions(
    publish=SubjectPermission(allow=("foo.>", "$SYS.REQ.USER.INFO"), deny=("foo.x",)),
    subscribe=SubjectPermission(allow=("bar.* q", "inbox")),
    allow_responses=ResponsePermission(max_msgs=3, ttl_s=10.0),
)
OPTIONS = Options(
    server_name="main",
    host="127.0.0.1",
    server_tags=("fast",),
    accounts=(
        AccountOptions(
            "A", (UserOptions("alice", "p", "A"), UserOptions("r", "p", "A", RESTRICTED))
        ),
        AccountOptions("B", (UserOptions("bob", "p", "B"),)),
        AccountOptions("$SYS", (UserOptions("root", "p", "$SYS"),)),
    ),
)


@pytest.fixture
def world() -> World:
    return monitored_world(OPTIONS)


@pytest.fixture
def root(world: World) -> Peer:
    """A client in the system account."""
    return world.modern(user="root", password="p")


def messages(data: bytes) -> list[tuple[str, Any]]:
    """Subject and document of every message in `data`."""
    found = []
    while data:
        line, _, rest = data.partition(b"\r\n")
        words = line.split()
        if words[0] != b"MSG":
            data = rest
            continue
        size = int(words[-1])
        found.append((words[1].decode(), json.loads(rest[:size])))
        data = rest[size + 2 :]
    return found


def request(peer: Peer, subject: str, body: bytes = b"") -> bytes:
    return peer.ask(
        b"SUB inbox 99\r\nPUB %b inbox %d\r\n%b\r\nUNSUB 99\r\n"
        % (subject.encode(), len(body), body)
    )


def reply(peer: Peer, subject: str, body: bytes = b"") -> Any:
    ((_, document),) = messages(request(peer, subject, body))
    return document


def listen(peer: Peer, subject: str = "$SYS.>") -> None:
    peer.ask(b"SUB %b 1\r\n" % subject.encode())


def no_responders(data: bytes) -> bool:
    return b"NATS/1.0 503" in data


class TestUserInfo:
    def test_every_user_learns_who_it_is(self, world: World) -> None:
        answer = reply(world.modern(user="alice", password="p"), "$SYS.REQ.USER.INFO")
        assert answer["data"] == {"user": "alice", "account": "A", "account_name": "A"}
        assert answer["server"] == {
            "name": "main",
            "host": "127.0.0.1",
            "id": world.node.server_id,
            "ver": "2.15.1",
            "tags": ["fast"],
            "feature_flags": {
                "js_ack_fc_v2": False,
                "js_api_reply_v2": False,
                "js_raft_delete_range": True,
                "js_snapshot_sources": False,
            },
            "jetstream": False,
            "flags": 0,
            "seq": 1,
            "time": "2026-01-02T03:04:05Z",
        }

    def test_a_user_with_permissions_learns_them(self, world: World) -> None:
        answer = reply(world.modern(user="r", password="p"), "$SYS.REQ.USER.INFO")
        assert answer["data"]["permissions"] == {
            "publish": {"allow": ["foo.>", "$SYS.REQ.USER.INFO"], "deny": ["foo.x"]},
            "subscribe": {"allow": ["bar.* q", "inbox"]},
            "responses": {"max": 3, "ttl": 10_000_000_000},
        }

    def test_without_users_everybody_is_nobody_in_the_global_account(self) -> None:
        answer = reply(monitored_world(Options()).modern(), "$SYS.REQ.USER.INFO")
        assert answer["data"] == {"user": "", "account": "$G", "account_name": "$G"}

    def test_a_system_user_asks_like_any_other(self, root: Peer) -> None:
        assert reply(root, "$SYS.REQ.USER.INFO")["data"]["account"] == "$SYS"

    def test_a_request_with_headers_is_answered(self, world: World) -> None:
        headers = b"NATS/1.0\r\nA: b\r\n\r\n"
        size = len(headers)
        peer = world.modern(user="alice", password="p")
        data = peer.ask(
            b"SUB inbox 1\r\nHPUB $SYS.REQ.USER.INFO inbox %d %d\r\n%b\r\n" % (size, size, headers)
        )
        assert len(messages(data)) == 1

    def test_nothing_happens_without_a_reply_subject(self, world: World) -> None:
        assert (
            world.modern(user="alice", password="p").ask(b"PUB $SYS.REQ.USER.INFO 0\r\n\r\n") == b""
        )

    def test_a_service_named_as_its_own_reply_is_asked_once(self, world: World) -> None:
        subject = b"$SYS.REQ.USER.INFO"
        peer = world.modern(user="alice", password="p")
        assert peer.ask(b"PUB %b %b 0\r\n\r\n" % (subject, subject)) == b""

    def test_there_is_no_service_without_a_system_account(self) -> None:
        world = monitored_world(Options(no_system_account=True))
        assert no_responders(request(world.modern(), "$SYS.REQ.USER.INFO"))
        assert world.node.accounts.default.index.count == 0


class TestOwnAccount:
    @pytest.mark.parametrize(
        "subject", ["$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.SERVER.PING.CONNZ"]
    )
    @pytest.mark.parametrize("body", [b"", b'{"acc":"B"}'])
    def test_a_user_sees_the_connections_of_its_account_only(
        self, world: World, subject: str, body: bytes
    ) -> None:
        world.modern(user="bob", password="p")
        alice = world.modern(user="alice", password="p")
        page = reply(alice, subject, body)["data"]
        assert [c["cid"] for c in page["connections"]] == [alice.client.cid]

    def test_a_user_sees_the_numbers_of_its_account_only(self, world: World) -> None:
        world.modern(user="bob", password="p")
        alice = world.modern(user="alice", password="p")
        page = reply(alice, "$SYS.REQ.ACCOUNT.PING.STATZ", b'{"accounts":["B"]}')["data"]
        assert [stat["acc"] for stat in page["account_statz"]] == ["A"]

    @pytest.mark.parametrize(
        "subject", ["$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.VARZ", "$SYS.REQ.ACCOUNT.B.CONNZ"]
    )
    def test_nobody_answers_what_is_not_theirs_to_ask(self, world: World, subject: str) -> None:
        assert no_responders(request(world.modern(user="alice", password="p"), subject))


class TestServerServices:
    @pytest.mark.parametrize(
        ("name", "key", "value"),
        [
            ("VARZ", "server_name", "main"),
            ("CONNZ", "num_connections", 1),
            ("SUBSZ", "limit", 1024),
            ("ACCOUNTZ", "system_account", "$SYS"),
            ("HEALTHZ", "status_code", 200),
            ("ROUTEZ", "num_routes", 0),
            ("GATEWAYZ", "outbound_gateways", {}),
            ("LEAFZ", "leafnodes", 0),
            ("JSZ", "disabled", True),
        ],
    )
    def test_every_page_can_be_asked_of_all_servers_and_of_this_one(
        self, world: World, root: Peer, name: str, key: str, value: object
    ) -> None:
        for target in ("PING", world.node.server_id):
            answer = reply(root, f"$SYS.REQ.SERVER.{target}.{name}")
            assert answer["data"][key] == value
            assert answer["server"]["name"] == "main"

    def test_another_server_is_not_this_one(self, root: Peer) -> None:
        assert no_responders(request(root, "$SYS.REQ.SERVER.OTHER.VARZ"))
        assert no_responders(request(root, "$SYS.REQ.SERVER.PING.NOPE"))

    def test_a_ping_is_answered_with_statistics(self, world: World, root: Peer) -> None:
        answer = reply(root, "$SYS.REQ.SERVER.PING")
        assert answer["statsz"] == {
            "start": "2026-01-02T03:04:05Z",
            "mem": RSS_BYTES,
            "cores": CORES,
            "cpu": 1.2,
            "connections": 1,
            "total_connections": 1,
            "active_accounts": 1,
            "subscriptions": sum(account.index.count for account in world.node.accounts.all()) + 1,
            "sent": {"msgs": 0, "bytes": 0},
            "sent_to_clients": {"msgs": 0, "bytes": 0},
            "received": {"msgs": 1, "bytes": 0},
            "received_from_clients": {"msgs": 1, "bytes": 0},
            "slow_consumers": 0,
            "active_servers": 1,
            "gomaxprocs": 1,
        }

    def test_a_server_can_be_asked_for_its_name_alone(self, world: World, root: Peer) -> None:
        expected = {"name": "main", "host": "127.0.0.1", "id": world.node.server_id}
        assert reply(root, "$SYS.REQ.SERVER.PING.IDZ") == expected

    @pytest.mark.parametrize(
        ("body", "answered"),
        [
            (b'{"server_name":"mai"}', True),
            (b'{"server_name":"mai","exact_match":true}', False),
            (b'{"server_name":"main","exact_match":true}', True),
            (b'{"server_name":"other"}', False),
            (b'{"host":"127"}', True),
            (b'{"cluster":"x"}', False),
            (b'{"tags":["FAST"]}', True),
            (b'{"tags":["fast","slow"]}', False),
            (b'{"domain":"hub"}', False),
            (b"null", True),
        ],
    )
    @pytest.mark.parametrize("subject", ["$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.HEALTHZ"])
    def test_only_servers_that_are_meant_answer_and_the_others_are_silent(
        self, root: Peer, subject: str, body: bytes, answered: bool
    ) -> None:
        data = request(root, subject, body)
        assert len(messages(data)) == answered
        assert not no_responders(data)

    @pytest.mark.parametrize("body", [b"{bad", b"[]", b'{"limit":"x"}', b"[" * 100_000])
    def test_a_request_that_does_not_parse_is_refused(self, root: Peer, body: bytes) -> None:
        answer = reply(root, "$SYS.REQ.SERVER.PING.CONNZ", body)
        assert answer["error"]["code"] == 400
        assert "data" not in answer

    def test_a_ping_that_does_not_parse_is_refused(self, root: Peer) -> None:
        assert reply(root, "$SYS.REQ.SERVER.PING", b"{")["error"]["code"] == 400

    @pytest.mark.parametrize(
        ("name", "body", "text"),
        [
            ("CONNZ", b'{"sort":"x"}', "invalid sorting option: x"),
            (
                "CONNZ",
                b'{"filter_subject":"foo"}',
                "filter by subject only valid with account filtering",
            ),
            (
                "SUBSZ",
                b'{"test":"a.>"}',
                "invalid test subject, must be valid publish subject: a.>",
            ),
            ("ACCOUNTZ", b'{"account":"NOPE"}', "Account NOPE does not exist"),
        ],
    )
    def test_a_request_that_makes_no_sense_is_refused(
        self, root: Peer, name: str, body: bytes, text: str
    ) -> None:
        answer = reply(root, f"$SYS.REQ.SERVER.PING.{name}", body)
        assert answer["error"] == {"code": 500, "description": text}
        assert answer["data"] is None

    def test_connections_can_be_chosen_by_what_they_listen_to(
        self, world: World, root: Peer
    ) -> None:
        alice = world.modern(user="alice", password="p")
        alice.send(b"SUB foo.* 1\r\n")
        world.modern(user="alice", password="p").send(b"SUB bar 1\r\n")
        body = b'{"acc":"A","filter_subject":"foo.>","subscriptions":true}'
        page = reply(root, "$SYS.REQ.SERVER.PING.CONNZ", body)["data"]
        assert [c["subscriptions_list"] for c in page["connections"]] == [["foo.*"]]
        assert page["total"] == 2

    def test_health_can_be_asked_in_the_words_of_http(self, root: Peer) -> None:
        answer = reply(root, "$SYS.REQ.SERVER.PING.HEALTHZ", b'{"stream":"s","details":true}')
        assert answer["data"]["errors"][0]["type"] == "BAD_REQUEST"

    def test_a_client_can_be_kicked(self, world: World, root: Peer) -> None:
        alice = world.modern(user="alice", password="p")
        subject = f"$SYS.REQ.SERVER.{world.node.server_id}.KICK"
        answer = reply(root, subject, b'{"cid":%d}' % alice.client.cid)
        assert set(answer) == {"server"}
        assert alice.reason == closing.KICKED
        error = reply(root, subject, b'{"cid":%d}' % alice.client.cid)["error"]
        assert error == {"code": 500, "description": "no such client or leafnode id"}
        assert messages(request(root, subject, b"nonsense")) == []

    def test_a_client_can_kick_itself(self, world: World, root: Peer) -> None:
        subject = f"$SYS.REQ.SERVER.{world.node.server_id}.KICK"
        assert set(reply(root, subject, b'{"cid":%d}' % root.client.cid)) == {"server"}
        assert root.reason == closing.KICKED


class TestAccountServices:
    def test_connections_and_subscriptions_of_one_account(self, world: World, root: Peer) -> None:
        alice = world.modern(user="alice", password="p")
        alice.send(b"SUB foo 1\r\n")
        page = reply(root, "$SYS.REQ.ACCOUNT.A.CONNZ")["data"]
        assert [c["cid"] for c in page["connections"]] == [alice.client.cid]
        page = reply(root, "$SYS.REQ.ACCOUNT.A.SUBSZ")["data"]
        assert {s["account"] for s in page["subscriptions_list"]} == {"A"}
        assert "foo" in [s["subject"] for s in page["subscriptions_list"]]

    def test_one_account_in_full(self, root: Peer) -> None:
        assert reply(root, "$SYS.REQ.ACCOUNT.A.INFO")["data"]["account_name"] == "A"
        error = reply(root, "$SYS.REQ.ACCOUNT.NOPE.INFO")["error"]
        assert error == {"code": 500, "description": "Account NOPE does not exist"}

    def test_numbers_of_an_account_without_connections_are_not_sent_unless_asked_for(
        self, root: Peer
    ) -> None:
        assert messages(request(root, "$SYS.REQ.ACCOUNT.A.STATZ")) == []
        page = reply(root, "$SYS.REQ.ACCOUNT.A.STATZ", b'{"include_unused":true}')["data"]
        assert [stat["acc"] for stat in page["account_statz"]] == ["A"]

    def test_numbers_of_all_accounts(self, root: Peer) -> None:
        page = reply(root, "$SYS.REQ.ACCOUNT.PING.STATZ", b'{"include_unused":true}')["data"]
        assert [stat["acc"] for stat in page["account_statz"]] == ["$G", "A", "B", "$SYS"]

    def test_there_is_no_jetstream_yet(self, root: Peer) -> None:
        error = reply(root, "$SYS.REQ.ACCOUNT.A.JSZ")["error"]
        assert error == {"code": 500, "description": "jetstream not enabled"}
        assert reply(root, "$SYS.REQ.ACCOUNT.A.LEAFZ")["data"]["leafs"] == []


class TestEvents:
    def test_a_connect(self, world: World, root: Peer) -> None:
        listen(root, "$SYS.ACCOUNT.*.CONNECT")
        alice = world.modern(user="alice", password="p", name="n", lang="python3", version="2.0")
        ((subject, event),) = messages(root.take())
        assert subject == "$SYS.ACCOUNT.A.CONNECT"
        assert event["type"] == "io.nats.server.advisory.v1.client_connect"
        assert re.fullmatch("[0-9A-Za-z]{22}", event["id"])
        assert list(event) == ["type", "id", "timestamp", "server", "client"]
        assert event["client"] == {
            "start": "2026-01-02T03:04:05Z",
            "host": "127.0.0.1",
            "id": alice.client.cid,
            "acc": "A",
            "user": "alice",
            "name": "n",
            "lang": "python3",
            "ver": "2.0",
            "name_tag": "A",
            "kind": "Client",
            "client_type": "nats",
        }

    def test_a_disconnect(self, world: World, root: Peer) -> None:
        alice = world.modern(user="alice", password="p")
        alice.send(b"SUB foo 1\r\nPUB foo 3\r\nabc\r\n")
        listen(root, "$SYS.ACCOUNT.*.DISCONNECT")
        world.advance(2)
        root.take()
        alice.connection.leave()
        world.settle()
        ((subject, event),) = messages(root.take())
        assert subject == "$SYS.ACCOUNT.A.DISCONNECT"
        assert event["type"] == "io.nats.server.advisory.v1.client_disconnect"
        assert event["timestamp"] == event["client"]["stop"] == "2026-01-02T03:04:07Z"
        assert event["sent"] == event["received"] == {"msgs": 1, "bytes": 3}
        assert event["reason"] == "Client Closed"

    def test_credentials_that_were_refused(self, world: World, root: Peer) -> None:
        listen(root)
        world.modern(user="eve", password="x")
        events = messages(root.take())
        server = f"$SYS.SERVER.{world.node.server_id}"
        assert [subject for subject, _ in events] == [
            f"{server}.CLIENT.AUTH.ERR",
            "$SYS.ACCOUNT.$G.DISCONNECT",
        ]
        for _, event in events:
            assert event["reason"] == "Authentication Failure"
            assert (event["client"]["user"], event["client"]["acc"]) == ("eve", "$G")

    def test_how_many_connections_an_account_has_if_asked(self, world: World, root: Peer) -> None:
        world.modern(user="alice", password="p")
        subject = "$SYS.REQ.ACCOUNT.A.CONNS"
        for body in (b"", b'{"acc":"A"}'):
            event = reply(root, subject, body)
            assert event["type"] == "io.nats.server.advisory.v1.account_connections"
            assert (event["acc"], event["conns"], event["server"]["name"]) == ("A", 1, "main")
        for other, body in (
            (subject, b'{"acc":"B"}'),
            (subject, b"{"),
            (subject[:-7] + "B.CONNS", b""),
        ):
            assert messages(request(root, other, body)) == []

    def test_how_many_connections_an_account_has(self, world: World, root: Peer) -> None:
        listen(root)
        alice = world.modern(user="alice", password="p")
        alice.connection.leave()
        world.settle()
        events = [
            (subject, event) for subject, event in messages(root.take()) if "CONNS" in subject
        ]
        names = ["$SYS.SERVER.ACCOUNT.A.CONNS", "$SYS.ACCOUNT.A.SERVER.CONNS"]
        assert [subject for subject, _ in events] == names * 2
        assert [event["conns"] for _, event in events] == [1, 1, 0, 0]
        assert events[0][1]["id"] == events[1][1]["id"] != events[2][1]["id"]
        assert events[0][1]["type"] == "io.nats.server.advisory.v1.account_connections"

    def test_the_global_account_has_no_such_event(self) -> None:
        options = Options(
            users=(UserOptions("u", "p"),),
            accounts=(AccountOptions("$SYS", (UserOptions("root", "p", "$SYS"),)),),
        )
        world = monitored_world(options)
        root = world.modern(user="root", password="p")
        listen(root)
        world.modern(user="u", password="p")
        assert [subject for subject, _ in messages(root.take())] == ["$SYS.ACCOUNT.$G.CONNECT"]

    def test_what_a_server_says_is_numbered(self, world: World, root: Peer) -> None:
        listen(root)
        world.modern(user="alice", password="p")
        numbers = [event["server"]["seq"] for _, event in messages(root.take())]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))

    def test_a_lame_duck_and_a_shutdown_are_announced(self, world: World, root: Peer) -> None:
        listen(root, "$SYS.SERVER.>")
        world.node.announce_lame_duck()
        world.settle()
        ((subject, event),) = messages(root.take())
        assert subject == f"$SYS.SERVER.{world.node.server_id}.LAMEDUCK"
        assert event["id"] == world.node.server_id
        world.node.close_all(closing.SERVER_SHUTDOWN)
        world.settle()
        assert [subject for subject, _ in messages(root.take())] == [
            f"$SYS.SERVER.{world.node.server_id}.SHUTDOWN"
        ]

    def test_statistics_come_at_intervals(self, world: World, root: Peer) -> None:
        listen(root, "$SYS.SERVER.*.STATSZ")
        world.advance(STATSZ_INTERVAL_S - 1)
        assert messages(root.take()) == []
        world.advance(1 + STATSZ_INTERVAL_S)
        events = messages(root.take())
        assert [event["statsz"]["connections"] for _, event in events] == [1, 1]

    def test_statistics_can_be_called_for(self, world: World, root: Peer) -> None:
        listen(root, "$SYS.SERVER.*.STATSZ")
        events = messages(root.ask(b"PUB $SYS.REQ.SERVER.PING 0\r\n\r\n"))
        assert [subject for subject, _ in events] == [f"$SYS.SERVER.{world.node.server_id}.STATSZ"]

    def test_a_server_without_operators_sets_no_timer(self, world: World) -> None:
        world.modern(user="alice", password="p").connection.leave()
        world.settle()
        assert world.scheduler.waiting == 0

    def test_the_timer_ends_with_the_last_operator(self, world: World, root: Peer) -> None:
        root.connection.leave()
        world.settle()
        assert world.scheduler.waiting == 1
        world.advance(STATSZ_INTERVAL_S)
        assert world.scheduler.waiting == 0

    def test_the_timer_ends_with_the_server(self, world: World, root: Peer) -> None:
        world.node.close_all(closing.SERVER_SHUTDOWN)
        world.settle()
        assert world.scheduler.waiting == 0

    def test_events_stay_in_the_system_account(self, world: World) -> None:
        alice = world.modern(user="alice", password="p")
        listen(alice, ">")
        world.modern(user="root", password="p")
        world.modern(user="alice", password="p")
        assert messages(alice.take()) == []


class TestBeingInvisible:
    def test_the_servers_own_clients_are_no_connections(self, world: World) -> None:
        assert world.node.roster.open == {}
        assert world.node.roster.total_connections == 0
        assert all(not account.clients for account in world.node.accounts.all())

    def test_a_service_is_no_subscription_of_the_client(self, world: World) -> None:
        alice = world.modern(user="alice", password="p")
        request(alice, "$SYS.REQ.USER.INFO")
        assert alice.client.subscriptions == {}
        assert (alice.client.in_msgs, alice.client.out_msgs) == (1, 1)

    def test_a_client_may_listen_to_requests_without_hindering_them(self, world: World) -> None:
        alice, spy = (world.modern(user="alice", password="p") for _ in range(2))
        spy.send(b"SUB $SYS.REQ.> 1\r\n")
        assert reply(alice, "$SYS.REQ.USER.INFO")["data"]["user"] == "alice"
        assert spy.take().startswith(b"MSG $SYS.REQ.USER.INFO 1 inbox 0\r\n")


class TestReload:
    def test_accounts_that_come_and_go_have_their_services_while_they_are_there(
        self, world: World
    ) -> None:
        node = world.node
        gone = node.accounts.get("B")
        assert gone is not None
        carol = AccountOptions("C", (UserOptions("carol", "p", "C"),))
        node.reload(replace(OPTIONS, accounts=(OPTIONS.accounts[0], OPTIONS.accounts[2], carol)))
        assert node.accounts.get("B") is None
        assert gone.index.count == 0
        peer = world.modern(user="carol", password="p")
        assert reply(peer, "$SYS.REQ.USER.INFO")["data"]["account"] == "C"

    def test_nothing_is_offered_twice(self, world: World) -> None:
        before = [account.index.count for account in world.node.accounts.all()]
        world.node.reload(OPTIONS)
        assert [account.index.count for account in world.node.accounts.all()] == before

    def test_services_follow_the_system_account(self) -> None:
        accounts = tuple(
            AccountOptions(name, (UserOptions(name.lower(), "p", name),)) for name in ("A", "B")
        )
        options = Options(accounts=accounts, system_account="A")
        world = monitored_world(options)
        world.node.reload(replace(options, system_account="B"))
        assert no_responders(request(world.modern(user="a", password="p"), "$SYS.REQ.SERVER.PING"))
        assert "statsz" in reply(world.modern(user="b", password="p"), "$SYS.REQ.SERVER.PING")
