"""Servers find each other, keep one link each, and refuse everybody else."""

import struct
from dataclasses import replace
from itertools import permutations

import msgspec
import pytest

from headwater.server.cluster.cluster import HANDSHAKES_MAX
from headwater.server.cluster.consensus.driver import ConsensusDriver
from headwater.server.cluster.consensus.frames import Links
from headwater.server.cluster.listener import PeerListener
from headwater.server.cluster.members import MEMBERS_MAX
from headwater.server.cluster.pulse import CHALLENGE_S
from headwater.server.cluster.traffic import HOMELESS_MAX
from headwater.server.configuration.options import Options, RouteUrl
from headwater.server.node import Node
from headwater.wire.peer_frames import GREETING_BYTES_MAX, Kind, encode_interest, frame
from headwater.wire.peer_info import (
    Member,
    PeerConnect,
    PeerInfo,
    Purpose,
    connect_line,
    encode_info,
    encode_members,
    info_line,
)
from tests.kit.cluster_world import CLUSTER_PORT, ClusterWorld, PipeEnd
from tests.kit.world import infos_in


@pytest.mark.parametrize("count", [2, 3, 5])
def test_servers_that_know_one_of_them_all_know_each_other(count: int) -> None:
    world = ClusterWorld()
    world.start_all(count)
    assert world.is_whole()


def test_servers_that_dial_each_other_at_once_have_one_link() -> None:
    world = ClusterWorld()
    for name in ("s1", "s2", "s3"):
        # Each has all of them as its routes, itself too.
        world.start(name, "s1 s2 s3")
    world.advance(5)
    assert world.is_whole()
    assert "[ERR]" not in world.log_of("s3")


def test_both_ends_that_dial_in_the_same_moment_keep_one_connection() -> None:
    world = ClusterWorld()
    world.start_all(2)
    world.cut("s1", "s2")
    assert world.links() == set()
    world.heal("s1", "s2")
    one, two = world.cluster_of("s1"), world.cluster_of("s2")
    # Both are told of the other by a third server, as it happens with gossip.
    world.start("s3", "s1 s2")
    assert world.is_whole()
    assert len(one.channels) == len(two.channels) == 4


def test_a_link_that_breaks_is_made_again() -> None:
    world = ClusterWorld()
    world.start_all(3)
    world.cut("s2", "s3")
    assert ("s2", "s3", "messages") not in world.links()
    world.advance(30)
    world.heal("s2", "s3")
    world.advance(3)
    assert world.is_whole()


def test_a_server_that_stops_and_starts_again_is_found() -> None:
    world = ClusterWorld()
    world.start_all(3)
    world.stop("s1")
    world.advance(10)
    assert world.is_whole()
    world.start("s1")
    world.advance(3)
    assert world.is_whole()


def test_a_server_that_comes_back_replaces_its_silent_self() -> None:
    world = ClusterWorld()
    world.start_all(3)
    world.lose("s3")
    world.start("s3", "s1")
    assert 'Remote server has a duplicate name: "s3"' in world.log_of("s1")
    world.advance(CHALLENGE_S + 3)
    assert world.is_whole()


def test_a_silent_server_is_given_up_when_it_answers_no_pings() -> None:
    world = ClusterWorld()
    world.start_all(2)
    world.lose("s2")
    world.advance(30 * 3 + 1)
    assert world.links() == set()
    assert "Stale Connection - Remote: s2" in world.log_of("s1")


def test_one_connection_of_a_link_may_break_alone() -> None:
    world = ClusterWorld()
    world.start_all(2)
    for near, far in world.pipes_between("s1", "s2"):
        if near.channel.purpose.value == "messages":
            near.lose()
            far.lose()
    world.settle()
    assert world.links() == {("s1", "s2", "consensus"), ("s2", "s1", "consensus")}
    world.advance(3)
    assert world.is_whole()


