"""SUB and UNSUB: limits, permissions and verdicts."""

from dataclasses import replace

import pytest

from headwater.server.configuration.options import (
    Permissions,
    SubjectPermission,
    UserOptions,
)
from tests.kit.world import World
from tests.unit.server.conftest import MakeWorld

ALICE = UserOptions("alice", "pa")


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
        # The limit also refuses a sid that is in use.
        assert peer.ask(b"SUB c 3\r\nSUB a 1\r\n") == full * 2
        assert peer.ask(b"UNSUB 1\r\nSUB c 3\r\n") == b""
        assert peer.reason == ""

    def test_max_subscription_tokens(self, make_world: MakeWorld) -> None:
        peer = make_world(max_subscription_tokens=2).modern()
        text = b"-ERR 'Permissions Violation for Subscription to \"a.b.c\", too many tokens'\r\n"
        assert peer.ask(b"SUB a.b 1\r\nSUB a.b.c 2\r\n") == text
