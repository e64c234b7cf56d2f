"""The state of a member that outlives its roles."""

from itertools import pairwise

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.raft.config import RaftConfig
from headwater.raft.membership import membership_of
from headwater.raft.replica import CAMPAIGN_SLOTS, Replica
from headwater.raft.storage import NOBODY, HardState, SavedState, born
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.raft_disk import Disk


def replica(name: str = "a", recovery: int = 0, saved: SavedState | None = None) -> Replica:
    """A member of a group of three."""
    begin = saved or born(membership_of("abc", "d"))
    entropy = SeededEntropy(labelled_rng(1))
    return Replica(name, RaftConfig(), entropy, Disk(begin), begin, recovery)


def test_a_new_term_begins_without_vote_and_leader() -> None:
    member = replica()
    member.vote, member.leader = "b", "b"
    member.enter_term(5)
    assert (member.term, member.vote, member.leader) == (5, NOBODY, NOBODY)
    with pytest.raises(InvariantViolation, match="terms only grow"):
        member.enter_term(5)


def test_a_member_votes_once_in_a_term() -> None:
    member = replica()
    member.grant("b")
    member.grant("b")
    with pytest.raises(InvariantViolation, match="votes once"):
        member.grant("c")


def test_a_member_that_has_forgotten_does_not_vote() -> None:
    with pytest.raises(InvariantViolation, match="has forgotten"):
        replica(recovery=7).grant("b")


def test_voters_that_have_forgotten_nothing_may_campaign() -> None:
    assert replica("a").may_campaign
    assert not replica("d").may_campaign
    assert not replica("x").may_campaign
    assert not replica("a", recovery=7).may_campaign


def test_a_hard_state_is_handed_out_once() -> None:
    member = replica()
    assert member.take_hard_state(has_write=True) is None
    member.grant("b")
    assert member.is_hard_state_new
    assert member.take_hard_state(has_write=False) == HardState(1, "b", 1)
    assert not member.is_hard_state_new
    assert member.take_hard_state(has_write=False) is None


def test_a_recovery_number_stays_until_the_member_is_readmitted() -> None:
    begin = born(membership_of("abc"))
    saved = SavedState(HardState(3, "", 1, 7), begin.snapshot, 1, 1)
    assert replica(saved=saved).recovery == 7
    assert replica(saved=saved, recovery=8).recovery == 8


def test_terms_on_disk_only_grow() -> None:
    member = replica()
    member.hard_state_written(HardState(4, "b", 1))
    assert (member.durable_term, member.durable_vote) == (4, "b")
    with pytest.raises(InvariantViolation, match="terms on disk"):
        member.hard_state_written(HardState(3, "", 1))


def test_patience_is_one_to_two_election_timeouts() -> None:
    member = replica()
    timeout_ns = member.config.election_timeout_ns
    waits = [member.patience_ns() for _ in range(200)]
    assert timeout_ns <= min(waits) < max(waits) < 2 * timeout_ns


def test_members_of_a_group_campaign_in_few_moments_and_never_in_the_same() -> None:
    spread_ns = 300_000_000
    members = {name: replica(name) for name in "abc"}
    parts = {
        name: {member.part_of(spread_ns) for _ in range(200)} for name, member in members.items()
    }
    for own in parts.values():
        assert len(own) == CAMPAIGN_SLOTS
        assert all(0 <= part < spread_ns for part in own)
    moments = sorted({*parts["a"], *parts["b"], *parts["c"]})
    assert len(moments) == 3 * CAMPAIGN_SLOTS
    apart_ns = spread_ns // CAMPAIGN_SLOTS // 3
    assert all(later - part >= apart_ns for part, later in pairwise(moments))


def test_a_member_that_lost_committed_entries_has_forgotten() -> None:
    begin = born(membership_of("abc"))
    saved = SavedState(HardState(3, "", 9), begin.snapshot, 1, 1)
    with pytest.raises(InvariantViolation, match="lost entries"):
        replica(saved=saved)
    assert replica(saved=saved, recovery=7).log.commit == 1
