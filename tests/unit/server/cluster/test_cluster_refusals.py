"""Whole servers refuse one for its greeting: once in the log, and unseen by clients."""

import pytest

from headwater.raft.messages import (
    TERM_JUMP_MAX,
    Append,
    CampaignNow,
    Digest,
    Message,
    PreVoteReply,
    Vote,
)
from headwater.server.cluster.consensus.driver import ConsensusDriver
from headwater.server.cluster.consensus.frames import encode_messages
from headwater.server.cluster.consensus.notices import GREETING
from headwater.server.cluster.consensus.peers import Greeting, ServerFacts, encode_greeting
from headwater.server.cluster.consensus.senders import Senders
from headwater.server.cluster.peer import opaque
from headwater.testing.disk import SimDisk
from headwater.wire.peer_frames import GREETING_BYTES_MAX
from headwater.wire.peer_info import PeerConnect, PeerInfo, Purpose, connect_line, info_line
from tests.kit.agreeing_cluster import AgreeingCluster
from tests.kit.world import infos_in


def with_copied_store() -> tuple[AgreeingCluster, dict[str, list[str]], bytes]:
    """Three servers, of which the third one has come back on a copy of the store of the second.

    Returns also the logs since then, and all that a client of the first one got.
    """
    world = AgreeingCluster(3)
    world.stop("s3")
    world.quiet(3)
    copied = world._disks["s2"].clone(1)
    copied.kill()
    world._disks["s3"] = copied
    client = world.client("s1", protocol=1)
    client.take()
    begins = {name: len(lines) for name, lines in world.logs.items()}
    world.start_server("s3")
    world.quiet(20)
    logs = {name: lines[begins[name] :] for name, lines in world.logs.items()}
    return world, logs, bytes(client.take())


def test_a_server_on_a_copied_store_is_logged_once_and_seen_by_no_client() -> None:
    world, logs, told = with_copied_store()
    for name, reason in (
        ("s1", "server 's3' runs on a copy of the store of server 's2'"),
        ("s2", "server 's3' runs on a copy of this server's store"),
    ):
        assert len([line for line in logs[name] if f"server 's3': {reason}" in line]) == 1
        # A link has two connections, and it is made once.
        created = [line for line in logs[name] if "Route connection created" in line]
        assert len(created) == 2
    assert infos_in(told) == []
    for name in ("s1", "s2"):
        peers = world.cluster_of(name).peers.values()
        assert {peer.name for peer in peers} == {"s1", "s2"} - {name}
        assert all({*peer.channels} == {*Purpose} for peer in peers)


def test_a_server_of_a_name_that_nobody_can_write_down_is_not_remembered() -> None:
    world = AgreeingCluster(2)
    name = "x" * 300
    info = PeerInfo(server_id="NX", server_name=name, cluster="C", jetstream=True, link=2)
    connect = PeerConnect(name="NX", cluster="C", link=2, purpose=Purpose.CONSENSUS.value)
    end = world.stranger("s1")
    end.write(connect_line(connect) + info_line(info))
    world.quiet(0.2)
    facts = ServerFacts(bytes(16), 1, bytes(8))
    end.write(opaque(Purpose.CONSENSUS, GREETING + encode_greeting(Greeting(facts, None))))
    world.quiet(0.2)
    assert end.ended
    assert "the name of a server is longer than 255 bytes" in world.log_of("s1")
    # The memory of servers is written for the next one that comes.
    world._names.append("s3")
    world._disks["s3"] = SimDisk()
    world.start_server("s3")
    world.quiet()
    assert world.is_whole()
    consensus = world.nodes["s3"].consensus
    assert consensus is not None
    assert consensus.meta is not None
    assert consensus.meta.may_vote


def driver_of(world: AgreeingCluster, name: str) -> ConsensusDriver:
    driver = world.nodes[name].consensus
    assert driver is not None
    return driver


