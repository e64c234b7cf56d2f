"""The way of a publish to the bytes that every receiver reads."""

import pytest

from headwater.server.configuration.options import (
    Permissions,
    ResponsePermission,
    SubjectPermission,
    UserOptions,
)
from headwater.server.connections import intake
from headwater.server.core import crowd, out_buffers
from tests.kit.world import Peer, World
from tests.unit.server.conftest import MakeWorld

KIB = 1024
HEADERS = b"NATS/1.0\r\nA: b\r\n\r\n"


def pub(subject: bytes, payload: bytes = b"x", reply: bytes | None = None) -> bytes:
    words = [b"PUB", subject, *([] if reply is None else [reply]), b"%d" % len(payload)]
    return b" ".join(words) + b"\r\n" + payload + b"\r\n"


def msg(subject: bytes, sid: bytes, payload: bytes = b"x", reply: bytes | None = None) -> bytes:
    words = [b"MSG", subject, sid, *([] if reply is None else [reply]), b"%d" % len(payload)]
    return b" ".join(words) + b"\r\n" + payload + b"\r\n"


def listener(world: World, *subscriptions: bytes, **fields: object) -> Peer:
    """A client with subscriptions, sids from 1 on."""
    peer = world.modern(**fields)
    for sid, subscription in enumerate(subscriptions, start=1):
        peer.send(b"SUB %b %d\r\n" % (subscription, sid))
    peer.take()
    return peer


class TestFanOut:
    def test_everybody_who_listens_gets_it_once_per_subscription(self, world: World) -> None:
        one = listener(world, b"foo.bar", b"foo.*")
        two = listener(world, b">")
        none = listener(world, b"foo", b"bar")
        world.modern().send(pub(b"foo.bar"))
        assert one.take() == msg(b"foo.bar", b"1") + msg(b"foo.bar", b"2")
        assert two.take() == msg(b"foo.bar", b"1")
        assert none.take() == b""

    def test_reply_and_payload_arrive_as_they_were_sent(self, world: World) -> None:
        sub = listener(world, b"foo")
        payload = b"\r\nMSG foo 1 5\r\n\x00\xff"
        world.modern().send(pub(b"foo", payload, b"_INBOX.1") + pub(b"foo", b""))
        assert sub.take() == msg(b"foo", b"1", payload, b"_INBOX.1") + msg(b"foo", b"1", b"")

    def test_the_size_is_written_as_the_publisher_wrote_it(self, world: World) -> None:
        sub = listener(world, b"foo")
        world.modern().send(b"PUB foo 001\r\nx\r\n")
        assert sub.take() == b"MSG foo 1 001\r\nx\r\n"

    def test_publishes_of_one_read_arrive_as_they_were_written(self, world: World) -> None:
        sub = listener(world, b"foo.*")
        world.modern().send(b"PUB foo.a 001\r\nx\r\nPUB foo.b 0\r\n\r\nPUB foo.c 2\r\nyz\r\n")
        assert sub.take() == (
            b"MSG foo.a 1 001\r\nx\r\nMSG foo.b 1 0\r\n\r\nMSG foo.c 1 2\r\nyz\r\n"
        )

    def test_large_publishes_of_one_read_arrive_whole(self, world: World) -> None:
        sub = listener(world, b"foo.*")
        payloads = [bytes([number]) * 5000 for number in range(3)]
        world.modern().send(b"".join(pub(b"foo.%d" % n, body) for n, body in enumerate(payloads)))
        assert sub.take() == b"".join(
            msg(b"foo.%d" % n, b"1", body) for n, body in enumerate(payloads)
        )

    def test_order_per_publisher_holds_across_subjects_and_reads(self, world: World) -> None:
        sub = listener(world, b">")
        source = world.modern()
        subjects = [b"a", b"a", b"b", b"a", b"b", b"b"] * 20
        for start in range(0, len(subjects), 7):
            source.push(
                b"".join(
                    pub(s, b"%d" % i) for i, s in enumerate(subjects[start : start + 7], start)
                )
            )
        world.settle()
        assert sub.take() == b"".join(msg(s, b"1", b"%d" % i) for i, s in enumerate(subjects))

    def test_a_turn_is_one_write(self, world: World) -> None:
        sub = listener(world, b"foo")
        source = world.modern()
        before = sub.connection.writes
        for _ in range(10):
            source.push(pub(b"foo") * 10)
        world.settle()
        assert sub.connection.writes == before + 1
        assert sub.take() == msg(b"foo", b"1") * 100

    def test_a_subject_with_an_empty_token_reaches_nobody(self, world: World) -> None:
        sub = listener(world, b">")
        world.modern().send(pub(b"foo..bar") + pub(b".") + pub(b"foo.") * 3)
        assert sub.take() == b""

    def test_a_wildcard_in_a_subject_is_published_as_it_is(self, world: World) -> None:
        sub = listener(world, b"foo.bar", b"foo.*", b"foo.>")
        world.modern().send(pub(b"foo.*"))
        assert sub.take() == msg(b"foo.*", b"2") + msg(b"foo.*", b"3")


