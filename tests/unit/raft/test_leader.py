"""A leader: its first entry, commitment, quorum, memberships, transfer, members that forgot."""

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.raft.entry import EntryKind
from headwater.raft.leader import protects_earlier_entries
from headwater.raft.membership import Membership, membership_of
from headwater.raft.messages import (
    Append,
    AppendReply,
    CampaignNow,
    Digest,
    ImpossibleMessage,
    InstallSnapshot,
    Message,
    PreVote,
    Vote,
)
from headwater.raft.role import RoleName
from tests.kit.raft_member import Member


def leader(voters: str = "abc", learners: str = "") -> Member:
    """A leader that serves, in a group that is silent."""
    member = Member(voters=voters, learners=learners)
    member.lead()
    others = [*voters.removeprefix("a"), *learners]
    member.confirm(*others)
    member.confirm(*others)
    assert member.node.is_ready
    return member


def propose(member: Member, data: bytes = b"x") -> list[Message]:
    member.node.propose([data], member.now_ns)
    return member.work()


def change(member: Member, voters: str, learners: str = "") -> int | None:
    index = member.node.propose_membership(membership_of(voters, learners), member.now_ns)
    member.work()
    return index


def kinds(sent: list[Message], to: str) -> list[type[Message]]:
    return [type(message) for message in sent if message.to == to]


def test_the_first_entry_of_a_term_is_empty_and_the_leader_serves_when_it_is_applied() -> None:
    member = Member()
    (first, _) = member.lead()
    assert isinstance(first, Append)
    assert [(entry.term, entry.kind) for entry in first.entries] == [(2, EntryKind.NOOP)]
    assert not member.node.is_ready
    member.confirm("b")
    assert member.node.is_ready


def test_entries_carry_their_creation_and_lease() -> None:
    member = leader()
    member.node.grant_leases(7)
    index = member.node.propose([b"x"], member.now_ns)
    assert index == 3
    (entry,) = member.node.log.entries_from(3, 1, 1000)
    assert (entry.created_ns, entry.lease_ns, entry.term) == (member.now_ns, 7, 2)


def test_an_entry_of_an_earlier_term_protects_nothing() -> None:
    log = leader().node.log
    assert protects_earlier_entries(log, 2, 2)
    assert not protects_earlier_entries(log, 2, 3)


def test_a_proposal_has_entries() -> None:
    with pytest.raises(InvariantViolation, match="a proposal has entries"):
        leader().node.propose([], 1)


def test_a_leader_without_a_quorum_resigns_after_an_election_timeout() -> None:
    member = leader()
    member.node.peer_lost("b", member.now_ns)
    assert member.node.deadline_ns is None
    member.node.peer_lost("c", member.now_ns)
    begin_ns = member.now_ns
    sent = member.time_out()
    assert member.now_ns - begin_ns == 1_000_000_000
    assert member.node.role is RoleName.FOLLOWER
    assert sent == [Digest("a", "b", 2, ""), Digest("a", "c", 2, "")]


def test_a_leader_that_hears_a_quorum_again_stays() -> None:
    member = leader()
    member.node.peer_lost("b", member.now_ns)
    member.node.peer_lost("c", member.now_ns)
    member.node.peer_alive("c", member.now_ns)
    member.work()
    assert member.node.deadline_ns is None
    assert member.node.role is RoleName.LEADER


def test_learners_make_no_quorum_and_commit_nothing() -> None:
    member = leader("ab", "cd")
    propose(member)
    member.confirm("c", "d")
    assert member.node.log.commit == 2
    member.node.peer_lost("b", member.now_ns)
    member.time_out()
    assert member.node.role is RoleName.FOLLOWER


def test_voters_are_exchanged_by_a_joint_membership_that_is_left_by_itself() -> None:
    member = leader("abc", "de")
    assert change(member, "ade") == 3
    assert member.node.membership == Membership(("a", "d", "e"), ("a", "b", "c"))
    member.confirm("d", "e")
    assert member.node.log.commit == 2
    member.confirm("b")
    assert member.node.log.commit == 3
    assert member.node.membership == membership_of("ade")
    member.confirm("d")
    assert member.node.log.commit == 4


