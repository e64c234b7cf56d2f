"""The index of a log promises right answers to lookups, and a bound on the positions examined.

Cost is counted, not timed: `examined` of a segment is how many of its positions were looked at.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from headwater.store.index import subject_filter
from headwater.store.index.block_counts import BLOCK_POSITIONS
from headwater.store.index.log_index import IDS_UNUSED_MIN, REMOVALS_NOTED_MAX, LogIndex
from headwater.store.index.segment_index import STRETCH_MIN, SegmentIndex
from headwater.store.index.subject_filter import IDS_IN_SET_MAX, NEAR_COUNT, SubjectFilter
from headwater.store.index.subject_order import (
    ABSORBED_MIN,
    LEAF_IDS_MAX,
    SubjectOrder,
    SubjectPattern,
)
from headwater.store.index.subject_table import SubjectTable
from headwater.store.log.memory_log import SEGMENT_MESSAGES_MAX, MemoryLog
from headwater.store.log.message_log import FILTERS_KEPT_MAX, Batch
from headwater.subjects.grammar import matches


def append(index: LogIndex, subjects: Sequence[bytes], time_ns: int = 1) -> None:
    count = len(subjects)
    index.append(1, [1] * count, list(subjects), [time_ns] * count, [1] * count)


def index_of(*segments: Sequence[bytes]) -> LogIndex:
    """An index of these subjects, from sequence 1 on."""
    index = LogIndex(1)
    for number, subjects in enumerate(segments):
        if number:
            index.begin_segment()
        append(index, subjects)
    return index


def examined(index: LogIndex) -> int:
    return sum(segment.examined for segment in index.segments)


def names_of(index: LogIndex, pattern: bytes) -> list[bytes]:
    names = index.subjects.names
    return sorted(names[sid] for sid in index.subjects.matching(SubjectPattern(pattern)))


def log_of(subjects: Sequence[bytes]) -> MemoryLog:
    log = MemoryLog()
    store(log, subjects)
    return log


def store(log: MemoryLog, subjects: Sequence[bytes]) -> None:
    count = len(subjects)
    log.append(Batch(list(subjects), [b""] * count, [b""] * count, [1] * count))


# --- matching subjects --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (b"a.>", [b"a.b", b"a.b.c", b"a.c.c"]),
        (b"a.*", [b"a.b"]),
        (b"a.*.c", [b"a.b.c", b"a.c.c"]),
        (b"*.b.>", [b"a.b.c"]),
        (b"*", [b"a", b"a-b"]),
        (b"a-b.>", [b"a-b.c"]),
        (b"nothing.>", []),
    ],
)
def test_subjects_match_by_token(pattern: bytes, expected: list[bytes]) -> None:
    index = index_of([b"a.b.c", b"a", b"a-b.c", b"a.b", b"a-b", b"a.c.c", b"b.a"])
    assert names_of(index, pattern) == expected


def test_new_subjects_are_found_and_those_without_messages_are_not() -> None:
    index = index_of([b"kv.one", b"kv.two"])
    assert names_of(index, b"kv.>") == [b"kv.one", b"kv.two"]
    append(index, [b"kv.three"])
    index.delete(1)
    assert names_of(index, b"kv.>") == [b"kv.three", b"kv.two"]
    append(index, [b"kv.one"])
    assert names_of(index, b"kv.>") == [b"kv.one", b"kv.three", b"kv.two"]


def test_nothing_that_matches_is_before_the_candidate() -> None:
    """Every pattern on every name, of tokens that sort on both sides of a dot."""
    names = sorted(
        b".".join(tokens)
        for length in range(1, 5)
        for tokens in product([b"a", b"a-", b"ab"], repeat=length)
    )
    for length in range(1, 4):
        for tokens in product([b"a", b"*"], repeat=length):
            for end in ([], [b">"]):
                pattern = SubjectPattern(b".".join([*tokens, *end]))
                matching = [name for name in names if matches(pattern.text, name)]
                assert matching == [name for name in names if pattern.match(name)]
                for start in names:
                    candidate = pattern.candidate(start)
                    assert candidate >= start
                    assert not any(start <= name < candidate for name in matching)


class CountedNames(list[bytes]):
    """Counts how often a name is looked at."""

    reads = 0

    def __getitem__(self, key: Any) -> Any:
        self.reads += 1
        return super().__getitem__(key)


def sorted_table(names: list[bytes]) -> tuple[SubjectTable, CountedNames]:
    table = SubjectTable()
    for name in names:
        table.counts[table.id_of(name)] = 1
    table.order.absorb(len(names), table.names, table.counts)
    return table, CountedNames(table.names)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [(b"orders.0100.>", 10), (b"orders.0100.*", 10), (b"*.0100.3", 1), (b"orders.99.*", 0)],
)
def test_a_lookup_reads_few_names_besides_those_that_match(pattern: bytes, matches: int) -> None:
    table, names = sorted_table([b"orders.%04d.%d" % (n // 10, n % 10) for n in range(20_000)])
    found = table.order.find(SubjectPattern(pattern), names, table.counts)
    assert len(found) == matches
    # A few arrays to the left and right, and the way there.
    assert names.reads < 4 * LEAF_IDS_MAX


def test_subjects_between_two_that_may_match_are_stepped_over() -> None:
    """Of two thousand devices under one site only those matter that are named on."""
    deep = [b"site.%d.log.%05d" % (n % 4, n) for n in range(20_000)]
    table, names = sorted_table([*deep, *(b"site.%d.state" % n for n in range(4))])
    found = table.order.find(SubjectPattern(b"site.*.state"), names, table.counts)
    assert len(found) == 4
    assert names.reads < 10 * LEAF_IDS_MAX


def test_very_many_new_subjects_are_sorted_in_over_several_lookups() -> None:
    table, order = SubjectTable(), SubjectOrder()
    for number in range(5 * ABSORBED_MIN):
        table.counts[table.id_of(b"s.%d" % (number * 7919 % 1_000_003))] = 1
    pattern = SubjectPattern(b"s.*")
    sorted_in = []
    while order.absorbed < len(table.names):
        assert len(order.find(pattern, table.names, table.counts)) == len(table.names)
        sorted_in.append(order.absorbed)
    assert len(sorted_in) > 3
    assert len(order.find(pattern, table.names, table.counts)) == len(table.names)


# --- filters ------------------------------------------------------------------------------------


def test_a_filter_that_is_kept_knows_subjects_that_came_later() -> None:
    index = index_of([b"a.1", b"b.1"])
    kept = SubjectFilter(index, [b"a.*", b"c"])
    assert kept.next(2) == 0
    append(index, [b"b.2", b"a.2", b"c"])
    assert kept.next(2) == 4
    assert kept.pending(2) == 2
    assert kept.last(9) == 5


@pytest.mark.parametrize("count", [IDS_IN_SET_MAX, IDS_IN_SET_MAX + 1])
def test_a_filter_answers_alike_for_any_number_of_subjects(count: int) -> None:
    index = index_of([b"a.%d" % number for number in range(count)], [b"b", b"a.5", b"b"])
    kept = SubjectFilter(index, [b"a.*"])
    assert (kept.next(count), kept.next(count + 1), kept.last(count + 3)) == (
        count,
        count + 2,
        count + 2,
    )
    assert kept.pending(count - 9) == 11
    append(index, [b"a.new", b"b"])
    index.delete(count)
    assert kept.pending(count - 9) == 11
    assert kept.subject_count() == count
    assert len(kept.last_of_each(count + 4)) == count


def test_ids_given_out_anew_are_noticed_by_a_filter() -> None:
    index = index_of([b"gone.1", b"gone.2", b"a.1", b"b.1"])
    kept = SubjectFilter(index, [b"b.*"])
    assert kept.next(1) == 4
    index.delete(1)
    index.delete(2)
    index.renumber()
    append(index, [b"b.2"])
    assert (kept.next(1), kept.next(5), kept.pending(1)) == (4, 5, 2)


def test_a_sequence_that_is_given_to_another_subject_is_not_what_it_was() -> None:
    index = index_of([b"a", b"b", b"a", b"a"])
    kept = SubjectFilter(index, [b"a", b"x.*"])
    assert (kept.next(3), kept.pending(1)) == (3, 3)
    for sequence in (3, 4):
        index.delete(sequence)
    index.cut(3)
    append(index, [b"b", b"b", b"a"])
    assert (kept.next(2), kept.pending(1), kept.last(4)) == (5, 2, 1)
    assert index.subjects.extent(b"a") == (1, 5, 2)


# --- the cost of lookups ------------------------------------------------------------------------

BLOCKS = 6


def sparse_index() -> LogIndex:
    """Two segments of several blocks, with a rare subject near the beginning and at the end."""
    crowd = [b"many.%d" % (number % 5000) for number in range(BLOCKS * BLOCK_POSITIONS)]
    first = [*crowd[:10], b"rare.1", *crowd]
    return index_of(first, [*crowd, b"rare.2", b"rare.1"])


def test_the_next_of_a_rare_subject_is_found_by_its_first_and_last() -> None:
    index = sparse_index()
    kept = SubjectFilter(index, [b"rare.*"])
    before = examined(index)
    assert kept.next(12) == index.last_sequence - 1
    assert examined(index) - before <= NEAR_COUNT + STRETCH_MIN


def test_the_next_of_many_rare_subjects_is_looked_for_in_one_block() -> None:
    """The rare subjects are too many to look at each, and in a few blocks only."""
    rare = [b"rare.%d" % number for number in range(2000)]
    crowd = [b"many.%d" % (number % 50) for number in range(BLOCKS * BLOCK_POSITIONS)]
    index = index_of(rare, crowd, [*crowd, *rare, *crowd])
    kept = SubjectFilter(index, [b"rare.>"])
    expected = 2000 + 2 * len(crowd) + 1
    assert kept.next(2001) == expected
    before = examined(index)
    assert kept.next(2001) == expected
    assert kept.last(expected - 1) == 2000
    assert kept.last(index.last_sequence) == expected + 1999
    assert examined(index) - before <= 3 * (NEAR_COUNT + BLOCK_POSITIONS)


@pytest.mark.parametrize("patterns", [[b">"], [b"rare.*"], [b"many.7", b"many.8"]])
def test_how_many_are_pending_is_known_by_looking_at_one_block(patterns: list[bytes]) -> None:
    index = sparse_index()
    index.delete(500)
    kept = SubjectFilter(index, patterns)
    kept.pending(1)
    # The last position of a block costs the longest look.
    place = 3 * BLOCK_POSITIONS
    names = index.subjects.names
    expected = sum(
        any(matches(pattern, names[sid]) for pattern in patterns)
        for segment in index.segments
        for position, sid in enumerate(segment.subject_ids)
        if segment.first_sequence + position >= place and segment.offsets[position]
    )
    kept.pending(place)
    before = examined(index)
    assert kept.pending(place) == expected
    assert examined(index) - before <= BLOCK_POSITIONS


def test_what_is_taken_out_is_not_counted_anew() -> None:
    index = sparse_index()
    kept = SubjectFilter(index, [b"many.>"])
    whole = kept.pending(1)
    for sequence in range(100, 200):
        index.delete(sequence)
    before = examined(index)
    assert kept.pending(1) == whole - 100
    assert examined(index) == before


def test_what_came_and_went_between_two_questions_was_never_counted() -> None:
    index = index_of([b"a.1", b"b", b"a.2"])
    kept = SubjectFilter(index, [b"a.*"])
    assert kept.pending(1) == 2
    append(index, [b"a.1", b"a.3"])
    index.delete(4)
    index.delete(5)
    index.delete(1)
    assert kept.pending(1) == 1


@pytest.mark.parametrize("number", [0, 1])
def test_messages_that_went_with_their_segment_are_not_counted_any_more(number: int) -> None:
    index = index_of([b"a.1"], [b"a.2"], [b"a.3", b"b"])
    kept = SubjectFilter(index, [b"a.*"])
    assert kept.pending(1) == 3
    index.delete(number + 1)
    index.remove_segment(index.segments[number])
    assert kept.pending(1) == 2
    assert kept.pending(3) == 1


@pytest.mark.parametrize("count", [REMOVALS_NOTED_MAX, REMOVALS_NOTED_MAX + 1])
def test_more_that_was_taken_out_than_is_noted_is_counted_anew(count: int) -> None:
    index = sparse_index()
    kept = SubjectFilter(index, [b"many.>"])
    whole = kept.pending(1)
    for sequence in range(100, 100 + count):
        index.delete(sequence)
    assert kept.pending(1) == whole - count


def test_a_cursor_looks_at_every_message_about_once() -> None:
    index = sparse_index()
    log = MemoryLog()
    log.index = index
    cursor = log.cursor([b"many.7", b"rare.*"], 1)
    expected = left = cursor.pending()
    before = examined(index)
    seen = 0
    while sequence := cursor.next():
        cursor.move(sequence + 1)
        seen, left = seen + 1, left - 1
        assert cursor.pending() == left
    assert (seen, left) == (expected, 0)
    # One look finds the next message, one counts the messages that were passed.
    assert examined(index) - before <= 2.2 * index.messages


def test_a_cursor_at_the_end_looks_at_what_is_new() -> None:
    index = sparse_index()
    log = MemoryLog()
    log.index = index
    cursor = log.cursor([b"many.7"], index.next_sequence)
    assert (cursor.next(), cursor.pending()) == (0, 0)
    append(index, [b"many.1"] * 50 + [b"many.7"])
    before = examined(index)
    assert (cursor.next(), cursor.pending()) == (index.last_sequence, 1)
    assert examined(index) - before <= 4 * STRETCH_MIN


def test_a_cursor_never_counts_what_came_and_went_between_two_questions() -> None:
    log = log_of([b"a", b"b", b"a"])
    cursor = log.cursor([b"a"], 2)
    assert cursor.pending() == 1
    store(log, [b"a", b"a"])
    log.delete([1, 4])
    assert cursor.pending() == 2


ALIKE = [0, 1, 255, 256, 257, 65_536, 65_537, 1 << 24, 1 << 16 | 1 << 8]


def test_a_subject_is_found_among_ids_whose_bytes_look_alike() -> None:
    """Ids are searched for as bytes, and bytes of two of them may look like a third."""
    segment = SegmentIndex(1)
    flat = [sid for pair in product(ALIKE, repeat=2) for sid in pair]
    ones = [1] * len(flat)
    segment.extend(1, ones, ones, flat, ones)
    for position in range(0, len(flat), 7):
        segment.drop(position)
    for sid in ALIKE:
        there = [place for place, each in enumerate(flat) if each == sid and place % 7]
        for place in range(len(flat) + 1):
            ahead = [position for position in there if position >= place]
            behind = [position for position in there if position < place]
            assert segment.find(sid, place, len(flat)) == min(ahead, default=-1)
            assert segment.rfind(sid, 0, place) == max(behind, default=-1)


def test_the_new_last_of_a_subject_is_found_without_looking_at_the_others() -> None:
    index = sparse_index()
    before = examined(index)
    assert index.delete(index.last_sequence) >= 0
    assert index.subjects.extent(b"rare.1") == (11, 11, 1)
    assert examined(index) == before


def test_the_messages_of_a_subject_are_followed_over_a_segment_that_is_gone() -> None:
    index = index_of([b"a", b"b"], [b"a"], [b"a", b"a", b"b"])
    index.delete(3)
    index.remove_segment(index.segments[1])
    assert [*index.followed(index.subjects.ids[b"a"], 0, 9)] == [1, 4, 5]
    index.delete(5)
    assert index.subjects.extent(b"a") == (1, 4, 2)
    index.delete(1)
    assert index.subjects.extent(b"a") == (4, 4, 1)


def test_the_new_last_of_a_busy_subject_is_near() -> None:
    index = index_of([b"busy", b"other"] * 40_000)
    assert index.delete(79_999) >= 0
    assert index.subjects.extent(b"busy") == (1, 79_997, 39_999)
    assert examined(index) <= STRETCH_MIN


def test_messages_that_are_due_by_age_are_found_without_looking_further() -> None:
    index = LogIndex(1)
    for number in range(100):
        append(index, [b"a"] * 1000, time_ns=number)
    for sequence in range(1, 60_000):
        index.delete(sequence)
    before = examined(index)
    assert index.stored_before(60) == [60_000]
    assert index.stored_before(0) == []
    assert examined(index) - before <= 4 * STRETCH_MIN


def test_of_messages_that_are_due_by_age_no_more_are_looked_at_than_are_wanted() -> None:
    index = LogIndex(1)
    append(index, [b"a"] * 100_000, time_ns=1)
    before = examined(index)
    assert index.stored_before(2, STRETCH_MIN) == [*range(1, STRETCH_MIN + 1)]
    assert examined(index) - before == STRETCH_MIN
    assert len(index.stored_before(2, STRETCH_MIN + 1)) == STRETCH_MIN + 1


def test_no_more_messages_are_due_by_age_than_were_asked_for() -> None:
    index = LogIndex(1)
    append(index, [b"a"] * 3, time_ns=1)
    append(index, [b"a"], time_ns=5)
    assert index.stored_before(5, 2) == [1, 2]


def test_a_clock_set_back_makes_no_message_older() -> None:
    index = LogIndex(1)
    for time_ns in (10, 50, 20, 60):
        append(index, [b"a"], time_ns=time_ns)
    assert index.stored_before(30) == [1]


def test_purging_a_few_subjects_follows_them_alone() -> None:
    index = sparse_index()
    kept = SubjectFilter(index, [b"rare.*"])
    before = examined(index)
    last = index.last_sequence
    assert kept.sequences(last + 1) == [11, last - 1, last]
    assert examined(index) == before


# --- the log that asks --------------------------------------------------------------------------


def test_the_same_patterns_share_one_filter_up_to_a_limit() -> None:
    log = log_of([b"a"])
    first = log.filter([b"a.*"])
    for number in range(FILTERS_KEPT_MAX - 1):
        log.filter([b"b.%d" % number])
    assert log.filter([b"a.*"]) is first
    for number in range(FILTERS_KEPT_MAX):
        log.filter([b"c.%d" % number])
    assert log.filter([b"a.*"]) is not first


def test_pending_counts_messages_or_subjects() -> None:
    log = log_of([b"a.1", b"a.2", b"b", b"a.1", b"a.1"])
    assert log.pending([b"a.*"], 2) == 3
    assert log.pending([b"a.*"], 2, last_per_subject=True) == 2
    assert log.pending([b"a.*"], 3, last_per_subject=True) == 1
    assert log.pending([b">"], 0, last_per_subject=True) == 3
    assert log.pending([b">"], 6) == 0


def test_a_log_in_memory_forgets_the_names_of_subjects_that_come_and_go() -> None:
    log = MemoryLog()
    for number in range(220):
        store(log, [b"job.%d.%d" % (number, place) for place in range(1000)])
        log.purge()
    assert len(log.index.subjects.names) < 2 * (IDS_UNUSED_MIN + SEGMENT_MESSAGES_MAX)


# --- taking many at once --------------------------------------------------------------------------


def test_what_is_near_is_taken_by_looking_at_it_once() -> None:
    index = sparse_index()
    for patterns in ([b">"], [b"many.>"]):
        kept = SubjectFilter(index, patterns)
        kept.next(1)
        before = examined(index)
        assert len(kept.sequences_between(1, 10_001, 5000)) == 5000
        assert examined(index) - before <= 2 * 8192


def test_rare_messages_are_taken_without_looking_at_those_between() -> None:
    index = sparse_index()
    kept = SubjectFilter(index, [b"many.7", b"many.4000"])
    expected = kept.sequences(index.next_sequence)
    for segment in index.segments:
        for position in range(0, len(segment.offsets), BLOCK_POSITIONS):
            segment.subject_counts(position // BLOCK_POSITIONS)
    before = examined(index)
    assert kept.sequences_between(5, 2**62, 12) == [at for at in expected if at >= 5][:12]
    assert examined(index) - before <= 2 * BLOCK_POSITIONS, "to find the first of each"


@pytest.mark.parametrize("pattern", [b">", b"many.*"])
def test_what_is_gone_at_the_front_is_not_looked_through(pattern: bytes) -> None:
    index = sparse_index()
    gone = 3 * BLOCK_POSITIONS
    for sequence in range(1, gone + 1):
        index.delete(sequence)
    kept = SubjectFilter(index, [pattern])
    kept.refresh()
    before = examined(index)
    assert kept.next(1) == gone + 1
    assert kept.sequences_between(1, 2**62, 3) == [gone + 1, gone + 2, gone + 3]
    assert examined(index) - before <= 10 * STRETCH_MIN


def test_a_place_that_moves_over_what_it_took_does_not_look_at_what_is_between() -> None:
    index = sparse_index()
    log = MemoryLog()
    log.index = index
    cursor = log.cursor([b"many.7", b"rare.*"], 1)
    left = cursor.pending()
    taken = cursor.next_sequences(2**62, 6)
    index.delete(taken[1])
    index.delete(taken[5])
    before = examined(index)
    cursor.move(taken[4] + 1)
    # Five messages were passed, and one more is gone.
    assert cursor.pending() == left - 6
    cursor.move(taken[5] + 1)
    assert cursor.pending() == left - 6
    assert examined(index) == before


def test_after_many_removals_only_blocks_that_lost_something_are_counted_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Else blocks are counted by the ids in them, and not looked at.
    monkeypatch.setattr(subject_filter, "IDS_IN_SET_MAX", 100)
    pattern = b"many.*"
    index = sparse_index()
    kept = SubjectFilter(index, [pattern])
    whole = kept.pending(1)
    gone = [*range(1, REMOVALS_NOTED_MAX + 2), 20_000]
    names = index.subjects.names
    segment = index.segments[0]
    lost = sum(matches(pattern, names[segment.subject_ids[at - 1]]) for at in gone)
    for sequence in gone:
        index.delete(sequence)
    before = examined(index)
    assert kept.pending(1) == whole - lost
    # The last block of each segment is not full, and looked at as well.
    assert examined(index) - before <= (3 + len(index.segments)) * BLOCK_POSITIONS
    assert kept.pending(1) == whole - lost


def test_a_publish_costs_nothing_for_a_reader_who_does_not_ask() -> None:
    log = log_of([b"a.%d" % (number % 9) for number in range(3000)])
    cursors = [log.cursor([pattern], 1) for pattern in (b">", b"a.*", b"a.1") for _ in range(50)]
    for cursor in cursors:
        cursor.pending()
    before = examined(log.index)
    store(log, [b"a.1"] * 100)
    assert examined(log.index) == before
    assert {cursor.pending() for cursor in cursors} == {3100, 434}