class TestEcho:
    @pytest.mark.parametrize("count", [1, 20])
    def test_a_publisher_hears_itself_unless_it_asked_not_to(
        self, world: World, count: int
    ) -> None:
        loud = listener(world, b"foo")
        quiet = listener(world, b"foo", echo=False)
        assert loud.ask(pub(b"foo") * count) == msg(b"foo", b"1") * count
        assert quiet.take() == msg(b"foo", b"1") * count
        assert quiet.ask(pub(b"foo") * count) == b""
        assert loud.take() == msg(b"foo", b"1") * count

    def test_nobody_but_oneself_without_echo_is_no_responder(self, world: World) -> None:
        quiet = listener(world, b"foo", b"inbox", echo=False)
        assert b"NATS/1.0 503" in quiet.ask(pub(b"foo", reply=b"inbox"))

    def test_a_group_of_oneself_without_echo_passes_it_on(self, world: World) -> None:
        quiet = listener(world, b"foo q", echo=False)
        other = listener(world, b"foo q")
        quiet.send(pub(b"foo") * 20)
        assert other.take() == msg(b"foo", b"1") * 20


class TestGroups:
    @pytest.mark.parametrize("together", [True, False])
    def test_one_member_gets_each_message_and_all_get_some(
        self, world: World, together: bool
    ) -> None:
        members = [listener(world, b"foo q") for _ in range(4)]
        source = world.modern()
        frames = [pub(b"foo", b"%03d" % number) for number in range(200)]
        for piece in [b"".join(frames)] if together else frames:
            source.send(piece)
        got = [member.take() for member in members]
        payloads = sorted(line for data in got for line in data.split(b"\r\n")[1::2])
        assert payloads == [b"%03d" % number for number in range(200)]
        assert min(data.count(b"MSG") for data in got) > 20

    def test_groups_of_different_names_and_plain_subscribers_each_get_it(
        self, world: World
    ) -> None:
        peers = [listener(world, b"foo a"), listener(world, b"foo b"), listener(world, b"foo")]
        world.modern().send(pub(b"foo"))
        assert [peer.take() for peer in peers] == [msg(b"foo", b"1")] * 3

    def test_one_name_is_one_group_across_patterns(self, world: World) -> None:
        peers = [
            listener(world, b"foo.bar q"),
            listener(world, b"foo.* q"),
            listener(world, b"> q"),
        ]
        world.modern().send(pub(b"foo.bar") * 50)
        assert sum(peer.take().count(b"MSG") for peer in peers) == 50

    def test_members_that_left_are_passed_over(self, world: World) -> None:
        stays, leaves = listener(world, b"foo q"), listener(world, b"foo q")
        leaves.connection.leave()
        world.settle()
        world.modern().send(pub(b"foo") * 20)
        assert stays.take() == msg(b"foo", b"1") * 20

    def test_members_with_a_limit_leave_when_it_is_reached(self, world: World) -> None:
        limited, rest = listener(world, b"foo q"), listener(world, b"foo q")
        limited.send(b"UNSUB 1 3\r\n")
        world.modern().send(pub(b"foo") * 60)
        assert limited.take() == msg(b"foo", b"1") * 3
        assert rest.take() == msg(b"foo", b"1") * 57


