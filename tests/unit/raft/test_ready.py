"""The order in which the work of a member is done."""

import pytest

from headwater.raft import membership as memberships
from headwater.raft import withdrawals
from headwater.raft.entry import Entry, EntryKind
from headwater.raft.membership import membership_of
from headwater.raft.messages import Append, AppendReply, Vote
from headwater.raft.node import RaftNode
from headwater.raft.ready import Ready
from headwater.raft.storage import HardState, Snapshot
from tests.kit.raft_member import Member


def ready_of(node: RaftNode, now_ns: int) -> Ready:
    """The work that there must be."""
    ready = node.ready(now_ns)
    assert ready is not None
    return ready


def test_a_portion_has_a_write_if_anything_must_reach_the_disk() -> None:
    entry = Entry(1, 2, EntryKind.NOOP, b"")
    snapshot = Snapshot(4, 2, membership_of("a"))
    assert not Ready(1, [], None, None, False, [], [], []).has_write
    assert not Ready(1, [], None, None, False, [], [], [entry]).has_write
    assert Ready(1, [], None, None, False, [entry], [], []).has_write
    assert Ready(1, [], None, HardState(), True, [], [], []).has_write
    assert Ready(1, [], snapshot, None, False, [], [], []).has_write


def test_a_vote_is_synced_and_waits_for_it() -> None:
    member = Member("b")
    member.node.step(Vote("a", "b", 2, 1, 1, False), member.now_ns)
    ready = ready_of(member.node, member.now_ns)
    assert ready.must_sync
    assert ready.hard_state == HardState(2, "a", 1)
    assert ready.messages == []
    assert [type(reply).__name__ for reply in ready.replies] == ["VoteReply"]


def test_a_confirmation_waits_for_its_entries_which_need_no_sync_by_themselves() -> None:
    member = Member("b")
    member.step(Append("a", "b", 2, 1, 1, [], 1))
    entry = Entry(2, 2, EntryKind.DATA, b"x")
    member.node.step(Append("a", "b", 2, 1, 1, [entry], 1), member.now_ns)
    ready = ready_of(member.node, member.now_ns)
    assert ready.entries == [entry]
    assert not ready.must_sync
    assert ready.messages == []
    assert ready.replies == [AppendReply("b", "a", 2, 2, 1)]


def test_a_leader_sends_entries_before_it_has_written_them() -> None:
    member = Member()
    member.lead()
    member.confirm("b", "c")
    member.node.propose([b"x"], member.now_ns)
    ready = ready_of(member.node, member.now_ns)
    assert [entry.data for entry in ready.entries] == [b"x"]
    assert {message.to for message in ready.messages if isinstance(message, Append)} == {"b", "c"}


def test_entries_are_applied_when_they_are_committed_and_written_here() -> None:
    member = Member()
    member.lead()
    member.confirm("b", "c")
    member.confirm("b", "c")
    member.node.propose([b"x"], member.now_ns)
    node, now_ns = member.node, member.now_ns
    writing = ready_of(node, now_ns)
    index = node.log.last_index
    for peer in ("b", "c"):
        node.step(AppendReply(peer, "a", node.term, index, 2), now_ns)
    assert node.log.commit == index
    assert ready_of(node, now_ns).committed == []
    node.written(writing, now_ns)
    assert [entry.data for entry in ready_of(node, now_ns).committed] == [b"x"]


def test_a_commit_index_rides_with_another_write() -> None:
    member = Member("b")
    member.step(Append("a", "b", 2, 1, 1, [Entry(2, 2, EntryKind.DATA, b"x")], 1))
    member.node.step(Append("a", "b", 2, 2, 2, [], 2), member.now_ns)
    ready = ready_of(member.node, member.now_ns)
    assert ready.hard_state is None
    assert not ready.has_write
    member.node.written(ready, member.now_ns)
    member.node.step(
        Append("a", "b", 2, 2, 2, [Entry(2, 3, EntryKind.DATA, b"y")], 2), member.now_ns
    )
    assert ready_of(member.node, member.now_ns).hard_state == HardState(2, "", 2)


def test_entries_that_replace_written_ones_are_synced() -> None:
    member = Member("b")
    member.step(Append("a", "b", 2, 1, 1, [Entry(2, 2, EntryKind.DATA, b"x")], 1))
    member.step(Append("c", "b", 3, 1, 1, [], 1))
    other = Entry(3, 2, EntryKind.NOOP, b"")
    member.node.step(Append("c", "b", 3, 1, 1, [other], 1), member.now_ns)
    assert ready_of(member.node, member.now_ns).must_sync
    later = Entry(3, 3, EntryKind.DATA, b"y")
    member.node.step(Append("c", "b", 3, 2, 3, [later], 1), member.now_ns)
    assert not ready_of(member.node, member.now_ns).must_sync


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (EntryKind.WITHDRAWAL, withdrawals.encode(2)),
        (EntryKind.MEMBERSHIP, memberships.encode(membership_of("abd"))),
    ],
)
def test_a_withdrawal_and_a_membership_are_synced(kind: EntryKind, data: bytes) -> None:
    member = Member("b")
    member.step(Append("a", "b", 2, 1, 1, [Entry(2, 2, EntryKind.DATA, b"x")], 1))
    entry = Entry(2, 3, kind, data)
    member.node.step(Append("a", "b", 2, 2, 2, [entry], 1), member.now_ns)
    assert ready_of(member.node, member.now_ns).must_sync
