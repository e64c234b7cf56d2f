"""A log that queues its journal removes messages without a write, and writes once in a turn."""

import pytest

from headwater.store.errors import DiskFullError
from headwater.store.log.file_log import FileLog
from headwater.testing.disk import SimDisk
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
