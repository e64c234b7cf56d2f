"""The monitoring port of a whole node: paths, parameters, and what nats-server 2.15.1 answers.

Texts, names, order and status codes were read off nats-server; the differential tests compare whole
documents with a running one.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from headwater.runtime.sockets.http import HttpResponse
from headwater.server.configuration.options import AccountOptions, Options, UserOptions
from headwater.server.monitoring.http import Monitor
from tests.kit.monitored_world import CORES, RSS_BYTES, monitored_world
from tests.kit.world import Peer

ACCOUNTS = (
    AccountOptions("A", (UserOptions("alice", "pa", "A"), UserOptions("adam", "pa", "A"))),
    AccountOptions("B", (UserOptions("bob", "pb", "B"),)),
)

VARZ_FIELDS = [
    "server_id",
    "server_name",
    "version",
    "proto",
    "go",
    "host",
    "port",
    "max_connections",
    "ping_interval",
    "ping_max",
    "http_host",
    "http_port",
    "http_base_path",
    "https_port",
    "auth_timeout",
    "max_control_line",
    "max_payload",
    "max_pending",
    "cluster",
    "gateway",
    "leaf",
    "mqtt",
    "websocket",
    "jetstream",
    "tls_timeout",
    "write_deadline",
    "start",
    "now",
    "uptime",
    "mem",
    "cores",
    "gomaxprocs",
    "cpu",
    "connections",
    "total_connections",
    "routes",
    "remotes",
    "leafnodes",
    "in_msgs",
    "in_bytes",
    "in_client_msgs",
    "in_client_bytes",
    "out_msgs",
    "out_bytes",
    "out_client_msgs",
    "out_client_bytes",
    "slow_consumers",
    "stale_connections",
    "stalled_clients",
    "subscriptions",
    "http_req_stats",
    "config_load_time",
    "config_digest",
    "feature_flags",
    "system_account",
    "slow_consumer_stats",
    "stale_connection_stats",
    "disk_io_wait_stats",
    "headwater",
]


class Site:
    """A node and its monitoring port."""

    def __init__(self, options: Options | None = None) -> None:
        self.world = monitored_world(options)
        self.monitor = Monitor(self.world.node.facts, self.world.node.log)

    def get(self, target: str) -> HttpResponse:
        return self.monitor.respond(target)

    def page(self, target: str) -> Any:
        response = self.get(target)
        assert (response.status, response.content_type) == (200, "application/json")
        return json.loads(response.body)

    def connections(self, query: str = "") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.page(f"/connz?{query}")["connections"]
        return found

    def cids(self, query: str) -> list[int]:
        return [connection["cid"] for connection in self.connections(query)]

    def refusal(self, target: str) -> str:
        response = self.get(target)
        assert (response.status, response.content_type) == (400, "text/plain; charset=utf-8")
        return response.body.decode()


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def shared() -> Site:
    """A server with two accounts."""
    return Site(Options(accounts=ACCOUNTS))


class TestPaths:
    def test_the_root_is_a_page_with_links(self, site: Site) -> None:
        response = site.get("/")
        assert (response.status, response.content_type) == (200, "text/html; charset=utf-8")
        for path in ("/varz", "/connz", "/subsz", "/healthz", "/jsz"):
            assert f'href="{path}"'.encode() in response.body

    def test_a_server_name_cannot_write_html(self) -> None:
        body = Site(Options(server_name="<script>")).get("/").body
        assert b"<script>" not in body
        assert b"&lt;script&gt;" in body

    @pytest.mark.parametrize("target", ["/nope", "/varz/", "/VARZ", "/varz%20", "varz", "*", ""])
    def test_an_unknown_path_is_not_found(self, site: Site, target: str) -> None:
        response = site.get(target)
        assert response[:3] == (404, "text/plain; charset=utf-8", b"404 page not found\n")
        assert ("X-Content-Type-Options", "nosniff") in response.headers

    @pytest.mark.parametrize("target", ["/%76arz", "http://host:8222/varz", "/varz?callback=f"])
    def test_other_ways_to_write_a_path(self, site: Site, target: str) -> None:
        assert site.page(target)["proto"] == 1

    @pytest.mark.parametrize(
        ("target", "location"),
        [("//varz", "/varz"), ("/a/../varz?x=1", "/varz?x=1"), ("/./connz/", "/connz/")],
    )
    def test_a_roundabout_path_is_redirected(self, site: Site, target: str, location: str) -> None:
        response = site.get(target)
        assert response.status == 307
        assert ("Location", location) in response.headers

    def test_every_document_may_be_read_by_scripts_from_anywhere_and_is_dated(
        self, site: Site
    ) -> None:
        headers = site.get("/healthz").headers
        assert ("Access-Control-Allow-Origin", "*") in headers
        assert ("Date", "Fri, 02 Jan 2026 03:04:05 GMT") in headers

    @pytest.mark.parametrize("base", ["/nats", "nats", "/nats/"])
    def test_a_base_path_stands_before_every_path(self, base: str) -> None:
        site = Site(Options(http_base_path=base))
        assert site.page("/nats/varz")["http_req_stats"] == {"/varz": 1}
        assert b'href="/nats/varz"' in site.get("/nats").body
        for target in ("/", "/varz", "/nats/", "/natsvarz", "/nats/nope"):
            assert site.get(target).status == 404, target

    def test_there_is_no_raft_yet(self, site: Site) -> None:
        assert site.get("/raftz")[:3] == (
            404,
            "text/plain; charset=utf-8",
            b"No Raft nodes registered",
        )

    @pytest.mark.parametrize(
        ("target", "text"),
        [
            ("/connz?subs=x", "boolean for 'subs': strconv.ParseBool: parsing \"x\""),
            ("/connz?auth=yes", "boolean for 'auth': strconv.ParseBool: parsing \"yes\""),
            ("/connz?offset=1.5", "int for 'offset': strconv.Atoi: parsing \"1.5\""),
            ("/connz?limit=x", "int for 'limit': strconv.Atoi: parsing \"x\""),
            ("/connz?cid=-1", "uint64 for 'cid': strconv.ParseUint: parsing \"-1\""),
            ("/subsz?subs=detail", "boolean for 'subs': strconv.ParseBool: parsing \"detail\""),
            ("/accstatz?unused=x", "boolean for 'unused': strconv.ParseBool: parsing \"x\""),
            ("/routez?subs=x", "boolean for 'subs': strconv.ParseBool: parsing \"x\""),
            ("/gatewayz?accs=x", "boolean for 'accs': strconv.ParseBool: parsing \"x\""),
            ("/leafz?subs=x", "boolean for 'subs': strconv.ParseBool: parsing \"x\""),
            ("/jsz?raft=x", "boolean for 'raft': strconv.ParseBool: parsing \"x\""),
            ("/ipqueuesz?all=x", "boolean for 'all': strconv.ParseBool: parsing \"x\""),
            ("/healthz?details=x", "boolean for 'details': strconv.ParseBool: parsing \"x\""),
        ],
    )
    def test_a_parameter_that_does_not_parse_is_refused(
        self, site: Site, target: str, text: str
    ) -> None:
        assert site.refusal(target) == f"Error decoding {text}: invalid syntax"


class TestVarz:
    def test_fields_come_in_nats_servers_order(self, site: Site) -> None:
        assert list(site.page("/varz")) == VARZ_FIELDS

    def test_it_is_indented_by_two(self, site: Site) -> None:
        assert site.get("/varz").body.startswith(b'{\n  "server_id": "N')

    def test_identity_limits_and_machine(self, site: Site) -> None:
        site.world.advance(123)
        page = site.page("/varz")
        assert page["server_id"] == page["server_name"] == site.world.node.server_id
        assert page["start"] == page["config_load_time"] == "2026-01-02T03:04:05Z"
        assert page["now"] == "2026-01-02T03:06:08Z"
        assert page["uptime"] == "2m3s"
        assert (page["mem"], page["cores"], page["cpu"]) == (RSS_BYTES, CORES, 1.2)
        assert page["ping_interval"] == 120_000_000_000
        assert page["write_deadline"] == 10_000_000_000
        assert page["cluster"] == page["jetstream"] == {}
        assert page["system_account"] == "$SYS"

    def test_what_is_only_shown_when_set(self) -> None:
        options = Options(
            server_tags=("b", "a"),
            server_metadata={"z": "1", "a": "2"},
            max_subscriptions=7,
            username="u",
            password="p",
            auth_timeout_s=1.5,
            no_system_account=True,
        )
        page = Site(options).page("/varz")
        assert page["tags"] == ["b", "a"]
        assert list(page["metadata"].items()) == [("a", "2"), ("z", "1")]
        assert page["max_subscriptions"] == 7
        assert page["auth_required"] is True
        assert page["auth_timeout"] == 1.5
        assert "system_account" not in page

    def test_a_stand_in_does_not_hide_that_there_are_users(self) -> None:
        page = Site(Options(accounts=ACCOUNTS, no_auth_user="bob")).page("/varz")
        assert page["auth_required"] is True

    def test_counters_go_on_when_a_client_goes(self, site: Site) -> None:
        sub, pub = site.world.modern(), site.world.modern()
        sub.send(b"SUB foo 1\r\n")
        pub.send(b"PUB foo 5\r\nhello\r\nPUB foo 2\r\nhi\r\n")
        expected = {"in_msgs": 2, "in_bytes": 7, "out_msgs": 2, "out_bytes": 7}
        for peer in (sub, pub):
            page = site.page("/varz")
            for name, value in expected.items():
                assert page[name] == page[name.replace("_", "_client_")] == value
            peer.connection.leave()
            site.world.settle()
        page = site.page("/varz")
        assert {name: page[name] for name in expected} == expected
        assert (page["connections"], page["total_connections"]) == (0, 2)

    def test_subscriptions_rise_and_fall_with_clients(self, site: Site) -> None:
        before = site.page("/varz")["subscriptions"]
        peer = site.world.modern()
        peer.send(b"SUB a 1\r\nSUB b q 2\r\n")
        assert site.page("/varz")["subscriptions"] == before + 2
        peer.connection.leave()
        site.world.settle()
        assert site.page("/varz")["subscriptions"] == before

    def test_requests_are_counted_by_page(self, site: Site) -> None:
        for target in ("/", "/subscriptionsz", "/subsz?subs=x", "/connz?subs=x", "/connz?sort=x"):
            site.get(target)
        for target in ("/nope", "/raftz", "/ipqueuesz", "/routez?subs=x", "/leafz?subs=x"):
            site.get(target)
        # nats-server counts some pages before it looks at the parameters and some after.
        assert site.page("/varz")["http_req_stats"] == {
            "/": 1,
            "/connz": 1,
            "/leafz": 1,
            "/subsz": 2,
            "/varz": 1,
        }


CONNZ_OF_ONE = """{
  "server_id": "%s",
  "now": "2026-01-02T03:04:06Z",
  "num_connections": 1,
  "total": 1,
  "offset": 0,
  "limit": 1024,
  "connections": [
    {
      "cid": %d,
      "kind": "Client",
      "type": "nats",
      "ip": "127.0.0.1",
      "port": 40001,
      "start": "2026-01-02T03:04:05Z",
      "last_activity": "2026-01-02T03:04:05Z",
      "rtt": "1ns",
      "uptime": "1s",
      "idle": "1s",
      "pending_bytes": 0,
      "in_msgs": 1,
      "out_msgs": 1,
      "in_bytes": 2,
      "out_bytes": 2,
      "subscriptions": 2,
      "name": "me \\u0026 you",
      "lang": "python3",
      "version": "2.0",
      "subscriptions_list_detail": [
        {
          "subject": "foo.\\u003e",
          "sid": "1",
          "msgs": 1,
          "max": 5,
          "cid": %d
        },
        {
          "subject": "bar",
          "qgroup": "q",
          "sid": "2",
          "msgs": 0,
          "cid": %d
        }
      ],
      "name_tag": "$G"
    }
  ]
}"""


def three(site: Site) -> list[Peer]:
    """Three clients that differ in everything there is to sort by."""
    world = site.world
    peers = []
    for number, reading in enumerate((b"SUB foo 1\r\n", b"SUB foo 1\r\nSUB x 2\r\n", b"")):
        peers.append(world.modern(name=f"client {number}"))
        peers[-1].send(reading)
        world.advance(1)
    peers[2].send(b"PUB foo 5\r\nhello\r\n")
    peers[1].send(b"PUB x 1\r\na\r\nPUB foo 2\r\nhi\r\n")
    for peer, rtt_ns in zip(peers, (5_000_000, 1_000_000, 9_000_000), strict=True):
        peer.client.liveness.rtt_ns = rtt_ns
    return peers


class TestConnz:
    def test_a_connection_in_full(self, site: Site) -> None:
        peer = site.world.modern(name="me & you", lang="python3", version="2.0")
        peer.send(b"SUB foo.> 1\r\nUNSUB 1 5\r\nSUB bar q 2\r\nPUB foo.a 2\r\nhi\r\n")
        site.world.advance(1)
        cid = peer.client.cid
        expected = CONNZ_OF_ONE % (site.world.node.server_id, cid, cid, cid)
        assert site.get("/connz?subs=detail&auth=1").body.decode() == expected

    def test_nobody(self, site: Site) -> None:
        page = site.page("/connz")
        assert (page["num_connections"], page["total"], page["limit"]) == (0, 0, 1024)
        assert page["connections"] == []

    def test_the_servers_own_clients_are_not_connections(self, shared: Site) -> None:
        assert shared.connections("state=any") == []

    def test_subscriptions_as_a_plain_list(self, site: Site) -> None:
        site.world.modern().send(b"SUB a.* 1\r\nSUB b q 2\r\n")
        (connection,) = site.connections("subs=1")
        assert connection["subscriptions_list"] == ["a.*", "b"]
        assert "subscriptions_list_detail" not in connection

    @pytest.mark.parametrize(
        ("sort", "order"),
        [
            ("cid", [0, 1, 2]),
            ("start", [0, 1, 2]),
            ("subs", [1, 0, 2]),
            ("msgs_to", [1, 0, 2]),
            ("msgs_from", [1, 2, 0]),
            ("bytes_to", [1, 0, 2]),
            ("bytes_from", [2, 1, 0]),
            ("last", [2, 1, 0]),
            ("idle", [0, 1, 2]),
            ("uptime", [2, 1, 0]),
            ("rtt", [2, 0, 1]),
            ("pending", [0, 1, 2]),
        ],
    )
    def test_orders(self, site: Site, sort: str, order: list[int]) -> None:
        peers = three(site)
        if sort in ("last", "idle"):
            for number, peer in enumerate(peers):
                peer.client.liveness.last_activity_wall_ns = number
        expected = [peers[number].client.cid for number in order]
        assert site.cids(f"sort={sort}") == expected
        assert site.cids(f"sort={sort}&limit=1&offset=1") == expected[1:2]

    def test_pending_is_what_the_client_has_not_taken(self, site: Site) -> None:
        slow, quick = site.world.modern(), site.world.modern()
        slow.send(b"SUB foo 1\r\n")
        slow.connection.stop_reading()
        quick.send(b"PUB foo 2\r\nhi\r\n")
        pending = {c["cid"]: c["pending_bytes"] for c in site.connections("sort=pending")}
        assert pending == {slow.client.cid: len(b"MSG foo 1 2\r\nhi\r\n"), quick.client.cid: 0}

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ("sort=foo", "invalid sorting option: foo"),
            ("sort=stop", "sort by stop only valid on closed connections"),
            ("sort=reason&state=any", "sort by reason only valid on closed connections"),
            ("state=foo", "Error decoding state for foo"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, site: Site, query: str, text: str) -> None:
        assert site.refusal(f"/connz?{query}") == text

    def test_the_total_does_not_depend_on_the_page(self, site: Site) -> None:
        three(site)
        for query, shown in (("limit=2", 2), ("offset=2", 1), ("offset=9", 0), ("limit=-1", 3)):
            page = site.page(f"/connz?{query}")
            assert (page["total"], page["num_connections"]) == (3, shown), query
        assert site.page("/connz?limit=-1&offset=-5")["offset"] == 0

    def test_closed_connections_are_remembered_with_their_end(self, site: Site) -> None:
        first, second, _ = three(site)
        first.connection.leave()
        site.world.advance(5)
        second.send(b"NONSENSE\r\n")
        closed = site.connections("state=closed&sort=stop&subs=1")
        assert [c["cid"] for c in closed] == [second.client.cid, first.client.cid]
        assert closed[1]["reason"] == "Client Closed"
        assert closed[1]["stop"] == "2026-01-02T03:04:08Z"
        assert closed[1]["uptime"] == "3s"
        assert closed[1]["subscriptions_list"] == ["foo"]
        assert site.cids("state=closed&sort=reason") == [first.client.cid, second.client.cid]
        assert [len(site.cids(f"state={state}")) for state in ("open", "CLOSED", "all")] == [
            1,
            2,
            3,
        ]

    def test_the_dead_keep_the_account_of_their_subscriptions(self, site: Site) -> None:
        peer = site.world.modern()
        peer.send(b"SUB foo 1\r\n")
        peer.connection.leave()
        site.world.settle()
        (connection,) = site.connections("state=closed&subs=detail&auth=1")
        (detail,) = connection["subscriptions_list_detail"]
        assert (detail["account"], detail["account_tag"]) == ("$G", "$G")
        assert "name_tag" not in connection

    def test_by_cid(self, site: Site) -> None:
        first, second, _ = three(site)
        page = site.page(f"/connz?cid={second.client.cid}")
        assert [c["cid"] for c in page["connections"]] == [second.client.cid]
        assert (page["total"], page["limit"]) == (3, 1)
        first.connection.leave()
        site.world.settle()
        cid = first.client.cid
        assert site.cids(f"cid={cid}") == []
        assert site.cids(f"cid={cid}&state=closed") == site.cids(f"cid={cid}&state=any") == [cid]
        assert site.cids("cid=999&state=any") == []

    def test_by_account_and_user(self, shared: Site) -> None:
        world = shared.world
        alice = world.modern(user="alice", password="pa")
        adam = world.modern(user="adam", password="pa")
        bob = world.modern(user="bob", password="pb")
        page = shared.page("/connz?acc=A&auth=1")
        assert [c["cid"] for c in page["connections"]] == [alice.client.cid, adam.client.cid]
        assert page["total"] == 2
        assert page["connections"][0]["authorized_user"] == "alice"
        assert page["connections"][0]["account"] == page["connections"][0]["name_tag"] == "A"
        page = shared.page("/connz?user=bob")
        assert ([c["cid"] for c in page["connections"]], page["total"]) == ([bob.client.cid], 3)
        for peer in (alice, bob):
            peer.connection.leave()
        world.settle()
        assert shared.page("/connz?acc=A&state=closed")["total"] == 1
        assert shared.cids("acc=A&state=any") == [alice.client.cid, adam.client.cid]
        assert shared.cids("user=alice&state=any") == [alice.client.cid]

    def test_an_unknown_account(self, site: Site) -> None:
        page = site.page("/connz?acc=NOPE")
        assert (page["server_id"], page["total"], page["connections"]) == ("", 0, None)

    def test_nobody_speaks_mqtt(self, site: Site) -> None:
        site.world.modern()
        assert site.connections("mqtt_client=x") == []

    def test_a_token_is_not_shown(self) -> None:
        site = Site(Options(token="secret"))
        site.world.modern(auth_token="secret")
        assert site.connections("auth=1")[0]["authorized_user"] == "[REDACTED]"
        assert b"secret" not in site.get("/connz?auth=1").body

    def test_who_was_refused_is_shown_as_who_it_said_it_was(self, shared: Site) -> None:
        shared.world.modern(user="eve", password="x")
        (connection,) = shared.connections("state=closed&auth=1")
        assert connection["reason"] == "Authentication Failure"
        assert connection["authorized_user"] == "eve"


class TestSubsz:
    def test_numbers_only(self, site: Site) -> None:
        assert list(site.page("/subsz")) == [
            "server_id",
            "now",
            "num_subscriptions",
            "num_cache",
            "num_inserts",
            "num_removes",
            "num_matches",
            "cache_hit_rate",
            "max_fanout",
            "avg_fanout",
            "total",
            "offset",
            "limit",
        ]

    def test_inserts_and_removes_are_counted(self, site: Site) -> None:
        before = site.page("/subsz")
        site.world.modern().send(b"SUB a 1\r\nSUB b 2\r\nUNSUB 1\r\n")
        after = site.page("/subsz")
        grown = {name: after[name] - before[name] for name in after if name.startswith("num_")}
        assert grown["num_subscriptions"] == 1
        assert (grown["num_inserts"], grown["num_removes"]) == (2, 1)

    def test_subscriptions_a_publish_would_reach(self, shared: Site) -> None:
        for user, password in (("alice", "pa"), ("bob", "pb")):
            peer = shared.world.modern(user=user, password=password)
            peer.send(b"SUB foo.* 1\r\nSUB foo.> q 2\r\nSUB bar 3\r\n")
        page = shared.page("/subsz?subs=1&test=foo.x")
        assert page["total"] == 4
        page = shared.page("/subsz?subs=1&test=foo.x&acc=A")
        assert [(s["account"], s["subject"]) for s in page["subscriptions_list"]] == [
            ("A", "foo.*"),
            ("A", "foo.>"),
        ]
        assert page["subscriptions_list"][1]["qgroup"] == "q"

    def test_a_page_of_subscriptions(self, shared: Site) -> None:
        everything = shared.page("/subsz?subs=1&acc=A")
        page = shared.page("/subsz?subs=1&acc=A&offset=1&limit=2")
        assert page["total"] == everything["total"] == everything["num_subscriptions"]
        assert page["subscriptions_list"] == everything["subscriptions_list"][1:3]

    def test_the_servers_own_services_are_listed(self, site: Site) -> None:
        page = site.page("/subsz?subs=1&acc=$G")
        subjects = [s["subject"] for s in page["subscriptions_list"]]
        assert "$SYS.REQ.USER.INFO" in subjects

    def test_an_account_that_is_not_there(self, site: Site) -> None:
        page = site.page("/subsz?subs=1&acc=NOPE")
        assert (page["num_subscriptions"], page["total"]) == (0, 0)
        assert "subscriptions_list" not in page

    def test_a_test_needs_a_subject_one_could_publish_to(self, site: Site) -> None:
        text = "invalid test subject, must be valid publish subject: a.*"
        assert site.refusal("/subsz?test=a.*") == text


class TestHealthz:
    def test_well(self, site: Site) -> None:
        for query in ("", "?js-enabled-only=1", "?js-server-only=true", "?account=x&details=1"):
            assert site.get(f"/healthz{query}")[:3] == (200, "application/json", b'{"status":"ok"}')

    def test_a_lame_duck_wants_no_more_clients(self, site: Site) -> None:
        site.world.node.announce_lame_duck()
        text = "failed to be ready for connections after 1ms: server"
        response = site.get("/healthz")
        assert response.status == 500
        assert json.loads(response.body) == {"status": "error", "error": text}
        assert site.world.log_lines[-1] == f'[7] [WRN] Healthcheck failed: "{text}"\n'
        assert json.loads(site.get("/healthz?details=1").body) == {
            "status": "error",
            "errors": [{"type": "CONNECTION", "error": text}],
        }

    @pytest.mark.parametrize(
        ("query", "needed", "checked"),
        [("stream=s", "account", "stream"), ("consumer=c", "stream", "consumer")],
    )
    def test_an_incomplete_question(
        self, site: Site, query: str, needed: str, checked: str
    ) -> None:
        response = site.get(f"/healthz?{query}")
        assert response.status == 400
        assert json.loads(response.body) == {
            "status": "error",
            "error": f'"{needed}" must not be empty when checking {checked} health',
        }


class TestAccounts:
    def test_all_by_name(self, shared: Site) -> None:
        page = shared.page("/accountz")
        assert page["accounts"] == ["$G", "A", "B", "$SYS"]
        assert page["system_account"] == "$SYS"

    def test_one_in_full(self, shared: Site) -> None:
        shared.world.modern(user="alice", password="pa").send(b"SUB foo 1\r\n")
        detail = shared.page("/accountz?acc=A")["account_detail"]
        assert detail["account_name"] == detail["name_tag"] == "A"
        assert (detail["client_connections"], detail["jetstream_enabled"]) == (1, False)
        assert detail["subscriptions"] == detail["sublist_stats"]["num_subscriptions"]
        imports = {entry["local_subject"]: entry["subject"] for entry in detail["imports"]}
        assert imports["$SYS.REQ.USER.INFO"] == "$SYS.REQ.USER.A.INFO"
        assert "is_system" not in detail
        assert shared.page("/accountz?acc=$SYS")["account_detail"]["is_system"] is True

    def test_one_that_is_not_there(self, site: Site) -> None:
        assert site.refusal("/accountz?acc=NOPE") == "Account NOPE does not exist"

    def test_statistics_of_accounts_in_use_or_of_all(self, shared: Site) -> None:
        peer = shared.world.modern(user="alice", password="pa")
        peer.send(b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n")
        (stat,) = shared.page("/accstatz")["account_statz"]
        assert (stat["acc"], stat["conns"], stat["total_conns"]) == ("A", 1, 1)
        assert (stat["sent"]["msgs"], stat["sent"]["bytes"]) == (1, 2)
        assert (stat["received"]["msgs"], stat["received"]["bytes"]) == (1, 2)
        assert stat["sent"]["routes"] == {"msgs": 0, "bytes": 0}
        peer.connection.leave()
        shared.world.settle()
        assert shared.page("/accstatz")["account_statz"] == []
        stats = shared.page("/accstatz?unused=1")["account_statz"]
        assert [stat["acc"] for stat in stats] == ["$G", "A", "B", "$SYS"]
        assert stats[1]["sent"]["msgs"] == 1


@pytest.mark.parametrize(
    ("target", "holds"),
    [
        ("/routez", lambda page: page["num_routes"] == 0 and page["routes"] == []),
        ("/gatewayz", lambda page: page["outbound_gateways"] == page["inbound_gateways"] == {}),
        ("/leafz", lambda page: page["leafnodes"] == 0 and page["leafs"] == []),
        ("/jsz", lambda page: page["disabled"] and page["config"]["max_memory"] == 0),
        ("/ipqueuesz", lambda page: page == {}),
    ],
)
def test_what_is_not_there_yet_shows_itself_as_nats_servers_does(
    site: Site, target: str, holds: Callable[[Any], bool]
) -> None:
    assert holds(site.page(target))
