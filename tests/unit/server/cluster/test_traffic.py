"""Messages cross to other servers once, and to those that listen only."""

from dataclasses import replace

import pytest

from headwater.server.cluster.members import MEMBERS_MAX
from headwater.server.configuration.options import (
    AccountOptions,
    Permissions,
    SubjectPermission,
    UserOptions,
)
from headwater.server.core.client import Inlet
from headwater.server.core.ingest import Ingest
from headwater.server.core.own_subscriptions import OwnSubscriptions, own_client
from headwater.wire.peer_frames import (
    Kind,
    PeerDecoder,
    PeerMessages,
    decode_messages,
    encode_interest,
    encode_messages,
    frame,
)
from tests.kit.cluster_world import ClusterWorld
from tests.kit.world import Peer


def crossed(world: ClusterWorld, one: str, other: str) -> list[bytes]:
    """The subjects of all messages that crossed between two servers, in both directions."""
    subjects: list[bytes] = []
    for ends in world.pipes_between(one, other):
        for end in ends:
            decoder = PeerDecoder()
            decoder.feed(bytes(end.written))
            while (line := decoder.next_line()) is not None:
                if line == b"+OK" or (line.startswith(b"INFO") and end is ends[0]):
                    break
            for kind, body in decoder.frames():
                if kind is Kind.MESSAGES:
                    subjects += decode_messages(body)[1].subjects
    return subjects


def three() -> tuple[ClusterWorld, Peer, Peer, Peer]:
    world = ClusterWorld()
    world.start_all(3)
    return world, world.client("s1"), world.client("s2"), world.client("s3")


def test_a_message_reaches_subscribers_on_all_servers_once() -> None:
    world, one, two, three_ = three()
    two.send(b"SUB a.* 1\r\nSUB a.b 2\r\nSUB > 3\r\n")
    three_.send(b"SUB a.> 1\r\n")
    one.send(b"SUB a.b 1\r\n")
    assert one.ask(b"PUB a.b 2\r\nhi\r\n") == b"MSG a.b 1 2\r\nhi\r\n"
    assert sorted(two.take().split(b"MSG ")[1:]) == [
        b"a.b 1 2\r\nhi\r\n",
        b"a.b 2 2\r\nhi\r\n",
        b"a.b 3 2\r\nhi\r\n",
    ]
    assert three_.take() == b"MSG a.b 1 2\r\nhi\r\n"
    # However many listen behind it, a link carries a message once, and never a second link does.
    assert crossed(world, "s1", "s2") == [b"a.b"]
    assert crossed(world, "s1", "s3") == [b"a.b"]
    assert crossed(world, "s2", "s3") == []


def test_a_message_that_nobody_else_wants_stays() -> None:
    world, one, two, _ = three()
    two.send(b"SUB b 1\r\n")
    one.send(b"PUB a 1\r\nx\r\n" * 3 + b"PUB b 1\r\nx\r\n")
    assert crossed(world, "s1", "s2") == [b"b"]
    assert crossed(world, "s1", "s3") == []


def test_headers_and_replies_cross_unchanged() -> None:
    _, one, two, _ = three()
    two.send(b"SUB a 1\r\n")
    block = b"NATS/1.0\r\nA: b\r\n\r\n"
    one.send(b"HPUB a r %d %d\r\n%bbody\r\n" % (len(block), len(block) + 4, block))
    sizes = (len(block), len(block) + 4, block)
    assert two.take() == b"HMSG a 1 r %d %d\r\n%bbody\r\n" % sizes


@pytest.mark.parametrize("count", [1, 2, 50])
def test_runs_of_messages_keep_their_order(count: int) -> None:
    _, one, two, _ = three()
    two.send(b"SUB a 1\r\nSUB b 1\r\n")
    data = b"".join(b"PUB a %d\r\n%d\r\n" % (len(b"%d" % n), n) for n in range(count))
    one.send(data)
    assert two.take() == data.replace(b"PUB a", b"MSG a 1")


def test_subjects_that_differ_keep_their_order_too() -> None:
    _, one, two, _ = three()
    two.send(b"SUB a.* 1\r\n")
    data = b"".join(b"PUB a.%d 1\r\nx\r\n" % n for n in range(50))
    one.send(data)
    assert [line.split()[1] for line in two.take().split(b"\r\n") if line.startswith(b"MSG")] == [
        b"a.%d" % n for n in range(50)
    ]


