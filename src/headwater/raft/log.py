"""The log of one group, as its member sees it.

       trimmed          in storage only        in memory
    ──────────────┬───────────────────────┬───────────────────────────────
           snapshot.index             _tail_first                last_index

    applied ≤ handed_out ≤ min(commit, stable)      commit, stable ≤ taken ≤ last_index

`stable` is the end of the entries whose write has been reported, `taken` the end of those that were
handed out to be written. A portion of writes is numbered; if entries are cut off while it is on its
way, it no longer vouches for them, also when others take their place that look the same.

`longest_lease_ns` is the longest lease of any entry that was ever here, trimmed and cut ones too.

The terms of all entries behind the snapshot are kept as runs, so that no comparison of logs reads
storage. So are the memberships, which take effect when they are appended and end when they are cut,
and the withdrawals, which take effect when they are committed.
"""

from bisect import bisect_right
from collections import deque
from typing import Final, final

from headwater.base.invariants import check
from headwater.raft import membership as memberships
from headwater.raft.entry import Entry, EntryKind, size_of
from headwater.raft.membership import Membership
from headwater.raft.storage import SavedState, Snapshot, Storage
from headwater.raft.withdrawals import Withdrawals

NO_TERM: Final = -1
"""The term of an index that is trimmed or not there yet. Equal to the term of no entry."""


