"""Leases: a leader answers linearizable reads without asking anybody (CONSISTENCY.md section 3).

The log is the lease. Every entry carries the clock of its leader at creation, and the lease that it
grants. Of two leaders that may meet, one holds the lease and the other waits for it:

    holder    answers while its newest committed entry of its own term was created less than
              lease·(1−ρ)/(1+ρ) ago. The driver reads the clock behind the read, never before it.
    waiter    a new leader commits nothing until the lease of every inherited entry has passed since
              the entry was received here. It replicates meanwhile.

An entry was received by the waiter after it was created by the holder, so the clocks of two members
are never compared; ρ bounds the error of the rate of each. An election, in which an entry is known
to the quorum, hands the entry to every later leader: only entries of the own term prove that no
other leader was elected before they were committed.

A release is the last entry of a leader that hands over. From its creation on only entries behind it
renew the lease, so a leader whose last inherited entry is a release has nothing to wait for.

The entries that a member waits for are one number: the end of the longest wait. After a restart all
entries count as received at the start, and those that a snapshot stands for when it arrives; so a
snapshot tells the longest lease that was granted by one of them.
"""

from typing import Final, final

from headwater.base.clock import NS_PER_S
from headwater.base.invariants import check
from headwater.raft.entry import Entry

LEASE_NS_MAX: Final = 3_600 * NS_PER_S
"""The longest lease that a group may grant. Snapshot marks have room for it."""

UNTOLD_LEASE_NS: Final = NS_PER_S
"""The lease that is assumed of the entries up to a snapshot which does not tell it: its server
granted none, but may have kept entries of one that granted the default."""


def usable_ns(lease_ns: int, clock_drift: float) -> int:
    """The part of a lease that its holder may count on, by its own clock.

    The clock of the holder may be slow and that of a waiter fast, each by the given part.
    """
    return int(lease_ns * (1 - clock_drift) / (1 + clock_drift))


def longest_lease(entries: list[Entry]) -> int:
    """The longest lease that one of the entries grants."""
    return max([entry.lease_ns for entry in entries], default=0)


@final
class Leases:
    """The leases that a member has heard of, and the one that its group grants now."""

    __slots__ = ("end_ns", "granted_ns")

    def __init__(self) -> None:
        self.granted_ns = 0
        """The lease that each new entry grants, or zero."""
        self.end_ns = 0
        """The time at which the leases of all entries that were received here have passed."""

    def grant(self, lease_ns: int) -> None:
        """Change the lease that later entries grant."""
        check(0 <= lease_ns <= LEASE_NS_MAX, "a lease within its limit")
        self.granted_ns = lease_ns

    def received(self, lease_ns: int, now_ns: int) -> None:
        """Note entries that grant at most this lease, and were created before now."""
        if lease_ns:
            self.end_ns = max(self.end_ns, now_ns + lease_ns)
