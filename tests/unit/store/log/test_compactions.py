"""Only sealed segments of mostly deleted messages are worth a compaction, one at a time."""

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.store.log.file_log import FileLog
from headwater.testing.disk import SimDisk
from tests.kit.logs import add_messages, log_after_kill, new_log, sequences_in


def log_with_holes(disk: SimDisk) -> FileLog:
    log = new_log(disk, messages=40)
    log.delete([sequence for sequence in range(1, 30) if sequence % 4])
    return log


def test_the_segment_that_is_written_to_is_never_worthwhile() -> None:
    log = log_with_holes(SimDisk())
    log.delete(range(30, 40))
    last = log.index.segments[-1].first_sequence
    worthwhile = log.compactions.worthwhile()
    assert worthwhile
    assert last not in worthwhile
    with pytest.raises(InvariantViolation, match="sealed"):
        log.compactions.begin(last)


def test_a_segment_that_is_gone_meanwhile_leaves_no_successor() -> None:
    disk = SimDisk()
    log = log_with_holes(disk)
    first = log.compactions.worthwhile()[0]
    work = log.compactions.begin(first)
    work.run()
    log.delete(range(1, log.index.segments[0].next_sequence))
    files = disk.files()
    assert not log.compactions.finish(work)
    assert len(disk.files()) == len(files) - 1
    assert not log.compactions.is_running


def test_messages_deleted_meanwhile_are_deleted_from_the_successor() -> None:
    disk = SimDisk()
    log = log_with_holes(disk)
    work = log.compactions.begin(1)
    work.run()
    log.delete([4])
    assert log.compactions.finish(work)
    add_messages(log, 2)
    expected = sequences_in(log)
    assert 4 not in expected
    log.sync()
    assert sequences_in(log_after_kill(disk)) == expected
