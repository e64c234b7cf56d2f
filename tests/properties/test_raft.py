"""The parts of the consensus core against obvious twins, and its decoder against any bytes."""

import contextlib
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headwater.raft import codec, quorum, withdrawals
from headwater.raft import membership as memberships
from headwater.raft.codec import MalformedMessage
from headwater.raft.entry import Entry, EntryKind
from headwater.raft.lease import LEASE_NS_MAX
from headwater.raft.log import NO_TERM, RaftLog
from headwater.raft.membership import MalformedMembership, Membership, membership_of
from headwater.raft.messages import Append
from headwater.raft.quorum import Outcome
from headwater.raft.storage import SavedState, Snapshot, born
from tests.kit.raft_disk import Disk

NAMES = "abcdefg"
names = st.sets(st.sampled_from(NAMES), min_size=1)
joint = st.builds(lambda new, old: Membership((*sorted(new),), (*sorted(old),)), names, names)
single = st.builds(lambda voters: membership_of(voters), names)


# --- quorums -------------------------------------------------------------------------------------


def is_majority(half: tuple[str, ...], members: set[str]) -> bool:
    return 2 * len(members & {*half}) > len(half)


def decides(membership: Membership, members: set[str]) -> bool:
    """Whether members can decide alone, in the words of the definition."""
    halves = [half for half in (membership.voters, membership.outgoing) if half]
    return all(is_majority(half, members) for half in halves)


@given(st.one_of(single, joint), st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9)))
def test_the_committed_index_is_the_highest_that_deciders_have(
    membership: Membership, matches: dict[str, int]
) -> None:
    def confirmed(index: int) -> bool:
        return decides(membership, {name for name in NAMES if matches.get(name, 0) >= index})

    expected = max(index for index in range(10) if confirmed(index))
    assert quorum.committed_index(membership, matches) == expected


@given(st.one_of(single, joint), st.dictionaries(st.sampled_from(NAMES), st.booleans()))
def test_a_vote_is_won_by_deciders_and_lost_when_they_can_no_longer_be(
    membership: Membership, votes: dict[str, bool]
) -> None:
    yes = {name for name, granted in votes.items() if granted}
    possible = yes | ({*NAMES} - {*votes})
    result = quorum.outcome(membership, votes)
    assert (result is Outcome.WON) == decides(membership, yes)
    assert (result is Outcome.LOST) == (not decides(membership, possible))
    assert quorum.has_quorum(membership, yes.__contains__) == decides(membership, yes)


@given(single, single)
def test_no_two_majorities_of_a_change_are_apart(current: Membership, target: Membership) -> None:
    between = memberships.change(current, target)
    for before, after in ((current, between), (between, between.left())):
        everybody = {*before.members(), *after.members()}
        for size in range(len(everybody) + 1):
            for some in combinations(sorted(everybody), size):
                others = everybody - {*some}
                assert not (decides(before, {*some}) and decides(after, others))


# --- bytes ---------------------------------------------------------------------------------------

numbers = st.integers(0, (1 << 64) - 1)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    for beginning in (b"", *(bytes((codec.VERSION, kind)) for kind in range(14))):
        with contextlib.suppress(MalformedMessage):
            message = codec.decode(beginning + data, "a", "b")
            assert codec.encode(message) == beginning + data
    with contextlib.suppress(MalformedMessage):
        assert codec.encode_entries(codec.decode_entries(data)) == data
    with contextlib.suppress(MalformedMembership):
        assert memberships.encode(memberships.decode(data)) == data


@given(
    st.lists(st.tuples(st.binary(max_size=40), numbers, st.integers(0, LEASE_NS_MAX)), max_size=5),
    st.integers(0, 1 << 40),
    st.data(),
)
def test_an_append_with_a_wrong_byte_is_refused_or_an_append(
    contents: list[tuple[bytes, int, int]], prev_index: int, data: st.DataObject
) -> None:
    entries = [
        Entry(5, prev_index + 1 + position, EntryKind.DATA, content, created_ns, lease_ns)
        for position, (content, created_ns, lease_ns) in enumerate(contents)
    ]
    encoded = codec.encode(Append("a", "b", 7, prev_index, 4, entries, 3))
    assert codec.encode(codec.decode(encoded, "a", "b")) == encoded
    at = data.draw(st.integers(0, len(encoded) - 1))
    damaged = encoded[:at] + data.draw(st.binary(min_size=1, max_size=1)) + encoded[at + 1 :]
    with contextlib.suppress(MalformedMessage):
        assert codec.encode(codec.decode(damaged, "a", "b")) == damaged


