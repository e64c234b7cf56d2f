"""A log that queues its journal removes messages without a write, and writes once in a turn."""

from collections.abc import Callable
from errno import ENOSPC

import pytest

from headwater.store.disk.room import Room
from headwater.store.errors import DiskFullError
from headwater.store.log.file_log import FileLog
from headwater.testing.disk import PowerLost, SimDisk, crash_points
from tests.kit.logs import FOLDER, add_messages, log_after_kill, new_log, sequences_in

JOURNAL = f"{FOLDER}/journal.hw"


def queueing(disk: SimDisk, messages: int = 5) -> FileLog:
    log = new_log(disk, messages)
    log.sync()
    log.queue_journal()
    return log


def bodies_in(log: FileLog) -> list[bytes]:
    return [entry.body for entry in log.entries]


def test_removals_need_no_write_and_one_write_journals_all_of_them() -> None:
    disk = SimDisk()
    log = queueing(disk)
    before = disk.operations
    log.delete([1], entries=[(300, b"a")])
    log.delete([3, 4])
    log.write_entries([(300, b"b")])
    assert disk.operations == before
    assert sequences_in(log) == [2, 5]
    log.write_journal()
    assert disk.operations == before + 1
    log.write_journal()
    assert disk.operations == before + 1
    log = log_after_kill(disk)
    assert sequences_in(log) == [2, 5]
    assert bodies_in(log) == [b"a", b"b"]


def test_a_crash_amid_the_write_leaves_all_of_the_queue_or_nothing() -> None:
    for kept in range(200):
        disk = SimDisk()
        log = queueing(disk)
        log.delete([1], entries=[(300, b"a")])
        log.delete([3, 4])
        log.write_entries([(300, b"b")])
        disk.crash_at(disk.operations, "during", kept_size=kept)
        with pytest.raises(PowerLost):
            log.write_journal()
        log = log_after_kill(disk)
        found = (sequences_in(log), bodies_in(log))
        assert found in (([1, 2, 3, 4, 5], []), ([2, 5], [b"a", b"b"]))


@pytest.mark.parametrize("count", [3, 70_000])
def test_a_skip_is_one_change_with_the_removals_that_are_queued(count: int) -> None:
    whole, before = ([5], 5 + count), ([1, 2, 3, 4, 5], 5)

    def skip_after_removal(disk: SimDisk) -> None:
        log = queueing(disk)
        log.delete([1, 2, 3, 4], entries=[(300, b"a")])
        log.skip(count, timestamp_ns=9, with_queue=True)

    trial = SimDisk()
    queueing(trial)
    for number in range(trial.operations, crash_points(skip_after_removal).stop):
        disk = SimDisk()
        disk.crash_at(number, "during", kept_size=1 << 10 if number % 2 else 9)
        with pytest.raises(PowerLost):
            skip_after_removal(disk)
        log = log_after_kill(disk)
        assert (sequences_in(log), log.last_sequence) in (before, whole)
        assert not log.lost
        add_messages(log, 1)
        last = log.last_sequence
        log = log_after_kill(disk)
        assert sequences_in(log)[-1] == last, "the sequence of a message is not deleted"


def test_a_crash_before_the_write_leaves_the_messages_and_no_entries() -> None:
    disk = SimDisk()
    log = queueing(disk)
    log.delete([1], entries=[(300, b"a")])
    log = log_after_kill(disk)
    assert sequences_in(log) == [1, 2, 3, 4, 5]
    assert bodies_in(log) == []


def test_files_of_emptied_segments_go_after_the_write() -> None:
    disk = SimDisk()
    log = queueing(disk, messages=25)
    files = disk.list_folder(FOLDER)
    emptied = range(1, log.index.segments[1].first_sequence)
    log.delete(emptied)
    assert disk.list_folder(FOLDER) == files
    log.write_journal()
    assert len(disk.list_folder(FOLDER)) == len(files) - 1
    disk.power_loss("strict")
    assert sequences_in(log_after_kill(disk))[0] == emptied[-1] + 1


def test_on_a_full_disk_the_queue_waits_and_the_messages_are_gone() -> None:
    disk = SimDisk()
    log = queueing(disk)
    disk.capacity_bytes = disk.used_bytes
    log.delete([1, 2], entries=[(300, b"a")])
    assert sequences_in(log) == [3, 4, 5]
    with pytest.raises(DiskFullError):
        log.write_journal()
    assert log.is_full
    assert not log.offline
    log.delete([3], entries=[(300, b"b")])
    disk.capacity_bytes = None
    log.write_journal()
    log = log_after_kill(disk)
    assert sequences_in(log) == [4, 5]
    assert bodies_in(log) == [b"a", b"b"]


@pytest.mark.parametrize(
    "step", ["sync", "rewrite_journal_now", "close", "skip", "erase", "checkpoint"]
)
def test_whatever_relies_on_the_journal_writes_the_queue_first(step: str) -> None:
    disk = SimDisk()
    log = queueing(disk)
    log.delete([1], entries=[(300, b"a")])
    if step == "skip":
        log.skip(70_000, timestamp_ns=9)
        add_messages(log, 1)
    elif step == "erase":
        log.delete([2], erase=True)
    elif step == "checkpoint":
        log.checkpoints.write_now()
    else:
        getattr(log, step)()
    log = log_after_kill(disk)
    assert 1 not in sequences_in(log)
    assert bodies_in(log) == [b"a"]
    assert not log.lost


@pytest.mark.parametrize("step", ["erase", "skip"])
def test_a_step_that_needs_its_entry_on_the_disk_changes_nothing_without_room(step: str) -> None:
    disk = SimDisk()
    log = queueing(disk)
    log.delete([1], entries=[(300, b"a")])
    fault = disk.fail("write", JOURNAL, code=ENOSPC, times=None)
    steps: dict[str, Callable[[], object]] = {
        "erase": lambda: log.delete([2], erase=True),
        "skip": lambda: log.skip(70_000, timestamp_ns=9),
    }
    with pytest.raises(DiskFullError):
        steps[step]()
    assert sequences_in(log) == [2, 3, 4, 5]
    disk.heal(fault)
    log.availability.room.look_for_room()
    add_messages(log, 1)
    log.write_journal()
    log = log_after_kill(disk)
    assert sequences_in(log) == [2, 3, 4, 5, 6]
    assert bodies_in(log) == [b"a"]


def test_only_removals_that_are_queued_may_use_the_reserve() -> None:
    disk = SimDisk()
    log = queueing(disk)
    log.share_room(Room(disk, FOLDER, reserve_bytes=10_000))
    assert log.availability.room.look_for_room()
    disk.capacity_bytes = disk.used_bytes
    log.write_entries([(300, b"a")])
    with pytest.raises(DiskFullError):
        log.write_journal()
    log.delete([1])
    log.write_journal()
    log = log_after_kill(disk)
    assert sequences_in(log) == [2, 3, 4, 5]
    assert bodies_in(log) == [b"a"]


def test_a_sync_amid_a_change_of_the_caller_leaves_the_queue_alone() -> None:
    disk = SimDisk()
    log = queueing(disk)
    log.delete([1], entries=[(300, b"a")])
    log.is_held = True
    work = log.begin_sync()
    work.run()
    log.finish_sync(work)
    assert log.has_queued_journal
    assert not log.is_synced
    log.is_held = False
    log.sync()
    assert log.is_synced
    disk.power_loss("strict")
    log = log_after_kill(disk)
    assert sequences_in(log) == [2, 3, 4, 5]
    assert bodies_in(log) == [b"a"]
