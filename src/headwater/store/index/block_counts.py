"""What is known of the blocks of a segment: how many messages each has, and on which subjects.

A block is so many positions that looking through one is quick. What is known of it is found out
when somebody wants it, and kept right from then on: as messages are taken out, and by forgetting
the last block when it grows.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import compress
from typing import Final, final

BLOCK_POSITIONS: Final = 8192

# Says of a subject id whether it is one that is looked for.
Test = Callable[[int], object]

_UNKNOWN: Final = -1


@final
class SubjectCounts:
    """How many messages each subject has in a block: 8 bytes for each that has any."""

    __slots__ = ("_counts", "_ids")

    def __init__(self, live: Iterable[int]) -> None:
        """`live` are the subject ids of all messages."""
        counts = Counter(live)
        self._ids = array("I", sorted(counts))
        self._counts = array("I", map(counts.__getitem__, self._ids))

    def __len__(self) -> int:
        """How many subjects."""
        return len(self._ids)

    def count(self, sid: int) -> int:
        """The messages of one subject."""
        place = bisect_left(self._ids, sid)
        return self._counts[place] if place < len(self._ids) and self._ids[place] == sid else 0

    def count_of(self, test: Test) -> int:
        """The messages of all subjects that pass a test."""
        return sum(compress(self._counts, map(test, self._ids)))

    def drop(self, sid: int) -> None:
        """One message less."""
        self._counts[bisect_left(self._ids, sid)] -= 1


@final
class BlockCounts:
    """Everything known of the blocks of one segment."""

    __slots__ = ("_censuses", "_live", "is_known")

    def __init__(self) -> None:
        # Whether anything is known; as long as nobody asks, nothing has to be kept right.
        self.is_known = False
        self._censuses: list[SubjectCounts | None] = []
        self._live = array("q")

    def live(self, block: int) -> int:
        """How many messages a block has; below zero if that is not known."""
        return self._live[block] if block < len(self._live) else _UNKNOWN

    def set_live(self, block: int, count: int) -> None:
        """Know that from now on."""
        self._live.extend([_UNKNOWN] * (block + 1 - len(self._live)))
        self._live[block] = count
        self.is_known = True

    def census(self, block: int) -> SubjectCounts | None:
        """How many messages each subject has there; None if that is not known."""
        return self._censuses[block] if block < len(self._censuses) else None

    def set_census(self, block: int, census: SubjectCounts) -> None:
        """Know that from now on."""
        self._censuses += [None] * (block + 1 - len(self._censuses))
        self._censuses[block] = census
        self.is_known = True

    def may_have(self, block: int, sid: int) -> bool:
        """Whether a subject may have messages in a block, as far as is known."""
        census = self.census(block)
        return census is None or census.count(sid) > 0

    def drop(self, position: int, sid: int) -> None:
        """A message was taken out."""
        block = position // BLOCK_POSITIONS
        if self.live(block) > 0:
            self._live[block] -= 1
        census = self.census(block)
        if census is not None:
            census.drop(sid)

    def forget_from(self, position: int) -> None:
        """The positions from this one on are about to change."""
        block = position // BLOCK_POSITIONS
        del self._live[block:]
        del self._censuses[block:]

    def forget_ids(self) -> None:
        """Subjects are about to have other ids."""
        self._censuses.clear()
