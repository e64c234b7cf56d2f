"""One entry of a replicated log.

An entry is created once, by the leader of its term, and never changes. An entry holds a whole batch
of records; its bytes mean nothing to this package, except for those of a membership entry.

Creation time and lease stand in every entry (CONSISTENCY.md, "Leases"): the time is a reading of
the leader's monotonic clock, and only the process that made it may compare it with anything.
"""

from enum import IntEnum
from typing import Final, final

ENTRY_OVERHEAD_BYTES: Final = 40
"""The bytes that an entry is charged with beside its data, so that empty entries fill windows
too."""


class EntryKind(IntEnum):
    """The readers of an entry's data."""

    NOOP = 0
    """An entry without data: the first of each term, and the one that readmits a member."""

    DATA = 1
    """Records of the state machine."""

    MEMBERSHIP = 2
    """An encoded `Membership`. It is in force as soon as it stands in a log."""

    RELEASE = 3
    """An entry without data: the last one of a leader that hands over on purpose."""

    WITHDRAWAL = 4
    """The index of an earlier entry. Entries of data from there on, up to this one, have no effect
    once this one is committed."""


@final
class Entry:
    """An entry. Its term and index identify it in all logs of a group."""

    __slots__ = ("created_ns", "data", "index", "kind", "lease_ns", "term")

    def __init__(
        self,
        term: int,
        index: int,
        kind: EntryKind,
        data: bytes,
        created_ns: int = 0,
        lease_ns: int = 0,
    ) -> None:
        self.term = term
        self.index = index
        self.kind = kind
        self.data = data
        self.created_ns = created_ns
        self.lease_ns = lease_ns

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entry):
            return NotImplemented
        return (
            self.term == other.term
            and self.index == other.index
            and self.kind is other.kind
            and self.data == other.data
            and self.created_ns == other.created_ns
            and self.lease_ns == other.lease_ns
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Entry({self.term}/{self.index} {self.kind.name.lower()} {self.data!r})"


def size_of(entry: Entry) -> int:
    """The bytes that an entry takes of a window, a message or the memory of a log."""
    return len(entry.data) + ENTRY_OVERHEAD_BYTES
