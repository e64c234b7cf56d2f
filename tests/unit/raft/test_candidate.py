"""Campaigns: pre-votes, votes, and how they end."""

from headwater.raft.messages import (
    Append,
    Digest,
    PreVote,
    PreVoteReply,
    Vote,
    VoteReply,
)
from headwater.raft.role import RoleName
from tests.kit.raft_member import Member


def candidate() -> Member:
    """A candidate of term 2 in a group of three."""
    member = Member()
    member.time_out()
    member.step(PreVoteReply("b", "a", 2, True))
    assert member.node.role is RoleName.CANDIDATE
    return member


def test_a_pre_candidate_changes_neither_term_nor_vote() -> None:
    member = Member()
    assert member.time_out() == [PreVote("a", "b", 2, 1, 1), PreVote("a", "c", 2, 1, 1)]
    assert (member.node.role, member.node.term) == (RoleName.PRE_CANDIDATE, 1)
    assert member.disk.files.hard_state.vote == ""


def test_a_pre_candidate_that_most_would_vote_for_asks_for_votes() -> None:
    member = Member()
    member.time_out()
    sent = member.step(PreVoteReply("b", "a", 2, True))
    assert sent == [Vote("a", "b", 2, 1, 1, False), Vote("a", "c", 2, 1, 1, False)]
    assert member.disk.files.hard_state.vote == "a"


def test_a_pre_candidate_that_most_refuse_waits_again() -> None:
    member = Member()
    member.time_out()
    roles = []
    for voter in ("b", "b", "c"):
        member.step(PreVoteReply(voter, "a", 1, False))
        roles.append(member.node.role)
    assert roles == [RoleName.PRE_CANDIDATE, RoleName.PRE_CANDIDATE, RoleName.FOLLOWER]
    assert member.node.deadline_ns is not None


def test_a_refusal_of_a_later_term_is_entered() -> None:
    member = Member()
    member.time_out()
    member.step(PreVoteReply("b", "a", 7, False))
    assert (member.node.role, member.node.term) == (RoleName.FOLLOWER, 7)


def test_a_pre_vote_of_another_round_is_not_counted() -> None:
    member = candidate()
    member.step(PreVoteReply("c", "a", 2, True))
    assert member.node.role is RoleName.CANDIDATE
    assert member.node.term == 2


def test_a_candidate_with_a_majority_leads() -> None:
    member = candidate()
    member.step(VoteReply("c", "a", 2, True))
    assert member.node.role is RoleName.LEADER


def test_a_candidate_that_most_refuse_is_a_follower_of_its_term() -> None:
    member = candidate()
    member.step(VoteReply("b", "a", 2, False), VoteReply("c", "a", 2, False))
    assert (member.node.role, member.node.term) == (RoleName.FOLLOWER, 2)


def test_a_campaign_without_an_answer_begins_again_with_pre_votes() -> None:
    member = candidate()
    sent = member.time_out()
    assert {type(message) for message in sent} == {PreVote}
    assert (member.node.role, member.node.term) == (RoleName.PRE_CANDIDATE, 2)


def test_an_append_of_the_term_ends_a_campaign() -> None:
    member = candidate()
    member.step(Append("c", "a", 2, 1, 1, [], 1))
    assert (member.node.role, member.node.leader) == (RoleName.FOLLOWER, "c")


def test_the_digest_of_a_leader_ends_a_campaign_and_another_does_not() -> None:
    member = candidate()
    member.step(Digest("b", "a", 2, "c"))
    assert member.node.role is RoleName.CANDIDATE
    member.step(Digest("c", "a", 2, "c"))
    assert (member.node.role, member.node.leader) == (RoleName.FOLLOWER, "c")


def test_the_only_voter_needs_nobody() -> None:
    member = Member(voters="a")
    member.time_out()
    assert member.node.role is RoleName.LEADER
    assert member.node.is_ready