class TestStrangers:
    def refusal(self, world: ClusterWorld, *said: bytes) -> str:
        end = world.stranger("s1")
        for data in said:
            end.write(data)
            world.settle()
        return bytes(end.unread).partition(b"\r\n")[2].decode()

    @pytest.mark.parametrize(
        ("said", "told"),
        [
            (
                b'CONNECT {"lang":"python3","verbose":false}\r\n',
                "attempted to connect to route port",
            ),
            (
                b'CONNECT {"name":"NX","cluster":"C"}\r\n',
                "Rejecting connection, a nats-server cannot join a cluster of Headwater servers",
            ),
            (
                connect_line(PeerConnect(name="NX", cluster="D", link=2)),
                'Rejecting connection, cluster name "D" does not match "C"',
            ),
            (
                connect_line(PeerConnect(name="NX", cluster="C", link=7)),
                "Rejecting connection, links of version 7 are not known, this server has version 2",
            ),
            (b"GET / HTTP/1.0\r\n", "expected INFO or CONNECT"),
            (bytes(70_000), "a line of the handshake is too long"),
        ],
    )
    def test_are_refused_by_name_and_logged_once(self, said: bytes, told: str) -> None:
        world = ClusterWorld()
        world.start_all(2)
        for _ in range(3):
            assert self.refusal(world, said) == f"-ERR '{told}'\r\n"
        assert world.log_of("s1").count(told) == 1
        assert world.is_whole()

    def test_without_the_credentials_are_refused(self) -> None:
        world = ClusterWorld()
        world.start("s1", cluster={"username": "a", "password": "b"})
        told = self.refusal(world, connect_line(PeerConnect(name="NX", cluster="C", link=2)))
        assert told == "-ERR 'Authorization Violation'\r\n"
        world.start("s2", "s1", cluster={"username": "a", "password": "b"})
        assert world.is_whole()

    def test_who_say_nothing_are_sent_away(self) -> None:
        world = ClusterWorld()
        world.start_all(1)
        end = world.stranger("s1")
        world.advance(2)
        assert end.ended
        assert b"-ERR 'Authentication Timeout'\r\n" in end.unread

    def test_who_send_garbage_after_the_handshake_are_cut_off(self) -> None:
        world = ClusterWorld()
        world.start_all(2)
        end = world.stranger("s1")
        info = PeerInfo(server_id="NX", server_name="x", cluster="C", host="10.8.8.8", link=2)
        end.write(connect_line(PeerConnect(name="NX", cluster="C", link=2)) + info_line(info))
        world.settle()
        assert b"+OK\r\n" in end.unread
        end.write(bytes(9))
        world.settle()
        assert end.ended
        assert "unknown kind of frame 0" in world.log_of("s1")
        world.advance(10)
        assert world.is_whole()

    def test_are_bounded_in_number(self) -> None:
        world = ClusterWorld()
        world.start_all(1)
        ends = [world.stranger("s1") for _ in range(HANDSHAKES_MAX + 5)]
        assert len(world.cluster_of("s1").channels) == HANDSHAKES_MAX
        assert sum(1 for end in ends if end.ended) == 5

    def test_who_introduce_themselves_badly_are_told_to_nobody(self) -> None:
        world = ClusterWorld()
        world.start_all(3)
        info = PeerInfo(server_id="NX", server_name="x", cluster="C", host="a]b", link=2)
        connect = connect_line(PeerConnect(name="NX", cluster="C", link=2))
        told = self.refusal(world, connect, info_line(info))
        assert told == "-ERR 'INFO of a server has no address that others can connect to'\r\n"
        fine = msgspec.structs.replace(info, host="10.8.8.8")
        end = world.stranger("s1")
        end.write(connect + info_line(fine))
        world.settle()
        assert {peer.name for peer in world.cluster_of("s1").peers.values()} == {"s2", "s3", "x"}
        end.write(frame(Kind.INFO, encode_info(msgspec.structs.replace(fine, port=-1))))
        world.settle()
        assert end.ended
        world.advance(10)
        assert world.is_whole()

    def test_who_are_too_many_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("headwater.server.cluster.cluster.MEMBERS_MAX", 2)
        world = ClusterWorld()
        world.start_all(3)
        world.start("s4", "s1")
        world.advance(3)
        assert world.cluster_of("s4").peers == {}
        text = "Rejecting connection, there are links to 2 other servers"
        assert world.log_of("s1").count(text) == 1
        assert len(world.cluster_of("s1").peers) == 2

    def introduced(
        self, world: ClusterWorld, purpose: Purpose = Purpose.MESSAGES, jetstream: bool = False
    ) -> PipeEnd:
        """A stranger with an open channel."""
        end = world.stranger("s1")
        info = PeerInfo(
            server_id="NX",
            server_name="x",
            cluster="C",
            host="10.8.8.8",
            jetstream=jetstream,
            link=2,
        )
        connect = PeerConnect(name="NX", cluster="C", link=2, purpose=purpose.value)
        end.write(connect_line(connect) + info_line(info))
        world.settle()
        assert b"+OK" in end.unread
        return end

    def test_who_name_servers_that_do_not_exist_have_few_of_them_dialled(self) -> None:
        world = ClusterWorld()
        world.start_all(2)
        end = self.introduced(world)
        dialler = world.cluster_of("s1")._dialler
        known = len(dialler._targets)
        for flood in range(30):
            named = [
                Member(
                    server_id=f"N{number}", server_name="n", address=f"10.7.{flood}.1:{number + 1}"
                )
                for number in range(flood * 900, flood * 900 + 900)
            ]
            end.write(frame(Kind.MEMBERS, encode_members(named)))
            world.settle()
            assert len(dialler._targets) <= MEMBERS_MAX + 2
        end.write(frame(Kind.MEMBERS, encode_members([])))
        world.advance(5)
        assert len(dialler._targets) == known
        end.close()
        world.advance(1)
        assert world.is_whole()

    def test_who_listen_to_too_much_are_cut_off(self) -> None:
        world = ClusterWorld()
        world.start_all(2)
        for account, count_max, told in (
            ("nowhere", HOMELESS_MAX, f"more than {HOMELESS_MAX} interests in accounts that are"),
            ("$G", 5, "more than 5 interests in accounts"),
        ):
            end = self.introduced(world)
            with pytest.MonkeyPatch.context() as patch:
                if account == "$G":
                    patch.setattr("headwater.server.cluster.traffic.INTERESTS_MAX", count_max)
                interests = [(b"a.%d" % number, b"", 1) for number in range(count_max + 1)]
                end.write(encode_interest(account, interests[:-1]))
                # An interest that is told again is no further one.
                end.write(encode_interest(account, [(b"a.1", b"", 1), (b"a.2", b"", 0)]))
                end.write(encode_interest(account, [(b"a.2", b"", 1)]))
                world.settle()
                assert not end.ended
                end.write(encode_interest(account, interests[-1:]))
                world.settle()
            assert end.ended
            assert world.log_of("s1").count(told) == 1
        assert world.is_whole()
        globe = world.nodes["s1"].accounts.get("$G")
        assert globe is not None
        assert globe.remote is None

    def test_who_have_not_greeted_have_little_buffered(self) -> None:
        world = ClusterWorld()
        world.start_all(2)
        end = self.introduced(world, Purpose.CONSENSUS)
        end.write(struct.pack("<IIB", GREETING_BYTES_MAX + 1, 0, Kind.CONSENSUS))
        world.settle()
        assert end.ended
        assert f"a frame of {GREETING_BYTES_MAX + 1} bytes is too large" in world.log_of("s1")

    def test_who_send_a_frame_of_the_other_channel_are_cut_off(self) -> None:
        world = ClusterWorld()
        world.start_all(2)
        near, _ = next(
            ends
            for ends in world.pipes_between("s1", "s2")
            if ends[0].channel.purpose.value == "consensus"
        )
        near.write(frame(Kind.MESSAGES))
        world.settle()
        assert "a frame of kind MESSAGES on the channel for consensus" in world.log_of("s1")
        world.advance(3)
        assert world.is_whole()


