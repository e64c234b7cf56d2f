"""The rules of leases, each taken out by a function in the place of the one that keeps it.

A rule that is taken out has to show: by its scenario in `tests/scenarios/raft`, or by a test of
servers. Runs without faults pass without it.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from headwater.raft import leader_lease
from headwater.raft.entry import EntryKind
from headwater.raft.follower import Follower
from headwater.raft.leader import Leader
from headwater.raft.leader_lease import LeaderLease, Mark
from headwater.raft.log import RaftLog
from headwater.raft.node import RaftNode

Patch = Callable[[pytest.MonkeyPatch], None]


def count_from_the_commitment(patch: pytest.MonkeyPatch) -> None:
    """A lease counts from the commitment of an entry."""
    advance = Leader._advance_commit

    def advance_commit(self: Leader, now_ns: int) -> Any:
        before = self.replica.log.commit
        transition = advance(self, now_ns)
        after, marks = self.replica.log.commit, self.lease._marks
        for position, mark in enumerate(marks):
            if before < mark.place <= after:
                marks[position] = mark._replace(created_ns=now_ns)
        return transition

    patch.setattr(Leader, "_advance_commit", advance_commit)


def trust_entries_of_earlier_terms(patch: pytest.MonkeyPatch) -> None:
    """An elected leader holds a lease before an entry of its own term is committed."""
    begin = LeaderLease.begin

    def begin_with_lease(self: LeaderLease, now_ns: int) -> None:
        begin(self, now_ns)
        if not self.is_waiting:
            self._first_index = 0
            self._marks.append(Mark(0, now_ns, self._replica.leases.granted_ns))

    patch.setattr(LeaderLease, "begin", begin_with_lease)


def never_wait(patch: pytest.MonkeyPatch) -> None:
    """A new leader does not wait for the leases that it inherits."""
    patch.setattr(LeaderLease, "begin", lambda self, now_ns: None)


def forget_leases_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    """The entries of a log do not count as received at the start."""
    begin = RaftNode.__init__

    def start(self: RaftNode, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        self._replica.leases.end_ns = 0

    patch.setattr(RaftNode, "__init__", start)


def forget_leases_of_a_snapshot(patch: pytest.MonkeyPatch) -> None:
    """A snapshot does not stand for the leases of its entries."""
    install = Follower.on_install_snapshot

    def on_install_snapshot(self: Follower, message: Any, now_ns: int) -> Any:
        end_ns = self.replica.leases.end_ns
        transition = install(self, message, now_ns)
        self.replica.leases.end_ns = end_ns
        return transition

    patch.setattr(Follower, "on_install_snapshot", on_install_snapshot)


def keep_the_lease_behind_a_release(patch: pytest.MonkeyPatch) -> None:
    """Entries before a release renew the lease of the leader that wrote it."""
    created = LeaderLease.created

    def note(self: LeaderLease, index: int, kind: EntryKind, lease_ns: int, now_ns: int) -> None:
        marks = [*self._marks]
        created(self, index, kind, lease_ns, now_ns)
        if kind is EntryKind.RELEASE:
            self._marks.extend(marks)

    patch.setattr(LeaderLease, "created", note)


def trust_any_release(patch: pytest.MonkeyPatch) -> None:
    """A release spares the wait although other entries stand behind it."""

    def has_release(log: RaftLog) -> bool:
        first = log.snapshot.index + 1
        if first > log.last_index:
            return False
        entries = log.entries_from(first, log.last_index, 1 << 30)
        return any(entry.kind is EntryKind.RELEASE for entry in entries)

    patch.setattr(leader_lease, "ends_with_release", has_release)


def trust_all_clocks(patch: pytest.MonkeyPatch) -> None:
    """A holder counts on the whole lease."""
    patch.setattr(leader_lease, "usable_ns", lambda lease_ns, clock_drift: lease_ns)


class Defence(NamedTuple):
    """A rule that is taken out, and the scenario that shows it."""

    take_out: Patch
    scenario: str


DEFENCES: Final = {
    "creation instead of commit time": Defence(count_from_the_commitment, "lease_creation"),
    "own-term rule": Defence(trust_entries_of_earlier_terms, "lease_own_term"),
    "wait of the new leader": Defence(never_wait, "lease_wait"),
    "restart": Defence(forget_leases_at_a_restart, "lease_restart"),
    "snapshot receipt": Defence(forget_leases_of_a_snapshot, "lease_snapshot"),
    "no read behind a release": Defence(keep_the_lease_behind_a_release, "lease_release"),
    "a release is the last entry": Defence(trust_any_release, "lease_release_not_last"),
    "drift bound": Defence(trust_all_clocks, "lease"),
}
