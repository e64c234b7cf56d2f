"""The door to the core: terms, requests, and the order of finished writes."""

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.raft.entry import Entry, EntryKind
from headwater.raft.membership import membership_of
from headwater.raft.messages import (
    TERM_JUMP_MAX,
    Append,
    AppendReply,
    CampaignNow,
    Digest,
    ImpossibleMessage,
    Message,
    PreVote,
    PreVoteReply,
    Vote,
    VoteReply,
)
from headwater.raft.role import RoleName
from tests.kit.raft_member import Member


def test_a_message_of_a_later_term_makes_a_leader_follow() -> None:
    member = Member()
    member.lead()
    member.step(AppendReply("b", "a", 5, 1, 1))
    assert (member.node.role, member.node.term, member.node.leader) == (
        RoleName.FOLLOWER,
        5,
        "",
    )


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (Append("b", "a", 1, 1, 1, [], 1), Digest("a", "b", 4, "c")),
        (Digest("b", "a", 1, "b"), Digest("a", "b", 4, "c")),
        (Vote("b", "a", 1, 9, 9, True), VoteReply("a", "b", 4, False)),
        (PreVote("b", "a", 1, 9, 9), PreVoteReply("a", "b", 4, False)),
        (VoteReply("b", "a", 1, True), None),
        (AppendReply("b", "a", 1, 1, 1), None),
    ],
)
def test_a_question_of_an_earlier_term_is_answered_with_the_later_one(
    message: Message, answer: Message | None
) -> None:
    member = Member()
    member.step(Append("c", "a", 4, 1, 1, [], 1))
    assert member.step(message) == ([] if answer is None else [answer])


def test_only_a_forced_vote_deposes_a_leader_that_is_heard() -> None:
    member = Member()
    member.step(Append("c", "a", 4, 1, 1, [], 1))
    assert member.step(Vote("b", "a", 5, 9, 9, False)) == []
    assert member.node.term == 4
    assert member.step(Vote("b", "a", 5, 9, 9, True)) == [VoteReply("a", "b", 5, True)]


def test_a_leader_that_campaigns_is_believed_not_to_lead() -> None:
    member = Member()
    member.step(Append("c", "a", 4, 1, 1, [], 1))
    assert member.step(PreVote("c", "a", 5, 9, 9)) == [PreVoteReply("a", "c", 5, True)]
    assert member.node.leader == ""


def test_a_late_pre_vote_of_the_present_leader_changes_nothing() -> None:
    member = Member()
    member.step(Append("c", "a", 4, 1, 1, [], 1))
    member.step(PreVote("c", "a", 4, 9, 9))
    assert member.node.leader == "c"


def test_a_message_for_another_member_is_a_violation() -> None:
    member = Member()
    with pytest.raises(InvariantViolation, match="for this member"):
        member.node.step(Digest("b", "c", 1, ""), member.now_ns)


def test_writes_are_reported_in_the_order_in_which_they_were_taken() -> None:
    member = Member()
    member.lead()
    node, now_ns = member.node, member.now_ns
    node.propose([b"x"], now_ns)
    first = node.ready(now_ns)
    node.propose([b"y"], now_ns)
    second = node.ready(now_ns)
    assert first is not None
    assert second is not None
    with pytest.raises(InvariantViolation, match="in order"):
        node.written(second, now_ns)


def test_requests_to_a_member_that_does_not_lead_are_refused() -> None:
    node = Member().node
    assert node.propose([b"x"], 1) is None
    assert node.propose_membership(membership_of("ab"), 1) is None
    assert not node.transfer_leadership("b", 1)
    assert node.progress_of("b") is None
    node.resign(1)
    node.snapshot_failed("b")
    assert node.role is RoleName.FOLLOWER


def test_a_member_that_forgot_says_so_on_disk_before_anything_else() -> None:
    member = Member(has_forgotten=True)
    assert member.disk.files.hard_state.recovery != 0
    assert not member.node.may_vote
    assert member.node.deadline_ns is None


def test_a_member_is_told_to_vote_with_what_it_has() -> None:
    member = Member(has_forgotten=True)
    member.node.resume_voting(member.now_ns)
    member.work()
    assert member.node.may_vote
    assert member.node.deadline_ns is not None
    assert member.disk.files.hard_state.recovery == 0


def test_a_silent_group_has_no_work_and_no_deadline() -> None:
    member = Member()
    member.lead()
    member.confirm("b", "c")
    member.confirm("b", "c")
    assert member.node.deadline_ns is None
    assert member.node.ready(member.now_ns) is None
    member.node.tick(member.now_ns + 10**12)
    assert member.node.ready(member.now_ns) is None


def test_facts_are_those_of_the_member() -> None:
    member = Member()
    member.lead()
    node = member.node
    assert (node.name, node.vote, node.leader) == ("a", "a", "a")
    assert node.membership == membership_of("abc")


def test_a_member_greets_with_its_term_and_leader() -> None:
    member = Member()
    member.step(Append("c", "a", 4, 1, 1, [], 1))
    member.node.greet("b")
    assert member.work() == [Digest("a", "b", 4, "c")]


