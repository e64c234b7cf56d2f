"""The rules by which votes are given."""

import pytest

from headwater.raft import election
from headwater.raft.config import RaftConfig
from headwater.raft.membership import membership_of
from headwater.raft.messages import PreVote, Vote
from headwater.raft.replica import Replica
from headwater.raft.storage import born
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.raft_disk import Disk


def voter(name: str = "b", recovery: int = 0) -> Replica:
    """A voter of term 1 whose log ends at 1/1."""
    begin = born(membership_of("abc"))
    entropy = SeededEntropy(labelled_rng(1))
    return Replica(name, RaftConfig(), entropy, Disk(begin), begin, recovery)


@pytest.mark.parametrize(
    ("term", "last_index", "last_term", "trusts_leader", "granted"),
    [
        (2, 1, 1, False, True),
        (2, 9, 1, False, True),
        (1, 1, 1, False, False),
        (2, 0, 0, False, False),
        (2, 1, 1, True, False),
    ],
)
def test_a_pre_vote_is_granted_for_a_later_term_and_a_good_log(
    term: int, last_index: int, last_term: int, trusts_leader: bool, granted: bool
) -> None:
    replica = voter()
    ask = PreVote("a", "b", term, last_index, last_term)
    reply = election.pre_vote_reply(replica, ask, trusts_leader)
    assert (reply.granted, reply.term) == (granted, term if granted else 1)
    assert (replica.term, replica.vote) == (1, "")


@pytest.mark.parametrize(
    ("vote", "leader", "last_index", "granted"),
    [("", "", 1, True), ("a", "", 1, True), ("c", "", 1, False), ("", "c", 1, False)],
)
def test_a_vote_is_given_once_and_not_beside_a_leader(
    vote: str, leader: str, last_index: int, granted: bool
) -> None:
    replica = voter()
    replica.vote, replica.leader = vote, leader
    reply = election.vote_reply(replica, Vote("a", "b", 1, last_index, 1, False))
    assert reply.granted is granted
    assert replica.vote == ("a" if granted else vote)


def test_a_vote_needs_a_log_that_is_up_to_date() -> None:
    assert not election.may_grant(voter(), Vote("a", "b", 1, 0, 0, True))


def test_a_voter_that_has_forgotten_grants_nothing() -> None:
    replica = voter(recovery=7)
    assert not election.pre_vote_reply(replica, PreVote("a", "b", 2, 9, 9), False).granted
    assert not election.vote_reply(replica, Vote("a", "b", 1, 9, 9, True)).granted


def test_a_voter_votes_whatever_its_own_membership_says() -> None:
    assert election.may_grant(voter("x"), Vote("a", "x", 1, 1, 1, False))
