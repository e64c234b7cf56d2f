"""Walks through the index of a log that find very many messages, some at a time, in order.

A walk goes through the positions of segments, stretch by stretch, with operations on whole
stretches: the messages come out in the order of their sequences and are sorted nowhere. The index
must not change meanwhile.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate, compress
from operator import eq
from typing import Final

from headwater.base.sliced import Work
from headwater.store.index.log_index import LogIndex
from headwater.store.index.segment_index import SegmentIndex
from headwater.store.index.subject_filter import SubjectFilter

# Positions that are looked at in one step.
STRETCH: Final = 4096
# Positions that are looked at in one unit of work.
POSITIONS_PER_UNIT: Final = 4


def _stretches(index: LogIndex, begin: int, end: int) -> Iterator[tuple[SegmentIndex, int, int]]:
    """Segments with a first position and one behind the last, for the sequences from `begin` on and
    before `end`."""
    for segment in index.segments_between(begin, end):
        stop = min(end - segment.first_sequence, len(segment.offsets))
        for first in range(max(begin - segment.first_sequence, 0), stop, STRETCH):
            yield segment, first, min(first + STRETCH, stop)


def gathering_excess(index: LogIndex, limit: int) -> Work[list[int]]:
    """The oldest messages of each subject that has more than `limit`, as many as are too many."""
    counts = index.subjects.counts
    excess = array("I", bytes(4 * len(counts)))
    left = 0
    for begin in range(0, len(counts), STRETCH):
        some = counts[begin : begin + STRETCH]
        if max(some) > limit:
            beyond = [max(count - limit, 0) for count in some]
            excess[begin : begin + STRETCH] = array("I", beyond)
            left += sum(beyond)
        yield STRETCH // POSITIONS_PER_UNIT
    found: list[int] = []
    for segment, begin, end in _stretches(index, index.first_sequence, index.next_sequence):
        if len(found) == left:
            break
        first, ids = segment.first_sequence, segment.subject_ids
        # Some subjects may turn out to have few enough on the way.
        for position in segment.passing(excess.__getitem__, begin, end):
            sid = ids[position]
            if excess[sid]:
                excess[sid] -= 1
                found.append(first + position)
        yield 1 + (end - begin) // POSITIONS_PER_UNIT
    return found


def gathering_oldest(index: LogIndex, count: int, size: int) -> Work[list[int]]:
    """The first messages: at least `count`, and as many as count `size` bytes together."""
    found: list[int] = []
    for segment, begin, end in _stretches(index, index.first_sequence, index.next_sequence):
        if len(found) >= count and size <= 0:
            break
        positions = [*segment.live_positions(begin, end)]
        sizes = [*accumulate(map(segment.sizes.__getitem__, positions))]
        by_size = bisect_left(sizes, size) + 1 if size > 0 else 0
        taken = min(max(by_size, count - len(found)), len(positions))
        found += map(segment.first_sequence.__add__, positions[:taken])
        size -= sizes[taken - 1] if taken else 0
        yield 1 + (end - begin) // POSITIONS_PER_UNIT
    return found


def gathering_last_per_subject(
    index: LogIndex, matching: SubjectFilter, up_to: int, count_max: int
) -> Work[list[int]]:
    """The last message of each matching subject at or before `up_to`, in order; the first so many.

    Few of them are found sooner than all, if no message is behind `up_to`.
    """
    if up_to < index.last_sequence:
        return (yield from _gathering_last_per_subject_before(index, matching, up_to + 1))[
            :count_max
        ]
    found: list[int] = []
    lasts = index.subjects.lasts
    for segment, begin, end in _stretches(index, index.first_sequence, index.next_sequence):
        positions = [*matching.passing(segment, begin, end)]
        sequences = [*map(segment.first_sequence.__add__, positions)]
        ids = map(segment.subject_ids.__getitem__, positions)
        found += compress(sequences, map(eq, map(lasts.__getitem__, ids), sequences))
        if len(found) >= count_max:
            break
        # Each position is compared with the last message of its subject, too.
        yield 1 + 2 * (end - begin) // POSITIONS_PER_UNIT
    return found[:count_max]


def _gathering_last_per_subject_before(
    index: LogIndex, matching: SubjectFilter, end: int
) -> Work[list[int]]:
    """The last messages of subjects before a sequence, found from that sequence backwards."""
    found: list[int] = []
    is_known = bytearray(len(index.subjects.names))
    for segment in reversed(index.segments_between(index.first_sequence, end)):
        first, ids = segment.first_sequence, segment.subject_ids
        stop = min(end - first, len(segment.offsets))
        while stop > 0:
            begin = max(stop - STRETCH, 0)
            for position in reversed([*matching.passing(segment, begin, stop)]):
                if not is_known[ids[position]]:
                    is_known[ids[position]] = True
                    found.append(first + position)
            yield 1 + (stop - begin)
            stop = begin
    found.reverse()
    return found
