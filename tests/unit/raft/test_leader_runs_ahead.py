"""Leaders that act on entries before the quorum has them: what they may act on, and what a
successor learns of it."""

from headwater.base.clock import NS_PER_S
from headwater.raft.entry import Entry, EntryKind
from headwater.raft.leader_lease import SEQUENCES
from headwater.raft.messages import Append
from headwater.raft.role import RoleName
from tests.kit.raft_member import Member


def leader(voters: str = "abc", is_sure: bool = True) -> Member:
    """A leader that runs ahead, and has applied its first entry."""
    member = Member(voters=voters)
    member.node.run_ahead(True)
    member.lead()
    member.confirm(*voters.removeprefix("a"))
    if is_sure:
        member.node.be_sure_of_sequences()
    return member


def inherits(*entries: tuple[EntryKind, bytes]) -> Member:
    """A leader whose log has entries of another leader."""
    member = Member()
    sent = [Entry(2, index, kind, data, 0, 0) for index, (kind, data) in enumerate(entries, 2)]
    member.step(Append("b", "a", 2, 1, 1, sent, 1))
    member.node.peer_lost("b", member.now_ns)
    member.lead()
    return member


def last_entry(member: Member) -> Entry:
    log = member.node.log
    (entry,) = log.entries_from(log.last_index, 1, 1)
    return entry


def test_a_leader_without_a_quorum_stays_in_office() -> None:
    member = leader()
    for peer in "bc":
        member.node.peer_lost(peer, member.now_ns)
    member.now_ns += 100 * NS_PER_S
    member.node.tick(member.now_ns)
    assert member.node.role is RoleName.LEADER
    deadline_ns = member.node.deadline_ns
    assert deadline_ns is None or deadline_ns > member.now_ns


def test_a_leader_that_ceases_to_run_ahead_resigns_without_a_quorum() -> None:
    member = leader()
    for peer in "bc":
        member.node.peer_lost(peer, member.now_ns)
    member.node.run_ahead(False)
    member.now_ns += 100 * NS_PER_S
    member.node.tick(member.now_ns)
    assert member.node.role is RoleName.FOLLOWER


def test_a_leader_vouches_for_what_its_own_log_has() -> None:
    member = leader()
    member.node.propose([b"x", b"y"], member.now_ns)
    before = member.node.vouched
    member.work()
    assert (before, member.node.vouched) == (2, 4)
    assert member.node.log.commit == 2


def test_no_other_member_vouches() -> None:
    assert Member().node.vouched == 0


def test_nothing_behind_a_withdrawal_is_vouched_for_until_it_is_committed() -> None:
    member = leader()
    first = member.node.propose([b"x"], member.now_ns)
    assert first is not None
    withdrawal = member.node.withdraw(first, member.now_ns)
    member.node.propose([b"y"], member.now_ns)
    member.work()
    assert member.node.vouched == withdrawal
    member.confirm("b")
    assert member.node.vouched == member.node.log.last_index


def test_nothing_behind_a_release_is_vouched_for_until_the_quorum_has_it() -> None:
    member = leader()
    member.node.transfer_leadership("b", member.now_ns)
    member.work()
    released = member.node.log.last_index
    member.node.peer_lost("b", member.now_ns)
    member.node.propose([b"x"], member.now_ns)
    member.work()
    assert member.node.vouched == released < member.node.log.last_index
    member.confirm("c")
    assert member.node.vouched == member.node.log.last_index


def test_a_leader_that_hands_over_releases_its_sequences() -> None:
    member = leader()
    member.node.transfer_leadership("b", member.now_ns)
    assert (last_entry(member).kind, last_entry(member).data) == (EntryKind.RELEASE, SEQUENCES)


def test_a_leader_that_is_not_sure_of_sequences_releases_none() -> None:
    member = leader(is_sure=False)
    member.node.transfer_leadership("b", member.now_ns)
    assert last_entry(member).kind is EntryKind.NOOP


def test_each_leader_has_to_be_sure_anew() -> None:
    member = leader()
    member.node.resign(member.now_ns)
    member.lead()
    member.confirm("b", "c")
    member.node.transfer_leadership("b", member.now_ns)
    assert last_entry(member).kind is EntryKind.NOOP


def test_the_first_leader_follows_nobody() -> None:
    assert leader().node.follows_release
    assert not Member().node.follows_release


def test_a_leader_behind_a_release_has_all_that_was_given_out() -> None:
    assert inherits((EntryKind.DATA, b"x"), (EntryKind.RELEASE, SEQUENCES)).node.follows_release


def test_a_leader_behind_anything_else_does_not() -> None:
    release = (EntryKind.RELEASE, SEQUENCES)
    assert not inherits((EntryKind.DATA, b"x")).node.follows_release
    assert not inherits(release, (EntryKind.NOOP, b"")).node.follows_release
    # A release of a lease alone says nothing about sequences.
    assert not inherits((EntryKind.RELEASE, b"")).node.follows_release
