"""A log is synced when the disk has its messages and its journal."""

from headwater.store.log.file_log import FileLog
from headwater.testing.disk import SimDisk
from tests.kit.logs import add_messages, log_after_kill, new_log, sequences_in


def state(log: FileLog) -> tuple[int, bool]:
    return log.durability.synced_sequence, log.durability.is_synced


def test_a_sync_covers_what_was_written_when_it_began() -> None:
    log = new_log(SimDisk(), messages=2)
    work = log.begin_sync()
    add_messages(log, 1)
    work.run()
    log.finish_sync(work)
    assert state(log) == (2, False)
    log.sync()
    assert state(log) == (3, True)


def test_an_entry_of_a_caller_is_not_synced_by_writing_it() -> None:
    log = new_log(SimDisk(), messages=1)
    log.sync()
    log.write_entries([(300, b"entry")])
    assert state(log) == (1, False)
    log.sync()
    assert state(log) == (1, True)


def test_a_log_that_owes_a_sync_is_durable_after_it() -> None:
    disk = SimDisk()
    new_log(disk, messages=5)
    log = log_after_kill(disk)
    log.durability.owe_sync()
    assert state(log) == (0, False)
    log.sync()
    disk.power_loss("strict")
    assert sequences_in(log_after_kill(disk)) == [1, 2, 3, 4, 5]


def test_a_sync_that_returns_late_takes_nothing_back() -> None:
    log = new_log(SimDisk(), messages=2)
    late = log.begin_sync()
    add_messages(log, 1)
    log.sync()
    late.run()
    log.finish_sync(late)
    assert state(log) == (3, True)
