"""The state of a client, and the ways in which it is served."""

import pytest

from headwater.server.configuration.options import (
    Permissions,
    ResponsePermission,
    SubjectPermission,
    UserOptions,
)
from headwater.server.core.client import Liveness
from tests.kit.world import World
from tests.unit.server.conftest import MakeWorld


class TestTheShortWay:
    """Publishes and deliveries skip all checks only if no check could matter."""

    @pytest.mark.parametrize(
        ("fields", "guarded"),
        [
            ({}, False),
            ({"verbose": True}, True),
            ({"pedantic": True}, True),
        ],
    )
    def test_publishers(self, world: World, fields: dict[str, object], guarded: bool) -> None:
        assert world.modern(**fields).client.guarded is guarded

    def test_one_that_has_not_connected_is_looked_at(self, world: World) -> None:
        assert world.open().client.guarded

    @pytest.mark.parametrize(
        ("rights", "guarded"),
        [
            (Permissions(), False),
            (Permissions(publish=SubjectPermission(deny=("x",))), True),
            (Permissions(publish=SubjectPermission(allow=(">",))), True),
            (Permissions(subscribe=SubjectPermission(deny=("x",))), False),
        ],
    )
    def test_publishers_with_rights(
        self, make_world: MakeWorld, rights: Permissions, guarded: bool
    ) -> None:
        world = make_world(users=(UserOptions("u", "p", permissions=rights),))
        assert world.modern(user="u", password="p").client.guarded is guarded

    def test_subscriptions(self, world: World) -> None:
        peer = world.modern()
        peer.send(b"SUB foo 1\r\nSUB foo q 2\r\n")
        subs = peer.client.subscriptions
        assert all(sub.unchecked for sub in subs.values())
        peer.send(b"UNSUB 1 5\r\n")
        assert not subs[b"1"].unchecked
        assert subs[b"2"].unchecked

    def test_subscriptions_of_one_without_headers(self, world: World) -> None:
        peer = world.connect()
        peer.send(b"SUB foo 1\r\n")
        assert not peer.client.subscriptions[b"1"].unchecked

    def test_headers_that_a_second_connect_brings(self, world: World) -> None:
        peer = world.connect()
        peer.send(b'CONNECT {"headers":true}\r\nSUB foo 1\r\n')
        assert peer.client.subscriptions[b"1"].unchecked

    @pytest.mark.parametrize(
        ("rights", "plain"),
        [
            (Permissions(publish=SubjectPermission(deny=("x",))), [True, True]),
            (Permissions(subscribe=SubjectPermission(deny=("x",))), [True, True]),
            # No denied message can reach the first subscription.
            (Permissions(subscribe=SubjectPermission(deny=("foo.x",))), [True, False]),
            (Permissions(SubjectPermission(allow=()), None, ResponsePermission()), [False, False]),
        ],
    )
    def test_subscriptions_with_rights(
        self, make_world: MakeWorld, rights: Permissions, plain: list[bool]
    ) -> None:
        world = make_world(users=(UserOptions("u", "p", permissions=rights),))
        peer = world.modern(user="u", password="p")
        peer.send(b"SUB bar 1\r\nSUB foo.* 2\r\n")
        assert [sub.unchecked for sub in peer.client.subscriptions.values()] == plain


def test_a_label_names_the_connection_and_what_the_client_said(world: World) -> None:
    peer = world.open()
    connection = f"127.0.0.1:{peer.connection.peer_port} - cid:{peer.client.cid}"
    assert peer.client.label == connection
    peer.send(b'CONNECT {"verbose":false,"version":"1.2","lang":"python","name":"app"}\r\n')
    assert peer.client.label == f'{connection} - "v1.2:python:app"'


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (b'{"name":"app"}', ' - "app"'),
        (b'{"lang":"go","name":"app"}', ' - "go:app"'),
        (b'{"version":"2"}', ' - "v2"'),
        (b"{}", ""),
    ],
)
def test_labels_leave_out_what_was_not_said(world: World, document: bytes, said: str) -> None:
    peer = world.connect(document)
    assert peer.client.label.partition(f"cid:{peer.client.cid}")[2] == said


SILENCE_NS_MAX = 100
RTT_AGE_NS_MAX = 1_000


class TestLiveness:
    @staticmethod
    def started(now_ns: int = 10) -> Liveness:
        liveness = Liveness()
        liveness.start(now_ns, 5)
        return liveness

    def test_a_client_that_was_never_pinged_needs_a_ping(self) -> None:
        assert self.started(10).needs_ping(11, SILENCE_NS_MAX, RTT_AGE_NS_MAX)

    @pytest.mark.parametrize(("now_ns", "needs_ping"), [(109, False), (110, True)])
    def test_a_client_that_was_silent_for_the_interval_needs_a_ping(
        self, now_ns: int, needs_ping: bool
    ) -> None:
        liveness = self.started(10)
        liveness.count_ping(10)
        assert liveness.needs_ping(now_ns, SILENCE_NS_MAX, RTT_AGE_NS_MAX) is needs_ping

    @pytest.mark.parametrize(("now_ns", "needs_ping"), [(1_010, False), (1_011, True)])
    def test_an_old_round_trip_is_measured_again_whatever_the_client_did(
        self, now_ns: int, needs_ping: bool
    ) -> None:
        liveness = self.started(10)
        liveness.count_ping(10)
        liveness.last_in_ns = now_ns
        assert liveness.needs_ping(now_ns, SILENCE_NS_MAX, RTT_AGE_NS_MAX) is needs_ping

    def test_a_round_trip_is_that_of_the_last_ping(self) -> None:
        liveness = self.started(10)
        liveness.count_ping(50)
        liveness.measure_pong(57)
        assert (liveness.rtt_ns, liveness.pings_out) == (7, 0)

    def test_a_pong_without_a_ping_is_measured_from_the_start(self) -> None:
        liveness = self.started(10)
        liveness.measure_pong(57)
        assert liveness.rtt_ns == 47

    def test_a_round_trip_that_took_no_time_is_shown_as_one_nanosecond(self) -> None:
        liveness = self.started(10)
        liveness.measure_connect(10, 6)
        assert (liveness.rtt_ns, liveness.last_activity_wall_ns) == (1, 6)