@pytest.mark.parametrize("is_heard_here", [False, True])
def test_more_messages_than_a_turn_takes_keep_their_order(is_heard_here: bool) -> None:
    _, one, two, _ = three()
    two.send(b"SUB a.> 1\r\n")
    if is_heard_here:
        one.send(b"SUB a.> 1\r\n")
    one.send(b"".join(b"PUB a.%d 1\r\nx\r\n" % n for n in range(20_000)))
    lines = [line for line in two.take().split(b"\r\n") if line.startswith(b"MSG")]
    assert [line.split()[1] for line in lines] == [b"a.%d" % n for n in range(20_000)]
    assert one.client.in_msgs == 20_000


def test_the_last_unsubscribe_ends_the_crossing() -> None:
    world, one, two, _ = three()
    two.send(b"SUB a 1\r\nSUB a 2\r\n")
    two.send(b"UNSUB 1\r\n")
    one.send(b"PUB a 1\r\nx\r\n")
    two.send(b"UNSUB 2\r\n")
    one.send(b"PUB a 1\r\nx\r\n")
    assert crossed(world, "s1", "s2") == [b"a"]


def test_interest_ends_with_its_client_and_with_its_server() -> None:
    world, one, two, three_ = three()
    two.send(b"SUB a 1\r\n")
    three_.send(b"SUB a 1\r\n")
    two.connection.leave()
    world.settle()
    one.send(b"PUB a 1\r\nx\r\n")
    assert crossed(world, "s1", "s2") == []
    world.stop("s3")
    assert one.ask(b"SUB r 9\r\nPUB a r 0\r\n\r\n").startswith(b"HMSG r 9 ")


def test_a_subscription_that_ends_after_some_messages_ends_elsewhere_too() -> None:
    world, one, two, _ = three()
    two.send(b"SUB a 1\r\nUNSUB 1 2\r\n")
    for _ in range(4):
        one.send(b"PUB a 1\r\nx\r\n")
    assert two.take().count(b"MSG") == 2
    assert len(crossed(world, "s1", "s2")) == 2


class TestQueueGroups:
    def test_prefer_a_local_member(self) -> None:
        world, one, two, _ = three()
        one.send(b"SUB a q 1\r\n")
        two.send(b"SUB a q 1\r\n")
        for _ in range(20):
            one.send(b"PUB a 1\r\nx\r\n")
        assert one.take().count(b"MSG") == 20
        assert two.take() == b""
        assert crossed(world, "s1", "s2") == []

    def test_have_one_member_on_all_servers_chosen_by_weight(self) -> None:
        _, one, two, three_ = three()
        two.send(b"SUB a q 1\r\nSUB a q 2\r\nSUB a q 3\r\n")
        three_.send(b"SUB a q 1\r\n")
        for _ in range(400):
            one.send(b"PUB a 1\r\nx\r\n")
        there, elsewhere = two.take().count(b"MSG"), three_.take().count(b"MSG")
        assert there + elsewhere == 400
        assert 240 < there < 360

    def test_of_several_names_have_one_member_each(self) -> None:
        world, one, two, three_ = three()
        two.send(b"SUB a q 1\r\nSUB a r 2\r\nSUB a 3\r\n")
        three_.send(b"SUB a q 1\r\nSUB a.* q 2\r\n")
        one.send(b"SUB a r 1\r\n")
        for _ in range(30):
            one.send(b"PUB a 1\r\nx\r\n")
        messages = two.take().split(b"MSG ")[1:]
        plain = [message for message in messages if message.startswith(b"a 3 ")]
        grouped = [message for message in messages if message.startswith(b"a 1 ")]
        assert len(plain) == 30
        assert len(messages) == len(plain) + len(grouped)
        assert len(grouped) + three_.take().count(b"MSG") == 30
        assert one.take().count(b"MSG") == 30
        assert len(crossed(world, "s1", "s2")) == 30

    def test_whose_local_member_is_the_silent_publisher_are_served_elsewhere(self) -> None:
        world, _, two, _ = three()
        quiet = world.client("s1", echo=False)
        quiet.send(b"SUB a q 1\r\n")
        two.send(b"SUB a q 1\r\n")
        quiet.send(b"PUB a 1\r\nx\r\n")
        assert two.take() == b"MSG a 1 1\r\nx\r\n"

    def test_whose_local_member_has_had_enough_get_each_message_once(self) -> None:
        _, one, two, _ = three()
        one.send(b"SUB a q 1\r\nUNSUB 1 1\r\n")
        two.send(b"SUB a q 1\r\n")
        one.take()
        one.send(b"PUB a 1\r\nx\r\n")
        one.send(b"PUB a 1\r\ny\r\n")
        assert one.take() == b"MSG a 1 1\r\nx\r\n"
        assert two.take() == b"MSG a 1 1\r\ny\r\n"


