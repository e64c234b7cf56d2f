"""The ends of batches and their partitions, planned with the counts of a made-up stream."""

import bisect
import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.spark.read.offsets import PlannedRange
from headwater.spark.read.planning import (
    PARTITION_BYTES_MAX,
    PARTITION_BYTES_WORTH,
    PARTITION_MESSAGES_MAX,
    PARTITION_MESSAGES_WORTH,
    Limit,
    Measured,
    cut,
    cut_measured,
    end_of_batch,
    measure,
    partition_count,
    without_counts,
)


class Counted:
    """Counts the messages of a list of sequences, and how often it was asked."""

    def __init__(self, sequences: list[int]) -> None:
        self.sequences = sorted(set(sequences))
        self.questions = 0

    def __call__(self, first: int, last: int) -> int:
        self.questions += 1
        return bisect.bisect_right(self.sequences, last) - bisect.bisect_left(self.sequences, first)


def nobody_knows(first: int, last: int) -> int | None:
    return None


SEQUENCES = st.lists(st.integers(1, 5_000), min_size=1, max_size=300)


class TestEndOfBatch:
    def test_without_a_limit_it_is_the_end_of_the_stream(self) -> None:
        assert end_of_batch(1, 100, None, Counted([5, 50])) == (100, 2)

    def test_a_limit_that_is_not_reached_changes_nothing(self) -> None:
        assert end_of_batch(1, 100, 2, Counted([5, 50])) == (100, 2)

    def test_a_dense_stream_needs_one_question(self) -> None:
        count = Counted(list(range(1, 1_001)))
        assert end_of_batch(1, 1_000, 10, count) == (10, 10)
        assert count.questions == 1

    def test_a_sparse_filter_is_found_in_few_questions(self) -> None:
        count = Counted(list(range(1_000, 10_000_000, 100_000)))
        end, found = end_of_batch(1, 10_000_000, 3, count)
        assert found == 3
        assert count(1, end) == 3
        assert count.questions < 30

    def test_where_nobody_can_count_sequences_are_scaled_by_density(self) -> None:
        assert end_of_batch(1, 1_000, 10, nobody_knows, density=0.5) == (20, None)
        assert end_of_batch(1, 15, 10, nobody_knows, density=0.5) == (15, None)
        assert end_of_batch(1, 1_000, 10, nobody_knows, density=0.0) == (1_000, None)
        assert end_of_batch(1, 1_000, None, nobody_knows) == (1_000, None)

    @given(SEQUENCES, st.integers(1, 400), st.integers(1, 2_000))
    def test_never_more_than_the_limit_and_never_stuck(
        self, sequences: list[int], limit: int, first: int
    ) -> None:
        count = Counted(sequences)
        total = count(first, 5_000)
        end, found = end_of_batch(first, 5_000, limit, count)
        assert found == count(first, end)
        assert found is not None
        assert found <= limit
        assert found >= min(total, max(1, limit - limit // 20))
        assert end >= first
        assert end == 5_000 or found > 0


class TestCut:
    @given(SEQUENCES, st.integers(1, 40))
    def test_parts_follow_each_other_and_lose_nothing(
        self, sequences: list[int], parts: int
    ) -> None:
        count = Counted(sequences)
        total = count(1, 5_000)
        ranges = cut(1, 5_000, total, parts, count)
        assert ranges[0].first == 1
        assert ranges[-1].last == 5_000
        assert all(a.last + 1 == b.first for a, b in itertools.pairwise(ranges))
        assert [part.count for part in ranges] == [count(p.first, p.last) for p in ranges]
        assert len(ranges) <= parts

    @given(SEQUENCES, st.integers(1, 10))
    def test_parts_are_even(self, sequences: list[int], parts: int) -> None:
        count = Counted(sequences)
        total = count(1, 5_000)
        ranges = cut(1, 5_000, total, parts, count)
        assert max(part.count or 0 for part in ranges) <= -(-total // parts) + parts + total // 10

    def test_a_dense_stream_is_cut_without_questions(self) -> None:
        count = Counted(list(range(1, 11)))
        assert cut(1, 10, 10, 3, count) == (
            PlannedRange(1, 4, 4),
            PlannedRange(5, 7, 3),
            PlannedRange(8, 10, 3),
        )
        assert count.questions == 0

    def test_where_nobody_can_count_the_sequences_are_cut(self) -> None:
        assert cut(1, 10, None, 2, nobody_knows) == (
            PlannedRange(1, 5, None),
            PlannedRange(6, 10, None),
        )

    def test_parts_that_cannot_be_counted_are_guessed(self) -> None:
        def whole_only(first: int, last: int) -> int | None:
            return 50 if (first, last) == (1, 100) else None

        assert cut(1, 100, 50, 2, whole_only) == (
            PlannedRange(1, 50, None),
            PlannedRange(51, 100, None),
        )
        assert end_of_batch(1, 100, 10, whole_only) == (20, None)

    @pytest.mark.parametrize("count", [nobody_knows, Counted([7])])
    def test_one_sequence_is_one_part(self, count: Callable[[int, int], int | None]) -> None:
        assert len(cut(7, 7, count(7, 7), 5, count)) == 1


class TestPartitionCount:
    def test_a_handful_of_messages_is_one_task(self) -> None:
        assert partition_count(0, None) == 1
        assert partition_count(2 * PARTITION_MESSAGES_WORTH - 1, None) == 1

    def test_more_are_two_and_many_are_many(self) -> None:
        assert partition_count(2 * PARTITION_MESSAGES_WORTH, None) == 2
        assert partition_count(10 * PARTITION_MESSAGES_MAX, None) == 10
        assert partition_count(10 * PARTITION_MESSAGES_MAX + 1, None) == 11

    def test_the_minimum_of_the_user_counts_up_to_the_number_of_messages(self) -> None:
        assert partition_count(100, 7) == 7
        assert partition_count(3, 7) == 3
        assert partition_count(0, 7) == 1
        assert partition_count(10 * PARTITION_MESSAGES_MAX, 7) == 10


def test_without_counts_keeps_the_ranges() -> None:
    assert without_counts((PlannedRange(1, 2, 2),)) == (PlannedRange(1, 2, None),)


class TestBytes:
    SIZES = st.lists(st.integers(0, 100), min_size=1, max_size=60)

    @given(SIZES, st.integers(1, 500))
    def test_a_batch_is_as_large_as_the_limit_allows(self, sizes: list[int], limit: int) -> None:
        messages = [(3 * number + 2, size) for number, size in enumerate(sizes)]
        found = measure(1_000, limit, messages)
        taken = sizes[: len(found.sequences)]
        assert taken
        assert sum(taken) <= limit or len(taken) == 1
        if len(taken) == len(sizes):
            assert found.last in (1_000, messages[-1][0])
        else:
            assert sum(taken) > limit or sum(taken) + sizes[len(taken)] > limit
            assert found.sequences[-1] <= found.last < messages[len(taken)][0]

    @given(SIZES, st.integers(1, 8))
    def test_parts_follow_each_other_and_have_even_shares(
        self, sizes: list[int], parts: int
    ) -> None:
        batch = measure(1_000, 1 << 40, [(2 * at + 1, size) for at, size in enumerate(sizes)])
        ranges = cut_measured(1, batch, parts)
        assert (ranges[0].first, ranges[-1].last) == (1, 1_000)
        assert all(b.first == a.last + 1 for a, b in itertools.pairwise(ranges))
        assert len(ranges) <= parts
        for part in ranges:
            held = [size for at, size in enumerate(sizes) if part.first <= 2 * at + 1 <= part.last]
            assert part.count == len(held) > 0
            # A part has no more than its share, and one message that goes beyond it.
            assert sum(held) <= sum(sizes) / parts + 2 * max(sizes)

    def test_nothing_that_matches(self) -> None:
        assert measure(50, 10, []) == Measured(50, [], [])

    def test_large_messages_are_worth_more_parts(self) -> None:
        assert partition_count(100, None, 8 * PARTITION_BYTES_WORTH, 16) == 8
        assert partition_count(100, None, 100 * PARTITION_BYTES_WORTH, 16) == 16
        assert partition_count(1_000, None, 40 * PARTITION_BYTES_MAX, 16) == 40
        assert partition_count(1_000, None, 40 * PARTITION_BYTES_MAX + 1, 16) == 41
        assert partition_count(10, None, 40 * PARTITION_BYTES_MAX, 16) == 10

    def test_many_messages_are_shared_by_all_tasks(self) -> None:
        assert partition_count(16 * PARTITION_MESSAGES_WORTH, None, 0, 16) == 16
        assert partition_count(16 * PARTITION_MESSAGES_WORTH - 1, None, 0, 16) == 15


def test_a_large_message_waits_where_a_batch_has_something_already() -> None:
    sizes = [(1, 50), (2, 10)]
    assert measure(2, 40, sizes).sequences == [1]
    waiting = measure(2, 40, sizes, may_exceed=False)
    assert (waiting.sequences, waiting.last) == ([], 0)
    assert measure(2, 50, sizes, may_exceed=False).sequences == [1]


def test_a_limit_is_shared_by_what_follows() -> None:
    assert Limit().after(10, 10) == Limit(may_exceed=False)
    assert not Limit(may_exceed=False).is_spent
    left = Limit(messages=10, bytes=100).after(4, 30)
    assert left == Limit(6, 70, may_exceed=False)
    assert left.after(0, 0) == left
    assert left.after(6, 1).is_spent
    # One message was larger than the whole limit.
    assert left.after(1, 1000) == Limit(5, 0, may_exceed=False)
    assert left.after(1, 1000).is_spent
    assert Limit(messages=1, bytes=1).after(0, 0).may_exceed
