"""A rewritten journal holds the same facts in fewer entries, whatever is journalled meanwhile."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.store.disk.format import ENTRY_BYTES, HEADER_BYTES, Entry
from headwater.store.disk.journal import (
    CALLER_KINDS,
    DELETED,
    LOST,
    TRUNCATED,
    TRUNCATING,
    decode_ranges,
    encode_ranges,
    read_entries,
)
from headwater.store.disk.layout import JOURNAL_FILE, JOURNAL_NEW_FILE, STREAM_FILE
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import Batch, StoreError
from headwater.store.recovery.opening import create_log, open_log
from headwater.store.upkeep.journal_rewriting import JournalRewriting, shortened
from headwater.testing.disk import Mode, PowerLost, SimDisk, crash_points
from headwater.testing.disk_faults import Moment
from headwater.testing.entropy import SeededEntropy

FOLDER = "/stream"
PATH = f"{FOLDER}/{JOURNAL_FILE}"
NEW_PATH = f"{FOLDER}/{JOURNAL_NEW_FILE}"
SEQUENCE_MAX = 40

ranges = st.tuples(st.integers(1, SEQUENCE_MAX), st.integers(0, 6)).map(
    lambda pair: (pair[0], min(pair[0] + pair[1], SEQUENCE_MAX))
)
own = st.tuples(
    st.sampled_from([DELETED, DELETED, DELETED, LOST, TRUNCATING, TRUNCATED]),
    st.lists(ranges, max_size=4).map(encode_ranges),
)
callers = st.tuples(st.sampled_from([CALLER_KINDS, 301]), st.binary(max_size=4))


def facts_of(entries: list[Entry]) -> tuple[set[int], set[int], list[tuple[int, bytes]]]:
    """The deleted sequences, the lost ones, and the entries of callers."""
    gone: dict[int, set[int]] = {DELETED: set(), LOST: set()}
    written = []
    for entry in entries:
        if entry.kind >= CALLER_KINDS:
            written.append((entry.kind, entry.body))
            continue
        named = {
            sequence
            for first, last in decode_ranges(entry.body)
            for sequence in range(first, last + 1)
        }
        if entry.kind in gone:
            gone[entry.kind] |= named
        else:
            gone[DELETED] -= named
            gone[LOST] -= named
    return gone[DELETED], gone[LOST], written


def read_back(parts: list[bytes]) -> list[Entry]:
    data = bytes(HEADER_BYTES) + b"".join(parts)
    found = read_entries(data)
    assert found.end == len(data)
    return found.entries


@given(st.lists(st.one_of(own, callers), max_size=20))
def test_the_same_is_said(written: list[tuple[int, bytes]]) -> None:
    entries = [Entry(at, kind, body, 0) for at, (kind, body) in enumerate(written)]
    again = read_back(list(shortened(entries, last_sequence=7)))
    assert facts_of(again) == facts_of(entries)
    assert all(entry.position <= 7 for entry in again)
    positions = [min(entry.position, 7) for entry in entries if entry.kind >= CALLER_KINDS]
    assert [entry.position for entry in again if entry.kind >= CALLER_KINDS] == positions


@given(st.lists(st.one_of(own, callers), max_size=20), st.lists(callers, max_size=4))
def test_what_is_still_true_takes_the_place_of_what_callers_wrote(
    written: list[tuple[int, bytes]], true: list[tuple[int, bytes]]
) -> None:
    entries = [Entry(at, kind, body, 0) for at, (kind, body) in enumerate(written)]
    again = read_back(list(shortened(entries, 7, true)))
    assert facts_of(again) == (*facts_of(entries)[:2], true)
    assert all(entry.position == 7 for entry in again)


def test_deletions_one_after_the_other_become_one() -> None:
    entries = [Entry(900, DELETED, encode_ranges([(at, at)]), 0) for at in range(1, 1001)]
    (only,) = read_back(list(shortened(entries, 1000)))
    assert decode_ranges(only.body) == [(1, 1000)]


# --- in a log -----------------------------------------------------------------------------------


def append(log: FileLog, count: int) -> None:
    numbers = range(log.last_sequence + 1, log.last_sequence + 1 + count)
    payloads = [b"message %d" % number for number in numbers]
    log.append(Batch([b"s"] * count, [b""] * count, payloads, [*numbers]))


def used() -> tuple[SimDisk, FileLog]:
    disk = SimDisk()
    log = create_log(disk, FOLDER, SeededEntropy(Random(1)))
    append(log, 100)
    log.write_entries([(CALLER_KINDS, b"first")])
    for sequence in range(1, 60):
        log.delete([sequence])
    log.write_entries([(CALLER_KINDS, b"second")])
    return disk, log


def reopened(disk: SimDisk, machine_fell: bool = False) -> FileLog:
    return open_log(disk, FOLDER, SeededEntropy(Random(2)), machine_fell=machine_fell)


def sequences_of(log: FileLog) -> list[int]:
    return log.read(0, 10_000, 2**62).sequences


def bodies_of(log: FileLog) -> list[bytes]:
    return [entry.body for entry in log.entries]


def test_what_is_journalled_meanwhile_is_in_it() -> None:
    disk, log = used()
    before = log.journal.size
    work = log.begin_journal_rewrite()
    log.delete([70])
    work.run()
    log.delete([71, 72])
    append(log, 3)
    log.write_entries([(CALLER_KINDS, b"third")])
    assert log.journal_rewrites.finish(work)
    log.delete([80])
    assert log.journal.size < before / 4
    expected = sequences_of(log)
    disk.kill()
    again = reopened(disk)
    assert again.findings.reported == []
    assert sequences_of(again) == expected
    assert bodies_of(again) == [b"first", b"second", b"third"]
    assert NEW_PATH not in disk.dump()


def test_the_checkpoint_is_used_with_the_journal_before_and_after() -> None:
    disk, log = used()
    log.checkpoints.write_now()
    log.delete([90])
    work = log.begin_journal_rewrite()
    work.run()
    assert log.journal_rewrites.finish(work)
    log.delete([91])
    expected = sequences_of(log)
    disk.kill()
    again = reopened(disk)
    assert again.checkpoints.last_sequence == 100
    assert again.findings.reported == []
    assert sequences_of(again) == expected
    # A checkpoint of the new journal does not name bytes of the old one either.
    again.checkpoints.write_now()
    again.delete([92])
    disk.kill()
    once_more = reopened(disk)
    assert once_more.checkpoints.last_sequence == 100
    assert sequences_of(once_more) == sorted({*expected} - {92})


def test_one_begun_before_another_was_put_in_place_is_given_up() -> None:
    disk, log = used()
    work = log.begin_journal_rewrite()
    work.run()
    log.journal_rewrites.start_over([(CALLER_KINDS, b"only")], log.lost)
    assert not log.journal_rewrites.finish(work)
    assert NEW_PATH not in disk.dump()
    disk.kill()
    assert bodies_of(reopened(disk)) == [b"only"]


def test_a_damaged_journal_is_left_for_recovery() -> None:
    disk, log = used()
    disk.flip_bit(PATH, HEADER_BYTES + 30, 1)
    before = disk.dump()[PATH]
    work = log.begin_journal_rewrite()
    with pytest.raises(StoreError, match="damaged"):
        work.run()
    log.journal_rewrites.abandon(work)
    assert disk.dump()[PATH] == before
    assert NEW_PATH not in disk.dump()
    assert log.offline == ""


@pytest.mark.parametrize("by_callers", [True, False])
def test_entries_on_the_disk_do_not_speak_of_messages_that_are_not(by_callers: bool) -> None:
    """Else a power loss that takes the messages takes their entries too, even long synced ones."""
    disk, log = used()
    log.sync()
    append(log, 5)
    log.write_entries([(CALLER_KINDS, b"third")])
    if by_callers:
        log.journal_rewrites.start_over(
            [(CALLER_KINDS, body) for body in (b"first", b"second", b"third")], log.lost
        )
    else:
        work = log.begin_journal_rewrite()
        work.run()
        assert log.journal_rewrites.finish(work)
    disk.power_loss("strict")
    again = reopened(disk, machine_fell=True)
    assert bodies_of(again) == [b"first", b"second", b"third"]
    assert again.findings.reported == []


# --- with the help of the caller ------------------------------------------------------------------

COUNTED = CALLER_KINDS
TOTAL = CALLER_KINDS + 1


class Counter:
    """A caller that journals each number, and can say all of them in one."""

    def __init__(self, log: FileLog) -> None:
        self.log = log
        self.count = 0
        log.caller_entries = self.still_true

    def go_on(self, times: int = 1) -> None:
        for _ in range(times):
            self.count += 1
            self.log.write_entries([(COUNTED, b"%d" % self.count)])

    def still_true(self) -> list[tuple[int, bytes]]:
        # The two entries of a snapshot must never be found without each other.
        return [(TOTAL, b"%d" % self.count), (TOTAL, b"end")]


def told_of(log: FileLog) -> list[str]:
    return [("" if e.kind == COUNTED else "all ") + e.body.decode() for e in log.entries]


def rewritten(log: FileLog, meanwhile: int = 0, counter: Counter | None = None) -> None:
    work = log.begin_journal_rewrite()
    if counter is not None:
        counter.go_on(meanwhile)
    work.run()
    if counter is not None:
        counter.go_on(meanwhile)
    assert log.journal_rewrites.finish(work)


def test_what_is_still_true_is_asked_for_at_the_beginning() -> None:
    disk = SimDisk()
    log = create_log(disk, FOLDER, SeededEntropy(Random(1)))
    append(log, 3)
    counter = Counter(log)
    counter.go_on(5)
    rewritten(log, meanwhile=1, counter=counter)
    counter.go_on()
    disk.kill()
    again = reopened(disk)
    assert told_of(again) == ["all 5", "all end", "6", "7", "8"]
    assert again.findings.reported == []


def test_what_is_said_together_with_a_removal_meanwhile_is_in_it() -> None:
    disk = SimDisk()
    log = create_log(disk, FOLDER, SeededEntropy(Random(1)))
    append(log, 5)
    counter = Counter(log)
    log.delete([1], entries=[(COUNTED, b"replaced")])
    counter.go_on()
    work = log.begin_journal_rewrite()
    log.delete([3], entries=[(COUNTED, b"2")])
    work.run()
    assert log.journal_rewrites.finish(work)
    disk.kill()
    again = reopened(disk)
    assert told_of(again) == ["all 1", "all end", "2"]
    assert sequences_of(again) == [2, 4, 5]


def test_nothing_may_be_true_any_more() -> None:
    disk, log = used()
    log.caller_entries = list
    rewritten(log)
    disk.kill()
    again = reopened(disk)
    assert again.entries == []
    assert sequences_of(again) == [*range(60, 101)]


def test_how_much_callers_wrote_is_counted_from_the_last_time_on() -> None:
    disk = SimDisk()
    log = create_log(disk, FOLDER, SeededEntropy(Random(1)))
    append(log, 9)
    one = ENTRY_BYTES + 1
    counter = Counter(log)
    counter.go_on(4)
    log.delete([1, 2])
    assert (log.journal.caller_bytes, log.journal.caller_bytes_rewritten) == (4 * one, 0)
    log.delete([3], entries=[(COUNTED, b"5")])
    log.delete([3], entries=[(COUNTED, b"6")])
    counter.count = 6
    assert log.journal.caller_bytes == 6 * one
    rewritten(log, meanwhile=1, counter=counter)
    anew = 2 * ENTRY_BYTES + len(b"6end")
    assert (log.journal.caller_bytes, log.journal.caller_bytes_rewritten) == (2 * one, anew)
    disk.kill()
    again = reopened(disk)
    # This process does not know which of these entries the last rewriting kept.
    assert (again.journal.caller_bytes, again.journal.caller_bytes_rewritten) == (anew + 2 * one, 0)
    again.journal_rewrites.start_over([(COUNTED, b"8")], again.lost)
    assert (again.journal.caller_bytes, again.journal.caller_bytes_rewritten) == (0, one)
    # The entries are kept as they are if no caller names those to keep.
    rewritten(again)
    assert (again.journal.caller_bytes, again.journal.caller_bytes_rewritten) == (0, one)
    again.write_entries([(COUNTED, b"9")])
    rewritten(again)
    assert (again.journal.caller_bytes, again.journal.caller_bytes_rewritten) == (0, 2 * one)


def count_and_rewrite(disk: SimDisk, promised: list[int]) -> None:
    """Numbers are journalled all the while; `promised` gets those that the disk has for sure."""
    log = create_log(disk, FOLDER, SeededEntropy(Random(1)))
    counter = Counter(log)
    rewriting: JournalRewriting | None = None
    for turn in range(24):
        append(log, 1)
        counter.go_on()
        if turn % 5 == 4:
            log.sync()
            promised.append(counter.count)
        if turn % 3 == 0:
            log.delete([turn - 1], entries=[(COUNTED, b"%d" % (counter.count + 1))])
            counter.count += 1
        if rewriting is None and turn % 4 == 1:
            rewriting = log.begin_journal_rewrite()
        elif rewriting is not None and turn % 4 == 2:
            rewriting.run()
        elif rewriting is not None:
            assert log.journal_rewrites.finish(rewriting)
            promised.append(int(rewriting.caller_entries[0][1] if rewriting.caller_entries else 0))
            rewriting = None


REWRITE_POINTS = crash_points(lambda disk: count_and_rewrite(disk, []))
DEATHS: list[tuple[Moment, Mode | None]] = [
    ("before", "strict"),
    ("during", "random"),
    ("during", "kind"),
    ("during", None),
]


@pytest.mark.parametrize(("moment", "mode"), DEATHS)
def test_a_crash_at_every_operation_leaves_the_old_or_the_new(
    moment: Moment, mode: Mode | None
) -> None:
    assert len(REWRITE_POINTS) > 100
    for number in REWRITE_POINTS:
        disk = SimDisk(seed=number, page_bytes=128)
        disk.crash_at(number, moment)
        promised = [0]
        with pytest.raises(PowerLost):
            count_and_rewrite(disk, promised)
        if mode is None:
            disk.kill()
        else:
            disk.power_loss(mode)
        if f"{FOLDER}/{STREAM_FILE}" not in disk.dump():
            continue
        told = told_of(reopened(disk, machine_fell=mode is not None))
        first = 1
        if told and told[0].startswith("all"):
            first = int(told[0].removeprefix("all ")) + 1
            assert told[1] == "all end"
            del told[:2]
        numbers = [*map(int, told)]
        assert numbers == [*range(first, first + len(numbers))], "no hole, and none twice"
        assert first + len(numbers) - 1 >= max(promised)