class Stranger:
    """A server that has greeted another one and says what it likes."""

    def __init__(
        self,
        world: AgreeingCluster,
        name: str,
        cluster: bytes | None = None,
        behind: bytes = b"",
    ) -> None:
        self.world, self.name = world, name
        self.end = world.stranger(name)
        info = PeerInfo(server_id="NX", server_name="x", cluster="C", jetstream=True, link=2)
        connect = PeerConnect(name="NX", cluster="C", link=2, purpose=Purpose.CONSENSUS.value)
        self.end.write(connect_line(connect) + info_line(info))
        world.quiet(0.2)
        greeting = Greeting(ServerFacts(bytes(16), 1, bytes(8)), None)
        if cluster is not None:
            greeting = Greeting(greeting.facts, None, cluster)
        data = opaque(Purpose.CONSENSUS, GREETING + encode_greeting(greeting))
        self.end.write(data + (opaque(Purpose.CONSENSUS, behind) if behind else b""))
        world.quiet(0.2)

    def say(self, *messages: Message) -> None:
        """Send messages of the meta group."""
        birth = driver_of(self.world, self.name).birth
        assert birth is not None
        for sent in encode_messages((birth.identity, message) for message in messages):
            self.end.write(opaque(Purpose.CONSENSUS, sent))
        self.world.quiet(1)


def terms(world: AgreeingCluster) -> dict[str, int]:
    found = {}
    for name in world.nodes:
        meta = driver_of(world, name).meta
        assert meta is not None
        found[name] = meta.term
    return found


ABSURD: list[Message] = [
    PreVoteReply("x", "", (1 << 61) - 1, False),
    PreVoteReply("x", "", 1_000, False),
    CampaignNow("x", "", 1_000),
    Digest("x", "", 1_000, "x"),
    Append("x", "", 1_000, 1, 1_000, [], 0),
    Vote("x", "", 1_000, 1_000, 999, True),
]


def test_a_server_that_greets_and_is_no_member_changes_no_term() -> None:
    world = AgreeingCluster(3)
    before, leader = terms(world), world.meta_leader
    follower = world.other_than(leader)
    Stranger(world, follower).say(*ABSURD)
    world.quiet(3)
    assert terms(world) == before
    assert world.meta_leader == leader


def test_without_the_check_of_senders_it_deposes_the_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = AgreeingCluster(3)
    before, follower = terms(world), world.other_than(world.meta_leader)
    monkeypatch.setattr(Senders, "accepts", lambda *_: True)
    Stranger(world, follower).say(PreVoteReply("x", "", 1_000, False))
    world.quiet(3)
    assert min(terms(world).values()) >= 1_000 > max(before.values())


def test_a_member_that_tells_an_impossible_term_is_refused_by_name_once() -> None:
    """The leader admits each server that greets it, as a learner at first."""
    world = AgreeingCluster(3)
    before, leader = terms(world), world.meta_leader
    for _ in range(3):
        stranger = Stranger(world, leader)
        meta = driver_of(world, leader).meta
        assert meta is not None
        assert meta.membership.has("x")
        stranger.say(PreVoteReply("x", "", before[leader] + TERM_JUMP_MAX + 1, False))
        assert stranger.end.ended
    text = "Disconnected from server 'x': a malformed frame: it tells a term"
    assert world.log_of(leader).count(text) == 1
    assert terms(world) == before
    assert world.meta_leader == leader


def test_a_server_that_was_refused_may_come_back_on_its_own_store() -> None:
    world, _, _ = with_copied_store()
    world.stop("s3")
    del world._disks["s3"]
    world.quiet(3)
    world._disks["s3"] = SimDisk()
    world.start_server("s3")
    world.quiet(10)
    assert {peer.name for peer in world.cluster_of("s1").peers.values()} == {"s2", "s3"}
    consensus = world.nodes["s3"].consensus
    assert consensus is not None
    assert consensus.meta is not None
    assert consensus.meta.may_vote


def test_a_large_frame_may_come_in_one_piece_with_the_greeting() -> None:
    """A server that was busy reads both at once."""
    world = AgreeingCluster(3)
    follower = world.other_than(world.meta_leader)
    stranger = Stranger(world, follower, None, behind=bytes(GREETING_BYTES_MAX + 1))
    assert "a frame ends within" not in world.log_of(follower)
    assert "is too large" not in world.log_of(follower)
    assert "Disconnected from server 'x': a malformed frame" in world.log_of(follower)
    assert stranger.end.ended
