"""Long work on a log is done in slices, with the result of work that is done at once.

Work is counted, not timed: a step says how much it did.
"""

from collections.abc import Sequence
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.sliced import Work, at_once
from headwater.store.disk.journal import CALLER_KINDS
from headwater.store.index import sorted_page, subject_filter
from headwater.store.index.log_index import IDS_UNUSED_MIN
from headwater.store.index.subject_filter import PATTERNS_ONE_BY_ONE_MAX
from headwater.store.index.subject_order import PatternTree, SubjectPattern
from headwater.store.log import emptied_segments, file_log
from headwater.store.log.file_log import FileLog
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import LOOKED_AT_ONCE_MAX, PURGED_AT_A_TIME, Batch, MessageLog
from headwater.store.recovery.opening import create_log, open_log
from headwater.subjects.grammar import matches
from headwater.testing.disk import PowerLost, SimDisk
from headwater.testing.entropy import SeededEntropy

FOLDER = "/stream"
# More than one step does, whatever the step.
STEP_UNITS_MAX = 16 * 1024


def store(log: MessageLog, subjects: Sequence[bytes]) -> None:
    count = len(subjects)
    log.append(Batch(list(subjects), [b""] * count, [b""] * count, [1] * count))


def log_of(subjects: Sequence[bytes]) -> MemoryLog:
    log = MemoryLog()
    store(log, subjects)
    return log


def steps_of(work: Work[object]) -> list[int]:
    """The units that each step of some work did."""
    return list(work)


MANY = [b"s.%d.%c" % (number, b"ab"[number % 2]) for number in range(LOOKED_AT_ONCE_MAX + 1)]


# --- matching subjects --------------------------------------------------------------------------


TOKENS = st.sampled_from([b"a", b"b", b"*", b">", b"*a", b""])
SUBJECTS = st.lists(TOKENS, min_size=1, max_size=4).map(b".".join)


@given(st.lists(SUBJECTS, max_size=6), SUBJECTS)
def test_many_patterns_together_match_what_one_of_them_matches(
    patterns: list[bytes], name: bytes
) -> None:
    assert PatternTree(patterns).match(name) == any(matches(each, name) for each in patterns)


@pytest.mark.parametrize("count", [1, 1000])
def test_a_pattern_gives_the_same_answer_for_few_names_and_for_many(count: int) -> None:
    test = SubjectPattern(b"a.*.>").test_for(count)
    assert [bool(test(name)) for name in (b"a.b", b"a.b.c", b"b.b.c")] == [False, True, False]


def test_few_subjects_are_compared_at_once() -> None:
    log = log_of(MANY[:LOOKED_AT_ONCE_MAX])
    subjects = log.index.subjects
    subjects.order.absorb(LOOKED_AT_ONCE_MAX, subjects.names, subjects.counts)
    assert steps_of(log.preparing((b"s.7.*",))) == []
    assert steps_of(log.preparing((b">",))) == []
    assert steps_of(log.preparing((b"s.7.a", b"s.8.b"))) == []


def test_many_subjects_are_compared_some_at_a_time() -> None:
    log = log_of(MANY)
    steps = steps_of(log.preparing((b"s.*.a",)))
    assert sum(steps) == len(MANY)
    assert max(steps) <= STEP_UNITS_MAX
    # The matching subjects are known then.
    assert steps_of(log.preparing((b"s.*.a",))) == []
    assert log.filter((b"s.*.a",)).subject_count() == (len(MANY) + 1) // 2