@final
class RaftLog:
    """Entries, and the marks that divide them."""

    __slots__ = (
        "_in_flight",
        "_memberships",
        "_memory_bytes_max",
        "_run_first",
        "_run_term",
        "_storage",
        "_tail",
        "_tail_bytes",
        "_tail_first",
        "applied",
        "commit",
        "handed_out",
        "last_index",
        "longest_lease_ns",
        "membership",
        "must_sync",
        "pending_snapshot",
        "snapshot",
        "stable",
        "taken",
        "withdrawals",
    )

    def __init__(self, storage: Storage, saved: SavedState, memory_bytes_max: int) -> None:
        self._storage = storage
        self._memory_bytes_max = memory_bytes_max
        self._in_flight: deque[tuple[int, int]] = deque()
        self.longest_lease_ns = 0
        self.must_sync = False
        """Whether unwritten entries have to be synced, also where others are not.

        A power loss may take confirmed entries from a log that is not synced. It must not bring
        back entries that were withdrawn or replaced, whose places are taken, or members that have
        left and have nothing any more."""
        self._begin_at(saved.snapshot)
        self.pending_snapshot: Snapshot | None = None
        self._read_back(saved.last_index)
        self.must_sync = False
        check(self.last_index == saved.last_index, "the log ends where its storage says")
        self.stable = self.taken = self.last_index
        self.applied = self.handed_out = saved.applied
        check(saved.snapshot.index <= saved.applied <= self.last_index, "applied entries are there")
        # A member that has forgotten may have lost entries that it knew to be committed. One of
        # them may have withdrawn entries that are left, so only what is applied counts then.
        is_whole = saved.hard_state.commit <= self.last_index
        self.commit = max(saved.hard_state.commit if is_whole else 0, saved.applied)
        self._forget_tail()

    def _begin_at(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.last_index = snapshot.index
        self._tail: list[Entry] = []
        self._tail_first = snapshot.index + 1
        self._tail_bytes = 0
        self._run_first = [snapshot.index]
        self._run_term = [snapshot.term]
        self._memberships: list[tuple[int, Membership]] = [(snapshot.index, snapshot.membership)]
        self.membership = snapshot.membership
        self.longest_lease_ns = max(self.longest_lease_ns, snapshot.lease_ns)
        self.withdrawals = Withdrawals()

    def _read_back(self, last_index: int) -> None:
        """Read terms and memberships of all entries, and keep the last ones in memory."""
        while self.last_index < last_index:
            first = self.last_index + 1
            self._add(self._storage.entries(first, last_index, self._memory_bytes_max))
            check(self.last_index >= first, "storage returns at least one entry")
            self.stable = self.applied = self.taken = self.last_index
            self._forget_tail()

    # --- looking --------------------------------------------------------------------------------

    @property
    def last_term(self) -> int:
        """The term of the last entry, or of the snapshot if the log has no entries."""
        return self._run_term[-1]

    @property
    def membership_index(self) -> int:
        """The index of the entry that holds the membership in force."""
        return self._memberships[-1][0]

    def term_at(self, index: int) -> int:
        """The term of an entry, or NO_TERM."""
        if index > self.last_index or index < self.snapshot.index:
            return NO_TERM
        return self._run_term[bisect_right(self._run_first, index) - 1]

    def membership_at(self, index: int) -> Membership:
        """The membership that was in force at an index."""
        check(self.snapshot.index <= index <= self.last_index, "a membership within the log")
        return next(each for at, each in reversed(self._memberships) if at <= index)

    def may_be_voter(self, name: str) -> bool:
        """Whether a member votes by the committed membership, or by one that may yet be
        committed."""
        for index, membership in reversed(self._memberships):
            if membership.is_voter(name):
                return True
            if index <= self.commit:
                break
        return False

    def names(self, server: str) -> bool:
        """Whether a server is a member, or was one by an entry that is not trimmed yet."""
        return self.membership.has(server) or any(
            membership.has(server) for _, membership in self._memberships
        )

    def is_up_to_date(self, last_index: int, last_term: int) -> bool:
        """Whether another log, by its last entry, has all that this one could have committed."""
        return (last_term, last_index) >= (self.last_term, self.last_index)

    def entries_from(self, first: int, count_max: int, bytes_max: int) -> list[Entry]:
        """Entries from an index on, limited in number and bytes, but at least one if there is
        one."""
        last = min(self.last_index, first + count_max - 1)
        if first > last:
            return []
        check(first > self.snapshot.index, "entries behind the snapshot")
        if first < self._tail_first:
            return self._storage.entries(first, min(last, self._tail_first - 1), bytes_max)
        at = end = first - self._tail_first
        left = bytes_max
        for entry in self._tail[at : last - self._tail_first + 1]:
            left -= size_of(entry)
            if left < 0 and end > at:
                break
            end += 1
        return self._tail[at:end]

    def agreement_hint(self, index: int, term: int) -> tuple[int, int]:
        """The last entry up to `index` whose term is at most `term`: index and term.

        Two logs cannot agree behind it, if the other has an entry of `term` at `index`.
        """
        at = bisect_right(self._run_first, index) - 1
        while at > 0 and self._run_term[at] > term:
            index = self._run_first[at] - 1
            at -= 1
        if at < 0:
            return index, NO_TERM
        if self._run_term[at] > term:
            index = self.snapshot.index
        return index, self._run_term[at]

    # --- appending ------------------------------------------------------------------------------

    def append(self, entries: list[Entry]) -> None:
        """Append entries that the leader of this member's term, or the member itself, has
        created."""
        check(entries[0].index == self.last_index + 1, "entries follow the last one")
        check(entries[0].term >= self.last_term, "terms never fall")
        self._add(entries)

    def _add(self, entries: list[Entry]) -> None:
        self._tail += entries
        last_term = self._run_term[-1]
        for entry in entries:
            self._tail_bytes += size_of(entry)
            if entry.lease_ns > self.longest_lease_ns:
                self.longest_lease_ns = entry.lease_ns
            if entry.term != last_term:
                last_term = entry.term
                self._run_first.append(entry.index)
                self._run_term.append(last_term)
            if entry.kind is EntryKind.MEMBERSHIP:
                self._memberships.append((entry.index, memberships.decode(entry.data)))
                self.must_sync = True
            elif entry.kind is EntryKind.WITHDRAWAL:
                self.withdrawals.add(entry)
                self.must_sync = True
        self.last_index = entries[-1].index
        self.membership = self._memberships[-1][1]

    def accept(self, prev_index: int, prev_term: int, entries: list[Entry]) -> bool:
        """Append entries of a leader behind an entry that both logs have.

        Cuts off what contradicts them, and nothing else: an older message must not undo a newer
        one. Returns False if this log does not have the entry before them.
        """
        if prev_index < self.commit:
            # Committed entries are in the leader's log too, whatever it believes about this one.
            entries = [entry for entry in entries if entry.index > self.commit]
        elif self.term_at(prev_index) != prev_term:
            return False
        if not entries:
            return True
        if entries[0].index <= self.last_index:
            entries = self._without_present(entries)
            if not entries:
                return True
            if entries[0].index <= self.last_index:
                self._cut(entries[0].index)
        self.append(entries)
        return True

    def contradicts(self, prev_index: int, prev_term: int, entries: list[Entry]) -> bool:
        """Whether an entry that is committed here is another one in the log of a leader.

        That cannot be unless a majority has forgotten, and went on with what it had.
        """
        if prev_index <= self.commit and self._differs(prev_index, prev_term):
            return True
        return any(
            self._differs(entry.index, entry.term)
            for entry in entries
            if entry.index <= self.commit
        )

    def _differs(self, index: int, term: int) -> bool:
        """Whether a committed entry, which may be trimmed, is known to be of another term."""
        if index < self.snapshot.index:
            # Terms never fall along a log.
            return term > self.snapshot.term
        return self.term_at(index) != term

    def _without_present(self, entries: list[Entry]) -> list[Entry]:
        for position, entry in enumerate(entries):
            if self.term_at(entry.index) != entry.term:
                return entries[position:]
        return []

    def _cut(self, first: int) -> None:
        """Remove all entries from an index on."""
        check(first > self.commit, "committed entries are never cut off")
        self.must_sync |= first <= self.taken
        if first <= self._tail_first:
            self._tail, self._tail_first, self._tail_bytes = [], first, 0
        else:
            at = first - self._tail_first
            self._tail_bytes -= sum(map(size_of, self._tail[at:]))
            del self._tail[at:]
        while len(self._run_first) > 1 and self._run_first[-1] >= first:
            self._run_first.pop()
            self._run_term.pop()
        while self._memberships[-1][0] >= first:
            self._memberships.pop()
        self.membership = self._memberships[-1][1]
        self.withdrawals.cut(first)
        self.last_index = first - 1
        self._vouch_at_most(first - 1)

    def _vouch_at_most(self, index: int) -> None:
        """Forget that entries behind an index were or will be written."""
        self.stable = min(self.stable, index)
        self.taken = min(self.taken, index)
        self._in_flight = deque((number, min(last, index)) for number, last in self._in_flight)

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the whole log by a snapshot, which the next portion of writes installs."""
        check(snapshot.index > self.commit, "a snapshot never takes anything back")
        self._vouch_at_most(0)
        self._begin_at(snapshot)
        self.pending_snapshot = snapshot
        self.taken = self.commit = self.handed_out = snapshot.index

    # --- committing, applying, trimming ---------------------------------------------------------

    def commit_to(self, index: int) -> None:
        """Move the commit index forward."""
        if index > self.commit:
            check(index <= self.last_index, "committed entries are in the log")
            self.commit = index

    @property
    def stable_commit(self) -> int:
        """The index up to which entries are committed and written here, with the withdrawals that
        cover them."""
        return self.withdrawals.lowered(min(self.commit, self.stable), self.commit)

    def commit_for(self, last: int) -> int:
        """The commit index for a follower whose log will end with an entry of this one."""
        known = min(self.commit, last)
        told = self.withdrawals.lowered(known, self.commit)
        return self.commit if told == known else told

    def take_committed(self, bytes_max: int) -> list[Entry]:
        """Entries to apply that were not handed out yet. They are committed, and written here.

        Entries that are withdrawn come without their data.
        """
        last = self.stable_commit
        if last <= self.handed_out:
            return []
        found = self.entries_from(self.handed_out + 1, last - self.handed_out, bytes_max)
        self.handed_out = found[-1].index
        return self.withdrawals.without_effect(found, self.commit)

    def applied_to(self, index: int) -> None:
        """Note that the state machine has applied entries up to an index."""
        check(index <= self.handed_out, "only entries that were handed out are applied")
        if index > self.applied:
            self.applied = index
            self._forget_tail()

    def snapshot_at(self, index: int) -> Snapshot:
        """The place of a snapshot that ends with an entry. No lease is taken for a shorter one."""
        term, membership = self.term_at(index), self.membership_at(index)
        return Snapshot(index, term, membership, self.longest_lease_ns)

    def trim(self, index: int) -> Snapshot:
        """Give up the entries up to an index, or those before it that a withdrawal covers together
        with it. Returns the place of the snapshot that stands for them."""
        index = self.withdrawals.lowered(index, self.commit)
        if index <= self.snapshot.index:
            return self.snapshot
        check(
            index <= self.applied and index <= self.stable,
            "trimmed entries are applied and written",
        )
        self.snapshot = self.snapshot_at(index)
        at = bisect_right(self._run_first, index) - 1
        del self._run_first[:at], self._run_term[:at]
        self._run_first[0] = index
        kept = [each for each in self._memberships if each[0] > index]
        self._memberships = [(index, self.snapshot.membership), *kept]
        self.withdrawals.trim(index)
        self._drop_from_memory(index)
        return self.snapshot

    def _forget_tail(self) -> None:
        """Drop entries from memory that are written and applied, if there are too many."""
        if self._tail_bytes <= self._memory_bytes_max:
            return
        last = min(self.stable, self.applied)
        at, kept_bytes = 0, self._tail_bytes
        # Half of the limit stays, so that the list is not shortened for every entry.
        while kept_bytes > self._memory_bytes_max // 2 and self._tail_first + at <= last:
            kept_bytes -= size_of(self._tail[at])
            at += 1
        self._drop_from_memory(self._tail_first + at - 1)

    def _drop_from_memory(self, last: int) -> None:
        count = min(last - self._tail_first + 1, len(self._tail))
        if count > 0:
            self._tail_bytes -= sum(map(size_of, self._tail[:count]))
            del self._tail[:count]
            self._tail_first += count
        if not self._tail:
            self._tail_first = self.last_index + 1

    # --- writing --------------------------------------------------------------------------------

    @property
    def has_unwritten(self) -> bool:
        """Whether there is something to hand out for writing."""
        return self.taken < self.last_index or self.pending_snapshot is not None

    def take_unwritten(self, number: int) -> tuple[Snapshot | None, list[Entry]]:
        """The snapshot and the entries to write next, as the portion of this number."""
        snapshot, self.pending_snapshot = self.pending_snapshot, None
        entries = self._tail[self.taken + 1 - self._tail_first :]
        check(len(entries) == self.last_index - self.taken, "unwritten entries are in memory")
        self.taken = self.last_index
        self.must_sync = False
        self._in_flight.append((number, self.last_index))
        return snapshot, entries

    def written(self, number: int, snapshot: Snapshot | None) -> None:
        """Note that a portion has been written."""
        if self._in_flight and self._in_flight[0][0] == number:
            _, last = self._in_flight.popleft()
            self.stable = max(self.stable, last)
        check(not self._in_flight or self._in_flight[0][0] > number, "writes end in order")
        if snapshot is not None and self.snapshot.index >= snapshot.index:
            self.applied = max(self.applied, snapshot.index)
        self._forget_tail()
