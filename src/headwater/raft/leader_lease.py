"""The lease of a leader: which of its entries renews it, and the wait before the first.

The rules are in `lease`. Here are the entries of one leader in its term, by three facts: the place,
the time of creation, the lease. An entry counts when it is committed and applied, so that each read
is made at an index that covers it.
"""

from collections import deque
from typing import Final, NamedTuple, final

from headwater.raft.entry import EntryKind
from headwater.raft.lease import usable_ns
from headwater.raft.log import RaftLog
from headwater.raft.replica import Replica

MARKS_MAX: Final = 64
"""The appends of a leader that are remembered until they are applied. When there are more, the
later ones renew nothing, and the leader renews a little later than it might."""

RENEWALS_PER_LEASE: Final = 2
"""Groups renew their leases at so many moments per lease (`RaftNode.renew`)."""

_NO_INDEX: Final = 0


SEQUENCES: Final = b"sequences"
"""The data of a release by a leader that has run ahead of the quorum: all that it has given out is
in front of the release."""


def ends_with_release(log: RaftLog, data: bytes = b"") -> bool:
    """Whether the last entry of a log is a release, whose data begin as told."""
    if log.last_index == log.snapshot.index:
        return False
    (last,) = log.entries_from(log.last_index, 1, 1)
    return last.kind is EntryKind.RELEASE and last.data.startswith(data)


class Mark(NamedTuple):
    """An entry that a leader created: its place, its time, and the lease that it grants."""

    place: int
    created_ns: int
    lease_ns: int


@final
class LeaderLease:
    """The lease of one leader in its term, and its wait for the leases of others."""

    __slots__ = (
        "_created_lease_ns",
        "_created_ns",
        "_first_index",
        "_marks",
        "_released_index",
        "_replica",
        "wait_end_ns",
    )

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._first_index = replica.log.last_index + 1
        self._marks: deque[Mark] = deque()
        # The last release of this leader, behind which nothing is committed yet.
        self._released_index = _NO_INDEX
        # The time and the lease of the last entry of this leader.
        self._created_ns = self._created_lease_ns = 0
        self.wait_end_ns: int | None = None
        """The time at which this leader may begin to commit, while it has to wait."""

    # --- the wait -------------------------------------------------------------------------------

    def begin(self, now_ns: int) -> None:
        """Wait for the leases of inherited entries, before this leader has created one."""
        replica = self._replica
        end_ns = replica.leases.end_ns
        if end_ns > now_ns and not ends_with_release(replica.log):
            self.wait_end_ns = end_ns

    @property
    def is_waiting(self) -> bool:
        """Whether this leader must not commit yet."""
        return self.wait_end_ns is not None

    def ends_wait(self, now_ns: int) -> bool:
        """End the wait if it is over. Returns whether it has ended now."""
        if self.wait_end_ns is None or now_ns < self.wait_end_ns:
            return False
        self.wait_end_ns = None
        return True

    # --- the lease ------------------------------------------------------------------------------

    @property
    def _applied(self) -> int:
        """The index up to which entries are committed, and applied to what a read finds."""
        log = self._replica.log
        return min(log.commit, log.applied)

    def created(self, index: int, kind: EntryKind, lease_ns: int, now_ns: int) -> None:
        """Note entries of this leader, the first of which has an index."""
        self._created_ns, self._created_lease_ns = now_ns, lease_ns
        if kind is EntryKind.RELEASE:
            self._released_index = index
            self._marks.clear()
            return
        self._replica.leases.received(lease_ns, now_ns)
        marks = self._marks
        if lease_ns or marks:
            self._newest_applied()
            if len(marks) < MARKS_MAX:
                marks.append(Mark(index, now_ns, lease_ns))

    def _newest_applied(self) -> Mark | None:
        """The newest entry that renews the lease; earlier ones are forgotten."""
        marks, applied = self._marks, self._applied
        while len(marks) > 1 and marks[1].place <= applied:
            marks.popleft()
        return marks[0] if marks and marks[0].place <= applied else None

    @property
    def _is_sole_voter(self) -> bool:
        """Whether nobody else can be elected, as the committed membership has it."""
        log, name = self._replica.log, self._replica.name
        membership = log.membership
        return (
            membership.voters == (name,)
            and not membership.is_joint
            and log.membership_index <= log.commit
        )

    def may_read(self, now_ns: int) -> bool:
        """Whether a read of the applied state that ended before `now_ns` is linearizable."""
        if self.is_waiting or self._applied < self._first_index:
            return False
        if self._is_sole_voter:
            return self._applied > self._released_index
        newest = self._newest_applied()
        if newest is None:
            return False
        usable = usable_ns(newest.lease_ns, self._replica.config.clock_drift)
        return now_ns - newest.created_ns < usable

    def must_renew(self, now_ns: int) -> bool:
        """Whether the lease needs an entry now, to last until the next moment of renewal.

        An entry that is younger than half of the time between two such moments is young enough at
        the next one, and its successor has a quarter of a lease to be committed. An entry that
        grants less than later ones renews nothing: the level of the stream has changed.
        """
        lease_ns = self._replica.leases.granted_ns
        if not lease_ns or self.is_waiting or self._is_sole_voter:
            return False
        if self._created_lease_ns < lease_ns:
            return True
        return now_ns - self._created_ns >= lease_ns // RENEWALS_PER_LEASE // 2

    # --- the release ----------------------------------------------------------------------------

    @property
    def must_release(self) -> bool:
        """Whether a leader that hands over has a lease to release.

        During its own wait it has none, and its successor has to wait as well. A leader that runs
        ahead of the quorum releases the sequences that it has given out, too.
        """
        replica = self._replica
        if self.is_waiting or self.is_released:
            return False
        return bool(replica.log.longest_lease_ns) or replica.releases_sequences

    @property
    def vouched(self) -> int:
        """The last entry that a leader which runs ahead may act on when its own log has it.

        Nothing behind a release, until the quorum has an entry behind it: a successor may lead from
        the release on. Nothing behind a withdrawal that is not committed: another leader may give
        what is withdrawn its effects.
        """
        log = self._replica.log
        last = log.stable
        if log.commit <= self._released_index:
            last = min(last, self._released_index)
        return min(last, log.withdrawals.first_behind(log.commit) or last)

    @property
    def is_released(self) -> bool:
        """Whether a release is the last entry of the log."""
        return self._released_index == self._replica.log.last_index
