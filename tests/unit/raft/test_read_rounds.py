"""Rounds of confirmation: who is asked, who confirms, and the reads that a round serves."""

from headwater.raft.membership import membership_of
from headwater.raft.messages import (
    Append,
    AppendReply,
    Digest,
    Message,
    ReadRound,
    ReadRoundReply,
)
from headwater.raft.read_rounds import ROUNDS_MAX
from tests.kit.raft_member import Member


def leader(voters: str = "abc", learners: str = "") -> Member:
    member = Member(voters=voters, learners=learners)
    member.lead()
    member.confirm(*voters.removeprefix("a"), *learners)
    return member


def reply(peer: str, number: int, term: int = 2) -> ReadRoundReply:
    return ReadRoundReply(peer, "a", term, number)


def rounds(sent: list[Message]) -> list[tuple[str, int]]:
    return [(each.to, each.number) for each in sent if isinstance(each, ReadRound)]


def test_all_voters_are_asked_and_a_majority_confirms() -> None:
    member = leader("abcde", "f")
    assert member.node.begin_read_round() == 1
    assert rounds(member.work()) == [("b", 1), ("c", 1), ("d", 1), ("e", 1)]
    member.step(reply("b", 1), reply("f", 1))
    assert member.node.confirmed_read_round == 0
    member.step(reply("d", 1))
    assert member.node.confirmed_read_round == 1


def test_servers_that_are_lost_are_not_asked() -> None:
    member = leader()
    member.node.peer_lost("b", member.now_ns)
    member.node.begin_read_round()
    assert rounds(member.work()) == [("c", 1)]


def test_a_later_round_stands_for_earlier_ones_and_not_the_reverse() -> None:
    member = leader()
    assert [member.node.begin_read_round() for _ in range(3)] == [1, 2, 3]
    member.step(reply("b", 2))
    assert member.node.confirmed_read_round == 2
    member.step(reply("c", 1))
    assert member.node.confirmed_read_round == 2
    member.step(reply("b", 3))
    assert member.node.confirmed_read_round == 3


def test_a_confirmation_of_a_round_that_has_not_begun_counts_for_none() -> None:
    member = leader()
    member.step(reply("b", 9))
    member.node.begin_read_round()
    assert member.node.confirmed_read_round == 0


def test_a_round_waits_for_what_was_committed_when_it_began() -> None:
    member = leader()
    node = member.node
    node.propose([b"x"], member.now_ns)
    ready = node.ready(member.now_ns)
    assert ready is not None
    member.disk.files.write(ready, 0)
    node.written(ready, member.now_ns)
    node.step(AppendReply("b", "a", 2, 3, 2), member.now_ns)
    assert node.log.commit == 3 > node.log.applied
    node.begin_read_round()
    node.step(reply("b", 1), member.now_ns)
    assert node.confirmed_read_round == 0
    member.work()
    assert node.confirmed_read_round == 1


def test_a_leader_asks_only_behind_a_commit_of_its_own_term() -> None:
    member = Member()
    member.lead()
    assert member.node.begin_read_round() is None
    member.confirm("b")
    assert member.node.begin_read_round() == 1


def test_a_sole_voter_confirms_by_itself() -> None:
    member = leader("a")
    assert member.node.begin_read_round() == 1
    assert member.node.confirmed_read_round == 1


def test_a_joint_membership_needs_both_majorities() -> None:
    member = leader("abc", "de")
    member.node.propose_membership(membership_of("ade"), member.now_ns)
    member.work()
    member.node.begin_read_round()
    member.step(reply("b", 1), reply("c", 1))
    assert member.node.confirmed_read_round == 0
    member.step(reply("d", 1))
    assert member.node.confirmed_read_round == 1


def test_rounds_that_nobody_confirms_are_limited() -> None:
    member = leader()
    assert [member.node.begin_read_round() for _ in range(ROUNDS_MAX)][-1] == ROUNDS_MAX
    assert member.node.begin_read_round() is None
    member.step(reply("b", 1))
    assert member.node.confirmed_read_round == 1
    assert member.node.begin_read_round() == ROUNDS_MAX + 1


# --- a follower ----------------------------------------------------------------------------------


def following(*, has_forgotten: bool = False) -> Member:
    member = Member(has_forgotten=has_forgotten)
    member.step(Append("b", "a", 2, 1, 1, [], 1))
    return member


def test_a_follower_confirms_its_leader() -> None:
    assert following().step(ReadRound("b", "a", 2, 7)) == [ReadRoundReply("a", "b", 2, 7)]


def test_a_member_that_may_have_forgotten_does_not_confirm() -> None:
    assert following(has_forgotten=True).step(ReadRound("b", "a", 2, 7)) == []


def test_a_leader_of_an_earlier_term_is_told_of_the_later_one() -> None:
    assert following().step(ReadRound("c", "a", 1, 7)) == [Digest("a", "c", 2, "b")]