class TestPeersThatBreakRules:
    def sent_by_s2(self, data: bytes) -> tuple[ClusterWorld, Peer]:
        world = ClusterWorld()
        world.start_all(2)
        client = world.client("s1")
        client.send(b"SUB > 1\r\n")
        ends = next(
            ends
            for ends in world.pipes_between("s1", "s2")
            if ends[0].channel.purpose.value == "messages"
        )
        near = next(end for end in ends if end.peer_host == world.host_of("s1"))
        near.write(data)
        world.settle()
        return world, client

    @pytest.mark.parametrize("where", ["subject", "reply"])
    def test_are_cut_off_before_a_client_reads_a_forged_frame(self, where: str) -> None:
        messages = PeerMessages()
        word = b"a\r\nMSG\x0bforged"
        if where == "subject":
            messages.add(word, None, -1, b"x")
        else:
            messages.add(b"a", word, -1, b"x")
        world, client = self.sent_by_s2(encode_messages("$G", messages))
        assert b"MSG" not in client.take()
        assert "a subject with a line end" in world.log_of("s1")

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (encode_interest("$G", [(b"a..b", b"", 1)]), "an interest is not a subject"),
            (frame(Kind.MEMBERS, b"[]x"), "not a list of members"),
            (
                frame(Kind.MEMBERS, b'[{"server_id":"N","server_name":"n","address":"nowhere"}]'),
                'a member has the address "nowhere"',
            ),
            (
                frame(
                    Kind.MEMBERS,
                    b"["
                    + b",".join(
                        [b'{"server_id":"N","server_name":"n","address":"h:1"}'] * (MEMBERS_MAX + 1)
                    )
                    + b"]",
                ),
                "a list of 1001 members is too long",
            ),
            (frame(Kind.INFO, b'{"server_id":"other"}'), "INFO of another server"),
        ],
    )
    def test_are_cut_off_by_name(self, data: bytes, reason: str) -> None:
        world, _ = self.sent_by_s2(data)
        assert reason in world.log_of("s1")
        world.advance(3)
        assert world.is_whole()

    def test_may_name_an_account_that_is_not_there(self) -> None:
        messages = PeerMessages()
        messages.add(b"a", None, -1, b"x")
        world, client = self.sent_by_s2(encode_messages("nowhere", messages))
        assert client.take() == b""
        assert world.is_whole()


def test_acknowledgements_among_publishes_do_not_shift_them() -> None:
    """The broker takes acknowledgements out of the batch that the others are sent from."""
    world, one, two, _ = three()
    two.send(b"SUB a.* 1\r\n")
    account = world.nodes["s1"].accounts.default
    inlet = Ingest(Unconcerned())
    own = OwnSubscriptions(lambda account: own_client(99, account))
    own.take_in(account, b"$JS.ACK.>", inlet)
    one.send(
        b"PUB $JS.ACK.S.C.1.1.1.1.0 0\r\n\r\n"
        b"PUB a.1 1\r\nx\r\nPUB $JS.ACK.S.C.1.2.2.1.0 0\r\n\r\nPUB a.2 1\r\ny\r\n"
    )
    assert two.take() == b"MSG a.1 1 1\r\nx\r\nMSG a.2 1 1\r\ny\r\n"


class Unconcerned:
    """The owner of an inlet that drops what was gathered."""

    def process(self, inlet: Inlet) -> None:
        inlet.take()


