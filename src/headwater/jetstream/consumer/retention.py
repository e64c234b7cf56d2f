"""When messages leave a stream because they were consumed.

A work queue lets a message go when it is acknowledged: only one consumer is about it. A stream that
keeps messages by interest lets it go when all consumers have acknowledged it that were about it;
for that it counts, per message, how many still need it. Nothing of this is written down: it follows
from the consumers.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import final


@final
class InterestCounts:
    """How many consumers still need each message."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def published(
        self,
        first_sequence: int,
        subjects: Sequence[bytes],
        interested: Callable[[bytes], int],
    ) -> list[int]:
        """Messages came in; returns those that nobody needs.

        `interested` says how many consumers are about a subject.
        """
        needless = []
        for sequence, subject in enumerate(subjects, first_sequence):
            count = interested(subject)
            if count:
                self._counts[sequence] = count
            else:
                needless.append(sequence)
        return needless

    def needed(self, sequences: Iterable[int]) -> None:
        """One consumer more needs each of these."""
        counts = self._counts
        for sequence in sequences:
            counts[sequence] = counts.get(sequence, 0) + 1

    def released(self, sequences: Iterable[int]) -> list[int]:
        """One consumer less does; returns those that nobody needs any more."""
        counts = self._counts
        needless = []
        for sequence in sequences:
            count = counts.get(sequence, 0) - 1
            if count > 0:
                counts[sequence] = count
            else:
                counts.pop(sequence, None)
                needless.append(sequence)
        return needless

    def forget(self, sequences: Iterable[int]) -> None:
        """Messages have left the stream."""
        for sequence in sequences:
            self._counts.pop(sequence, None)

    def forget_missing(self, has: Callable[[int], bool]) -> None:
        """The same for all that are not there."""
        self._counts = {each: count for each, count in self._counts.items() if has(each)}

    def clear(self) -> None:
        """Begin to count anew."""
        self._counts.clear()

    def unneeded(self, sequences: Iterable[int]) -> list[int]:
        """Those of these messages that nobody needs."""
        return [sequence for sequence in sequences if sequence not in self._counts]
