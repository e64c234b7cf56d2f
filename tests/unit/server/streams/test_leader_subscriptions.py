"""Clients of all servers reach a stream: once each, and are answered once each."""

import json

import pytest

from headwater.server.streams.leader_subscriptions import answer_patterns
from tests.kit.consumer_world import NS, pull_line
from tests.kit.stream_cluster import StreamCluster
from tests.kit.world import Peer


@pytest.fixture
def world() -> StreamCluster:
    made = StreamCluster()
    made.create("s1")
    return made


def publishes(count: int, subject: str = "s.a", reply: str = "in") -> bytes:
    return b"".join(f"PUB {subject} {reply}.{n} 2\r\nhi\r\n".encode() for n in range(count))


def sequences(world: StreamCluster, peer: Peer) -> list[int]:
    return [json.loads(frame.payload)["seq"] for frame in world.told(peer)]


class TestPublishes:
    @pytest.mark.parametrize("count", [1, 2, 100])
    def test_of_clients_elsewhere_are_stored_once_and_answered_once(
        self, world: StreamCluster, count: int
    ) -> None:
        peer = world.listener("s2", "in.*")
        peer.send(publishes(count))
        frames = world.told(peer)
        assert [frame.subject for frame in frames] == [f"in.{n}" for n in range(count)]
        assert [json.loads(frame.payload)["seq"] for frame in frames] == [*range(1, count + 1)]
        assert world.state("s1")["messages"] == count

    def test_of_many_subjects_keep_their_order(self, world: StreamCluster) -> None:
        peer = world.listener("s2", "in.*")
        peer.send(b"".join(b"PUB s.%d in.%d 0\r\n\r\n" % (n, n) for n in range(50)))
        assert sequences(world, peer) == [*range(1, 51)]

    def test_with_headers_keep_them(self, world: StreamCluster) -> None:
        peer = world.listener("s3", "in.*")
        block = b"NATS/1.0\r\nNats-Msg-Id: one\r\n\r\n"
        line = b"HPUB s.a in.1 %d %d\r\n%bx\r\n" % (len(block), len(block) + 1, block)
        peer.send(line + line)
        answers = [json.loads(frame.payload) for frame in world.told(peer)]
        assert [answer.get("duplicate", False) for answer in answers] == [False, True]

    def test_reach_subscribers_and_the_stream_once_each(self, world: StreamCluster) -> None:
        listeners = [world.listener(name, "s.>") for name in ("s1", "s2", "s3")]
        world.client("s2").send(b"PUB s.a 1\r\nx\r\n" * 3)
        assert [len(world.told(each)) for each in listeners] == [3, 3, 3]
        assert world.state("s1")["messages"] == 3

    def test_to_streams_of_two_servers_are_stored_by_both(self, world: StreamCluster) -> None:
        world.create("s2", "T", subjects=["s.b", "t"])
        peer = world.listener("s3", "in.*")
        peer.send(b"PUB s.b in.1 0\r\n\r\nPUB t in.2 0\r\n\r\nPUB s.c in.3 0\r\n\r\n")
        answers = sorted(
            (frame.subject, json.loads(frame.payload)["stream"]) for frame in world.told(peer)
        )
        assert answers == [("in.1", "S"), ("in.1", "T"), ("in.2", "T"), ("in.3", "S")]

    def test_end_with_the_stream(self, world: StreamCluster) -> None:
        peer = world.listener("s2", "in.*")
        world.call("s1", "STREAM.DELETE.S")
        peer.send(publishes(1))
        (frame,) = world.told(peer)
        assert frame.status.startswith("503")

    def test_follow_the_subjects_of_the_stream(self, world: StreamCluster) -> None:
        peer = world.listener("s2", "in.*")
        world.call("s1", "STREAM.UPDATE.S", {"name": "S", "subjects": ["other"]})
        peer.send(b"PUB s.a in.1 0\r\n\r\nPUB other in.2 0\r\n\r\n")
        by_subject = {frame.subject: frame for frame in world.told(peer)}
        assert by_subject["in.1"].status.startswith("503")
        assert json.loads(by_subject["in.2"].payload)["seq"] == 1

    def test_to_a_stream_that_is_not_announced_stay_away(self) -> None:
        world = StreamCluster(2, is_announced=False)
        world.create("s1")
        peer = world.listener("s2", "in.*")
        peer.send(publishes(1))
        (frame,) = world.told(peer)
        assert frame.status.startswith("503")


