"""Retention by consumption: when a message leaves a stream because it was acknowledged.

In a work queue a message leaves when it is acknowledged, because only one consumer gets it. In a
stream with interest retention it leaves when every consumer whose filter matches has acknowledged
it; the stream counts, per message, the consumers that still need it. The counts are not written to
disk: they follow from the consumers.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, final

from headwater.base.emptying import Container, emptying
from headwater.base.sliced import Work, parts_of

# A step of a long piece of work counts this many messages.
COUNTED_AT_A_TIME: Final = 2048


@final
class InterestCounts:
    """The number of consumers that still need each message."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def published(
        self,
        first_sequence: int,
        subjects: Sequence[bytes],
        interested: Callable[[bytes], int],
    ) -> list[int]:
        """Count the interest in new messages. Returns those that no consumer needs.

        `interested` returns the number of consumers whose filter matches a subject.
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
        """Count one more consumer that needs each of the messages."""
        counts = self._counts
        for sequence in sequences:
            counts[sequence] = counts.get(sequence, 0) + 1

    def needing(self, sequences: Sequence[int]) -> Work[None]:
        """Do what `needed` does, some messages at a time."""
        for some in parts_of(sequences, COUNTED_AT_A_TIME):
            self.needed(some)
            yield len(some)

    def released(self, sequences: Iterable[int]) -> list[int]:
        """Count one consumer less for each of the messages. Returns those that none needs."""
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
        """Do what `released` does, some messages at a time."""
        needless: list[int] = []
        for some in parts_of(sequences, COUNTED_AT_A_TIME):
            needless += self.released(some)
            yield len(some)
        return needless

    def forgetting(self, sequences: Sequence[int]) -> Work[None]:
        """Drop the counts of messages that left the stream."""
        for some in parts_of(sequences, COUNTED_AT_A_TIME):
            for sequence in some:
                self._counts.pop(sequence, None)
            yield len(some)

    def forgetting_missing(self, has: Callable[[int], bool]) -> Work[None]:
        """Drop the counts of all messages that the stream does not have."""
        for some in parts_of([*self._counts], COUNTED_AT_A_TIME):
            yield from self.forgetting([each for each in some if not has(each)])
            yield len(some)

    def clear(self) -> None:
        """Drop all counts."""
        self._counts = {}

    def clearing(self) -> Work[None]:
        """Do what `clear` does, and free the counts some at a time."""
        yield from emptying(self.abandon())

    def abandon(self) -> list[Container]:
        """Drop all counts. Returns the container to be emptied."""
        counts = self._counts
        self.clear()
        return [counts]

    def gathering_unneeded(self, sequences: Sequence[int]) -> Work[list[int]]:
        """Those of the messages that no consumer needs, found some at a time."""
        found: list[int] = []
        for some in parts_of(sequences, COUNTED_AT_A_TIME):
            found += [sequence for sequence in some if sequence not in self._counts]
            yield len(some)
        return found
