"""Lookups by pattern answer as looking at every message does, whatever was done to the index.

The machine runs twice: with the limits as they are, and with all of them so small that a log of a
few dozen messages goes every way there is.
"""

from contextlib import ExitStack
from types import ModuleType
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headwater.base.sliced import at_once
from headwater.store.index import (
    block_counts,
    filter_cursor,
    segment_index,
    subject_filter,
    subject_order,
)
from headwater.store.index import log_index as index
from headwater.store.index import walks as index_walks
from headwater.store.index.filter_cursor import FilterCursor
from headwater.store.index.log_index import LogIndex, SubjectTable, decode_footer
from headwater.store.index.subject_filter import SubjectFilter
from headwater.store.index.subject_order import SubjectOrder, SubjectPattern
from headwater.subjects.grammar import matches

SMALL_LIMITS: list[tuple[ModuleType, str, int]] = [
    (block_counts, "BLOCK_POSITIONS", 4),
    (filter_cursor, "STEP_MAX", 5),
    (filter_cursor, "FOLLOWING_COST", 2),
    (index, "REMOVALS_NOTED_MAX", 6),
    (index, "FOLLOWED_MAX", 2),
    (index, "STRETCH_MIN", 1),
    (index_walks, "STRETCH", 3),
    (segment_index, "BLOCK_POSITIONS", 4),
    (segment_index, "STRETCH_MIN", 1),
    (segment_index, "STRETCH_FACTOR", 2),
    (segment_index, "STRETCH_MAX", 4),
    (subject_filter, "BLOCK_POSITIONS", 4),
    (subject_filter, "IDS_IN_SET_MAX", 6),
    (subject_filter, "TESTED_COUNT_MAX", 3),
    (subject_filter, "NEAR_COUNT", 2),
    (subject_filter, "BOUNDED_COUNT_MAX", 4),
    (subject_filter, "SEARCHED_COUNT_MAX", 1),
    (subject_filter, "FOLLOWING_COST", 2),
    (subject_filter, "PASSED_COUNT_MAX", 3),
    (subject_filter, "STRETCH_MIN", 1),
    (subject_filter, "STRETCH_FACTOR", 2),
    (subject_filter, "STRETCH_MAX", 4),
    (subject_filter, "FOLLOWED_AT_A_TIME", 2),
    (subject_filter, "GATHERED_AT_A_TIME", 3),
    (subject_order, "LEAF_IDS_MAX", 4),
    (subject_order, "ABSORBED_MIN", 3),
    (subject_order, "INSERTION_COST", 1),
]
HELD_MAX = 3

# Some sort before a dot, some after, and one has a name that is the beginning of others.
tokens = st.sampled_from([b"a", b"a-", b"a!", b"ab", b"b", b"0", b"z", b"x*", b">y"])
subjects = st.lists(tokens, min_size=1, max_size=4).map(b".".join)
patterns = st.builds(
    lambda wanted, end: b".".join([*wanted, *end]),
    st.lists(st.one_of(st.just(b"*"), tokens), min_size=1, max_size=3),
    st.sampled_from([[], [b">"]]),
)
pattern_lists = st.lists(st.one_of(patterns, st.just(b">")), min_size=1, max_size=3)
positions = st.floats(0, 1.1)
counts = st.sampled_from([0, 1, 2, 5, 100])


class SmallLimits(ExitStack):
    """Every limit so low that few messages are many."""

    def __init__(self) -> None:
        super().__init__()
        for module, name, value in SMALL_LIMITS:
            self.enter_context(patch.object(module, name, value))


class Twin:
    """The obvious index: sequence, subject and time of every message."""

    def __init__(self, first: int) -> None:
        self.messages: dict[int, tuple[bytes, int]] = {}
        self.last = first - 1

    def on(self, wanted: list[bytes], first: int = 0, end: int = 2**64) -> list[int]:
        return [
            sequence
            for sequence, (subject, _) in self.messages.items()
            if first <= sequence < end and any(matches(pattern, subject) for pattern in wanted)
        ]

    def last_of_each(self, wanted: list[bytes], up_to: int) -> list[int]:
        lasts = {self.messages[sequence][0]: sequence for sequence in self.on(wanted, 0, up_to + 1)}
        return sorted(lasts.values())

    def stored_before(self, time_ns: int) -> list[int]:
        found = []
        for sequence, (_, stored_ns) in self.messages.items():
            if stored_ns >= time_ns:
                break
            found.append(sequence)
        return found


