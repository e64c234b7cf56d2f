"""A checkpoint is replaced or given up as a whole; the log goes on with the one before."""

import errno

import pytest

from headwater.store.errors import StoreError
from headwater.store.upkeep.checkpoint import CHECKPOINT_FILE
from headwater.testing.disk import SimDisk
from tests.kit.logs import FOLDER, add_messages, log_after_kill, new_log, sequences_in

PATH = f"{FOLDER}/{CHECKPOINT_FILE}"


def test_opening_goes_on_from_the_checkpoint() -> None:
    disk = SimDisk()
    log = new_log(disk, messages=30)
    log.checkpoints.write_now()
    add_messages(log, 3)
    log.sync()
    again = log_after_kill(disk)
    assert again.checkpoints.last_sequence == 30
    assert again.checkpoints.ends_in(again.checkpoints.segment_first)
    assert sequences_in(again) == [*range(1, 34)]


def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before() -> None:
    disk = SimDisk()
    log = new_log(disk, messages=5)
    log.checkpoints.write_now()
    before = disk.dump()[PATH]
    add_messages(log, 5)
    work = log.checkpoints.begin()
    disk.fail("write", f"{PATH}*", code=errno.ENOSPC)
    while work.copy_piece():
        work.write_piece()
    with pytest.raises(StoreError, match="no checkpoint is written"):
        log.checkpoints.finish(work)
    assert disk.dump()[PATH] == before
    assert log.offline == ""
    assert log.checkpoints.last_sequence == 5


def test_a_discarded_checkpoint_spoils_the_one_that_is_being_written() -> None:
    disk = SimDisk()
    log = new_log(disk, messages=5)
    log.checkpoints.write_now()
    work = log.checkpoints.begin()
    log.checkpoints.discard()
    assert not work.copy_piece()
    assert not log.checkpoints.finish(work)
    assert not disk.exists(PATH)
    assert log.checkpoints.last_sequence == 0
