"""A caller's entry that is journalled with a removal is there together with it after any crash.

The caller here acknowledges messages: each is removed, and the entry names it. So after any crash
the messages that are not there are those that the entries name: neither one removed without being
acknowledged, nor one acknowledged and still there. The journal is rewritten meanwhile, and the
caller replaces its entries by a snapshot.
"""

from random import Random

import pytest

from headwater.base.errors import ProgrammerError
from headwater.store.disk.format import ENTRY_BYTES, GROUP, HEADER_BYTES, Entry, decode_group
from headwater.store.disk.journal import CALLER_KINDS, DELETED, encode_ranges, read_entries
from headwater.store.disk.layout import JOURNAL_FILE, STREAM_FILE
from headwater.store.log.file_log import FileLog
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch, MessageLog
from headwater.store.recovery.opening import create_log, open_log
from headwater.testing.disk import Leftovers, Mode, PowerLost, SimDisk, crash_points
from headwater.testing.disk_faults import Moment
from headwater.testing.entropy import SeededEntropy

FOLDER = "/stream"
PATH = f"{FOLDER}/{JOURNAL_FILE}"
SEGMENT_BYTES_MAX = 400
# Pages are small, so that the journal has several.
PAGE_BYTES = 128

ACKNOWLEDGED = CALLER_KINDS
SNAPSHOT = CALLER_KINDS + 1


def append(log: MessageLog, count: int) -> None:
    numbers = range(log.last_sequence + 1, log.last_sequence + 1 + count)
    payloads = [b"message %d" % number for number in numbers]
    log.append(Batch([b"s"] * count, [b""] * count, payloads, [*numbers]))


def encoded(sequences: list[int]) -> bytes:
    return b" ".join(b"%d" % sequence for sequence in sequences)


def acknowledge(log: MessageLog, sequences: list[int]) -> int:
    return log.delete(sequences, entries=[(ACKNOWLEDGED, encoded(sequences))])


def acknowledged(entries: list[Entry]) -> set[int]:
    """All sequences that the entries name; a snapshot replaces the entries before it."""
    found: set[int] = set()
    for entry in entries:
        if entry.kind == SNAPSHOT:
            found.clear()
        found.update(map(int, entry.body.split()))
    return found


def gone_from(log: FileLog) -> set[int]:
    there = set(log.read(0, 10_000, 2**62).sequences)
    return {at for at in range(1, log.last_sequence + 1) if at not in there and at not in log.lost}


def check_agreement(log: FileLog) -> None:
    named = acknowledged(log.entries)
    assert gone_from(log) == {at for at in named if at not in log.lost}
    assert not named & set(log.read(0, 10_000, 2**62).sequences)


def created(disk: SimDisk) -> FileLog:
    return create_log(disk, FOLDER, SeededEntropy(Random(1)), segment_bytes_max=SEGMENT_BYTES_MAX)


def reopened(disk: SimDisk, machine_fell: bool = False) -> FileLog:
    return open_log(
        disk,
        FOLDER,
        SeededEntropy(Random(2)),
        machine_fell=machine_fell,
        segment_bytes_max=SEGMENT_BYTES_MAX,
    )


# --- written entries ----------------------------------------------------------------------------


def test_a_removal_and_its_entries_are_one_write_and_one_entry() -> None:
    disk = SimDisk()
    log = created(disk)
    append(log, 5)
    writes, size = disk.counts(PATH).writes, log.journal.size
    assert log.delete([2, 3], entries=[(300, b"a"), (301, b"")]) == 2
    assert disk.counts(PATH).writes == writes + 1
    found = read_entries(disk.dump()[PATH])
    told = [(entry.position, entry.kind, entry.body) for entry in found.entries]
    assert told == [(5, DELETED, encode_ranges([(2, 3)])), (5, 300, b"a"), (5, 301, b"")]
    assert found.offsets == [size] * 3
    assert sum(entry.length for entry in found.entries) == log.journal.size - HEADER_BYTES
    assert [entry.is_joint for entry in found.entries] == [True, False, False]


