"""When messages leave a stream because they were consumed.

A work queue lets a message go when it is acknowledged: only one consumer is about it. A stream that
keeps messages by interest lets it go when all consumers have acknowledged it that were about it;
for that it counts, per message, how many still need it. Nothing of this is written down: it follows
from the consumers.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, final

from headwater.base.emptying import Container, emptying
from headwater.base.sliced import Work, parts_of

# So many messages are counted in one step.
COUNTED_AT_A_TIME: Final = 2048


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

    def needing(self, sequences: Sequence[int]) -> Work[None]:
        """Do what `needed` does, some at a time."""
        for some in parts_of(sequences, COUNTED_AT_A_TIME):
            self.needed(some)
            yield len(some)

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

    def releasing(self, sequences: Sequence[int]) -> Work[list[int]]:
        """Do what `released` does, some at a time."""
        needless: list[int] = []
        for some in parts_of(sequences, COUNTED_AT_A_TIME):
            needless += self.released(some)
            yield len(some)
        return needless

    def forgetting(self, sequences: Sequence[int]) -> Work[None]:
        """Messages have left the stream."""
        for some in parts_of(sequences, COUNTED_AT_A_TIME):
            for sequence in some:
                self._counts.pop(sequence, None)
            yield len(some)

    def forgetting_missing(self, has: Callable[[int], bool]) -> Work[None]:
        """The same for all that are not there."""
        for some in parts_of([*self._counts], COUNTED_AT_A_TIME):
            yield from self.forgetting([each for each in some if not has(each)])
            yield len(some)

    def clear(self) -> None:
        """Begin to count anew."""
        self._counts = {}

    def clearing(self) -> Work[None]:
        """Do what `clear` does, and let go of the counts some at a time."""
        yield from emptying(self.abandon())

    def abandon(self) -> list[Container]:
        """Begin to count anew; returns what is to be emptied."""
        counts = self._counts
        self.clear()
        return [counts]

    def gathering_unneeded(self, sequences: Sequence[int]) -> Work[list[int]]:
        """Those of these messages that nobody needs, found some at a time."""
        found: list[int] = []
        for some in parts_of(sequences, COUNTED_AT_A_TIME):
            found += [sequence for sequence in some if sequence not in self._counts]
            yield len(some)
        return found
