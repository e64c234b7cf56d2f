"""Appends: batches, windows, silence, resends, snapshots."""

from dataclasses import replace

from headwater.base.clock import NS_PER_MS
from headwater.raft.config import RaftConfig
from headwater.raft.entry import ENTRY_OVERHEAD_BYTES
from headwater.raft.membership import membership_of
from headwater.raft.messages import Append, AppendReject, AppendReply, InstallSnapshot, Message
from headwater.raft.progress import Phase, Progress
from tests.kit.raft_member import Member


def leader(config: RaftConfig | None = None) -> Member:
    """A leader whose followers have confirmed everything."""
    member = Member(config=config)
    member.lead()
    member.confirm("b", "c")
    member.confirm("b", "c")
    assert member.node.deadline_ns is None
    return member


def appends(sent: list[Message], to: str) -> list[list[bytes]]:
    """The data of each append to a follower."""
    return [
        [entry.data for entry in message.entries]
        for message in sent
        if isinstance(message, Append) and message.to == to
    ]


def progress(member: Member, peer: str) -> Progress:
    found = member.node.progress_of(peer)
    assert found is not None
    return found


def propose(member: Member, *data: bytes) -> list[Message]:
    member.node.propose([*data], member.now_ns)
    return member.work()


def test_all_proposals_of_a_turn_travel_in_one_message() -> None:
    member = leader()
    member.node.propose([b"x"], member.now_ns)
    member.node.propose([b"y", b"z"], member.now_ns)
    assert appends(member.work(), "b") == [[b"x", b"y", b"z"]]


def test_a_message_is_limited_in_entries_and_bytes() -> None:
    few = leader(replace(RaftConfig(), append_entries_max=2))
    assert appends(propose(few, b"v", b"w", b"x"), "b") == [[b"v", b"w"], [b"x"]]
    small = leader(replace(RaftConfig(), append_bytes_max=2 * ENTRY_OVERHEAD_BYTES + 2))
    assert appends(propose(small, b"v", b"w", b"x"), "b") == [[b"v", b"w"], [b"x"]]
    assert appends(propose(small, b"y" * 500), "b") == [[b"y" * 500]]


def test_a_full_window_waits_for_a_confirmation() -> None:
    member = leader(replace(RaftConfig(), append_entries_max=1, window_messages_max=2))
    assert appends(propose(member, b"v", b"w", b"x"), "b") == [[b"v"], [b"w"]]
    assert appends(member.confirm("b", match=3), "b") == [[b"x"]]


def test_followers_learn_the_commit_index_and_then_nothing_is_sent() -> None:
    member = leader()
    propose(member, b"x")
    assert appends(member.confirm("b"), "b") == [[]]
    assert appends(member.confirm("b", "c"), "c") == []
    assert member.confirm("b", "c") == []
    assert member.node.deadline_ns is None


def committing(*data: bytes) -> tuple[Member, list[Message]]:
    """A leader that lets a commit wait for entries, with one, and what it sent then."""
    member = Member(config=replace(RaftConfig(), commit_delay_ns=NS_PER_MS))
    member.lead()
    member.confirm("b", "c")
    member.time_out()
    member.confirm("b", "c")
    assert member.node.deadline_ns is None
    propose(member, *data)
    return member, member.confirm("b", "c")


def commits(sent: list[Message], to: str) -> list[int]:
    """The commit index of each append to a follower."""
    return [each.commit for each in sent if isinstance(each, Append) and each.to == to]


def test_entries_carry_a_commit_that_may_wait() -> None:
    member, sent = committing(b"x")
    assert sent == []
    commit = member.node.log.commit
    assert commits(propose(member, b"y"), "b") == [commit]
    sent = member.confirm("b", "c")
    assert sent == []
    assert commits(member.time_out(), "c") == [commit + 1]


def test_a_commit_that_no_entry_carries_is_told_once_when_it_has_waited() -> None:
    member, _ = committing(b"x")
    begun_ns = member.now_ns
    sent = member.time_out()
    assert member.now_ns == begun_ns + NS_PER_MS
    assert commits(sent, "b") == commits(sent, "c") == [member.node.log.commit]
    assert appends(sent, "b") == [[]]
    assert member.work() == []
    assert member.confirm("b", "c") == []
    assert member.node.deadline_ns is None


def test_a_leader_that_resigns_tells_a_commit_that_waits() -> None:
    member, _ = committing(b"x")
    member.node.resign(member.now_ns)
    sent = member.work()
    assert commits(sent, "b") == commits(sent, "c") == [member.node.log.commit]


def test_a_follower_that_comes_back_is_told_a_commit_that_waits() -> None:
    member, _ = committing(b"x")
    member.node.peer_lost("c", member.now_ns)
    assert commits(member.time_out(), "c") == []
    member.node.peer_alive("c", member.now_ns)
    assert commits(member.work(), "c") == [member.node.log.commit]


def test_nothing_is_sent_to_a_server_that_is_not_alive() -> None:
    member = leader()
    member.node.peer_lost("c", member.now_ns)
    assert appends(propose(member, b"x"), "c") == []
    member.node.peer_alive("c", member.now_ns)
    assert appends(member.work(), "c") == [[b"x"]]


