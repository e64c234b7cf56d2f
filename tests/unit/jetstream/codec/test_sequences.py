"""Sequences as ranges, and back without expanding them."""

import tracemalloc

import pytest
from hypothesis import given

from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.sequences import (
    SEQUENCES_MAX,
    SequenceRanges,
    bounds_in_order,
    bounds_of_set,
    sequences_of,
)
from tests.kit.record_values import SEQUENCE_LISTS


@given(SEQUENCE_LISTS)
def test_sequences_come_back_in_order_or_as_a_set(sequences: list[int]) -> None:
    assert [*sequences_of(bounds_in_order(sequences))] == sequences
    assert [*sequences_of(bounds_of_set(sequences))] == sorted({*sequences})


@pytest.mark.parametrize(
    ("sequences", "bounds"),
    [
        ([], []),
        ([7], [7, 7]),
        (range(3, 9), [3, 8]),
        ([3, 4, 6], [3, 4, 6, 6]),
        ([5, 1, 7], [5, 5, 1, 1, 7, 7]),
        ([2, 2], [2, 2, 2, 2]),
    ],
)
def test_ranges_are_as_few_as_the_order_allows(sequences: list[int], bounds: list[int]) -> None:
    assert bounds_in_order(sequences) == bounds


def test_ranges_are_a_sequence_like_their_list() -> None:
    ranges = SequenceRanges([range(3, 6), range(1, 2), range(8, 10)])
    numbers = [3, 4, 5, 1, 8, 9]
    assert [*ranges] == numbers
    assert len(ranges) == 6
    assert [ranges[place] for place in range(-6, 6)] == [*numbers, *numbers]
    assert ranges[1:5:2] == numbers[1:5:2]
    assert [number for number in range(12) if number in ranges] == sorted(numbers)
    assert [*reversed(ranges)] == numbers[::-1]
    assert ranges.index(8) == 4
    for place in (6, -7):
        with pytest.raises(IndexError):
            ranges[place]


def test_a_few_bytes_do_not_take_the_memory_of_all_their_sequences() -> None:
    half = SEQUENCES_MAX // 2
    tracemalloc.start()
    found = sequences_of([1, half, half + 2, SEQUENCES_MAX + 1])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == SEQUENCES_MAX
    assert peak < 10_000


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        ([1], "incomplete"),
        ([0, 1], "no range"),
        ([2, 1], "no range"),
        ([1, 2**64], "no range"),
        ([1, SEQUENCES_MAX + 1], "at most"),
        ([1, SEQUENCES_MAX, 1, 1], "at most"),
    ],
)
def test_ranges_that_no_record_has_are_refused(bounds: list[int], reason: str) -> None:
    with pytest.raises(RecordError, match=reason):
        sequences_of(bounds)
