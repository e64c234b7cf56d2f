"""Counts of messages in the blocks of a segment: in all, and by subject.

A block is so many positions that looking through one is quick. Its counts are made when a question
first needs them, and kept right from then on: as messages are taken out, and by forgetting those of
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
    """The number of messages of each subject in a block: 8 bytes for each subject that has any."""

    __slots__ = ("_counts", "_ids")

    def __init__(self, live: Iterable[int]) -> None:
        """`live` are the subject ids of all messages."""
        counts = Counter(live)
        self._ids = array("I", sorted(counts))
        self._counts = array("I", map(counts.__getitem__, self._ids))

    def __len__(self) -> int:
        """The number of subjects."""
        return len(self._ids)

    def count(self, sid: int) -> int:
        """The number of messages of one subject."""
        place = bisect_left(self._ids, sid)
        return self._counts[place] if place < len(self._ids) and self._ids[place] == sid else 0

    def count_of(self, test: Test) -> int:
        """The number of messages of all subjects that pass a test."""
        return sum(compress(self._counts, map(test, self._ids)))

    def drop(self, sid: int) -> None:
        """Count one message less."""
        self._counts[bisect_left(self._ids, sid)] -= 1


@final
class BlockCounts:
    """The counts of one segment's blocks, as far as they are known."""

    __slots__ = ("_by_subject", "_live", "is_known")

    def __init__(self) -> None:
        # Whether anything is known; as long as nobody asks, nothing has to be kept right.
        self.is_known = False
        self._by_subject: list[SubjectCounts | None] = []
        self._live = array("q")

    def live(self, block: int) -> int:
        """The number of messages in a block; below zero if it is not known."""
        return self._live[block] if block < len(self._live) else _UNKNOWN

    def set_live(self, block: int, count: int) -> None:
        """Keep that from now on."""
        self._live.extend([_UNKNOWN] * (block + 1 - len(self._live)))
        self._live[block] = count
        self.is_known = True

    def subject_counts(self, block: int) -> SubjectCounts | None:
        """The number of messages of each subject in a block; None if it is not known."""
        return self._by_subject[block] if block < len(self._by_subject) else None

    def set_subject_counts(self, block: int, counts: SubjectCounts) -> None:
        """Keep that from now on."""
        self._by_subject += [None] * (block + 1 - len(self._by_subject))
        self._by_subject[block] = counts
        self.is_known = True

    def may_have(self, block: int, sid: int) -> bool:
        """Whether a subject may have messages in a block, as far as is known."""
        counts = self.subject_counts(block)
        return counts is None or counts.count(sid) > 0

    def drop(self, position: int, sid: int) -> None:
        """Count without a message that was taken out."""
        block = position // BLOCK_POSITIONS
        if self.live(block) > 0:
            self._live[block] -= 1
        counts = self.subject_counts(block)
        if counts is not None:
            counts.drop(sid)

    def forget_from(self, position: int) -> None:
        """Forget the counts from the block of a position on: its positions are about to change."""
        block = position // BLOCK_POSITIONS
        del self._live[block:]
        del self._by_subject[block:]

    def forget_ids(self) -> None:
        """Forget the counts by subject: subjects are about to have other ids."""
        self._by_subject.clear()
