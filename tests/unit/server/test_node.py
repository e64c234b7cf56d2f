"""A reload of a whole server: its effects on clients, accounts and limits."""

from dataclasses import replace

import bcrypt
import pytest

from headwater.server.configuration.options import (
    AccountOptions,
    Permissions,
    SubjectPermission,
    UserOptions,
)
from tests.kit.world import World, connect_document, infos_in
from tests.unit.server.conftest import MakeWorld

# The cheapest cost bcrypt has; a check takes a millisecond.
HASHED = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
ALICE = UserOptions("alice", "pa")
VIOLATION = b"-ERR 'Authorization Violation'\r\n"


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
        # The client gets no error, like a client whose user has moved to another account.
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
        assert infos_in(world.open().take())[0]["max_payload"] == 100