def test_a_server_of_another_cluster_is_refused_and_the_cluster_goes_on() -> None:
    world = ClusterWorld()
    world.start_all(2)
    world.start("s3", "s1", cluster={"name": "D"})
    world.advance(20)
    text = 'Rejecting connection, cluster name "C" does not match "D"'
    assert world.log_of("s3").count(text) == 1
    assert world.links() == {
        (one, other, purpose)
        for one, other in (("s1", "s2"), ("s2", "s1"))
        for purpose in ("messages", "consensus")
    }


def test_two_servers_of_one_name_are_not_both_in_a_cluster() -> None:
    world = ClusterWorld()
    world.start_all(2)
    world.start("s3", "s1", server_name="s2")
    world.advance(10)
    assert 'Remote server has a duplicate name: "s2"' in world.log_of("s3")
    assert len(world.cluster_of("s3").peers) == 0
    assert len(world.cluster_of("s1").peers) == 1


def test_a_name_that_was_made_up_gives_way_to_a_configured_one() -> None:
    world = ClusterWorld()
    world.start("s1", cluster={"name": ""})
    made_up = world.cluster_of("s1").cluster_name
    world.start("s2", "s1", cluster={"name": ""})
    assert world.cluster_of("s1").cluster_name == world.cluster_of("s2").cluster_name
    world.start("s3", "s2", cluster={"name": "C"})
    world.advance(3)
    assert made_up != "C"
    assert {world.cluster_of(name).cluster_name for name in world.nodes} == {"C"}
    assert world.is_whole()


