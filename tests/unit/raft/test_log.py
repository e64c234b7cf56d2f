"""The log of a member: agreement, cuts, memory, trimming and the marks between them."""

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.raft import membership as memberships
from headwater.raft import withdrawals
from headwater.raft.entry import Entry, EntryKind, size_of
from headwater.raft.log import NO_TERM, RaftLog
from headwater.raft.membership import membership_of
from headwater.raft.storage import HardState, SavedState, Snapshot

FIRST = Snapshot(1, 1, membership_of("abc"))
ENTRY_BYTES = size_of(Entry(1, 1, EntryKind.DATA, b"x"))


class Stored:
    """Entries in storage, and the ranges that were read."""

    def __init__(self) -> None:
        self.written: dict[int, Entry] = {}
        self.reads: list[tuple[int, int]] = []

    def entries(self, first: int, last: int, bytes_max: int) -> list[Entry]:
        self.reads.append((first, last))
        count = max(1, bytes_max // ENTRY_BYTES)
        return [self.written[index] for index in range(first, min(last, first + count - 1) + 1)]


def entries(first: int, *terms: int) -> list[Entry]:
    """Entries from an index on, of these terms."""
    return [Entry(term, index, EntryKind.DATA, b"x") for index, term in enumerate(terms, first)]


def log_of(*terms: int, memory_bytes_max: int = 1 << 20) -> tuple[RaftLog, Stored]:
    """A log behind the birth of its group, all of it in storage."""
    stored = Stored()
    stored.written = {entry.index: entry for entry in entries(2, *terms)}
    saved = SavedState(HardState(9, "", 1), FIRST, 1 + len(terms), 1)
    return RaftLog(stored, saved, memory_bytes_max), stored


def write(log: RaftLog, number: int) -> list[Entry]:
    """Take the next portion, and report it as written."""
    snapshot, taken = log.take_unwritten(number)
    log.written(number, snapshot)
    return taken


def test_terms_are_known_from_the_snapshot_to_the_end() -> None:
    log, _ = log_of(2, 2, 5)
    assert [log.term_at(index) for index in range(6)] == [NO_TERM, 1, 2, 2, 5, NO_TERM]
    assert (log.last_index, log.last_term) == (4, 5)


@pytest.mark.parametrize(
    ("last_index", "last_term", "is_up_to_date"),
    [(4, 5, True), (5, 5, True), (3, 5, False), (2, 6, True), (9, 4, False)],
)
def test_a_log_with_a_later_last_term_or_a_longer_one_is_up_to_date(
    last_index: int, last_term: int, is_up_to_date: bool
) -> None:
    log, _ = log_of(2, 2, 5)
    assert log.is_up_to_date(last_index, last_term) is is_up_to_date


def test_entries_behind_an_unknown_one_are_refused() -> None:
    log, _ = log_of(2, 2)
    assert not log.accept(4, 2, [])
    assert not log.accept(3, 3, entries(4, 3))
    assert log.last_index == 3


def test_entries_that_are_there_already_change_nothing() -> None:
    log, _ = log_of(2, 2, 2)
    assert log.accept(1, 1, entries(2, 2))
    assert log.last_index == 4
    assert not log.has_unwritten


def test_entries_that_contradict_cut_the_log() -> None:
    log, _ = log_of(2, 2, 2)
    assert log.accept(2, 2, entries(3, 3))
    assert [log.term_at(index) for index in range(1, 5)] == [1, 2, 3, NO_TERM]
    assert log.stable == 2
    assert [entry.index for entry in write(log, 1)] == [3]


def test_committed_entries_are_never_cut() -> None:
    log, _ = log_of(2, 2)
    log.commit_to(3)
    assert log.accept(1, 1, entries(2, 3, 3))
    assert [log.term_at(index) for index in (2, 3)] == [2, 2]


def test_a_leader_that_lacks_committed_entries_is_contradicted() -> None:
    log, _ = log_of(2, 2, 2)
    log.commit_to(3)
    assert log.contradicts(2, 3, [])
    assert log.contradicts(2, 2, entries(3, 3))
    assert not log.contradicts(2, 2, entries(3, 2))
    # An entry that is not committed may be another one.
    assert not log.contradicts(3, 2, entries(4, 3))
    # The leader may have trimmed its log, or be shorter.
    assert not log.contradicts(0, 0, [])


def test_a_leader_that_lacks_trimmed_entries_is_contradicted() -> None:
    """Terms never fall along a log, so a later term cannot stand before what is trimmed."""
    log, _ = log_of(2, 2, 3)
    log.commit_to(4)
    write(log, 1)
    log.written(1, None)
    log.take_committed(1 << 20)
    log.applied_to(4)
    log.trim(4)
    assert log.contradicts(2, 4, [])
    assert log.contradicts(1, 2, entries(2, 4))
    assert not log.contradicts(2, 3, [])
    assert not log.contradicts(1, 2, entries(2, 2, 3))


def test_servers_that_were_members_are_known_until_their_entries_are_trimmed() -> None:
    log, _ = log_of(2)
    before = log.membership.members()
    after = membership_of((*before, "z"))
    log.append([Entry(2, 3, EntryKind.MEMBERSHIP, memberships.encode(after))])
    log.append([Entry(2, 4, EntryKind.MEMBERSHIP, memberships.encode(membership_of(before)))])
    assert not log.membership.has("z")
    assert log.names("z")
    assert not log.names("y")
    write(log, 1)
    log.written(1, None)
    log.commit_to(4)
    log.take_committed(1 << 20)
    log.applied_to(4)
    log.trim(4)
    assert not log.names("z")


def test_a_write_vouches_for_nothing_that_was_cut_since() -> None:
    """Also if an equal entry has taken the place: the write of that one is still to come."""
    log, _ = log_of()
    log.accept(1, 1, entries(2, 2))
    log.take_unwritten(1)
    log.accept(1, 1, entries(2, 3))
    log.take_unwritten(2)
    log.accept(1, 1, entries(2, 4))
    log.take_unwritten(3)
    log.written(1, None)
    log.written(2, None)
    assert log.stable == 1
    log.written(3, None)
    assert log.stable == 2


def test_writes_are_reported_in_order() -> None:
    log, _ = log_of()
    for number in (1, 2):
        log.append(entries(log.last_index + 1, 2))
        log.take_unwritten(number)
    with pytest.raises(InvariantViolation, match="writes end in order"):
        log.written(2, None)


def test_entries_are_handed_out_once_when_committed_and_stable() -> None:
    log, _ = log_of()
    log.append(entries(2, 2, 2, 2))
    log.commit_to(3)
    assert log.take_committed(1 << 20) == []
    write(log, 1)
    assert [entry.index for entry in log.take_committed(1 << 20)] == [2, 3]
    assert log.take_committed(1 << 20) == []
    log.commit_to(4)
    assert [entry.index for entry in log.take_committed(1)] == [4]


def test_only_entries_that_were_handed_out_are_applied() -> None:
    log, _ = log_of(2)
    with pytest.raises(InvariantViolation, match="handed out"):
        log.applied_to(2)


@pytest.mark.parametrize(
    ("index", "term", "hint"),
    [(7, 3, (3, 2)), (7, 4, (5, 4)), (6, 9, (6, 6)), (4, 1, (1, 1)), (7, 6, (7, 6))],
)
def test_a_hint_skips_entries_of_later_terms(index: int, term: int, hint: tuple[int, int]) -> None:
    log, _ = log_of(2, 2, 4, 4, 6, 6)
    assert log.agreement_hint(index, term) == hint


def test_entries_are_limited_in_number_and_bytes() -> None:
    log, _ = log_of(2, 2, 2, 2)
    assert [each.index for each in log.entries_from(2, 3, 1 << 20)] == [2, 3, 4]
    assert [each.index for each in log.entries_from(3, 9, 2 * ENTRY_BYTES)] == [3, 4]
    assert [each.index for each in log.entries_from(3, 9, 1)] == [3]
    assert log.entries_from(6, 9, 1 << 20) == []


def test_old_entries_leave_the_memory_and_are_read_back() -> None:
    log, stored = log_of(2, 2, 2, 2, 2, 2, memory_bytes_max=4 * ENTRY_BYTES)
    stored.reads.clear()
    assert [each.index for each in log.entries_from(7, 9, 1 << 20)] == [7]
    assert stored.reads == []
    first_read = log.entries_from(2, 9, 1 << 20)
    assert stored.reads
    assert first_read[0].index == 2


def test_entries_that_are_not_applied_stay_in_memory() -> None:
    log, stored = log_of(memory_bytes_max=2 * ENTRY_BYTES)
    log.append(entries(2, *[2] * 8))
    write(log, 1)
    assert len(log.entries_from(2, 9, 1 << 20)) == 8
    log.commit_to(9)
    log.take_committed(1 << 20)
    log.applied_to(9)
    stored.written = {entry.index: entry for entry in entries(2, *[2] * 8)}
    log.entries_from(2, 1, 1 << 20)
    assert stored.reads == [(2, 2)]


def test_a_membership_counts_from_its_entry_until_it_is_cut() -> None:
    log, _ = log_of(2)
    other = membership_of("abd")
    log.append([Entry(2, 3, EntryKind.MEMBERSHIP, memberships.encode(other))])
    assert (log.membership, log.membership_index) == (other, 3)
    assert log.membership_at(2) == FIRST.membership
    assert log.accept(2, 2, entries(3, 3))
    assert (log.membership, log.membership_index) == (FIRST.membership, 1)


def test_a_voter_that_is_to_leave_may_be_one_until_that_is_committed() -> None:
    log, _ = log_of(2)
    log.append([Entry(2, 3, EntryKind.MEMBERSHIP, memberships.encode(membership_of("ab")))])
    assert log.may_be_voter("c")
    log.commit_to(3)
    assert not log.may_be_voter("c")
    assert log.may_be_voter("a")


def test_a_trimmed_log_keeps_term_and_membership_of_its_last_entry() -> None:
    log, _ = log_of(2, 2, 5)
    log.commit_to(4)
    log.take_committed(1 << 20)
    log.applied_to(4)
    assert log.trim(3) == Snapshot(3, 2, FIRST.membership)
    assert log.trim(2) == Snapshot(3, 2, FIRST.membership)
    assert [log.term_at(index) for index in range(2, 6)] == [NO_TERM, 2, 5, NO_TERM]
    assert [each.index for each in log.entries_from(4, 9, 1 << 20)] == [4]


def test_only_applied_entries_are_trimmed() -> None:
    log, _ = log_of(2, 2)
    with pytest.raises(InvariantViolation, match="applied and written"):
        log.trim(2)


def test_a_snapshot_replaces_log_and_writes_on_their_way() -> None:
    log, _ = log_of(2, 2)
    log.append(entries(4, 2))
    log.take_unwritten(1)
    snapshot = Snapshot(9, 4, membership_of("xyz"))
    log.restore(snapshot)
    log.append(entries(10, 4))
    log.written(1, None)
    assert log.stable == 0
    taken, behind = log.take_unwritten(2)
    assert (taken, [entry.index for entry in behind]) == (snapshot, [10])
    assert log.take_committed(1 << 20) == []
    log.written(2, taken)
    assert (log.stable, log.applied, log.commit) == (10, 9, 9)
    assert log.membership == membership_of("xyz")


def test_a_snapshot_never_takes_anything_back() -> None:
    log, _ = log_of(2, 2)
    log.commit_to(3)
    with pytest.raises(InvariantViolation, match="takes anything back"):
        log.restore(Snapshot(3, 2, FIRST.membership))


def withdrawal(index: int, first: int) -> Entry:
    return Entry(2, index, EntryKind.WITHDRAWAL, withdrawals.encode(first))


def test_a_commit_index_is_kept_with_the_withdrawal_of_its_entries() -> None:
    log, _ = log_of(2)
    log.append([*entries(3, 2, 2), withdrawal(5, 3)])
    log.take_unwritten(1)
    log.append(entries(6, 2))
    log.commit_to(6)
    # The disk has no entry of this portion yet.
    assert log.stable_commit == 2
    log.written(1, None)
    assert log.stable_commit == 5
    found = log.take_committed(1 << 20)
    assert [entry.kind for entry in found[1:]] == [
        EntryKind.NOOP,
        EntryKind.NOOP,
        EntryKind.WITHDRAWAL,
    ]


def test_withdrawals_are_known_again_after_a_restart_in_the_middle_of_them() -> None:
    _, stored = log_of(2, 2, 2)
    stored.written[5] = withdrawal(5, 2)
    log = RaftLog(stored, SavedState(HardState(9, "", 5), FIRST, 5, 3), 1 << 20)
    assert [entry.kind for entry in log.take_committed(1)] == [EntryKind.NOOP]
    assert log.commit_for(3) == 1
    assert log.trim(3) is log.snapshot
    assert log.snapshot == FIRST


def test_a_follower_is_told_the_whole_commit_index_unless_it_would_divide_a_withdrawal() -> None:
    log, _ = log_of(2, 2, 2)
    log.append([withdrawal(5, 3), *entries(6, 2)])
    log.commit_to(6)
    assert [log.commit_for(last) for last in range(1, 7)] == [6, 6, 2, 2, 6, 6]