class TestRequests:
    def test_are_answered_across_servers_in_one_turn_of_each(self) -> None:
        _, one, two, _ = three()
        two.send(b"SUB svc 1\r\n")
        # The inbox is subscribed to in the same write as the request.
        one.send(b"SUB _INBOX.x.* 1\r\nPUB svc _INBOX.x.1 1\r\nq\r\n")
        assert two.take() == b"MSG svc 1 _INBOX.x.1 1\r\nq\r\n"
        two.send(b"PUB _INBOX.x.1 1\r\na\r\n")
        assert one.take() == b"MSG _INBOX.x.1 1 1\r\na\r\n"

    def test_that_nobody_answers_anywhere_are_told_so(self) -> None:
        _, one, two, _ = three()
        two.send(b"SUB other 1\r\n")
        reply = one.ask(b"SUB r 1\r\nPUB svc r 0\r\n\r\n")
        assert reply.startswith(b"HMSG r 1 ")
        assert b"NATS/1.0 503" in reply

    @pytest.mark.parametrize("queue", [b"", b"q "])
    def test_that_somebody_hears_elsewhere_are_not_told_so(self, queue: bytes) -> None:
        _, one, two, _ = three()
        two.send(b"SUB svc %b1\r\n" % queue)
        assert one.ask(b"SUB r 1\r\nPUB svc r 0\r\n\r\n") == b""
        assert two.take() == b"MSG svc 1 r 0\r\n\r\n"


ACCOUNTS = (
    AccountOptions("A", users=(UserOptions("a", "a", "A"),)),
    AccountOptions("B", users=(UserOptions("b", "b", "B"),)),
)


def test_accounts_stay_apart_across_servers() -> None:
    world = ClusterWorld()
    world.start_all(2, accounts=ACCOUNTS)
    here = world.client("s1", user="a", password="a")
    same = world.client("s2", user="a", password="a")
    other = world.client("s2", user="b", password="b")
    same.send(b"SUB a 1\r\n")
    other.send(b"SUB a 1\r\nSUB > 2\r\n")
    here.send(b"PUB a 1\r\nx\r\n")
    assert same.take() == b"MSG a 1 1\r\nx\r\n"
    assert other.take() == b""


def test_an_account_that_a_reload_adds_is_heard_of() -> None:
    world = ClusterWorld()
    world.start("s1", accounts=ACCOUNTS)
    node = world.start("s2", "s1")
    world.client("s1", user="a", password="a").send(b"SUB a 1\r\n")
    node.reload(replace(node.options, accounts=ACCOUNTS))
    world.settle()
    listener = world.client("s1", user="a", password="a")
    listener.send(b"SUB a 1\r\n")
    world.client("s2", user="a", password="a").send(b"PUB a 1\r\nx\r\n")
    assert listener.take() == b"MSG a 1 1\r\nx\r\n"


class TestPermissionsOfUsers:
    def test_are_checked_before_a_message_crosses(self) -> None:
        world = ClusterWorld()
        denied = Permissions(publish=SubjectPermission(allow=("ok",)))
        users = (UserOptions("u", "u", permissions=denied),)
        world.start_all(2, users=users)
        here = world.client("s1", user="u", password="u")
        there = world.client("s2", user="u", password="u")
        there.send(b"SUB > 1\r\n")
        told = here.ask(b"PUB no 1\r\nx\r\nPUB ok 1\r\ny\r\n")
        assert told == b"-ERR 'Permissions Violation for Publish to \"no\"'\r\n"
        assert there.take() == b"MSG ok 1 1\r\ny\r\n"

    def test_verbose_clients_are_answered_once(self) -> None:
        world = ClusterWorld()
        world.start_all(2)
        world.client("s2").send(b"SUB a 1\r\n")
        client = world.client("s1", verbose=True)
        assert client.ask(b"PUB a 1\r\nx\r\nPUB a 1\r\nx\r\n") == b"+OK\r\n+OK\r\n"