def test_many_patterns_are_compared_some_at_a_time_though_subjects_are_few() -> None:
    patterns = [b"*.%d.a" % number for number in range(40)]
    log = log_of(MANY[: LOOKED_AT_ONCE_MAX // 16])
    steps = steps_of(log.preparing(patterns))
    assert len(steps) > 1
    assert steps_of(log.preparing(patterns)) == []


def test_what_matches_is_the_same_whatever_comes_and_goes_meanwhile() -> None:
    log = log_of(MANY)
    work = log.preparing((b"s.*.a",))
    for number, _ in enumerate(work):
        if number == 3:
            log.delete(range(1, 101))
            store(log, [b"t.1.a", b"s.new.a"])
    found = log.subject_counts(b"s.*.a")
    assert found == log_of([*MANY[100:], b"s.new.a"]).subject_counts(b"s.*.a")


def test_ids_that_are_given_out_anew_meanwhile_are_looked_at_again() -> None:
    log = MemoryLog()
    for begin in range(0, 2 * IDS_UNUSED_MIN, 8192):
        store(log, [b"old.%d" % number for number in range(begin, begin + 8192)])
    store(log, [b"new.a", b"new.b"])
    work = log.preparing((b"*.a",))
    next(work)
    log.delete(range(1, 2 * IDS_UNUSED_MIN + 1))
    log.index.renumber()
    at_once(work)
    assert log.subject_counts(b"*.a") == {b"new.a": 1}


def test_very_many_patterns_cost_no_more_than_some() -> None:
    log = log_of(MANY)
    patterns = [b"s.*.%d" % number for number in range(10 * PATTERNS_ONE_BY_ONE_MAX)]
    steps = steps_of(log.preparing((*patterns, b"*.77.*")))
    assert sum(steps) == len(MANY) * subject_filter.TREE_COST
    assert max(steps) <= STEP_UNITS_MAX
    assert log.filter((*patterns, b"*.77.*")).sequences(1 << 62) == [78]


def test_messages_are_counted_some_at_a_time() -> None:
    log = log_of(MANY)
    store(log, MANY)
    store(log, MANY)
    steps = steps_of(log.counting((b"s.*.a",), 1))
    assert max(steps) <= STEP_UNITS_MAX
    before = sum(segment.examined for segment in log.index.segments)
    assert log.pending((b"s.*.a",), 0) == 3 * ((len(MANY) + 1) // 2)
    assert sum(segment.examined for segment in log.index.segments) == before


# --- pages --------------------------------------------------------------------------------------


@given(
    st.lists(st.binary(max_size=3), unique=True, max_size=60),
    st.integers(0, 70),
    st.integers(1, 70),
)
def test_a_page_is_a_part_of_all_names_in_order(
    names: list[bytes], offset: int, count_max: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_page, "HEAP_NAMES", 8)
        patch.setattr(sorted_page, "SAMPLED_PER_HEAP", 2)
        patch.setattr(sorted_page, "PARTED_AT_A_TIME", 4)
        page = at_once(sorted_page.sorted_page(names, offset, count_max))
    assert page == sorted(names)[offset : offset + count_max]


def test_a_page_is_found_in_small_steps() -> None:
    names = [b"%d" % (number * 7919 % 100_003) for number in range(100_000)]
    assert max(steps_of(sorted_page.sorted_page(names, 0, 50_000))) <= STEP_UNITS_MAX


def test_sequences_without_messages_are_those_of_the_gaps() -> None:
    log = MemoryLog(segment_messages_max=10)
    for _ in range(5):
        store(log, [b"s"] * 10)
    log.delete([1, 2, 5, *range(9, 32), 40, 50])
    expected = [at for first, last in log.index.gaps() for at in range(first, last + 1)]
    assert at_once(log.index.missing(1000)) == expected
    assert at_once(log.index.missing(7)) == expected[:7]
    log.delete(range(1, 51))
    assert at_once(log.index.missing(1000)) == []


# --- purges -------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", [b">", b"s.*.a", b"s.7.>", b"s.7.b"])
@pytest.mark.parametrize("keep", [0, 3])
def test_a_purge_finds_its_messages_some_at_a_time(pattern: bytes, keep: int) -> None:
    log = log_of(MANY)
    store(log, [b"s.7.b"] * (2 * PURGED_AT_A_TIME))
    steps = steps_of(log.gathering_purgeable(pattern, 0, keep))
    assert max(steps) <= STEP_UNITS_MAX
    names = [*MANY, *[b"s.7.b"] * (2 * PURGED_AT_A_TIME)]
    all_of_them = [at for at, name in enumerate(names, 1) if matches(pattern, name)]
    found = at_once(log.gathering_purgeable(pattern, 0, keep))
    assert found == all_of_them[: len(all_of_them) - keep]


def created(disk: SimDisk) -> FileLog:
    return create_log(disk, FOLDER, SeededEntropy(Random(1)))


def file_log_of(disk: SimDisk, count: int) -> FileLog:
    log = created(disk)
    store(log, [b"s.%d" % number for number in range(count)])
    log.sync()
    return log


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_messages_are_taken_out_some_at_a_time(kind: str) -> None:
    names = [b"s.%d" % number for number in range(3 * PURGED_AT_A_TIME)]
    log: MessageLog = MemoryLog() if kind == "memory" else created(SimDisk())
    store(log, names)
    steps = steps_of(log.deleting([*range(1, 3 * PURGED_AT_A_TIME, 2)]))
    assert max(steps) <= STEP_UNITS_MAX
    assert len(steps) > 1
    left = [name for at, name in enumerate(names, 1) if at % 2 == 0]
    assert [*log.subject_counts()] == left
    assert log.first_sequence == 2


def test_a_crash_leaves_all_of_the_messages_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_log, "PURGED_AT_A_TIME", 2)
    outcomes = set()
    number_of_steps = 1 + len(steps_of(file_log_of(SimDisk(), 9).deleting([*range(2, 9)])))
    for taken in range(number_of_steps + 1):
        disk = SimDisk()
        log = file_log_of(disk, 9)
        work = log.deleting([*range(2, 9)], [(CALLER_KINDS, b"told")])
        for _ in range(taken):
            next(work, None)
        disk.kill()
        again = open_log(disk, FOLDER, SeededEntropy(Random(2)))
        told = [entry.body for entry in again.entries]
        outcomes.add((again.messages, *told))
    assert outcomes == {(9,), (2, b"told")}


def test_no_checkpoint_tells_of_half_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_log, "PURGED_AT_A_TIME", 2)
    disk = SimDisk()
    log = file_log_of(disk, 9)
    work = log.deleting([*range(2, 9)])
    while log.messages == 9:
        next(work)
    assert log.is_deleting
    # A server that ends in the middle of the work closes the log.
    log.close()
    assert open_log(disk, FOLDER, SeededEntropy(Random(2))).messages == 2


def test_nothing_is_deleting_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_log, "PURGED_AT_A_TIME", 2)
    log = file_log_of(SimDisk(), 9)
    at_once(log.deleting([*range(2, 9)]))
    assert not log.is_deleting
    log.close()


