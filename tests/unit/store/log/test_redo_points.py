"""The redo point of a log moves when its files were synced, and names whole entries only."""

from random import Random

from headwater.store.disk.findings import Findings
from headwater.store.disk.wal import RedoPoint, WriteAhead
from headwater.store.disk.wal_reading import read_ahead
from headwater.store.log.file_log import FileLog
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy
from tests.kit.logs import add_messages, new_log

IDENTITY = b"s" * 16


def joined(disk: SimDisk) -> tuple[FileLog, WriteAhead]:
    log = new_log(disk, messages=2)
    log.sync()
    ahead = WriteAhead(disk, "", IDENTITY, 1, SeededEntropy(Random(3)))
    log.durability.join_write_ahead(ahead, applied=0, added=0)
    return log, ahead


def found_on(disk: SimDisk, log: FileLog) -> RedoPoint | None:
    return read_ahead(disk, "/", IDENTITY, Findings()).redos()[log.identity].point


def test_a_sync_names_the_state_after_the_last_entry_that_was_applied() -> None:
    disk = SimDisk()
    log, ahead = joined(disk)
    add_messages(log, 1)
    log.write_entries([(300, b"note")])
    log.applied_entry = 1
    size, journal_bytes = log.segments.last.size, log.journal.size
    # The next entry is applied by half when the log is synced.
    add_messages(log, 1)
    assert not log.durability.redo.is_current
    log.sync()
    ahead.write()
    point = found_on(disk, log)
    assert point is not None
    assert (point.entry, point.segment_bytes, point.journal_bytes) == (1, size, journal_bytes)


def test_a_sync_that_began_before_a_change_of_the_journal_names_no_redo_point() -> None:
    disk = SimDisk()
    log, ahead = joined(disk)
    log.write_entries([(300, b"note")])
    log.applied_entry = 1
    work = log.begin_sync()
    work.run()
    log.rewrite_journal_now()
    log.finish_sync(work)
    ahead.write()
    point = found_on(disk, log)
    assert point is not None
    assert (point.journal_salt, point.journal_bytes) == (log.journal.file.salt, log.journal.size)


def test_a_log_with_entries_puts_none_of_its_bytes_into_the_write_ahead_file() -> None:
    disk = SimDisk()
    log, ahead = joined(disk)
    log.add_entry(1, 2, b"an entry")
    add_messages(log, 1)
    log.delete([1], entries=[(300, b"note")])
    log.applied_entry = 1
    ahead.write()
    found = read_ahead(disk, "/", IDENTITY, Findings())
    assert found.by_file() == {}
    assert found.redos()[log.identity].entries == [(1, 2, b"an entry")]


def test_nothing_is_removed_or_rewritten_amid_an_entry() -> None:
    disk = SimDisk()
    log, _ = joined(disk)
    add_messages(log, 22)
    log.applied_entry = 1
    files = set(disk.list_folder("/log"))
    log.delete(range(1, 21))
    log.drop_empty_segments()
    log.rewrite_journal_now()
    log.checkpoints.write_now()
    assert set(disk.list_folder("/log")) == files, "entry 2 is not applied as a whole"
    log.applied_entry = 2
    log.drop_empty_segments()
    log.checkpoints.write_now()
    assert len(log.segments.in_order()) == 1
    assert "index.hw" in disk.list_folder("/log")


def test_what_is_applied_counts_as_durable() -> None:
    disk = SimDisk()
    log, _ = joined(disk)
    add_messages(log, 1)
    log.write_entries([(300, b"note")])
    assert not log.is_synced
    log.applied_entry = 1
    assert log.is_synced
    assert log.synced_sequence == 3
