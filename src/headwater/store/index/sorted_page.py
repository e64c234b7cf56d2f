"""One page of many names in order, found some at a time.

A million names are not sorted for a page of them. A sample of the names says how they are spread;
by it they are parted into heaps of some thousands, in order, and only those heaps are sorted of
which the page has something.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from headwater.base.sliced import Work

# About as many names as one heap gets; sorting them takes some milliseconds.
HEAP_NAMES: Final = 4096
# Names of each heap that are in the sample, so that heaps are of similar size.
SAMPLED_PER_HEAP: Final = 8
# Names that are put into their heaps in one step.
PARTED_AT_A_TIME: Final = 1024


def sorted_page(names: Sequence[bytes], offset: int, count_max: int) -> Work[list[bytes]]:
    """The names from the one at `offset` on, up to so many, as if all of them were sorted."""
    sample = sorted(names[:: max(HEAP_NAMES // SAMPLED_PER_HEAP, 1)])
    bounds = sample[SAMPLED_PER_HEAP::SAMPLED_PER_HEAP]
    yield len(sample)
    heaps: list[list[bytes]] = [[] for _ in range(len(bounds) + 1)]
    for begin in range(0, len(names), PARTED_AT_A_TIME):
        for name in names[begin : begin + PARTED_AT_A_TIME]:
            heaps[bisect_right(bounds, name)].append(name)
        yield PARTED_AT_A_TIME
    page: list[bytes] = []
    for heap in heaps:
        if offset >= len(heap):
            offset -= len(heap)
        elif len(page) < count_max:
            heap.sort()
            page += heap[offset : offset + count_max - len(page)]
            offset = 0
            yield len(heap)
    return page