def test_one_change_is_on_its_way_at_a_time() -> None:
    member = leader("abc", "d")
    assert change(member, "abc") == 3
    assert change(member, "abc", "d") is None
    member.confirm("b")
    assert change(member, "ab") == 4
    member.confirm("b", "c")
    assert change(member, "abc") is None
    member.confirm("b")
    assert member.node.membership == membership_of("ab")


def test_members_change_when_the_leader_serves() -> None:
    member = Member()
    member.lead()
    assert change(member, "ab") is None


def test_a_majority_of_new_voters_are_members_already() -> None:
    member = leader()
    assert change(member, "axy") is None
    assert change(member, "abcx") is not None


def test_a_leader_that_is_no_longer_a_voter_resigns_for_a_successor() -> None:
    member = leader()
    change(member, "bc")
    member.confirm("b", "c")
    sent = member.confirm("b", "c")
    assert member.node.role is RoleName.FOLLOWER
    assert kinds(sent, "b") == [CampaignNow]
    assert kinds(sent, "c")[-1] is Digest
    assert member.node.deadline_ns is None


def test_a_transfer_waits_until_the_successor_has_everything() -> None:
    member = leader()
    propose(member)
    assert member.node.transfer_leadership("c", member.now_ns)
    assert member.node.propose([b"y"], member.now_ns) is None
    assert change(member, "ab") is None
    assert kinds(member.work(), "c") == []
    assert CampaignNow in kinds(member.confirm("c"), "c")


def test_a_transfer_is_given_up_after_an_election_timeout_or_with_its_successor() -> None:
    member = leader()
    member.node.transfer_leadership("c", member.now_ns)
    member.work()
    member.time_out()
    assert member.node.propose([b"y"], member.now_ns) is not None
    member.node.transfer_leadership("c", member.now_ns)
    member.node.peer_lost("c", member.now_ns)
    assert member.node.propose([b"z"], member.now_ns) is not None


def test_a_leader_whose_disk_stalls_hands_over() -> None:
    member = leader()
    node = member.node
    node.propose([b"x"], member.now_ns)
    stalled = node.ready(member.now_ns)
    assert stalled is not None
    for peer in ("b", "c"):
        node.step(AppendReply(peer, "a", 2, 3, 2), member.now_ns)
    deadline_ns = node.deadline_ns
    assert deadline_ns == member.now_ns + node.log.snapshot.index * 1_000_000_000
    node.tick(deadline_ns)
    ready = node.ready(deadline_ns)
    assert ready is not None
    assert any(isinstance(message, CampaignNow) for message in ready.messages)


def test_a_member_that_forgot_is_counted_when_it_has_an_entry_that_the_others_committed() -> None:
    member = leader()
    member.step(AppendReply("c", "a", 2, 2, 2, recovery=7))
    index = member.node.log.last_index
    assert index == 3
    member.step(AppendReply("c", "a", 2, 3, 2, recovery=7))
    assert member.node.log.commit == 2
    sent = member.confirm("b")
    assert [message.readmits for message in sent if isinstance(message, Append)] == [0, 7]
    propose(member)
    member.step(AppendReply("c", "a", 2, 4, 3, recovery=7))
    assert member.node.log.commit == 3
    member.step(AppendReply("c", "a", 2, 4, 3))
    assert member.node.log.commit == 4


def test_a_second_loss_of_memory_begins_the_readmission_again() -> None:
    member = leader()
    member.step(AppendReply("c", "a", 2, 2, 2, recovery=7))
    member.step(AppendReply("c", "a", 2, 3, 2, recovery=8))
    assert member.node.log.last_index == 4
    progress = member.node.progress_of("c")
    assert progress is not None
    assert (progress.recovery, progress.readmit_index) == (8, 4)


def test_a_late_confirmation_does_not_turn_reports_into_confirmations() -> None:
    member = leader()
    member.step(AppendReply("c", "a", 2, 2, 2, recovery=7))
    member.step(AppendReply("c", "a", 2, 3, 2, recovery=7))
    member.step(AppendReply("c", "a", 2, 2, 2))
    assert member.node.log.commit == 2
    member.step(AppendReply("c", "a", 2, 3, 2))
    assert member.node.log.commit == 3