# --- everything goes ----------------------------------------------------------------------------


@pytest.fixture
def small_segments_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emptied_segments, "EMPTIED_BYTES_MIN", 1)
    monkeypatch.setattr(file_log, "PURGED_AT_A_TIME", 2)


@pytest.mark.usefixtures("small_segments_go")
def test_an_emptied_segment_goes_without_a_footer() -> None:
    disk = SimDisk()
    log = file_log_of(disk, 9)
    (before,) = [path for path in disk.files() if "segment-" in path]
    disk.fail("write", before)
    at_once(log.deleting([*range(1, 10)]))
    (after,) = [path for path in disk.files() if "segment-" in path]
    assert after != before
    store(log, [b"s.next"])
    assert (log.first_sequence, log.last_sequence) == (10, 10)


@pytest.mark.usefixtures("small_segments_go")
@pytest.mark.parametrize("is_power_lost", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_crash_while_everything_goes_leaves_all_or_nothing_and_says_of_nothing_that_it_is_lost(
    seed: int, is_power_lost: bool
) -> None:
    outcomes = set()
    for crash in count():
        disk = SimDisk(seed)
        log = file_log_of(disk, 9)
        disk.crash_at(disk.operations + crash)
        try:
            at_once(log.deleting([*range(1, 10)]))
            # The deletion needs fewer operations than that.
            break
        except PowerLost:
            pass
        if is_power_lost:
            disk.power_loss()
        else:
            disk.kill()
        entropy = SeededEntropy(Random(2))
        again = open_log(disk, FOLDER, entropy, is_power_lost, machine_fell=is_power_lost)
        outcomes.add(again.messages)
        assert not again.lost.within(1, 9)
        store(again, [b"s.next"])
        assert again.last_sequence > 9
    assert outcomes == {0, 9}