class TestClients:
    def test_are_told_of_servers_that_come_and_go(self) -> None:
        world = ClusterWorld()
        world.start("s1")
        client = world.client("s1")
        world.start("s2", "s1")
        (info,) = infos_in(client.take())
        assert info["cluster"] == "C"
        assert info["connect_urls"] == ["10.0.0.1:4222", "10.0.0.2:4222"]
        world.stop("s2")
        (info,) = infos_in(client.take())
        assert info["connect_urls"] == ["10.0.0.1:4222"]

    def test_are_not_told_by_servers_that_do_not_advertise(self) -> None:
        world = ClusterWorld()
        world.start("s1", cluster={"no_advertise": True})
        client = world.client("s1")
        world.start("s2", "s1")
        assert infos_in(client.take()) == []
        far = world.client("s2")
        assert infos_in(bytes(far.connection.received))[0]["connect_urls"] == ["10.0.0.2:4222"]

    def test_are_told_the_advertised_address(self) -> None:
        world = ClusterWorld()
        world.start("s1", client_advertise="far:1")
        world.start("s2", "s1")
        client = world.client("s2")
        urls = infos_in(bytes(client.connection.received))[0]["connect_urls"]
        assert urls == ["10.0.0.2:4222", "far:1"]

    def test_of_a_server_that_listens_everywhere_are_told_its_addresses(self) -> None:
        world = ClusterWorld()
        world.start("s1", host="0.0.0.0")
        client = world.client("s1")
        assert infos_in(bytes(client.connection.received))[0]["connect_urls"] == ["10.0.0.1:4222"]

    def test_are_not_sent_to_a_lame_duck(self) -> None:
        world = ClusterWorld()
        world.start_all(2)
        client = world.client("s1")
        world.nodes["s2"].announce_lame_duck()
        world.settle()
        (info,) = infos_in(client.take())
        assert info["connect_urls"] == ["10.0.0.1:4222"]


class Recorder:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, ...]] = []
        self.reads: list[str] = []

    def peer_joined(self, peer: str) -> None:
        self.heard.append(("joined", peer))

    def peer_left(self, peer: str) -> None:
        self.heard.append(("left", peer))

    def peer_unreachable(self, peer: str) -> None:
        self.heard.append(("unreachable", peer))

    def peer_heard(self, peer: str) -> None:
        self.reads.append(peer)

    def consensus_received(self, peer: str, payload: bytes) -> None:
        self.heard.append(("consensus", peer, payload.decode()))

    def catch_up_received(self, peer: str, payload: bytes) -> None:
        self.heard.append(("catch-up", peer, payload.decode()))

    def members_expected(self, count: int) -> None:
        self.heard.append(("expected", str(count)))