# --- the log -------------------------------------------------------------------------------------


class LogTwin(RuleBasedStateMachine):
    """A log beside a plain table of terms, through appends, cuts, writes, trims and snapshots."""

    def __init__(self) -> None:
        super().__init__()
        saved: SavedState = born(membership_of("abc"))
        self.disk = Disk(saved)
        self.log = RaftLog(self.disk, saved, 200)
        self.terms = {1: 1}
        self.first = 1
        self.commit = 1
        self.applied = 1
        self.term = 1
        self.number = 0
        self.in_flight: list[tuple[int, Snapshot | None, list[Entry], int]] = []
        self.disk_end = 1
        # The first entry that a withdrawal covers, by the place of the withdrawal.
        self.withdrawn: dict[int, int] = {}

    def _whole(self, index: int, reached: int) -> int:
        """The last place up to an index that divides nothing which a withdrawal covers."""
        while any(f <= index < at for at, f in self.withdrawn.items() if at <= reached):
            index -= 1
        return index

    def _is_withdrawn(self, index: int) -> bool:
        return any(f <= index < at <= self.commit for at, f in self.withdrawn.items())

    def _last(self) -> int:
        return max(self.terms)

    @rule(terms=st.lists(st.integers(0, 2), min_size=1, max_size=4))
    def append(self, terms: list[int]) -> None:
        """A leader of a later term appends."""
        entries = []
        for step in terms:
            self.term = max(self.term, self.terms[self._last()]) + step
            index = self._last() + 1
            entries.append(Entry(self.term, index, EntryKind.DATA, b"%d" % self.term))
            self.terms[index] = self.term
        self.log.append(entries)

    @rule(back=st.integers(0, 6))
    def withdraw(self, back: int) -> None:
        """A leader withdraws entries that are not committed."""
        first, index = max(self.commit + 1, self._last() - back), self._last() + 1
        if first < index:
            term = max(self.term, self.terms[self._last()])
            self.log.append([Entry(term, index, EntryKind.WITHDRAWAL, withdrawals.encode(first))])
            self.terms[index] = term
            self.withdrawn[index] = first

    @rule(back=st.integers(0, 6), count=st.integers(0, 3), newer=st.booleans())
    def accept(self, back: int, count: int, newer: bool) -> None:
        """A leader sends entries behind one that this log may have."""
        prev = max(self.commit, self._last() - back)
        if newer:
            self.term = max(self.term, self.terms[self._last()]) + 1
        term = max(self.term, self.terms[prev])
        entries = [
            Entry(term, prev + 1 + each, EntryKind.DATA, b"%d" % term) for each in range(count)
        ]
        assert self.log.accept(prev, self.terms[prev], entries)
        for entry in entries:
            if self.terms.get(entry.index) != entry.term:
                self.terms = {i: t for i, t in self.terms.items() if i < entry.index}
                self.terms[entry.index] = entry.term
                self.withdrawn = {at: f for at, f in self.withdrawn.items() if at < entry.index}

    @rule(ahead=st.integers(1, 3))
    def refuse(self, ahead: int) -> None:
        """A leader sends entries behind one that this log lacks."""
        assert not self.log.accept(self._last() + ahead, 99, [])
        assert not self.log.accept(self._last(), self.terms[self._last()] + 99, [])

    @precondition(lambda self: self.log.has_unwritten)
    @rule()
    def take(self) -> None:
        self.number += 1
        snapshot, entries = self.log.take_unwritten(self.number)
        self.in_flight.append((self.number, snapshot, entries, self._last()))

    @precondition(lambda self: self.in_flight)
    @rule()
    def write(self) -> None:
        number, snapshot, entries, _ = self.in_flight.pop(0)
        files = self.disk.files
        if snapshot is not None:
            files.snapshot, files.entries = snapshot, []
        if entries:
            del files.entries[entries[0].index - files.snapshot.index - 1 :]
            files.entries += entries
        self.log.written(number, snapshot)

    @rule(step=st.integers(0, 4))
    def commit_some(self, step: int) -> None:
        index = self._whole(min(self._last(), self.commit + step), self._last())
        self.commit = max(self.commit, index)
        self.log.commit_to(self.commit)

    @rule(bytes_max=st.sampled_from([1, 100, 1000]))
    def apply(self, bytes_max: int) -> None:
        for entry in self.log.take_committed(bytes_max):
            self.applied += 1
            assert (entry.index, entry.term) == (self.applied, self.terms[self.applied])
            stored = self.disk.files.entries[entry.index - self.disk.files.snapshot.index - 1]
            if stored.kind is EntryKind.DATA and self._is_withdrawn(entry.index):
                assert (entry.kind, entry.data) == (EntryKind.NOOP, b"")
            else:
                assert stored == entry
        assert self.applied <= self.commit
        # The disk has the withdrawal of every entry that was handed out without its data.
        at = self.applied
        assert all(w <= self.log.stable for w, f in self.withdrawn.items() if f <= at < w)
        self.log.applied_to(self.applied)

    @precondition(lambda self: not self.in_flight)
    @rule(behind=st.integers(0, 3))
    def trim(self, behind: int) -> None:
        behind_applied = max(self.first, self.applied - behind)
        snapshot = self.log.trim(behind_applied)
        index = self._whole(behind_applied, self.commit)
        assert (snapshot.index, snapshot.term) == (index, self.terms[index])
        self.disk.files.trim(snapshot, 0)
        self.first = index
        self.terms = {i: t for i, t in self.terms.items() if i >= index}
        self.withdrawn = {at: f for at, f in self.withdrawn.items() if at > index}

    @rule(ahead=st.integers(1, 5))
    def restore(self, ahead: int) -> None:
        """A snapshot replaces everything."""
        self.term += 1
        index = self._last() + ahead
        self.log.restore(Snapshot(index, self.term, membership_of("abc")))
        self.terms, self.withdrawn = {index: self.term}, {}
        self.first = self.commit = self.applied = index

    @rule(first=st.integers(1, 8), count=st.integers(1, 5), bytes_max=st.sampled_from([1, 90, 999]))
    def read(self, first: int, count: int, bytes_max: int) -> None:
        begin = self.first + first
        found = self.log.entries_from(begin, count, bytes_max)
        assert bool(found) == (begin <= self._last())
        for position, entry in enumerate(found):
            assert (entry.index, entry.term) == (begin + position, self.terms[begin + position])
        assert len(found) <= count

    @rule(back=st.integers(0, 8), term=st.integers(0, 12))
    def hint(self, back: int, term: int) -> None:
        index = max(self.first, self._last() - back)
        expected = max((i for i, t in self.terms.items() if i <= index and t <= term), default=-1)
        found, _ = self.log.agreement_hint(index, term)
        assert found == (self.first if expected < 0 else expected)

    @invariant()
    def is_the_twin(self) -> None:
        log = self.log
        assert (log.last_index, log.last_term) == (self._last(), self.terms[self._last()])
        for index in range(self.first - 1, self._last() + 2):
            assert log.term_at(index) == self.terms.get(index, NO_TERM)
        assert log.commit == self.commit
        assert log.stable_commit == self._whole(min(self.commit, log.stable), self.commit)
        for last in range(self.first, self._last() + 1):
            told = min(log.commit_for(last), last)
            assert told == self._whole(min(self.commit, last), self.commit)
        assert log.snapshot.index == self.first
        assert log.stable <= log.taken <= log.last_index

    @invariant()
    def stable_entries_are_on_disk(self) -> None:
        files = self.disk.files
        for index in range(max(self.first, files.snapshot.index) + 1, self.log.stable + 1):
            entry = files.entries[index - files.snapshot.index - 1]
            assert (entry.index, entry.term) == (index, self.terms[index])


LogTwin.TestCase.settings = settings(max_examples=80, stateful_step_count=40)
TestLogTwin = LogTwin.TestCase
