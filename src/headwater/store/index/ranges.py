"""Sets of sequences as ranges: small however many sequences are in them."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import final


@final
class RangeSet:
    """Disjoint ranges in order, none touching the next. First and last are both in a range."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in ranges:
            self.add(first, last)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._firsts, self._lasts, strict=True))

    def __len__(self) -> int:
        """The number of ranges."""
        return len(self._firsts)

    def __contains__(self, sequence: int) -> bool:
        position = bisect_right(self._firsts, sequence) - 1
        return position >= 0 and self._lasts[position] >= sequence

    @property
    def count(self) -> int:
        """The number of sequences."""
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def add(self, first: int, last: int) -> None:
        """Put a range in, joining what it meets."""
        begin = bisect_left(self._lasts, first - 1)
        end = bisect_right(self._firsts, last + 1)
        if begin < end:
            first = min(first, self._firsts[begin])
            last = max(last, self._lasts[end - 1])
        self._firsts[begin:end] = [first]
        self._lasts[begin:end] = [last]

    def remove(self, first: int, last: int) -> None:
        """Take a range out."""
        begin = bisect_left(self._lasts, first)
        end = bisect_right(self._firsts, last)
        if begin >= end:
            return
        firsts: list[int] = []
        lasts: list[int] = []
        if self._firsts[begin] < first:
            firsts.append(self._firsts[begin])
            lasts.append(first - 1)
        if self._lasts[end - 1] > last:
            firsts.append(last + 1)
            lasts.append(self._lasts[end - 1])
        self._firsts[begin:end] = firsts
        self._lasts[begin:end] = lasts

    def outside(self, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of a range that are not in the set."""
        missing: list[tuple[int, int]] = []
        for start, end in self.within(first, last):
            if start > first:
                missing.append((first, start - 1))
            first = end + 1
        if first <= last:
            missing.append((first, last))
        return missing

    def within(self, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of a range that are in the set."""
        begin = bisect_left(self._lasts, first)
        end = bisect_right(self._firsts, last)
        return [
            (max(first, start), min(last, stop))
            for start, stop in zip(self._firsts[begin:end], self._lasts[begin:end], strict=True)
        ]
