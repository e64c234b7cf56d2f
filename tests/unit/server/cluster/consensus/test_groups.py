"""The groups of several servers: who leads, what travels, and what an idle group costs."""

from collections import Counter

import pytest

from headwater.base.errors import PeerError, ProgrammerError
from headwater.raft.messages import InstallSnapshot, Vote, VoteReply
from headwater.raft.replica import CAMPAIGN_SLOTS
from headwater.raft.storage import Snapshot
from headwater.server.cluster.consensus.frames import HEARTBEAT, decode_frame, encode_messages
from headwater.server.cluster.consensus.groups import Groups
from headwater.server.cluster.consensus.liveness import LivenessSettings
from tests.kit.group_servers import MS, GroupServers, group_identity


def elected(names: str = "abc", group_count: int = 20) -> GroupServers:
    """Servers that are connected and have a leader in every group."""
    servers = GroupServers(names, group_count)
    servers.connect_all()
    servers.run(4_000)
    assert all(len(servers.leaders(number)) == 1 for number in range(group_count))
    return servers


def test_every_group_elects_a_leader() -> None:
    servers = elected()
    for number in range(20):
        [leader] = servers.leaders(number)
        assert servers.node(leader, number).is_ready
        assert {servers.node(name, number).leader for name in "abc"} == {leader}


def test_entries_reach_all_servers() -> None:
    servers = elected(group_count=3)
    for number in range(3):
        [leader] = servers.leaders(number)
        server = servers.servers[leader]
        server.groups.propose(group_identity(number), [b"one", b"two"], servers.now_ns)
        servers.plan_turn(server)
    servers.run(50)
    for server in servers.servers.values():
        assert server.applied == {group_identity(each): [b"one", b"two"] for each in range(3)}


@pytest.mark.parametrize("group_count", [10, 300])
def test_idle_groups_cost_a_heartbeat_for_each_pair_of_servers(group_count: int) -> None:
    servers = elected(group_count=group_count)
    servers.frames.clear()
    servers.run(10_000)
    counts = Counter((sender, receiver) for _, sender, receiver, _ in servers.frames)
    assert {frame for _, _, _, frame in servers.frames} == {HEARTBEAT}
    assert len(counts) == 6
    assert all(99 <= count <= 101 for count in counts.values())


def test_an_idle_member_has_no_timer() -> None:
    servers = elected()
    for name in "abc":
        assert all(servers.node(name, number).deadline_ns is None for number in range(20))


@pytest.mark.parametrize("is_refused", [False, True])
def test_groups_of_a_killed_server_elect_others(is_refused: bool) -> None:
    servers = elected(group_count=30)
    led_by_a = [number for number in range(30) if servers.leaders(number) == ["a"]]
    assert led_by_a
    servers.kill("a")
    if is_refused:
        for name in "bc":
            servers.servers[name].groups.unreachable("a", servers.now_ns)
            servers.plan_turn(servers.servers[name])
    servers.run(800 if is_refused else 1_000)
    for number in led_by_a:
        [leader] = servers.leaders(number)
        assert leader in "bc"


@pytest.mark.parametrize("group_count", [100, 1_000])
def test_votes_of_many_groups_travel_together(group_count: int) -> None:
    """Each server campaigns in a few moments, and a moment costs it a few frames: the pre-vote, its
    reply, the vote, its reply, the first entry, its confirmation, and both for its commit."""
    servers = elected(group_count=group_count)
    led_by_a = [number for number in range(group_count) if servers.leaders(number) == ["a"]]
    assert len(led_by_a) > 3 * CAMPAIGN_SLOTS
    servers.frames.clear()
    servers.kill("a")
    for name in "bc":
        servers.servers[name].groups.unreachable("a", servers.now_ns)
        servers.plan_turn(servers.servers[name])
    servers.run(3_000)
    assert all(servers.leaders(number)[0] in "bc" for number in led_by_a)
    votes = [(sent_ns, frame) for sent_ns, _, _, frame in servers.frames if frame != HEARTBEAT]
    # The slots of the first round, for both servers; few groups need a second one.
    assert len(votes) <= 2 * CAMPAIGN_SLOTS * 8 * 2
    assert len({sent_ns for sent_ns, _ in votes}) <= 2 * CAMPAIGN_SLOTS * 8 * 2


def test_a_silent_server_is_lost_and_its_connection_closed() -> None:
    servers = elected(group_count=5)
    servers.servers["a"].is_running = False
    servers.run(900)
    assert ("b", "a") in servers.links
    servers.run(2_000)
    assert ("b", "a") not in servers.links
    assert all(len(servers.leaders(number)) == 1 for number in range(5))
    assert not any(servers.leaders(number) == ["a"] for number in range(5))


def test_a_server_whose_frame_takes_long_to_come_is_alive() -> None:
    servers = elected(group_count=5)
    groups = servers.servers["b"].groups
    servers.servers["a"].is_running = False
    for _ in range(30):
        groups.heard("a", servers.now_ns)
        servers.run(100)
        assert groups.silence_ns("a", servers.now_ns) == 100 * MS
    servers.run(2_000)
    assert ("b", "a") not in servers.links
    groups.heard("a", servers.now_ns)
    assert groups.silence_ns("a", servers.now_ns) == 0