class TestPermissionsOfTheCluster:
    def test_import_says_which_subscriptions_are_announced(self) -> None:
        world = ClusterWorld()
        importing = Permissions(publish=SubjectPermission(allow=("ok.>",)))
        world.start("s1", cluster={"permissions": importing})
        world.start("s2", "s1")
        here, there = world.client("s1"), world.client("s2")
        here.send(b"SUB ok.a 1\r\nSUB no.a 2\r\n")
        there.send(b"PUB ok.a 1\r\nx\r\nPUB no.a 1\r\nx\r\n")
        assert here.take() == b"MSG ok.a 1 1\r\nx\r\n"

    def test_export_says_which_subscriptions_of_others_count(self) -> None:
        world = ClusterWorld()
        exporting = Permissions(subscribe=SubjectPermission(deny=("no.>",)))
        world.start("s1", cluster={"permissions": exporting})
        world.start("s2", "s1")
        here, there = world.client("s1"), world.client("s2")
        there.send(b"SUB ok.a 1\r\nSUB no.a 2\r\n")
        here.send(b"PUB ok.a 1\r\nx\r\nPUB no.a 1\r\nx\r\n")
        assert there.take() == b"MSG ok.a 1 1\r\nx\r\n"

    def test_change_by_a_reload(self) -> None:
        world = ClusterWorld()
        node = world.start("s1")
        world.start("s2", "s1")
        here, there = world.client("s1"), world.client("s2")
        here.send(b"SUB in 1\r\n")
        there.send(b"SUB out 1\r\n")

        def exchanged() -> tuple[bytes, bytes]:
            there.send(b"PUB in 0\r\n\r\n")
            here.send(b"PUB out 0\r\n\r\n")
            return here.take(), there.take()

        def permit(permissions: Permissions) -> None:
            cluster = replace(node.options.cluster, permissions=permissions)
            node.reload(replace(node.options, cluster=cluster))
            world.settle()
            here.take(), there.take()

        everything = (b"MSG in 1 0\r\n\r\n", b"MSG out 1 0\r\n\r\n")
        assert exchanged() == everything
        nothing = SubjectPermission(deny=(">",))
        permit(Permissions(publish=nothing, subscribe=nothing))
        assert exchanged() == (b"", b"")
        permit(Permissions())
        assert exchanged() == everything


def test_a_message_to_a_crowd_elsewhere_reaches_all_of_it_in_order() -> None:
    _, one, two, _ = three()
    two.send(b"".join(b"SUB a %d\r\n" % sid for sid in range(40)))
    two.send(b"SUB b x\r\n")
    one.send(b"PUB a 1\r\n1\r\nPUB b 1\r\n2\r\nPUB a 1\r\n3\r\n")
    bodies = two.take().split(b"\r\n")[1::2]
    assert bodies == [b"1"] * 40 + [b"2"] + [b"3"] * 40


class TestTheSystemAccount:
    USERS = (AccountOptions("SYS", users=(UserOptions("s", "s", "SYS"),)),)

    def world(self) -> ClusterWorld:
        world = ClusterWorld()
        world.start_all(3, accounts=self.USERS, system_account="SYS")
        return world

    def test_asks_all_servers_at_once(self) -> None:
        world = self.world()
        client = world.client("s1", user="s", password="s")
        told = client.ask(b"SUB r 1\r\nPUB $SYS.REQ.SERVER.PING r 0\r\n\r\n")
        assert told.count(b"MSG r 1 ") == 3
        for name in world.nodes:
            assert b'"name":"%b"' % name.encode() in told

    @pytest.mark.parametrize("name", ["VARZ", "ROUTEZ", "IDZ", "STATSZ", "SUBSZ", "CONNZ"])
    def test_asks_one_server_by_its_id(self, name: str) -> None:
        world = self.world()
        client = world.client("s1", user="s", password="s")
        server_id = world.nodes["s3"].server_id
        subject = f"$SYS.REQ.SERVER.{server_id}.{name}".encode()
        told = client.ask(b"SUB r 1\r\nPUB %b r 0\r\n\r\n" % subject)
        assert told.count(b"MSG r 1 ") == 1
        assert b'"s3"' in told

    def test_hears_events_of_all_servers(self) -> None:
        world = self.world()
        client = world.client("s1", user="s", password="s")
        client.send(b"SUB $SYS.ACCOUNT.*.CONNECT 1\r\nSUB $SYS.SERVER.*.SHUTDOWN 2\r\n")
        world.client("s2", user="s", password="s")
        told = client.take()
        assert told.count(b"MSG $SYS.ACCOUNT.SYS.CONNECT 1 ") == 1
        assert b'"name":"s2"' in told
        server_id = world.nodes["s3"].server_id.encode()
        world.stop("s3")
        assert b"MSG $SYS.SERVER.%b.SHUTDOWN 2 " % server_id in client.take()

    def test_gets_the_figures_of_all_servers_from_time_to_time(self) -> None:
        world = self.world()
        client = world.client("s1", user="s", password="s")
        client.send(b"SUB $SYS.SERVER.*.STATSZ 1\r\n")
        world.advance(10.1)
        told = client.take()
        assert {name for name in world.nodes if f'"name":"{name}"'.encode() in told} == {
            "s1",
            "s2",
            "s3",
        }
        assert b'"active_servers":3' in told
