"""A follower: timers, leaders, entries and confirmations."""

import pytest

from headwater.raft.entry import Entry, EntryKind
from headwater.raft.membership import membership_of
from headwater.raft.messages import (
    Append,
    AppendReject,
    AppendReply,
    CampaignNow,
    Digest,
    ImpossibleMessage,
    InstallSnapshot,
    PreVote,
)
from headwater.raft.role import RoleName
from headwater.raft.storage import Snapshot, blank
from tests.kit.raft_member import Member


def entry(term: int, index: int, data: bytes = b"x") -> Entry:
    return Entry(term, index, EntryKind.DATA, data)


def follower() -> Member:
    """A follower of `b` in term 2, whose log has two entries of that term."""
    member = Member()
    member.step(Append("b", "a", 2, 1, 1, [entry(2, 2), entry(2, 3)], 2))
    return member


def test_a_follower_of_a_live_server_has_no_timer() -> None:
    assert follower().node.deadline_ns is None


def test_a_follower_of_a_server_that_is_not_alive_keeps_a_timer() -> None:
    member = Member(alive=False)
    member.step(Append("b", "a", 2, 1, 1, [], 1))
    assert member.node.deadline_ns is not None
    member.node.peer_alive("b", member.now_ns)
    assert member.node.deadline_ns is None


def test_a_lost_leader_is_replaced_soon_and_another_server_is_not_missed() -> None:
    member = follower()
    member.node.peer_lost("c", member.now_ns)
    assert member.node.deadline_ns is None
    member.node.peer_lost("b", member.now_ns)
    assert member.node.leader == ""
    assert member.node.deadline_ns is not None
    assert 0 <= member.node.deadline_ns - member.now_ns < 300_000_000
    assert {type(message) for message in member.time_out()} == {PreVote}


@pytest.mark.parametrize("name", ["d", "x"])
def test_a_member_that_is_no_voter_never_campaigns(name: str) -> None:
    member = Member(name, "abc", "d")
    assert member.node.deadline_ns is None
    member.step(Append("b", name, 2, 1, 1, [], 1))
    member.node.peer_lost("b", member.now_ns)
    assert member.node.deadline_ns is None
    member.step(CampaignNow("b", name, 2))
    assert member.node.role is RoleName.FOLLOWER


def test_all_appends_of_a_turn_are_confirmed_by_one_message() -> None:
    member = Member()
    sent = member.step(
        Append("b", "a", 2, 1, 1, [entry(2, 2)], 1),
        Append("b", "a", 2, 2, 2, [entry(2, 3)], 2),
    )
    assert sent == [AppendReply("a", "b", 2, 3, 2)]


def test_a_confirmation_does_not_cover_what_an_earlier_leader_left() -> None:
    member = follower()
    assert member.step(Append("c", "a", 3, 2, 2, [], 2)) == [AppendReply("a", "c", 3, 2, 2)]


def test_an_append_behind_an_unknown_entry_is_refused_with_a_hint() -> None:
    member = follower()
    assert member.step(Append("c", "a", 3, 9, 3, [], 2)) == [AppendReject("a", "c", 3, 9, 3, 2)]
    assert member.step(Append("c", "a", 3, 3, 1, [], 2)) == [AppendReject("a", "c", 3, 3, 1, 1)]


def test_a_commit_index_reaches_no_further_than_the_agreement() -> None:
    member = follower()
    member.step(Append("c", "a", 3, 2, 2, [], 9))
    assert member.node.log.commit == 2


def test_a_leader_without_committed_entries_is_neither_followed_nor_confirmed() -> None:
    member = follower()
    assert not member.node.is_contradicted
    assert member.step(Append("b", "a", 3, 1, 1, [entry(3, 2)], 1)) == []
    assert member.node.is_contradicted
    assert member.node.log.term_at(2) == 2


def test_a_snapshot_of_entries_that_are_there_only_commits_them() -> None:
    member = follower()
    snapshot = Snapshot(3, 2, membership_of("abc"))
    assert member.step(InstallSnapshot("b", "a", 2, snapshot)) == [AppendReply("a", "b", 2, 3, 3)]
    assert member.node.log.snapshot.index == 1


def test_a_snapshot_of_committed_entries_is_answered_with_the_commit_index() -> None:
    member = follower()
    snapshot = Snapshot(2, 2, membership_of("abc"))
    assert member.step(InstallSnapshot("b", "a", 2, snapshot)) == [AppendReply("a", "b", 2, 3, 2)]


def test_a_snapshot_replaces_a_log_that_lacks_its_place() -> None:
    member = follower()
    snapshot = Snapshot(9, 2, membership_of("abd"))
    assert member.step(InstallSnapshot("b", "a", 2, snapshot)) == [AppendReply("a", "b", 2, 9, 9)]
    assert member.disk.files.snapshot == snapshot
    assert member.node.membership == membership_of("abd")


def test_a_leader_that_no_longer_leads_is_left() -> None:
    member = follower()
    member.step(Digest("c", "a", 2, "b"))
    assert member.node.leader == "b"
    member.step(Digest("b", "a", 2, ""))
    assert member.node.leader == ""
    assert member.node.deadline_ns is not None
    member.step(Digest("b", "a", 2, "b"))
    assert member.node.leader == "b"


def test_a_second_leader_of_a_term_is_refused() -> None:
    member = follower()
    with pytest.raises(ImpossibleMessage, match="the term of another leader"):
        member.node.step(Append("c", "a", 2, 1, 1, [], 1), member.now_ns)
    assert (member.node.leader, member.node.term) == ("b", 2)


def test_a_follower_names_its_leader_once_it_has_an_append() -> None:
    member = Member()
    member.step(Digest("b", "a", 2, "b"))
    assert (member.node.leader, member.node.digest("b").leader) == ("b", "")
    member.step(Append("b", "a", 2, 1, 1, [], 1))
    assert member.node.digest("b") == Digest("a", "b", 2, "b")


def test_a_member_that_has_forgotten_reports_and_is_readmitted_by_its_number() -> None:
    member = Member(saved=blank(), has_forgotten=True)
    (refusal,) = member.step(Append("b", "a", 2, 5, 2, [], 5))
    assert isinstance(refusal, AppendReject)
    recovery = refusal.recovery
    assert recovery != 0
    snapshot = Snapshot(5, 2, membership_of("abc"))
    (report,) = member.step(InstallSnapshot("b", "a", 2, snapshot))
    assert report == AppendReply("a", "b", 2, 5, 5, recovery)
    member.step(Append("b", "a", 2, 5, 2, [], 5, recovery + 1))
    assert not member.node.may_vote
    assert member.step(Append("b", "a", 2, 5, 2, [], 5, recovery)) == [
        AppendReply("a", "b", 2, 5, 5)
    ]
    assert member.node.may_vote
    assert member.disk.files.hard_state.recovery == 0


def test_an_appointed_successor_campaigns_at_once() -> None:
    member = follower()
    member.step(CampaignNow("b", "a", 2))
    assert (member.node.role, member.node.term) == (RoleName.CANDIDATE, 3)