def test_a_member_that_forgot_makes_no_quorum_and_no_successor() -> None:
    member = leader()
    member.node.peer_lost("b", member.now_ns)
    member.step(AppendReply("c", "a", 2, 2, 2, recovery=7))
    assert not member.node.transfer_leadership("c", member.now_ns)
    assert member.node.deadline_ns == member.now_ns + 1_000_000_000


@pytest.mark.parametrize(
    "message",
    [PreVote("c", "a", 3, 9, 9), Vote("c", "a", 3, 9, 9, False), Digest("c", "a", 2, "")],
)
def test_a_leader_shows_itself_to_a_member_that_does_not_know_it(message: Message) -> None:
    member = leader()
    sent = member.step(message)
    assert Append in kinds(sent, "c")
    assert (member.node.role, member.node.term) == (RoleName.LEADER, 2)


def test_a_second_leader_of_the_term_is_refused() -> None:
    member = leader()
    snapshot = member.node.log.snapshot
    for message in (
        Append("b", "a", 2, 1, 1, [], 1),
        InstallSnapshot("b", "a", 2, snapshot),
    ):
        with pytest.raises(ImpossibleMessage, match="the term that this server leads"):
            member.node.step(message, member.now_ns)
    assert member.node.role is RoleName.LEADER


def test_a_leader_knows_how_far_all_live_members_have_the_log() -> None:
    member = leader()
    before = member.node.log.last_index
    assert member.node.replicated == before
    propose(member)
    member.confirm("b")
    assert member.node.replicated == before
    member.node.peer_lost("c", member.now_ns)
    assert member.node.replicated == before + 1


def test_a_follower_takes_the_committed_part_for_replicated() -> None:
    member = Member()
    assert member.node.replicated == member.node.log.commit


def test_a_leader_that_retires_hands_over_when_the_successor_has_everything() -> None:
    member = leader()
    propose(member)
    member.node.retire(member.now_ns)
    assert kinds(member.work(), "b") + kinds(member.work(), "c") == []
    sent = member.confirm("b", "c")
    assert [type(each) for each in sent if isinstance(each, CampaignNow)] == [CampaignNow]


def test_a_leader_that_retires_resigns_for_all_if_its_successor_does_not_take_over() -> None:
    member = leader()
    member.node.retire(member.now_ns)
    [chosen] = [each.to for each in member.work() if isinstance(each, CampaignNow)]
    sent = member.time_out()
    assert member.node.role is RoleName.FOLLOWER
    [other] = {"b", "c"} - {chosen}
    assert kinds(sent, chosen) == [CampaignNow]
    assert kinds(sent, other) == [Digest]


def test_a_leader_that_retires_leads_on_while_nobody_else_can() -> None:
    member = leader("a")
    member.node.retire(member.now_ns)
    assert member.work() == []
    assert member.node.role is RoleName.LEADER


def test_a_withdrawn_entry_is_committed_with_its_withdrawal_alone() -> None:
    member = leader()
    propose(member, b"withdrawn")
    first = member.node.log.last_index
    member.work()
    assert member.node.withdraw(first, member.now_ns) == first + 1
    member.work()
    member.confirm("b", match=first)
    assert member.node.log.commit == first - 1
    member.confirm("b", match=first + 1)
    assert member.node.log.commit == first + 1
    assert b"withdrawn" not in member.applied


def test_a_leader_withdraws_nothing_that_an_earlier_one_may_have_committed() -> None:
    member = leader()
    propose(member)
    first = member.node.log.last_index
    member.work()
    member.node.resign(member.now_ns)
    member.work()
    member.lead()
    assert member.node.withdraw(first, member.now_ns) is None
    assert member.node.withdraw(first + 1, member.now_ns) == first + 2


def test_a_leader_withdraws_during_a_transfer_too() -> None:
    member = leader()
    propose(member)
    assert member.node.transfer_leadership("b", member.now_ns)
    assert member.node.withdraw(member.node.log.last_index, member.now_ns) is not None