def test_a_follower_that_does_not_answer_is_asked_without_entries() -> None:
    member = leader()
    propose(member, b"x")
    propose(member, b"y")
    for _ in range(3):
        sent = member.time_out()
        assert appends(sent, "b") == appends(sent, "c") == [[]]
        (question,) = [each for each in sent if isinstance(each, Append) and each.to == "b"]
        assert question.prev_index == member.node.log.last_index


def test_entries_that_are_still_on_their_way_are_not_sent_again() -> None:
    member = leader()
    propose(member, b"x")
    propose(member, b"y")
    member.time_out()
    # The answers to both appends, and then to the question behind them.
    for match in (3, 4, 4):
        assert not any(appends(member.confirm("b", match=match), "b"))
    assert appends(propose(member, b"z"), "b") == [[b"z"]]


def test_entries_that_were_lost_are_sent_again_from_what_is_confirmed() -> None:
    member = leader()
    propose(member, b"x")
    propose(member, b"y")
    member.time_out()
    sent = member.step(AppendReject("b", "a", 2, 4, 2, 2))
    assert appends(sent, "b") == [[b"x", b"y"]]
    assert progress(member, "b").phase is Phase.PROBE


def test_a_refusal_is_answered_from_the_hint() -> None:
    member = leader()
    propose(member, b"x", b"y")
    sent = member.step(AppendReject("b", "a", 2, 4, 3, 2))
    assert appends(sent, "b") == [[b"y"]]


def test_the_leaders_own_log_improves_a_hint() -> None:
    member = leader()
    propose(member, b"x", b"y")
    sent = member.step(AppendReject("b", "a", 2, 4, 4, 1))
    assert appends(sent, "b") == [[b"x", b"y"]]
    assert progress(member, "b").match == 2


def test_a_refusal_of_an_append_that_was_not_sent_is_ignored() -> None:
    member = leader()
    propose(member, b"x", b"y")
    assert member.step(AppendReject("b", "a", 2, 1 << 61, 1 << 60, 2)) == []
    assert progress(member, "b").phase is Phase.REPLICATE


def test_a_member_that_has_more_entries_than_the_leader_is_shown_the_end_of_its_log() -> None:
    member = leader()
    assert member.step(AppendReply("b", "a", 2, 9, 9)) == []
    assert progress(member, "b").match == 2
    assert member.node.log.commit == 2
    [question] = [message for message in member.time_out() if message.to == "b"]
    assert question == Append("a", "b", 2, 2, 2, [], 2)
    assert appends(propose(member, b"x"), "c") == [[b"x"]]
    member.confirm("c")
    assert member.node.log.commit == 3


def test_a_follower_that_lacks_trimmed_entries_is_offered_a_snapshot_once() -> None:
    member = Member()
    member.lead()
    member.confirm("b")
    member.node.trim(2)
    sent = member.step(AppendReject("c", "a", 2, 1, 0, 0))
    assert [type(message) for message in sent if message.to == "c"] == [InstallSnapshot]
    assert appends(propose(member, b"x"), "c") == []
    sent = member.step(AppendReply("c", "a", 2, 2, 2))
    assert appends(sent, "c") == [[b"x"]]


def test_a_snapshot_that_failed_is_offered_again() -> None:
    member = Member()
    member.lead()
    member.confirm("b")
    member.node.trim(2)
    member.step(AppendReject("c", "a", 2, 1, 0, 0))
    member.node.snapshot_failed("c")
    assert appends(member.work(), "c") == [[]]
    sent = member.step(AppendReject("c", "a", 2, 2, 0, 0))
    assert [type(message) for message in sent if message.to == "c"] == [InstallSnapshot]


def test_answers_of_strangers_are_ignored() -> None:
    member = leader()
    assert member.step(AppendReply("x", "a", 2, 2, 2)) == []
    assert member.step(AppendReject("x", "a", 2, 2, 1, 1)) == []


def leave(member: Member) -> list[Message]:
    """Let `c` leave a group of three. Returns the last messages of the change."""
    member.node.propose_membership(membership_of("ab"), member.now_ns)
    member.work()
    return member.confirm("b", "c", match=3)


def test_a_member_that_leaves_is_told_and_then_forgotten() -> None:
    member = leader()
    assert len(appends(leave(member), "c")) == 1
    sent = member.confirm("b", "c")
    assert appends(sent, "c") == [[]]
    member.confirm("b", "c")
    assert member.node.progress_of("c") is None
    assert member.node.deadline_ns is None


def test_a_member_that_leaves_and_does_not_answer_is_forgotten() -> None:
    member = leader()
    leave(member)
    member.confirm("b")
    member.confirm("b")
    assert member.time_out() == []
    assert member.node.progress_of("c") is None
    assert member.node.deadline_ns is None


def test_a_member_that_leaves_and_is_lost_is_forgotten() -> None:
    member = leader()
    leave(member)
    member.node.peer_lost("c", member.now_ns)
    assert member.node.progress_of("c") is None