class TestLimits:
    """UNSUB max."""

    @pytest.mark.parametrize("together", [True, False])
    def test_in_the_middle_of_a_run(self, world: World, together: bool) -> None:
        sub = listener(world, b"foo")
        sub.send(b"UNSUB 1 3\r\n")
        source = world.modern()
        for piece in [pub(b"foo") * 10] if together else [pub(b"foo")] * 10:
            source.send(piece)
        assert sub.take() == msg(b"foo", b"1") * 3
        assert sub.client.subscriptions == {}
        assert world.node.accounts.default.index.match(b"foo").size == 0

    def test_the_last_message_ends_it_and_not_the_one_after(self, world: World) -> None:
        sub = listener(world, b"foo")
        sub.send(b"UNSUB 1 3\r\n")
        source = world.modern()
        source.send(pub(b"foo") * 2)
        assert list(sub.client.subscriptions) == [b"1"]
        source.send(pub(b"foo"))
        assert sub.client.subscriptions == {}

    def test_counts_what_came_before_it(self, world: World) -> None:
        sub = listener(world, b"foo")
        source = world.modern()
        source.send(pub(b"foo") * 2)
        sub.send(b"UNSUB 1 3\r\n")
        source.send(pub(b"foo") * 5)
        assert sub.take() == msg(b"foo", b"1") * 3

    def test_already_passed_ends_it_at_once(self, world: World) -> None:
        sub = listener(world, b"foo")
        source = world.modern()
        source.send(pub(b"foo") * 3)
        sub.send(b"UNSUB 1 3\r\n")
        source.send(pub(b"foo"))
        assert sub.take() == msg(b"foo", b"1") * 3

    def test_can_be_raised_before_it_is_reached(self, world: World) -> None:
        sub = listener(world, b"foo")
        sub.send(b"UNSUB 1 2\r\nUNSUB 1 4\r\n")
        world.modern().send(pub(b"foo") * 9)
        assert sub.take() == msg(b"foo", b"1") * 4

    def test_a_sid_can_be_used_again_afterwards(self, world: World) -> None:
        sub = listener(world, b"foo")
        sub.send(b"UNSUB 1 1\r\n")
        source = world.modern()
        source.send(pub(b"foo") * 3)
        sub.send(b"SUB bar 1\r\n")
        source.send(pub(b"foo") + pub(b"bar") * 2)
        assert sub.take() == msg(b"foo", b"1") + msg(b"bar", b"1") * 2

    def test_a_limited_one_beside_an_unlimited_one(self, world: World) -> None:
        sub = listener(world, b"foo", b"foo")
        sub.send(b"UNSUB 1 2\r\n")
        world.modern().send(pub(b"foo") * 4)
        assert sub.take() == (msg(b"foo", b"1") + msg(b"foo", b"2")) * 2 + msg(b"foo", b"2") * 2


class TestNoResponders:
    ANSWER = b"HMSG inbox 1 38 38\r\nNATS/1.0 503\r\nNats-Subject: nobody\r\n\r\n\r\n"

    @pytest.mark.parametrize("count", [1, 10])
    def test_every_request_that_nobody_hears_is_answered(self, world: World, count: int) -> None:
        peer = listener(world, b"inbox")
        assert peer.ask(pub(b"nobody", reply=b"inbox") * count) == self.ANSWER * count

    def test_a_publish_without_reply_is_not(self, world: World) -> None:
        assert listener(world, b"inbox").ask(pub(b"nobody") * 10) == b""

    def test_one_who_did_not_ask_for_it_is_not_told(self, world: World) -> None:
        peer = listener(world, b"inbox", no_responders=False)
        assert peer.ask(pub(b"nobody", reply=b"inbox")) == b""

    def test_only_a_plain_subscription_of_the_requester_gets_it(self, world: World) -> None:
        peer = world.modern()
        other = listener(world, b"inbox")
        assert peer.ask(pub(b"nobody", reply=b"inbox")) == b""
        assert peer.ask(b"SUB inbox q 1\r\n" + pub(b"nobody", reply=b"inbox")) == b""
        assert other.take() == b""

    @pytest.mark.parametrize("queue", [b"", b" q"])
    def test_a_run_whose_responder_goes_on_the_way(self, world: World, queue: bytes) -> None:
        responder = listener(world, b"nobody" + queue)
        responder.send(b"UNSUB 1 2\r\n")
        requester = listener(world, b"inbox")
        answers = requester.ask(pub(b"nobody", reply=b"inbox") * 5)
        assert responder.take() == msg(b"nobody", b"1", reply=b"inbox") * 2
        assert answers == self.ANSWER * 3

    def test_a_group_whose_members_go_on_the_way(self, world: World) -> None:
        members = [listener(world, b"nobody q") for _ in range(3)]
        for member in members:
            member.send(b"UNSUB 1 2\r\n")
        requester = listener(world, b"inbox")
        answers = requester.ask(pub(b"nobody", reply=b"inbox") * 10)
        assert [member.take().count(b"MSG") for member in members] == [2, 2, 2]
        assert answers == self.ANSWER * 4