def test_a_purge_and_its_entries_too() -> None:
    disk = SimDisk()
    log = created(disk)
    append(log, 3)
    assert log.purge(b"s", keep=1, entries=[(300, b"purged")]) == 2
    disk.kill()
    again = reopened(disk)
    assert gone_from(again) == {1, 2}
    assert [(entry.kind, entry.body) for entry in again.entries] == [(300, b"purged")]


@pytest.mark.parametrize("sequences", [[], [9], [1]])
def test_entries_are_written_also_if_nothing_is_there_to_remove(sequences: list[int]) -> None:
    disk = SimDisk()
    log = created(disk)
    append(log, 3)
    log.delete([1])
    assert log.delete(sequences, entries=[(300, b"kept")]) == 0
    disk.kill()
    again = reopened(disk)
    assert [entry.body for entry in again.entries] == [b"kept"]
    assert gone_from(again) == {1}


def test_nothing_is_written_where_there_is_nothing_to_write() -> None:
    log = created(SimDisk())
    before = log.journal.size
    log.write_entries([])
    assert log.delete([], entries=[]) == 0
    assert log.journal.size == before


def test_kinds_of_the_store_are_not_for_callers() -> None:
    log = created(SimDisk())
    append(log, 2)
    with pytest.raises(ProgrammerError, match="own"):
        log.write_entries([(DELETED, b"")])
    with pytest.raises(ProgrammerError, match="own"):
        log.delete([1], entries=[(GROUP, b"")])
    assert log.messages == 2


def test_a_log_in_memory_keeps_no_entries() -> None:
    log = MemoryLog()
    append(log, 3)
    log.write_entries([(300, b"a")])
    assert acknowledge(log, [1, 2]) == 2
    assert log.purge(entries=[(300, b"b")]) == 1
    assert log.entries == []


def test_bytes_of_a_caller_that_look_like_a_group_are_its_own() -> None:
    disk = SimDisk()
    log = created(disk)
    append(log, 3)
    planted = disk.dump()[PATH][HEADER_BYTES:] + encode_ranges([(3, 3)])
    log.delete([1], entries=[(300, planted), (301, planted)])
    disk.kill()
    again = reopened(disk)
    assert [entry.body for entry in again.entries] == [planted, planted]
    assert gone_from(again) == {1}


def test_a_group_that_ends_early_has_the_parts_that_it_has() -> None:
    whole = Entry(1, GROUP, b"", ENTRY_BYTES)
    assert decode_group(whole) == []


# --- crashes ------------------------------------------------------------------------------------


def test_torn_at_every_byte() -> None:
    disk = SimDisk()
    log = created(disk)
    append(log, 6)
    acknowledge(log, [1])
    begin = log.journal.size
    acknowledge(log, [2, 4])
    log.write_entries([(ACKNOWLEDGED, b""), (ACKNOWLEDGED, b"")])
    end = log.journal.size
    disk.kill()
    for size in range(begin, end):
        torn = disk.clone()
        file = torn.open(PATH)
        file.truncate(size)
        file.close()
        again = reopened(torn)
        check_agreement(again)
        assert gone_from(again) in ({1}, {1, 2, 4})
        assert len(again.entries) in (1, 2), "of two written together none is alone"


@pytest.mark.parametrize("bit", [0, 7])
def test_damage_costs_all_of_it(bit: int) -> None:
    disk = SimDisk()
    log = created(disk)
    append(log, 6)
    begin = log.journal.size
    acknowledge(log, [2, 4])
    end = log.journal.size
    disk.kill()
    for offset in range(begin, end):
        damaged = disk.clone()
        damaged.flip_bit(PATH, offset, bit)
        again = reopened(damaged)
        check_agreement(again)
        assert gone_from(again) == set()


