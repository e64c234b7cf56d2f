"""Sequences of messages as ranges: long records of deliveries and removals take little room.

Ranges are a flat list with the first and the last sequence of each. A few bytes can name very many
sequences, so decoded sequences are not expanded: they take memory for their ranges alone.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Final, final, overload

from headwater.jetstream.codec.errors import RecordError
from headwater.store.disk.journal import as_ranges

# The limit of sequences in a record: damaged bytes must not keep a server busy.
SEQUENCES_MAX: Final = 1 << 24
SEQUENCE_MAX: Final = (1 << 64) - 1


@final
class SequenceRanges(Sequence[int]):
    """The sequences of several ranges, one range after the other."""

    __slots__ = ("_count", "_ranges")

    def __init__(self, ranges: list[range]) -> None:
        self._ranges = ranges
        self._count = sum(map(len, ranges))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._ranges)

    def __contains__(self, sequence: object) -> bool:
        return any(sequence in each for each in self._ranges)

    @overload
    def __getitem__(self, position: int) -> int: ...

    @overload
    def __getitem__(self, position: slice) -> list[int]: ...

    def __getitem__(self, position: int | slice) -> int | list[int]:
        if isinstance(position, slice):
            return [*self][position]
        if position == -1:
            return self._ranges[-1][-1]
        place = position + self._count if position < 0 else position
        for each in self._ranges:
            if 0 <= place < len(each):
                return each[place]
            place -= len(each)
        raise IndexError(f"there is no sequence at position {position}")

    def __repr__(self) -> str:
        return f"SequenceRanges({self._ranges})"


def bounds_of_set(sequences: Sequence[int]) -> list[int]:
    """The ranges of sequences whose order and repetition have no meaning."""
    if len(sequences) == 1:
        return [sequences[0], sequences[0]]
    if not sequences:
        return []
    return [bound for pair in as_ranges(sorted({*sequences})) for bound in pair]


def bounds_in_order(sequences: Sequence[int]) -> list[int]:
    """The ranges of sequences that come back in their order, repeated ones included."""
    if not sequences:
        return []
    if len(sequences) == 1:
        return [sequences[0], sequences[0]]
    first, last = sequences[0], sequences[-1]
    if last - first == len(sequences) - 1 and [*sequences] == [*range(first, last + 1)]:
        return [first, last]
    bounds = [first]
    for before, after in pairwise(sequences):
        if after != before + 1:
            bounds += (before, after)
    bounds.append(last)
    return bounds


def sequences_of(bounds: Sequence[int], count_max: int = SEQUENCES_MAX) -> Sequence[int]:
    """The sequences of ranges. Raises RecordError for ranges that no record has."""
    if len(bounds) % 2:
        raise RecordError("the last range of sequences is incomplete")
    ranges: list[range] = []
    count = 0
    for first, last in zip(bounds[::2], bounds[1::2], strict=True):
        if not 0 < first <= last <= SEQUENCE_MAX:
            raise RecordError(f"{first} to {last} is no range of sequences")
        count += last - first + 1
        if count > count_max:
            raise RecordError(f"a record has at most {count_max} sequences")
        ranges.append(range(first, last + 1))
    if not ranges:
        return ()
    return ranges[0] if len(ranges) == 1 else SequenceRanges(ranges)