class TestHeaders:
    def frame(self, line: bytes) -> bytes:
        return line + HEADERS + b"hello\r\n"

    @pytest.mark.parametrize("count", [1, 10])
    def test_go_to_those_who_can_read_them_and_are_cut_off_for_others(
        self, world: World, count: int
    ) -> None:
        modern = listener(world, b"foo")
        old = world.connect()
        old.send(b"SUB foo 1\r\n")
        sizes = b"%d %d" % (len(HEADERS), len(HEADERS) + 5)
        world.modern().send(self.frame(b"HPUB foo r %b\r\n" % sizes) * count)
        assert modern.take() == self.frame(b"HMSG foo 1 r %b\r\n" % sizes) * count
        assert old.take() == b"MSG foo 1 r 5\r\nhello\r\n" * count

    def test_an_empty_block_is_none(self, world: World) -> None:
        modern = listener(world, b"foo")
        world.modern().send(b"HPUB foo 0 5\r\nhello\r\n")
        assert modern.take() == b"MSG foo 1 5\r\nhello\r\n"

    def test_a_block_without_payload(self, world: World) -> None:
        modern = listener(world, b"foo")
        sizes = b"%d %d" % (len(HEADERS), len(HEADERS))
        world.modern().send(b"HPUB foo %b\r\n%b\r\n" % (sizes, HEADERS))
        assert modern.take() == b"HMSG foo 1 %b\r\n%b\r\n" % (sizes, HEADERS)


class TestVerbose:
    def test_one_ok_per_message_before_what_it_causes(self, world: World) -> None:
        peer = world.modern(verbose=True)
        assert peer.ask(b"SUB foo 1\r\nSUB foo 2\r\n") == b"+OK\r\n" * 2
        once = b"+OK\r\n" + msg(b"foo", b"1") + msg(b"foo", b"2")
        assert peer.ask(pub(b"foo") * 5) == once * 5
        assert peer.ask(pub(b"nobody") * 5) == b"+OK\r\n" * 5

    def test_no_ok_for_what_was_refused(self, world: World) -> None:
        peer = world.modern(verbose=True)
        error = b"-ERR 'Permissions Violation for Publish to \"$NRG.x\"'\r\n"
        assert peer.ask(pub(b"$NRG.x") * 3) == error * 3

    def test_pedantic_complains_and_publishes_all_the_same(self, world: World) -> None:
        peer = world.modern(verbose=True, pedantic=True)
        peer.ask(b"SUB foo.* 1\r\n")
        once = b"-ERR 'Invalid Publish Subject'\r\n+OK\r\n" + msg(b"foo.*", b"1")
        assert peer.ask(pub(b"foo.*") * 3) == once * 3


class TestReserved:
    @pytest.mark.parametrize("subject", [b"_GR_.x", b"$NRG.x", b"$NRG.V.abc"])
    def test_subjects(self, world: World, subject: bytes) -> None:
        peer = listener(world, b">")
        text = b"-ERR 'Permissions Violation for Publish to \"%b\"'\r\n" % subject
        assert peer.ask(pub(subject) * 2) == text * 2

    def test_each_of_several_publishes_in_one_read_is_refused(self, world: World) -> None:
        sub, source = listener(world, b"_GR_.*"), world.modern()
        source.send(pub(b"_GR_.x") + pub(b"_GR_.y"))
        assert sub.take() == b""
        assert source.take().count(b"Permissions Violation for Publish to") == 2

    @pytest.mark.parametrize("reply", [b"_R_.", b"_R_.x", b"$JS.ACK.x", b"_GR_.x"])
    def test_replies(self, world: World, reply: bytes) -> None:
        peer = listener(world, b">")
        text = b"-ERR 'Permissions Violation for Publish with Reply of \"%b\"'\r\n" % reply
        assert peer.ask(pub(b"foo", reply=reply) * 2) == text * 2

    @pytest.mark.parametrize(
        "subject", [b"_GR_", b"_GR_.", b"_GRX.x", b"$NRG", b"$JS.ACK.x", b"_R_.x"]
    )
    def test_what_only_looks_reserved_is_not(self, world: World, subject: bytes) -> None:
        peer = listener(world, b">")
        got = peer.ask(pub(subject) + pub(b"foo", reply=b"$JS.ACK."))
        assert b"-ERR" not in got