def test_behind_damage_a_removal_stands_alone_but_not_after_a_power_loss() -> None:
    """Damage must not bring back deleted messages; entries torn by a power loss may be lost."""
    disk = SimDisk()
    log = created(disk)
    append(log, 6)
    begin = log.journal.size
    acknowledge(log, [2])
    acknowledge(log, [4])
    disk.kill()
    disk.flip_bit(PATH, begin + ENTRY_BYTES, 1)
    rotten = reopened(disk.clone())
    assert gone_from(rotten) == {4}
    assert rotten.entries == []
    fallen = reopened(disk.clone(), machine_fell=True)
    assert gone_from(fallen) == set()
    assert fallen.entries == []


def work(disk: SimDisk, erases: bool = False) -> None:
    """A queue from which messages go as they are acknowledged, out of order at times."""
    rng = Random(3)
    log = created(disk)
    done: list[int] = []
    log.caller_entries = lambda: [(SNAPSHOT, encoded(done)), (ACKNOWLEDGED, b"")]
    rewriting = None
    for turn in range(24):
        append(log, rng.randint(1, 4))
        waiting = log.read(0, 6, 2**62).sequences
        chosen = sorted(rng.sample(waiting, rng.randint(1, len(waiting))))
        done += chosen
        log.delete(
            chosen, erase=erases and turn % 4 == 1, entries=[(ACKNOWLEDGED, encoded(chosen))]
        )
        if turn % 5 == 4:
            log.sync()
        if turn % 9 == 8:
            log.checkpoints.write_now()
        if turn % 3 == 2:
            compact(log)
        if rewriting is not None:
            rewriting.run()
            assert log.journal_rewrites.finish(rewriting)
            rewriting = None
        elif turn % 4 == 1:
            rewriting = log.begin_journal_rewrite()


def compact(log: FileLog) -> None:
    for index in log.index.segments[:-1]:
        if index.dead_bytes:
            compaction = log.compactions.begin(index.first_sequence)
            compaction.run()
            assert log.compactions.finish(compaction)


def check_survivor(disk: SimDisk, machine_fell: bool) -> None:
    log = reopened(disk, machine_fell)
    check_agreement(log)
    # The log goes on from there, with its entries and nothing else.
    append(log, 2)
    acknowledge(log, [log.last_sequence])
    before = acknowledged(log.entries) | {log.last_sequence}
    disk.kill()
    again = reopened(disk)
    assert acknowledged(again.entries) == before
    check_agreement(again)


POINTS = crash_points(work)
POINTS_ERASING = crash_points(lambda disk: work(disk, erases=True))
DEATHS: list[tuple[Moment, Mode | None]] = [
    ("before", "strict"),
    ("during", "random"),
    ("during", "kind"),
    ("during", None),
]
LEFTOVERS: tuple[Leftovers, ...] = ("zeros", "noise", "stale")


def test_the_work_is_enough_to_mean_something() -> None:
    assert len(POINTS_ERASING) > len(POINTS) > 200


def crash(number: int, moment: Moment, mode: Mode | None, erases: bool) -> None:
    """The power goes, and the disk keeps what `mode` says; or the process dies."""
    leftovers = LEFTOVERS[number % len(LEFTOVERS)]
    disk = SimDisk(seed=number, page_bytes=PAGE_BYTES, leftovers=leftovers)
    disk.crash_at(number, moment)
    with pytest.raises(PowerLost):
        work(disk, erases)
    if mode is None:
        disk.kill()
    else:
        disk.power_loss(mode)
    # The first few operations make the log.
    if f"{FOLDER}/{STREAM_FILE}" in disk.dump():
        check_survivor(disk, machine_fell=mode is not None)


@pytest.mark.parametrize(("moment", "mode"), DEATHS)
def test_a_crash_at_every_operation_leaves_both_or_none(moment: Moment, mode: Mode | None) -> None:
    for number in POINTS:
        crash(number, moment, mode, erases=False)


@pytest.mark.parametrize("mode", ["strict", None])
def test_a_crash_between_removing_and_erasing_leaves_both_or_none(mode: Mode | None) -> None:
    """No crash is in the middle of an overwritten record: that would damage the old record."""
    for number in POINTS_ERASING:
        crash(number, "before", mode, erases=True)