class IndexMachine(RuleBasedStateMachine):
    """Changes an index and a list in the same way, and asks both."""

    limits: type[ExitStack] = ExitStack

    def __init__(self) -> None:
        super().__init__()
        self.limited = self.limits()
        self.time_ns = 100
        self.fresh = 0

    def teardown(self) -> None:
        self.limited.close()

    @initialize(first=st.sampled_from([1, 1, 7, 2**40]))
    def begin(self, first: int) -> None:
        self.base = first
        self.index = LogIndex(first)
        self.twin = Twin(first)
        self.let_go()

    def let_go(self) -> None:
        self.filters: list[tuple[list[bytes], SubjectFilter]] = []
        self.cursors: list[tuple[list[bytes], FilterCursor]] = []

    def place(self, position: float) -> int:
        """A sequence of this log, or one shortly before or behind it."""
        return max(self.base - 2 + round(position * (self.twin.last + 3 - self.base)), 0)

    # --- changes ------------------------------------------------------------------------------

    @rule(batch=st.lists(subjects, min_size=1, max_size=12), pause_ns=st.integers(-3, 5))
    def append(self, batch: list[bytes], pause_ns: int) -> None:
        self.time_ns += pause_ns
        count = len(batch)
        self.index.append(1, [1] * count, batch, [self.time_ns] * count, [1] * count)
        for subject in batch:
            self.twin.last += 1
            self.twin.messages[self.twin.last] = subject, self.time_ns

    @rule(subject=subjects, count=st.integers(1, 9))
    def append_alike(self, subject: bytes, count: int) -> None:
        self.append([subject] * count, 1)

    @rule(stem=tokens, count=st.integers(1, 12))
    def append_new(self, stem: bytes, count: int) -> None:
        """Subjects that the index has not seen yet."""
        self.fresh += count
        numbers = range(self.fresh - count, self.fresh)
        self.append([b"%s.%d.a" % (stem, number % 7 * 1000 + number) for number in numbers], 1)

    @rule(count=st.integers(1, 5))
    def skip(self, count: int) -> None:
        self.index.skip(count, self.time_ns)
        self.twin.last += count

    @rule()
    def begin_segment(self) -> None:
        if len(self.index.segments[-1].offsets):
            self.index.begin_segment()

    @rule(where=st.lists(positions, min_size=1, max_size=4))
    def delete_some(self, where: list[float]) -> None:
        self.delete([self.place(position) for position in where])

    @rule(position=positions, count=st.integers(1, 15))
    def delete_many(self, position: float, count: int) -> None:
        first = self.place(position)
        self.delete(list(range(first, first + count)))

    @rule(wanted=pattern_lists, position=positions)
    def purge(self, wanted: list[bytes], position: float) -> None:
        found = SubjectFilter(self.index, wanted).sequences(self.place(position))
        assert found == self.twin.on(wanted, 0, self.place(position))
        self.delete(found)

    def delete(self, sequences: list[int]) -> None:
        for sequence in sequences:
            was_there = self.twin.messages.pop(sequence, None) is not None
            assert (self.index.delete(sequence) >= 0) == was_there
        for segment in self.index.segments[:-1]:
            if segment.live == 0:
                self.index.remove_segment(segment)

    @rule(position=positions)
    def truncate(self, position: float) -> None:
        last = max(self.place(position), self.base - 1)
        if last < self.twin.last:
            self.delete([at for at in self.twin.messages if at > last])
            self.index.cut(last + 1)
            self.twin.last = last

    @rule()
    def renumber(self) -> None:
        self.index.renumber()

    @rule(count=st.integers(1, 9))
    def prepare(self, count: int) -> None:
        subjects = self.index.subjects
        subjects.order.absorb(count, subjects.names, subjects.counts)
        for segment in self.index.segments[:-1]:
            for position in range(0, len(segment.offsets), block_counts.BLOCK_POSITIONS)[:count]:
                segment.subject_counts(position // block_counts.BLOCK_POSITIONS)

    @rule()
    def reload(self) -> None:
        """Build the index as a log does that finds footers and no checkpoint."""
        names = self.index.subjects.names
        found = [decode_footer(each.encode(names, []), "x") for each in self.index.segments]
        self.index = LogIndex.loaded(
            [footer.index for footer in found], [footer.table for footer in found]
        )
        self.let_go()

    @rule()
    def restore(self) -> None:
        """Build the index as a log does that finds a checkpoint."""
        self.index.ensure_linked()
        before, table = self.index.subjects, SubjectTable()
        table.names, table.ids = before.names, before.ids
        table.firsts, table.lasts, table.counts = before.firsts, before.lasts, before.counts
        self.index = LogIndex.restored(self.index.segments, table)
        self.let_go()

    # --- answers ------------------------------------------------------------------------------

    @rule(wanted=pattern_lists, position=positions)
    def hold_cursor(self, wanted: list[bytes], position: float) -> None:
        subject_filter = SubjectFilter(self.index, wanted)
        held = FilterCursor(self.index, subject_filter, self.place(position))
        self.cursors = [*self.cursors, (wanted, held)][-HELD_MAX:]
        self.filters = [*self.filters, (wanted, subject_filter)][-HELD_MAX:]

    @rule(which=st.integers(0, HELD_MAX - 1), position=positions)
    def move(self, which: int, position: float) -> None:
        if which < len(self.cursors):
            self.cursors[which][1].move(self.place(position))

    @rule(which=st.integers(0, HELD_MAX - 1))
    def step(self, which: int) -> None:
        if which < len(self.cursors):
            held = self.cursors[which][1]
            held.move((held.next() or held.sequence) + 1)

    @rule(which=st.integers(0, HELD_MAX - 1), count=counts, gone=positions, kept=positions)
    def read_on(self, which: int, count: int, gone: float, kept: float) -> None:
        """Read on as a reader does: take messages, remove some of them, and go on behind others."""
        if which < len(self.cursors):
            held = self.cursors[which][1]
            taken = held.next_sequences(self.twin.last + 1, count)
            self.delete(taken[: round(gone * len(taken))])
            passed = taken[: round(kept * len(taken))]
            held.move(passed[-1] + 1 if passed else held.sequence)

    @rule(wanted=pattern_lists, position=positions)
    def ask(self, wanted: list[bytes], position: float) -> None:
        self.compare(wanted, SubjectFilter(self.index, wanted), self.place(position))

    @rule(which=st.integers(0, HELD_MAX - 1), position=positions)
    def ask_again(self, which: int, position: float) -> None:
        """Ask a filter that was made earlier, before other changes of the index."""
        if which < len(self.filters):
            self.compare(*self.filters[which], self.place(position))

    @rule(wanted=pattern_lists, position=positions, size=st.integers(0, 40), count=counts)
    def take(self, wanted: list[bytes], position: float, size: int, count: int) -> None:
        self.compare_taking(wanted, SubjectFilter(self.index, wanted), position, size, count)

    @rule(
        which=st.integers(0, HELD_MAX - 1),
        position=positions,
        size=st.integers(0, 40),
        count=counts,
    )
    def take_again(self, which: int, position: float, size: int, count: int) -> None:
        if which < len(self.filters):
            self.compare_taking(*self.filters[which], position, size, count)
        if which < len(self.cursors):
            wanted, held = self.cursors[which]
            end = self.place(position)
            assert (
                held.next_sequences(end, count) == self.twin.on(wanted, held.sequence, end)[:count]
            )

    def compare_taking(
        self, wanted: list[bytes], asked: SubjectFilter, position: float, size: int, count: int
    ) -> None:
        begin = self.place(position)
        end = begin + size
        found = asked.sequences_between(begin, end, count)
        assert found == self.twin.on(wanted, begin, end)[:count]
        # The sequences that single steps find.
        walked: list[int] = []
        at = asked.next(begin)
        while at and at < end and len(walked) < count:
            walked.append(at)
            at = asked.next(at + 1)
        assert found == walked

    def compare(self, wanted: list[bytes], asked: SubjectFilter, place: int) -> None:
        twin = self.twin
        ahead, behind = twin.on(wanted, place), twin.on(wanted, 0, place + 1)
        lasts = twin.last_of_each(wanted, twin.last)
        names, counts = self.index.subjects.names, self.index.subjects.counts
        assert asked.next(place) == min(ahead, default=0)
        assert asked.last(place) == max(behind, default=0)
        assert asked.last_of_each(place) == twin.last_of_each(wanted, place)
        assert asked.pending(place) == len(ahead)
        assert asked.pending_subjects(place) == sum(last >= place for last in lasts)
        assert asked.count(place, place + 9) == len(twin.on(wanted, place, place + 9))
        assert asked.sequences(place) == twin.on(wanted, 0, place)
        assert asked.subject_count() == len(lasts)
        found = sorted(names[sid] for sid in asked.ids() if counts[sid])
        assert found == sorted(twin.messages[last][0] for last in lasts)

    @rule(age_ns=st.integers(-2, 12), count=counts)
    def ask_by_age(self, age_ns: int, count: int) -> None:
        time_ns = self.time_ns - age_ns
        expected = self.twin.stored_before(time_ns)
        assert self.index.stored_before(time_ns) == expected
        assert self.index.stored_before(time_ns, count) == expected[:count]

    @rule(wanted=pattern_lists, position=positions, count=counts)
    def gather_lasts(self, wanted: list[bytes], position: float, count: int) -> None:
        place, asked = self.place(position), SubjectFilter(self.index, wanted)
        expected = self.twin.last_of_each(wanted, place)
        assert (
            at_once(index_walks.gathering_last_per_subject(self.index, asked, place, 2**62))
            == expected
        )
        found = at_once(index_walks.gathering_last_per_subject(self.index, asked, place, count + 1))
        assert found == expected[: count + 1]

    @rule(limit=st.integers(0, 3))
    def gather_excess(self, limit: int) -> None:
        expected = []
        for subject in self.index.subjects.ids:
            on = [at for at, (name, _) in self.twin.messages.items() if name == subject]
            expected += on[: max(len(on) - limit, 0)]
        found = at_once(index_walks.gathering_excess(self.index, limit))
        assert found == sorted(expected)

    @rule(count=st.integers(0, 20), size=st.integers(-1, 20))
    def gather_oldest(self, count: int, size: int) -> None:
        # Each message counts one byte.
        expected = [*self.twin.messages][: max(count, size)]
        assert at_once(index_walks.gathering_oldest(self.index, count, size)) == expected

    @rule(subject=subjects, position=positions)
    def ask_one(self, subject: bytes, position: float) -> None:
        place, table = self.place(position), self.index.subjects
        on = [at for at, (name, _) in self.twin.messages.items() if name == subject]
        expected = (on[0], on[-1], len(on)) if on else (0, 0, 0)
        assert table.extent(subject) == expected
        if on:
            sid = table.ids[subject]
            ahead = [at for at in on if at >= place]
            behind = [at for at in on if at <= place]
            assert self.index.next_of_subject(sid, place) == min(ahead, default=0)
            assert self.index.last_of_subject(sid, place) == max(behind, default=0)
            assert [*self.index.followed(sid, 0, place)] == [at for at in on if at < place]

    @invariant()
    def cursors_are_right(self) -> None:
        for wanted, held in self.cursors:
            ahead = self.twin.on(wanted, held.sequence)
            assert held.next() == min(ahead, default=0)
            assert held.pending() == len(ahead)

    @invariant()
    def totals_are_right(self) -> None:
        twin, index = self.twin, self.index
        assert index.messages == len(twin.messages)
        assert index.last_sequence == twin.last
        assert index.first_sequence == min(twin.messages, default=twin.last + 1)
        lasts = {subject: sequence for sequence, (subject, _) in twin.messages.items()}
        table = index.subjects
        assert {name: table.lasts[sid] for name, sid in table.ids.items()} == lasts


class SmallLimitsMachine(IndexMachine):
    """The machine with limits that are reached all the time."""

    limits = SmallLimits


TestIndex = IndexMachine.TestCase
TestIndex.settings = settings(max_examples=60, stateful_step_count=50)
TestIndexOfSmallLimits = SmallLimitsMachine.TestCase
TestIndexOfSmallLimits.settings = settings(max_examples=200, stateful_step_count=50)


@given(patterns, subjects)
def test_a_prepared_pattern_matches_what_the_grammar_says(pattern: bytes, subject: bytes) -> None:
    assert bool(SubjectPattern(pattern).match(subject)) == matches(pattern, subject)


@given(
    st.lists(st.lists(subjects, max_size=12), max_size=6), st.data(), st.lists(patterns, max_size=4)
)
def test_the_order_of_subjects_finds_what_matches_and_is_not_gone(
    groups: list[list[bytes]], data: st.DataObject, wanted: list[bytes]
) -> None:
    with SmallLimits():
        table, order = SubjectTable(), SubjectOrder()
        for group in groups:
            for name in group:
                table.counts[table.id_of(name)] = 1
            gone = data.draw(st.sets(st.sampled_from(sorted(table.ids)))) if table.ids else set()
            for name in sorted(gone):
                table.counts[table.ids[name]] = 0
                table.forget_subject(table.ids[name])
            for pattern in wanted:
                found = order.find(SubjectPattern(pattern), table.names, table.counts)
                expected = [sid for name, sid in table.ids.items() if matches(pattern, name)]
                assert sorted(found) == sorted(expected)
