"""The store's own entries and those of callers are written together: all or none."""

import errno

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.store.disk.format import ENTRY_BYTES
from headwater.store.disk.journal import DELETED, encode_ranges
from headwater.store.errors import DiskFullError, OfflineError
from headwater.testing.disk import SimDisk
from tests.kit.logs import FOLDER, log_after_kill, new_log

CALLER_KIND = 300
GONE = (DELETED, encode_ranges([(1, 1)]))


def test_the_kinds_of_the_store_are_not_for_callers() -> None:
    log = new_log(SimDisk())
    with pytest.raises(InvariantViolation, match="store's own"):
        log.write_entries([GONE])


def test_bytes_of_callers_are_counted_without_the_stores_own() -> None:
    disk = SimDisk()
    log = new_log(disk, messages=2)
    log.journal.write_with_callers([GONE], [(CALLER_KIND, b"12345")])
    assert log.journal.caller_bytes == ENTRY_BYTES + 5
    log.sync()
    assert log_after_kill(disk).journal.caller_bytes == ENTRY_BYTES + 5


def test_an_entry_that_found_no_room_leaves_the_journal_as_it_was() -> None:
    disk = SimDisk()
    log = new_log(disk)
    size, writes = log.journal.size, log.journal.writes
    disk.fail("write", f"{FOLDER}/journal*", code=errno.ENOSPC)
    with pytest.raises(DiskFullError):
        log.write_entries([(CALLER_KIND, b"entry")])
    assert (log.journal.size, log.journal.writes) == (size, writes)
    assert log.offline == ""


def test_the_end_of_an_operation_that_found_no_room_takes_the_log_offline() -> None:
    disk = SimDisk()
    log = new_log(disk)
    disk.fail("write", f"{FOLDER}/journal*", code=errno.ENOSPC)
    with pytest.raises(OfflineError):
        log.journal.must_write(GONE)


def test_an_entry_that_opening_finds_out_again_may_be_left_out() -> None:
    disk = SimDisk()
    log = new_log(disk)
    disk.fail("write", f"{FOLDER}/journal*", code=errno.ENOSPC)
    log.journal.write_if_possible(DELETED, 1)
    assert log.offline == ""
    assert log.journal.writes == 0