class TestDeliveries:
    def test_of_a_push_consumer_cross_under_their_own_subjects(self, world: StreamCluster) -> None:
        peer = world.listener("s2", "to.me")
        world.consumer("s1", deliver_subject="to.me")
        world.client("s3").send(b"PUB s.a 1\r\n1\r\nPUB s.b 1\r\n2\r\n")
        frames = world.told(peer)
        assert [(frame.subject, frame.payload) for frame in frames] == [
            ("s.a", b"1"),
            ("s.b", b"2"),
        ]
        assert all(frame.reply.startswith("$JS.ACK.S.C.") for frame in frames)

    def test_are_acknowledged_from_elsewhere(self, world: StreamCluster) -> None:
        peer = world.listener("s2", "to.me", "in.*")
        world.consumer("s1", deliver_subject="to.me")
        world.client("s1").send(b"PUB s.a 1\r\nx\r\n" * 5)
        frames = world.told(peer)
        acks = b"".join(f"PUB {frame.reply} 0\r\n\r\n".encode() for frame in frames[:4])
        peer.send(acks + f"PUB {frames[4].reply} in.1 4\r\n+ACK\r\n".encode())
        assert [frame.subject for frame in world.told(peer)] == ["in.1"]
        assert world.consumer_info("s1")["num_ack_pending"] == 0

    def test_to_a_queue_group_go_to_one_member_of_all_servers(self, world: StreamCluster) -> None:
        members = [world.client(name) for name in ("s2", "s3")]
        for member in members:
            member.send(b"SUB to.us q 1\r\n")
        world.consumer("s1", deliver_subject="to.us", deliver_group="q")
        world.client("s1").send(b"PUB s.a 1\r\nx\r\n" * 40)
        counts = [len(world.told(member)) for member in members]
        assert sum(counts) == 40
        assert all(counts)

    def test_with_headers_keep_them(self, world: StreamCluster) -> None:
        peer = world.listener("s2", "to.me")
        world.consumer("s1", deliver_subject="to.me")
        block = b"NATS/1.0\r\nA: b\r\n\r\n"
        world.client("s1").send(b"PUB s.a 1\r\n1\r\n")
        world.client("s1").send(b"HPUB s.a %d %d\r\n%b2\r\n" % (len(block), len(block) + 1, block))
        frames = world.told(peer)
        assert [(frame.header, frame.payload) for frame in frames] == [
            ("", b"1"),
            (block.decode(), b"2"),
        ]


class TestAcknowledgements:
    def test_of_a_consumer_that_is_nowhere_have_no_responders(self, world: StreamCluster) -> None:
        peer = world.listener("s2", "in.*")
        peer.send(
            b"PUB $JS.ACK.S.gone.1.1.1.1.0 in.1 0\r\n\r\nPUB $JS.ACK.T.C.1.1.1.1.0 in.2 0\r\n\r\n"
        )
        frames = sorted(world.told(peer))
        assert [(frame.subject, frame.status[:3]) for frame in frames] == [
            ("in.1", "503"),
            ("in.2", "503"),
        ]


def test_the_answers_to_deliveries_are_announced_in_both_forms() -> None:
    assert answer_patterns("$G", "hub", "S") == [
        b"$JS.ACK.S.>",
        b"$JS.ACK.hub.szMpdrwD.S.>",
        b"$JS.FC.S.>",
    ]


def test_republished_messages_reach_subscribers_elsewhere(world: StreamCluster) -> None:
    world.create("s1", "R", subjects=["r.>"], republish={"src": "r.>", "dest": "copy.>"})
    peer = world.listener("s3", "copy.>")
    world.client("s2").send(b"PUB r.a 1\r\nx\r\n")
    (frame,) = world.told(peer)
    assert (frame.subject, frame.payload) == ("copy.a", b"x")
    assert "Nats-Sequence: 1" in frame.header


def test_advisories_reach_subscribers_elsewhere(world: StreamCluster) -> None:
    peer = world.listener("s2", "$JS.EVENT.ADVISORY.STREAM.DELETED.*")
    world.call("s1", "STREAM.DELETE.S")
    (frame,) = world.told(peer)
    assert json.loads(frame.payload)["stream"] == "S"


class TestSlowLinks:
    BODY = b"PUB s.a 10000\r\n" + b"x" * 10_000 + b"\r\n"

    def test_make_consumers_wait_for_those_behind_them(self) -> None:
        world = StreamCluster(2, max_pending=400_000, max_payload=100_000)
        world.create("s1")
        peer = world.listener("s2", "to.me")
        world.consumer("s1", deliver_subject="to.me", max_ack_pending=10_000)
        far = [
            end
            for ends in world.pipes_between("s1", "s2")
            for end in ends
            if end.peer_host == world.host_of("s1")
        ]
        for end in far:
            end.pause_reading()
        publisher = world.client("s1")
        for _ in range(100):
            publisher.send(self.BODY)
            world.advance(0.01)
        # A tenth of the messages fits into the part of the buffer that may be unread.
        assert max(end.twin.buffered_bytes() for end in far if end.twin) < 300_000
        assert world.is_whole()
        for end in far:
            end.resume_reading()
        received = 0
        for _ in range(100):
            world.advance(0.01)
            received += len(world.told(peer))
        assert received == 100