class TestPermissions:
    def world_with(self, make_world: MakeWorld, **rights: object) -> tuple[World, Peer, Peer]:
        """A world, a user with these rights, and one with all."""
        limited = UserOptions("u", "p", permissions=Permissions(**rights))  # type: ignore[arg-type]
        world = make_world(users=(limited, UserOptions("root", "p")))
        return world, world.modern(user="u", password="p"), world.modern(user="root", password="p")

    @pytest.mark.parametrize("count", [1, 7])
    def test_every_refused_publish_is_told(self, make_world: MakeWorld, count: int) -> None:
        _, peer, root = self.world_with(make_world, publish=SubjectPermission(deny=("foo",)))
        root.send(b"SUB > 1\r\n")
        text = b"-ERR 'Permissions Violation for Publish to \"foo\"'\r\n"
        assert peer.ask(pub(b"foo") * count + pub(b"bar")) == text * count
        assert root.take() == msg(b"bar", b"1")
        assert peer.reason == ""

    def test_a_wide_subscription_does_not_see_what_is_denied(self, make_world: MakeWorld) -> None:
        _, peer, root = self.world_with(make_world, subscribe=SubjectPermission(deny=("foo.bar",)))
        assert peer.ask(b"SUB foo.* 1\r\nSUB foo.* q 2\r\n") == b""
        root.send(pub(b"foo.bar") * 9 + pub(b"foo.baz") * 9)
        assert peer.take() == (msg(b"foo.baz", b"1") + msg(b"foo.baz", b"2")) * 9

    def test_a_filter_also_holds_for_subscriptions_made_before_it(
        self, make_world: MakeWorld
    ) -> None:
        _, peer, root = self.world_with(
            make_world, subscribe=SubjectPermission(deny=("foo.bar q",))
        )
        peer.ask(b"SUB foo.* r 1\r\nSUB foo.> q 2\r\n")
        root.send(pub(b"foo.bar") * 9 + pub(b"foo.x"))
        got = peer.take()
        assert got.count(b"MSG foo.bar 1 ") == 9
        assert got.count(b"MSG foo.bar 2 ") == 0
        assert got.count(b"MSG foo.x ") == 2

    def test_a_group_passes_over_members_that_may_not_see_it(self, make_world: MakeWorld) -> None:
        _, peer, root = self.world_with(make_world, subscribe=SubjectPermission(deny=("foo.bar",)))
        peer.send(b"SUB foo.* q 1\r\n")
        root.ask(b"SUB foo.* q 1\r\n")
        assert root.ask(pub(b"foo.bar") * 20).count(b"MSG") == 20
        assert peer.take() == b""

    @pytest.mark.parametrize("verbose", [True, False])
    def test_responses_are_counted_within_a_run(self, make_world: MakeWorld, verbose: bool) -> None:
        world, _, root = self.world_with(
            make_world,
            publish=SubjectPermission(allow=()),
            allow_responses=ResponsePermission(max_msgs=2),
        )
        peer = world.modern(user="u", password="p", verbose=verbose)
        peer.ask(b"SUB ask 1\r\n")
        root.ask(b"SUB inbox 1\r\n")
        root.send(pub(b"ask", reply=b"inbox"))
        assert peer.take() == msg(b"ask", b"1", reply=b"inbox")
        refused = b"-ERR 'Permissions Violation for Publish to \"inbox\"'\r\n"
        ok = b"+OK\r\n" if verbose else b""
        assert peer.ask(pub(b"inbox") * 5) == ok * 2 + refused * 3
        assert root.take() == msg(b"inbox", b"1") * 2

    def test_a_response_may_come_in_the_read_after_many_requests(
        self, make_world: MakeWorld
    ) -> None:
        _, peer, root = self.world_with(
            make_world, publish=SubjectPermission(allow=()), allow_responses=ResponsePermission()
        )
        peer.send(b"SUB ask 1\r\n")
        root.send(b"SUB inbox.* 1\r\n")
        root.send(b"".join(pub(b"ask", reply=b"inbox.%d" % number) for number in range(50)))
        answers = b"".join(pub(b"inbox.%d" % number) for number in range(50))
        assert b"-ERR" not in peer.ask(answers)
        assert peer.ask(answers).count(b"-ERR") == 50
        assert root.take().count(b"MSG inbox.") == 50


