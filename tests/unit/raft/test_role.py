"""A role that has no rule for an event ignores it."""

from headwater.raft.config import RaftConfig
from headwater.raft.membership import membership_of
from headwater.raft.messages import (
    Append,
    AppendReject,
    AppendReply,
    CampaignNow,
    Digest,
    InstallSnapshot,
    PreVoteReply,
    VoteReply,
)
from headwater.raft.replica import Replica
from headwater.raft.role import Role, RoleName, Transition
from headwater.raft.storage import NOBODY, born
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.raft_disk import Disk


def test_a_role_without_rules_stays_and_is_silent() -> None:
    begin = born(membership_of("abc"))
    entropy = SeededEntropy(labelled_rng(1))
    replica = Replica("a", RaftConfig(), entropy, Disk(begin), begin, 0)
    role = Role(replica)
    role.flush(1)
    role.vote_granted(1)
    role.show_leader("b")
    answers = [
        role.enter(1),
        role.tick(1),
        role.written(1),
        role.peer_alive("b", 1),
        role.peer_lost("b", 1),
        role.on_append(Append("b", "a", 1, 1, 1, [], 1), 1),
        role.on_append_reply(AppendReply("b", "a", 1, 1, 1), 1),
        role.on_append_reject(AppendReject("b", "a", 1, 1, 1, 1), 1),
        role.on_install_snapshot(InstallSnapshot("b", "a", 1, begin.snapshot), 1),
        role.on_pre_vote_reply(PreVoteReply("b", "a", 1, True), 1),
        role.on_vote_reply(VoteReply("b", "a", 1, True), 1),
        role.on_campaign_now(CampaignNow("b", "a", 1), 1),
        role.on_digest(Digest("b", "a", 1, NOBODY), 1),
    ]
    assert answers == [None] * len(answers)
    assert (role.deadline_ns, role.trusts_leader, role.known_leader) == (None, False, NOBODY)
    assert replica.messages == replica.replies == []


def test_a_transition_names_a_role_and_a_term() -> None:
    transition = Transition(RoleName.CANDIDATE, 3, forced=True)
    assert (transition.role, transition.term) == (RoleName.CANDIDATE, 3)
    assert (transition.leader, transition.forced) == (NOBODY, True)
