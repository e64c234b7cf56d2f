"""The withdrawals of a log: entries by which a leader takes back entries that are not committed.

       first ············ last    withdrawal          a withdrawal covers the entries from `first`
    ─────●────────────────●───────────●─────────      up to itself; those with data have no effect

A withdrawal counts when it is committed itself. Until then no member may commit an entry that it
covers, or the entry would have its effect on this member and none on the others:

- The leader that appends a withdrawal has committed nothing that it covers, and commits none of it
  before the withdrawal has its quorum: its commit index stands still, and then jumps.
- A leader never tells a follower to commit a part of what a withdrawal covers, because the message
  may end before the withdrawal.
- No member keeps such a part as its commit index on the disk, and none trims its log or names a
  snapshot there, because the withdrawal may not be there yet.

A member whose log has a withdrawal that is not committed can learn that a part of what it covers is
committed: then a later leader, which lacks the withdrawal, has committed it, and the withdrawal
will be cut off. So the entries have their effects if the withdrawal stands behind the commit index.
"""

from struct import Struct
from typing import Final, final

from headwater.base.invariants import check
from headwater.raft.entry import Entry, EntryKind

_FIRST: Final = Struct("<Q")


def encode(first: int) -> bytes:
    """The data of a withdrawal: the index of the first entry that it covers."""
    return _FIRST.pack(first)


def first_of(entry: Entry) -> int:
    """The index of the first entry that a withdrawal covers; zero if its data are malformed."""
    if len(entry.data) != _FIRST.size:
        return 0
    (first,) = _FIRST.unpack(entry.data)
    return first if first < entry.index else 0


@final
class Withdrawals:
    """The withdrawals of one log, in the order of the log. Most logs have none."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        # The index of the first entry that a withdrawal covers, and its own index.
        self._ranges: list[tuple[int, int]] = []

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def add(self, entry: Entry) -> None:
        """Note a withdrawal that was appended."""
        first = first_of(entry)
        check(first > 0, "a withdrawal covers entries before it")
        self._ranges.append((first, entry.index))

    def cut(self, first: int) -> None:
        """Forget the withdrawals from an index on."""
        while self._ranges and self._ranges[-1][1] >= first:
            self._ranges.pop()

    def trim(self, index: int) -> None:
        """Forget the withdrawals up to an index."""
        self._ranges = [each for each in self._ranges if each[1] > index]

    def lowered(self, index: int, reached: int) -> int:
        """The last entry up to `index` that divides nothing which a withdrawal covers, by the
        withdrawals up to `reached`."""
        for first, withdrawal in reversed(self._ranges):
            if first <= index < withdrawal <= reached:
                # Withdrawals before this one may cover the lower index too, later ones do not.
                index = first - 1
        return index

    def first_behind(self, commit: int) -> int:
        """The index of the first withdrawal that is not committed; zero if there is none."""
        return next((each for _, each in self._ranges if each > commit), 0)

    def without_effect(self, entries: list[Entry], commit: int) -> list[Entry]:
        """Committed entries, with an empty one in the place of each one that is withdrawn."""
        if not self._ranges:
            return entries
        return [self._emptied(entry, commit) for entry in entries]

    def _emptied(self, entry: Entry, commit: int) -> Entry:
        index = entry.index
        if entry.kind is EntryKind.DATA and any(
            first <= index < withdrawal <= commit for first, withdrawal in self._ranges
        ):
            return Entry(entry.term, index, EntryKind.NOOP, b"", entry.created_ns, entry.lease_ns)
        return entry