class TestSlowConsumers:
    def slow(self, make_world: MakeWorld, **options: object) -> tuple[World, Peer, Peer]:
        """A world with a small max_pending, a reader that has stopped, and a publisher."""
        world = make_world(max_pending=128 * KIB, max_payload=64 * KIB, **options)
        sub = listener(world, b"foo")
        sub.connection.stop_reading()
        return world, sub, world.modern()

    def test_too_much_pending_closes_that_client_alone(self, make_world: MakeWorld) -> None:
        world, slow, source = self.slow(make_world)
        healthy = listener(world, b"foo")
        for _ in range(5):
            source.send(pub(b"foo", b"x" * 30 * KIB))
        assert slow.reason == "Slow Consumer (Pending Bytes)"
        assert slow.connection.ended == "aborted"
        assert healthy.take().count(b"MSG") == 5
        assert healthy.reason == source.reason == ""
        assert world.node.roster.slow_consumers == 1
        assert b"-ERR" not in slow.take()

    def test_exactly_at_the_limit_it_stays(self, make_world: MakeWorld) -> None:
        world, slow, source = self.slow(make_world)
        line = b"MSG foo 1 16000\r\n"
        room = world.node.options.max_pending - len(line) - len(b"\r\n")
        while room > 64 * KIB:
            source.send(pub(b"foo", b"x" * 16000))
            room -= len(line) + 16000 + len(b"\r\n")
        source.send(pub(b"foo", b"x" * room))
        assert slow.connection.buffered_bytes() == 128 * KIB
        assert slow.reason == ""
        source.send(pub(b"foo"))
        assert slow.reason == "Slow Consumer (Pending Bytes)"

    @pytest.mark.parametrize("queue", [b"", b" q%d"])
    def test_equal_subscriptions_can_not_make_more_copies_than_may_wait(
        self, make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, queue: bytes
    ) -> None:
        monkeypatch.setattr(out_buffers, "WRITE_BYTES_MAX", 64 * KIB)
        monkeypatch.setattr(out_buffers, "WAITING_BYTES_MAX", 64 * KIB)
        monkeypatch.setattr(intake, "TURN_UNITS", 1_000_000)
        monkeypatch.setattr(crowd, "SLICE_DELIVERIES_MAX", 1_000_000)
        _, slow, source = self.slow(make_world)
        for sid in range(2, 200):
            slow.push(b"SUB foo%b %d\r\n" % (queue and queue % sid, sid))
        # All in one turn: waiting for its end would make 60 copies of each subscription.
        source.push(b"".join(pub(b"foo", b"%010d" % number) for number in range(20)) * 3)
        assert slow.reason == "Slow Consumer (Pending Bytes)"
        assert slow.client.out == []
        assert source.reason == ""

    def test_much_is_written_in_parts_and_arrives_whole(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(out_buffers, "WRITE_BYTES_MAX", 1000)
        sub, source = listener(world, b">"), world.modern()
        before = sub.connection.writes
        sent = [(b"s%d" % number, b"x" * number) for number in range(100)]
        source.send(b"".join(pub(subject, payload) for subject, payload in sent))
        assert sub.take() == b"".join(msg(subject, b"1", payload) for subject, payload in sent)
        assert 5 <= sub.connection.writes - before <= 7

    def test_a_publisher_to_a_congested_client_is_held_back_for_a_moment(
        self, make_world: MakeWorld
    ) -> None:
        world, slow, source = self.slow(make_world)
        source.send(pub(b"foo", b"x" * 50 * KIB) * 2)
        assert source.connection.reading
        source.send(pub(b"foo"))
        assert not source.connection.reading
        assert world.node.broker.counters.stalled_clients == 1
        world.advance(0.009)
        assert not source.connection.reading
        world.advance(0.001)
        assert source.connection.reading
        slow.connection.start_reading()
        source.send(pub(b"foo"))
        assert source.connection.reading
        assert slow.take().count(b"MSG") == 4

    def test_a_run_is_held_back_too(self, make_world: MakeWorld) -> None:
        _, _, source = self.slow(make_world)
        source.send(pub(b"foo", b"x" * 50 * KIB) * 2)
        source.send(pub(b"foo") * 10)
        assert not source.connection.reading

    def test_publishers_to_others_are_not_held_back(self, make_world: MakeWorld) -> None:
        world, _, source = self.slow(make_world)
        source.send(pub(b"foo", b"x" * 50 * KIB) * 2)
        other = world.modern()
        other.send(pub(b"bar") * 10)
        assert other.connection.reading

    def test_a_publisher_that_left_while_held_back_is_left_alone(
        self, make_world: MakeWorld
    ) -> None:
        world, _, source = self.slow(make_world)
        source.send(pub(b"foo", b"x" * 50 * KIB) * 2)
        source.send(pub(b"foo"))
        source.connection.leave()
        world.advance(1)
        assert not source.connection.reading

    @pytest.mark.parametrize("count", [1, 10])
    def test_without_stalling_a_congested_client_misses_messages(
        self, make_world: MakeWorld, count: int
    ) -> None:
        _, slow, source = self.slow(make_world, no_fast_producer_stall=True)
        source.send(pub(b"foo", b"x" * 50 * KIB) * 2)
        source.send(pub(b"foo") * count)
        assert source.connection.reading
        slow.connection.start_reading()
        assert slow.take().count(b"MSG") == 2

    def test_the_write_deadline_closes_one_that_reads_nothing(self, make_world: MakeWorld) -> None:
        world = make_world(write_deadline_s=2.0)
        slow, source = listener(world, b"foo"), world.modern()
        slow.connection.stop_reading()
        source.send(pub(b"foo", b"x" * 100 * KIB))
        world.advance(1.9)
        assert slow.reason == ""
        world.advance(0.2)
        assert slow.reason == "Slow Consumer (Write Deadline)"
        assert slow.connection.ended == "aborted"

    def test_reading_on_in_time_keeps_it(self, make_world: MakeWorld) -> None:
        world = make_world(write_deadline_s=2.0)
        slow, source = listener(world, b"foo"), world.modern()
        for _ in range(5):
            slow.connection.stop_reading()
            source.send(pub(b"foo", b"x" * 100 * KIB))
            world.advance(1.9)
            slow.connection.start_reading()
            world.advance(1.0)
        assert slow.reason == ""
        assert slow.take().count(b"MSG foo") == 5


class TestClosedInBetween:
    def test_messages_to_one_that_is_gone_go_to_the_others(self, world: World) -> None:
        gone, stays = listener(world, b"foo"), listener(world, b"foo")
        source = world.modern()
        source.push(pub(b"foo") * 3)
        gone.connection.leave()
        world.node.connections.lost(gone.client)
        source.push(pub(b"foo") * 3)
        world.settle()
        assert stays.take() == msg(b"foo", b"1") * 6
        assert gone.take() == b""

    def test_a_publisher_closed_by_its_own_read_has_what_came_before_delivered(
        self, world: World
    ) -> None:
        sub = listener(world, b"foo")
        source = world.modern()
        source.send(pub(b"foo") * 4 + b"NONSENSE\r\n" + pub(b"foo") * 4)
        assert source.reason == "Protocol Violation"
        assert sub.take() == msg(b"foo", b"1") * 4

    def test_two_overflow_in_one_turn(self, make_world: MakeWorld) -> None:
        world = make_world(max_pending=1024, max_payload=1024)
        slow = [listener(world, b"foo") for _ in range(3)]
        for peer in slow:
            peer.connection.stop_reading()
        healthy = listener(world, b"foo")
        world.modern().send(pub(b"foo", b"x" * 1000) * 3)
        assert [peer.reason for peer in slow] == ["Slow Consumer (Pending Bytes)"] * 3
        assert healthy.take().count(b"MSG") == 3


class TestCounters:
    @pytest.mark.parametrize("together", [True, False])
    def test_messages_and_bytes_in_and_out(self, world: World, together: bool) -> None:
        sub = listener(world, b"foo", b">")
        old = world.connect()
        old.send(b"SUB foo q 1\r\n")
        source = world.modern()
        frames = [pub(b"foo", b"12345")] * 10 + [b"HPUB foo 4 9\r\n\r\n\r\n12345\r\n"] * 2
        for piece in [b"".join(frames)] if together else frames:
            source.send(piece)
        assert (source.client.in_msgs, source.client.in_bytes) == (12, 68)
        assert (sub.client.out_msgs, sub.client.out_bytes) == (24, 136)
        assert (old.client.out_msgs, old.client.out_bytes) == (12, 60)
        counters, account = world.node.broker.counters, world.node.accounts.default
        source.connection.leave()
        world.settle()
        assert (counters.in_msgs, counters.in_bytes) == (12, 68)
        assert (account.in_msgs, account.in_bytes) == (12, 68)

    def test_what_was_refused_counts_as_received(self, world: World) -> None:
        source = world.modern()
        source.send(pub(b"$NRG.x", b"12345") * 3)
        assert (source.client.in_msgs, source.client.in_bytes) == (3, 15)


class TestFlush:
    def test_a_bug_at_one_client_does_not_silence_the_others(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broken, sound = listener(world, b"foo"), listener(world, b"foo")

        def fail(data: bytes) -> None:
            raise RuntimeError("planted")

        monkeypatch.setattr(broken.connection, "write", fail)
        source = world.modern()
        with pytest.raises(RuntimeError, match="planted"):
            source.send(pub(b"foo"))
        monkeypatch.undo()
        world.settle()
        assert sound.take() == msg(b"foo", b"1")
        source.send(pub(b"foo", b"again"))
        assert sound.take() == msg(b"foo", b"1", b"again")
        assert broken.take() == msg(b"foo", b"1", b"again")


class TestMessagesOfAStream:
    """Messages arrive under their own subjects, whatever subject their receiver listens to."""

    SENT = ([b"s.a", b"s.b"], [b"r.1", b"r.2"], [b"", HEADERS], [b"one", b"two"])
    RECEIVED = b"MSG s.a 1 r.1 3\r\none\r\n" + b"HMSG s.b 1 r.2 %d %d\r\n%btwo\r\n" % (
        len(HEADERS),
        len(HEADERS) + 3,
        HEADERS,
    )

    def test_go_to_one_receiver_as_to_many(self, world: World) -> None:
        one = listener(world, b"in")
        broker, account = world.node.broker, one.client.account
        broker.send_messages(account, *self.SENT, b"in")
        world.settle()
        assert one.take() == self.RECEIVED
        two = listener(world, b"in")
        broker.send_messages(account, *self.SENT, b"in")
        world.settle()
        assert (one.take(), two.take()) == (self.RECEIVED, self.RECEIVED)

    def test_go_to_one_member_of_a_group(self, world: World) -> None:
        members = [listener(world, b"in q") for _ in range(3)]
        world.node.broker.send_messages(members[0].client.account, *self.SENT, b"in")
        world.settle()
        assert sum(member.take().count(b"MSG ") for member in members) == 2

    def test_come_without_headers_to_who_knows_none(self, world: World) -> None:
        sub = listener(world, b"in", headers=False, no_responders=False)
        world.node.broker.send_messages(sub.client.account, *self.SENT, b"in")
        world.settle()
        assert sub.take() == b"MSG s.a 1 r.1 3\r\none\r\nMSG s.b 1 r.2 3\r\ntwo\r\n"

    def test_end_with_the_limit_of_the_subscription(self, world: World) -> None:
        sub = listener(world, b"in")
        sub.send(b"UNSUB 1 1\r\n")
        world.node.broker.send_messages(sub.client.account, *self.SENT, b"in")
        world.settle()
        assert sub.take() == b"MSG s.a 1 r.1 3\r\none\r\n"


class TestReplies:
    """Receivers that share a turn each get their own replies in order, however these are mixed."""

    def test_a_single_one_has_its_header(self, world: World) -> None:
        peer = listener(world, b"_INBOX.a.*")
        broker, account = world.node.broker, peer.client.account
        broker.send_reply(account, b"_INBOX.a.1", b"one", HEADERS)
        broker.send_reply(account, b"_INBOX.a.2", b"two")
        world.settle()
        size = len(HEADERS)
        assert peer.take() == (
            b"HMSG _INBOX.a.1 1 %d %d\r\n%bone\r\n" % (size, size + 3, HEADERS)
            + msg(b"_INBOX.a.2", b"1", b"two")
        )

    @pytest.mark.parametrize("neighbours", [1, 3, 40, 100])
    def test_go_to_whom_they_are_for(self, world: World, neighbours: int) -> None:
        peers = {name: listener(world, b"_INBOX.%b.*" % name) for name in (b"a", b"b", b"c")}
        names = [name for name in peers for _ in range(neighbours)] * 2
        subjects = [b"_INBOX.%b.%d" % (name, number) for number, name in enumerate(names)]
        payloads = [b"ack %d" % number for number in range(len(names))]
        account = peers[b"a"].client.account
        for headers in ([], [HEADERS] * len(names)):
            world.node.broker.send_replies(account, subjects, payloads, headers)
            world.settle()
            for name, peer in peers.items():
                wanted = [
                    (subject, payload)
                    for subject, payload in zip(subjects, payloads, strict=True)
                    if subject.startswith(b"_INBOX.%b." % name)
                ]
                sizes = len(HEADERS)
                assert peer.take() == b"".join(
                    b"HMSG %b 1 %d %d\r\n%b%b\r\n"
                    % (subject, sizes, sizes + len(payload), HEADERS, payload)
                    if headers
                    else msg(subject, b"1", payload)
                    for subject, payload in wanted
                )