class TestTheListener:
    def test_is_told_how_many_servers_are_configured(self) -> None:
        world = ClusterWorld()
        world.start("s1", "s1 s2 s3")
        assert world.cluster_of("s1").configured_servers() == 3, "one route is the server itself"
        world.start("s4", "s1 s2 s3")
        assert world.cluster_of("s4").configured_servers() == 4

    def test_is_what_the_driver_of_consensus_is(self) -> None:
        world = ClusterWorld()
        world.start("s1")
        # Both are checked by their types: the driver hears the links, and sends by them.
        links: Links = world.cluster_of("s1")
        door: type[PeerListener] = ConsensusDriver
        assert callable(links.disconnect)
        assert callable(door.peer_joined)

    def test_hears_payloads_by_a_channel_each(self) -> None:
        world = ClusterWorld()
        world.start("s1")
        recorder = world.cluster_of("s1").listener = Recorder()
        world.start("s2", "s1")
        two = world.cluster_of("s2")
        before = [near.writes for near, _ in world.pipes_between("s1", "s2")]
        two.send_consensus("s1", b"vote")
        two.send_consensus("s1", b"heartbeat")
        two.send_catch_up("s1", b"segment")
        two.send_consensus("nobody", b"lost")
        world.settle()
        assert recorder.heard[0] == ("joined", "s2")
        assert sorted(recorder.heard[1:]) == [
            ("catch-up", "s2", "segment"),
            ("consensus", "s2", "heartbeat"),
            ("consensus", "s2", "vote"),
        ]
        assert recorder.heard.index(("consensus", "s2", "vote")) < recorder.heard.index(
            ("consensus", "s2", "heartbeat")
        )
        # Each connection gets one write for the turn, however much there is to send.
        after = [near.writes for near, _ in world.pipes_between("s1", "s2")]
        assert [late - early for early, late in zip(before, after, strict=True)] == [1, 1]

    def test_hears_a_server_whose_payload_is_not_complete(self) -> None:
        world = ClusterWorld()
        world.start("s1")
        recorder = world.cluster_of("s1").listener = Recorder()
        world.start("s2", "s1")
        (near,) = [
            near
            for near, _ in world.pipes_between("s1", "s2")
            if near.channel.purpose is Purpose.CONSENSUS
        ]
        recorder.reads.clear()
        whole = frame(Kind.CONSENSUS, b"vote")
        for part in (whole[:1], whole[1:-1], whole[-1:]):
            assert ("consensus", "s2", "vote") not in recorder.heard
            near.write(part)
            world.settle()
        assert recorder.heard[-1] == ("consensus", "s2", "vote")
        assert recorder.reads == ["s2"] * 3

    def test_hears_of_servers_that_leave_and_refuse_connections(self) -> None:
        world = ClusterWorld()
        world.start("s2")
        world.start("s1", "s2")
        recorder = world.cluster_of("s1").listener = Recorder()
        world.stop("s2")
        world.advance(2)
        assert recorder.heard[0] == ("left", "s2")
        assert ("unreachable", "s2") in recorder.heard

    def test_may_disconnect_a_server_which_comes_again(self) -> None:
        world = ClusterWorld()
        world.start_all(2)
        world.cluster_of("s1").disconnect("s2", "silent")
        assert "Router connection closed: silent - Remote: s2" in world.log_of("s1")
        world.cluster_of("s1").disconnect("s3", "never met")
        world.settle()
        assert world.links() == set()
        world.advance(3)
        assert world.is_whole()


class TestSlowPeers:
    def test_are_disconnected_when_too_much_waits_for_them(self) -> None:
        world = ClusterWorld()
        world.start("s1", max_pending=2**21, max_payload=2**20)
        world.start("s2", "s1")
        world.client("s2").send(b"SUB a 1\r\n")
        publisher = world.client("s1")
        far = world.pipes[0][2]
        far.pause_reading()
        for _ in range(4):
            publisher.send(b"PUB a 1000000\r\n%b\r\n" % bytes(1_000_000))
            world.advance(0.1)
        assert "Slow Consumer Detected: MaxPending of 2097152 Exceeded" in world.log_of("s1")
        assert world.cluster_of("s1").slow_consumers == 1
        # The channel for consensus is not the messages' business.
        assert ("s1", "s2", "consensus") in world.links()
        world.advance(3)
        assert world.is_whole()

    def test_have_until_the_deadline_to_take_some_of_it(self) -> None:
        world = ClusterWorld()
        world.start("s1", write_deadline_s=2.0, max_payload=2**20)
        world.start("s2", "s1")
        world.client("s2").send(b"SUB a 1\r\n")
        publisher = world.client("s1")
        near = world.pipes[0][2]
        near.pause_reading()
        publisher.send(b"PUB a 1000000\r\n%b\r\n" % bytes(1_000_000))
        for _ in range(5):
            world.advance(1.9)
            del near.unread[:1000]
        assert ("s1", "s2", "messages") in world.links()
        world.advance(4)
        assert "WriteDeadline of 2s exceeded with 1 chunks of 99" in world.log_of("s1")
        assert world.cluster_of("s1").slow_consumers == 1

    def test_hold_back_the_publishers_to_them(self) -> None:
        world = ClusterWorld()
        world.start_all(2, max_pending=240_000, max_payload=200_000)
        world.client("s2").send(b"SUB a 1\r\n")
        publisher = world.client("s1")
        near, _ = next(
            ends
            for ends in world.pipes_between("s1", "s2")
            if ends[0].channel.purpose.value == "messages"
        )
        near.pause_reading()
        publisher.send(b"PUB a 200000\r\n%b\r\n" % bytes(200_000))
        publisher.send(b"PUB a 1\r\nx\r\n")
        assert publisher.client.is_stalled