class TestPulls:
    """Requests come to the server of the stream; the replies go wherever the requester is."""

    def test_are_answered_on_other_servers(self, world: StreamCluster) -> None:
        peer = world.listener("s2", "in.*")
        world.consumer("s1")
        world.client("s3").send(b"PUB s.a 1\r\nx\r\n" * 3)
        world.client("s1").send(pull_line("C", "in.1", batch=5, no_wait=True))
        frames = world.told(peer)
        assert [frame.subject for frame in frames] == ["s.a", "s.a", "s.a", "in.1"]
        assert frames[3].status.startswith("404")

    def test_that_wait_are_served_when_messages_come(self, world: StreamCluster) -> None:
        peer = world.listener("s2", "in.*")
        world.consumer("s1")
        world.client("s1").send(pull_line("C", "in.1", batch=2, expires=NS))
        assert world.told(peer) == []
        world.client("s3").send(b"PUB s.a 1\r\nx\r\n")
        assert [frame.subject for frame in world.told(peer)] == ["s.a"]

    def test_whose_requester_has_gone_elsewhere_are_dropped(self, world: StreamCluster) -> None:
        peer = world.listener("s2", "in.*")
        world.consumer("s1")
        asker = world.client("s1")
        asker.send(pull_line("C", "in.1", batch=1, expires=NS))
        peer.connection.leave()
        world.settle()
        stays = world.listener("s3", "other.*")
        asker.send(pull_line("C", "other.1", batch=1, expires=NS))
        world.client("s1").send(b"PUB s.a 1\r\nx\r\n")
        assert [frame.subject for frame in world.told(stays)] == ["s.a"]


class TestPushConsumers:
    def test_begin_when_a_client_elsewhere_subscribes(self, world: StreamCluster) -> None:
        world.consumer("s1", deliver_subject="to.me")
        world.client("s1").send(b"PUB s.a 1\r\nx\r\n")
        assert not world.consumer_info("s1").get("push_bound", False)
        peer = world.listener("s2", "to.me")
        assert [frame.subject for frame in world.told(peer)] == ["s.a"]
        assert world.consumer_info("s1")["push_bound"]

    def test_wait_when_the_client_or_its_server_has_gone(self, world: StreamCluster) -> None:
        world.consumer("s1", deliver_subject="to.me")
        peer = world.listener("s2", "to.me")
        peer.connection.leave()
        world.settle()
        assert not world.consumer_info("s1").get("push_bound", False)
        world.listener("s3", "to.me")
        assert world.consumer_info("s1")["push_bound"]
        world.stop("s3")
        assert not world.consumer_info("s1").get("push_bound", False)

    def test_are_not_bound_by_a_wider_subscription_elsewhere(self, world: StreamCluster) -> None:
        world.consumer("s1", deliver_subject="to.me")
        world.listener("s2", "to.*")
        assert not world.consumer_info("s1").get("push_bound", False)

    def test_get_their_flow_control_back_from_elsewhere(self, world: StreamCluster) -> None:
        peer = world.listener("s2", "to.me")
        world.consumer(
            "s1",
            deliver_subject="to.me",
            ack_policy="none",
            flow_control=True,
            idle_heartbeat=NS,
        )
        body = b"PUB s.a 30000\r\n" + b"x" * 30_000 + b"\r\n"
        publisher, received = world.client("s3"), 0
        for _ in range(40):
            publisher.send(body)
        for _ in range(100):
            frames = world.told(peer)
            received += sum(1 for frame in frames if frame.subject == "s.a")
            for frame in frames:
                if frame.status.startswith("100") and frame.reply:
                    peer.send(f"PUB {frame.reply} 0\r\n\r\n".encode())
            world.advance(0.01)
        assert received == 40


def test_a_backup_goes_to_a_client_elsewhere(world: StreamCluster) -> None:
    peer = world.listener("s2", "chunks")
    world.client("s3").send(b"PUB s.a 1\r\nx\r\n" * 20)
    reply = world.call("s1", "STREAM.SNAPSHOT.S", {"deliver_subject": "chunks"})
    assert "error" not in reply
    ends = []
    for _ in range(50):
        for frame in world.told(peer):
            if frame.reply:
                peer.send(f"PUB {frame.reply} 0\r\n\r\n".encode())
            ends += [frame] if not frame.payload else []
        world.advance(0.05)
    assert [frame.status for frame in ends if frame.status] in ([], ["204"], ["204 "])
    assert ends
