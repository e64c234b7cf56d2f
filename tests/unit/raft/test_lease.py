"""The length of a lease, and the leases that a member has heard of."""

import pytest

from headwater.base.clock import NS_PER_S
from headwater.base.invariants import InvariantViolation
from headwater.raft.entry import Entry, EntryKind
from headwater.raft.lease import LEASE_NS_MAX, Leases, longest_lease, usable_ns


@pytest.mark.parametrize("drift", [0.01, 0.05, 0.3])
def test_the_slowest_holder_ends_before_the_fastest_waiter(drift: float) -> None:
    held_ns = usable_ns(NS_PER_S, drift) / (1 - drift)
    waited_ns = NS_PER_S / (1 + drift)
    assert waited_ns * 0.999 < held_ns <= waited_ns


def test_a_member_waits_for_the_lease_that_ends_last() -> None:
    leases = Leases()
    leases.received(500, 1000)
    assert leases.end_ns == 1500
    leases.received(100, 1200)
    assert leases.end_ns == 1500
    leases.received(400, 1200)
    assert leases.end_ns == 1600


def test_entries_without_a_lease_are_not_waited_for() -> None:
    leases = Leases()
    leases.received(longest_lease([]), 1000)
    leases.received(longest_lease([Entry(1, 2, EntryKind.NOOP, b"")]), 1000)
    assert leases.end_ns == 0


def test_the_longest_lease_of_several_entries_counts() -> None:
    entries = [
        Entry(1, 2 + at, EntryKind.NOOP, b"", 0, lease) for at, lease in enumerate([3, 7, 5])
    ]
    assert longest_lease(entries) == 7


def test_a_lease_is_limited() -> None:
    leases = Leases()
    leases.grant(LEASE_NS_MAX)
    assert leases.granted_ns == LEASE_NS_MAX
    with pytest.raises(InvariantViolation, match="a lease within its limit"):
        leases.grant(LEASE_NS_MAX + 1)
    with pytest.raises(InvariantViolation, match="a lease within its limit"):
        leases.grant(-1)
