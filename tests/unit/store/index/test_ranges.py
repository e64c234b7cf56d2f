"""A RangeSet is a set of integers, whatever is added and removed, in as few ranges as can be."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.store.index.ranges import RangeSet

bounds = st.tuples(st.integers(1, 40), st.integers(0, 12)).map(
    lambda pair: (pair[0], pair[0] + pair[1])
)
steps = st.lists(st.tuples(st.sampled_from(["add", "remove"]), bounds), max_size=20)


def as_set(ranges: list[tuple[int, int]]) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


def built(changes: list[tuple[str, tuple[int, int]]]) -> tuple[RangeSet, set[int]]:
    ranges, twin = RangeSet(), set[int]()
    for change, (first, last) in changes:
        if change == "add":
            ranges.add(first, last)
            twin |= set(range(first, last + 1))
        else:
            ranges.remove(first, last)
            twin -= set(range(first, last + 1))
    return ranges, twin


@given(steps)
def test_holds_what_was_added_and_not_removed(changes: list[tuple[str, tuple[int, int]]]) -> None:
    ranges, twin = built(changes)
    assert as_set(list(ranges)) == twin
    assert ranges.count == len(twin)
    assert [number for number in range(60) if number in ranges] == sorted(twin)


@given(steps)
def test_ranges_are_in_order_and_none_touches_the_next(
    changes: list[tuple[str, tuple[int, int]]],
) -> None:
    ranges, _ = built(changes)
    pairs = list(ranges)
    assert len(ranges) == len(pairs)
    assert all(first <= last for first, last in pairs)
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(pairs))


@given(steps, bounds)
def test_within_and_outside_divide_a_range(
    changes: list[tuple[str, tuple[int, int]]], asked: tuple[int, int]
) -> None:
    ranges, twin = built(changes)
    everything = set(range(asked[0], asked[1] + 1))
    assert as_set(ranges.within(*asked)) == everything & twin
    assert as_set(ranges.outside(*asked)) == everything - twin


def test_a_range_of_nothing_has_no_parts() -> None:
    ranges = RangeSet([(5, 9)])
    assert ranges.outside(8, 7) == []
    assert ranges.within(4, 3) == []


@given(steps)
def test_a_copy_is_equal_and_apart(changes: list[tuple[str, tuple[int, int]]]) -> None:
    ranges, twin = built(changes)
    copy = RangeSet(ranges)
    copy.add(1, 100)
    assert as_set(list(ranges)) == twin