class TestReload:
    def reload(self, world: ClusterWorld, name: str, options: Options) -> None:
        world.nodes[name].reload(options)
        world.settle()

    def test_adds_and_removes_routes(self) -> None:
        world = ClusterWorld()
        world.start("s1")
        node = world.start("s2")
        alone = node.options
        with_route = ClusterWorld().start("s2", "s1").options
        self.reload(world, "s2", with_route)
        assert world.is_whole()
        self.reload(world, "s2", alone)
        assert "Removed route 10.0.0.1:6222" in world.log_of("s2")
        world.advance(5)
        assert world.links() == set()

    def test_keeps_servers_in_the_cluster_that_the_others_know(self) -> None:
        world = ClusterWorld()
        world.start_all(2)
        node = world.start("s3", "s1 s2")
        fewer = replace(node.options.cluster, routes=node.options.cluster.routes[:1])
        self.reload(world, "s3", replace(node.options, cluster=fewer))
        world.advance(3)
        assert world.is_whole()

    def test_sends_away_servers_that_logged_in_with_old_credentials(self) -> None:
        world = ClusterWorld()
        old = {"username": "a", "password": "old"}
        world.start("s1", cluster=old)
        world.start("s2", "s1", cluster=old)
        new = ClusterWorld().start("s1", cluster=old | {"password": "new"}).options
        self.reload(world, "s1", new)
        world.advance(5)
        assert world.links() == set()
        assert "Authorization Violation" in world.log_of("s2")

    def with_password(self, node: Node, password: str) -> Options:
        """The options of a server whose cluster and routes have another password."""
        cluster = node.options.cluster
        routes = tuple(replace(route, password=password) for route in cluster.routes)
        return replace(node.options, cluster=replace(cluster, password=password, routes=routes))

    @pytest.mark.parametrize("order", [*permutations(("s1", "s2", "s3"))], ids="-".join)
    def test_a_new_password_reaches_the_servers_one_by_one(self, order: tuple[str, ...]) -> None:
        world = ClusterWorld()
        world.start_all(3, cluster={"username": "a", "password": "old"})
        world.advance(3)
        for name in order:
            self.reload(world, name, self.with_password(world.nodes[name], "new"))
            world.advance(2)
        world.advance(60)
        assert world.is_whole()

    def test_keeps_servers_that_have_given_the_new_credentials(self) -> None:
        world = ClusterWorld()
        world.start("s1")
        route = RouteUrl(world.host_of("s1"), CLUSTER_PORT, "a", "new")
        world.start("s2", cluster={"routes": (route,)})
        channels = [*world.cluster_of("s1").channels]
        new = ClusterWorld().start("s1", cluster={"username": "a", "password": "new"}).options
        self.reload(world, "s1", new)
        assert [*world.cluster_of("s1").channels] == channels
        self.reload(world, "s1", ClusterWorld().start("s1").options)
        assert [*world.cluster_of("s1").channels] == channels

    def test_gives_a_route_its_own_credentials_though_other_servers_know_its_address(self) -> None:
        world = ClusterWorld()
        world.start("s1", cluster={"username": "a", "password": "one"})
        world.start(
            "s2", cluster={"routes": (RouteUrl(world.host_of("s1"), CLUSTER_PORT, "a", "one"),)}
        )
        world.start("s3", "s2", cluster={"username": "b", "password": "three"})
        world.advance(3)
        assert ("s3", "s1", "messages") not in world.links()
        node = world.nodes["s3"]
        routes = (*node.options.cluster.routes, *world.nodes["s2"].options.cluster.routes)
        more = replace(node.options, cluster=replace(node.options.cluster, routes=routes))
        self.reload(world, "s3", more)
        world.advance(60)
        assert world.is_whole()