def test_a_connection_that_is_renewed_in_time_changes_no_leader() -> None:
    servers = elected()
    before = [(servers.leaders(number), servers.node("a", number).term) for number in range(20)]
    servers.cut("a", "b")
    servers.cut("a", "c")
    servers.run(100)
    servers.connect("a", "b")
    servers.connect("a", "c")
    servers.run(3_000)
    after = [(servers.leaders(number), servers.node("a", number).term) for number in range(20)]
    assert after == before


def test_servers_that_meet_again_compare_their_groups() -> None:
    servers = elected()
    servers.cut("a", "b")
    servers.frames.clear()
    servers.connect("a", "b")
    servers.run(1)
    for sender, receiver in ("ab", "ba"):
        first = next(frame for _, *pair, frame in servers.frames if pair == [sender, receiver])
        compared = {group for group, _ in decode_frame(first, sender, receiver)}
        assert compared == {group_identity(number) for number in range(20)}


def test_a_group_that_is_added_later_meets_the_servers_that_are_there() -> None:
    servers = elected(group_count=1)
    for server in servers.servers.values():
        servers.add_group(server, group_identity(7), "abc")
    servers.run(4_000)
    assert len(servers.leaders(7)) == 1


def test_a_group_that_is_removed_from_its_leader_elects_another() -> None:
    servers = elected(group_count=2)
    [leader] = servers.leaders(0)
    server = servers.servers[leader]
    server.groups.remove(group_identity(0), servers.now_ns)
    servers.plan_turn(server)
    servers.run(500)
    others = {name for name in "abc" if name != leader}
    assert {servers.node(name, 0).leader for name in others} < others
    assert len(server.groups) == 1


def test_all_leaders_of_a_server_that_stops_hand_over() -> None:
    servers = elected(group_count=30)
    server = servers.servers["a"]
    server.groups.resign(servers.now_ns)
    servers.plan_turn(server)
    servers.run(100)
    for number in range(30):
        [leader] = servers.leaders(number)
        assert leader in "bc"


def test_messages_of_unknown_groups_are_counted_and_dropped() -> None:
    servers = elected(group_count=1)
    groups = servers.servers["a"].groups
    [frame] = encode_messages([(group_identity(99), VoteReply("b", "a", 9, True))])
    groups.receive("b", frame, servers.now_ns)
    assert groups.unknown_messages == 1


def test_a_frame_of_a_connection_that_is_gone_is_dropped() -> None:
    servers = elected(group_count=1)
    groups = servers.servers["a"].groups
    servers.cut("a", "b")
    groups.receive("b", b"\xff", servers.now_ns)
    with pytest.raises(PeerError, match="unknown kind"):
        groups.receive("c", b"\xff", servers.now_ns)


def test_a_snapshot_without_its_state_is_refused() -> None:
    servers = elected(group_count=1)
    membership = servers.node("a", 0).membership
    message = InstallSnapshot("b", "a", 99, Snapshot(50, 9, membership))
    [frame] = encode_messages([(group_identity(0), message)])
    with pytest.raises(PeerError, match="without its state"):
        servers.servers["a"].groups.receive("b", frame, servers.now_ns)
    servers.servers["a"].groups.install_snapshot(group_identity(0), message, servers.now_ns)
    assert servers.node("a", 0).term == 99


def test_a_server_that_forgets_makes_no_promise_and_is_readmitted() -> None:
    servers = elected(group_count=10)
    server = servers.servers["a"]
    server.groups.forget(servers.now_ns)
    assert not any(servers.node("a", number).may_vote for number in range(10))
    servers.plan_turn(server)
    servers.run(3_000)
    assert all(servers.node("a", number).may_vote for number in range(10))
    assert all(len(servers.leaders(number)) == 1 for number in range(10))


def test_promises_that_wait_for_the_disk_are_dropped_when_a_server_forgets() -> None:
    servers = GroupServers("abc", 1)
    servers.connect_all()
    groups = servers.servers["a"].groups
    while portion := groups.take(servers.now_ns):
        assert groups.written(portion, servers.now_ns) is not None
    node = servers.node("a", 0)
    [frame] = encode_messages([(group_identity(0), Vote("b", "a", 5, 1, 1, False))])
    groups.receive("b", frame, servers.now_ns)
    portion = groups.take(servers.now_ns)
    assert portion is not None
    assert node.vote == "b"
    assert portion.must_sync
    groups.forget(servers.now_ns)
    assert groups.written(portion, servers.now_ns) == {}


def test_a_portion_is_written_once() -> None:
    servers = elected(group_count=1)
    groups = servers.servers["a"].groups
    groups.forget(servers.now_ns)
    portion = groups.take(servers.now_ns)
    assert portion is not None
    groups.written(portion, servers.now_ns)
    with pytest.raises(ProgrammerError, match="written once"):
        groups.written(portion, servers.now_ns)


def test_settings_that_would_elect_all_the_time_are_refused() -> None:
    with pytest.raises(ProgrammerError, match="three heartbeats"):
        Groups("a", LivenessSettings(heartbeat_ns=400 * MS))
