"""The durable side of a group: the state that survives a restart, and reading it back.

The core writes nothing. It hands out writes in a `Ready` and reads older entries through `Storage`.
"""

from dataclasses import dataclass
from typing import Final, Protocol, final

from headwater.raft.entry import Entry
from headwater.raft.membership import UNKNOWN, Membership

NOBODY: Final = ""
"""The vote of a server that has not voted in its term."""

TRUSTED: Final = 0
"""The recovery number of a member that has forgotten nothing."""


@final
class HardState:
    """The state that must be on disk before a reply that rests on it leaves.

    `recovery` is not zero while the member may have forgotten votes or confirmations: a random
    number that identifies this loss of memory. The member neither votes nor confirms then.
    """

    __slots__ = ("commit", "recovery", "term", "vote")

    def __init__(
        self, term: int = 0, vote: str = NOBODY, commit: int = 0, recovery: int = TRUSTED
    ) -> None:
        self.term = term
        self.vote = vote
        self.commit = commit
        self.recovery = recovery

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HardState):
            return NotImplemented
        return (
            self.term == other.term
            and self.vote == other.vote
            and self.commit == other.commit
            and self.recovery == other.recovery
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        recovery = f" recovery={self.recovery}" if self.recovery else ""
        return f"HardState(term={self.term} vote={self.vote!r} commit={self.commit}{recovery})"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The place of a snapshot in the log: its last entry, and the membership there.

    The state itself never passes through the core.
    """

    index: int
    term: int
    membership: Membership
    lease_ns: int = 0
    """The longest lease that one of the entries up to there has granted, or a longer one."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """The state that a member starts with, as read from its disk."""

    hard_state: HardState
    snapshot: Snapshot
    """The point up to which the log has been trimmed; its first entry follows."""

    last_index: int
    """The index of the last entry in storage."""

    applied: int
    """The index up to which the state machine has applied entries; at least the snapshot's."""


BIRTH_INDEX: Final = 1
"""The index at which a group begins, in a term of that number. It is not zero, so that a member
which begins with nothing always gets a snapshot, and with it the membership that no entry holds."""


def born(membership: Membership, term: int = BIRTH_INDEX) -> SavedState:
    """The state of each first member of a group, in a term above those of any earlier group of the
    same identity."""
    snapshot = Snapshot(BIRTH_INDEX, term, membership)
    hard_state = HardState(term, NOBODY, BIRTH_INDEX)
    return SavedState(hard_state, snapshot, BIRTH_INDEX, BIRTH_INDEX)


def reborn(saved: SavedState, membership: Membership) -> SavedState:
    """The state of a first member whose entries are gone, with the promises that it made."""
    hard_state = saved.hard_state
    kept = HardState(
        max(hard_state.term, BIRTH_INDEX), hard_state.vote, BIRTH_INDEX, hard_state.recovery
    )
    lease_ns = saved.snapshot.lease_ns
    snapshot = Snapshot(BIRTH_INDEX, BIRTH_INDEX, membership, lease_ns)
    return SavedState(kept, snapshot, BIRTH_INDEX, BIRTH_INDEX)


def blank() -> SavedState:
    """The state of a member that joins a group, or has been emptied."""
    return SavedState(HardState(), Snapshot(0, 0, UNKNOWN), 0, 0)


class Storage(Protocol):
    """Entries that were written and not trimmed yet."""

    def entries(self, first: int, last: int, bytes_max: int) -> list[Entry]:
        """Entries of a range that includes both ends.

        Returns the longest beginning of the range that fits into `bytes_max`, at least one entry.
        """
        ...