def test_a_member_that_forgets_drops_its_vote_and_tells_its_leader() -> None:
    member = Member()
    member.step(Append("c", "a", 4, 1, 1, [], 1))
    member.node.step(Vote("b", "a", 5, 9, 9, True), member.now_ns)
    member.node.forget(member.now_ns)
    assert not member.node.may_vote
    assert not any(isinstance(message, VoteReply) for message in member.work())
    member.step(Append("c", "a", 6, 1, 1, [], 1))
    number = member.disk.files.hard_state.recovery
    assert number != 0
    member.node.forget(member.now_ns)
    member.work()
    assert member.disk.files.hard_state.recovery == number


def test_a_member_that_forgets_names_no_leader_to_the_one_it_follows() -> None:
    member = Member()
    member.step(Append("c", "a", 4, 1, 1, [], 1))
    member.node.forget(member.now_ns)
    assert member.work() == [Digest("a", "c", 4, "")]


def test_a_leader_that_forgets_resigns() -> None:
    member = Member()
    member.lead()
    member.node.forget(member.now_ns)
    member.work()
    assert (member.node.role, member.node.leader) == (RoleName.FOLLOWER, "")
    assert member.node.deadline_ns is None


def test_a_membership_is_settled_when_its_change_is_committed() -> None:
    member = Member(voters="ab", learners="c")
    member.lead()
    member.confirm("b", "c")
    assert member.node.is_membership_settled
    assert member.node.propose_membership(membership_of("abc"), member.now_ns) is not None
    assert not member.node.is_membership_settled
    for _ in range(3):
        member.confirm("b", "c")
    assert member.node.is_membership_settled
    assert member.node.membership == membership_of("abc")


def test_a_member_that_retires_votes_and_never_stands_for_election() -> None:
    member = Member()
    member.step(Append("c", "a", 4, 1, 1, [], 1))
    member.node.retire(member.now_ns)
    member.node.peer_lost("c", member.now_ns)
    assert member.node.deadline_ns is None
    assert member.step(Vote("b", "a", 5, 9, 9, True)) == [VoteReply("a", "b", 5, True)]
    assert member.step(CampaignNow("c", "a", 5)) == []
    assert member.node.role is RoleName.FOLLOWER


def test_a_campaign_ends_when_its_member_retires() -> None:
    member = Member()
    member.time_out()
    roles = [member.node.role]
    member.node.retire(member.now_ns)
    assert [*roles, member.node.role] == [RoleName.PRE_CANDIDATE, RoleName.FOLLOWER]


def test_what_a_leader_has_disowned_is_withdrawn_once_when_it_leads_again() -> None:
    member = Member()
    member.lead()
    member.confirm("b")
    first = member.node.propose([b"x"], member.now_ns)
    assert first is not None
    member.work()
    member.node.resign(member.now_ns)
    member.node.disown(first)
    member.work()
    member.lead()
    assert member.node.log.entries_from(first + 1, 9, 999)[1].kind is EntryKind.WITHDRAWAL
    member.confirm("b")
    assert b"x" not in member.applied
    index = member.node.log.last_index
    member.node.resign(member.now_ns)
    member.work()
    member.lead()
    assert member.node.log.last_index == index + 1


def test_committed_entries_and_those_that_are_not_there_cannot_be_disowned() -> None:
    member = Member()
    member.lead()
    member.confirm("b")
    committed, behind = member.node.log.commit, member.node.log.last_index + 1
    member.node.resign(member.now_ns)
    for first in (committed, behind):
        member.node.disown(first)
    member.work()
    member.lead()
    kinds = [each.kind for each in member.node.log.entries_from(committed + 1, 9, 999)]
    assert kinds == [EntryKind.NOOP]


def test_entries_of_another_leader_are_not_disowned() -> None:
    member = Member()
    member.lead()
    member.confirm("b")
    first = member.node.propose([b"x"], member.now_ns)
    assert first is not None
    member.work()
    term = member.node.term + 1
    theirs = Entry(term, first, EntryKind.DATA, b"theirs")
    member.step(Append("b", "a", term, first - 1, term - 1, [theirs], first - 1))
    member.node.disown(first)
    member.node.peer_lost("b", member.now_ns)
    member.lead()
    member.confirm("c")
    assert b"theirs" in member.applied


def test_a_term_to_which_no_elections_can_have_led_is_refused() -> None:
    """Else the group would be at the last term there is, and could elect nobody any more."""
    for sent in (
        Digest("b", "a", 2 + TERM_JUMP_MAX, ""),
        PreVoteReply("b", "a", 2 + TERM_JUMP_MAX, False),
        Append("b", "a", 2 + TERM_JUMP_MAX, 1, 1, [], 1),
    ):
        member = Member()
        assert member.node.term == 1
        with pytest.raises(ImpossibleMessage, match="no elections can have led"):
            member.node.step(sent, member.now_ns)
        assert member.node.term == 1
        sent.term -= 1
        member.node.step(sent, member.now_ns)
        assert member.node.term == 1 + TERM_JUMP_MAX
