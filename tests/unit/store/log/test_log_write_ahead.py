"""A log has frames in the write-ahead file once it has joined, and they are void once forgotten."""

from random import Random

from headwater.store.disk.findings import Findings
from headwater.store.disk.wal import JOURNAL, SEGMENT, WriteAhead, read_ahead
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy
from tests.kit.logs import add_messages, new_log

IDENTITY = b"s" * 16


def frames_by_file(disk: SimDisk) -> set[tuple[int, int]]:
    found = read_ahead(disk, "/", IDENTITY, Findings())
    return {(kind, file) for _, kind, file in found.by_file()}


def test_frames_are_written_from_the_moment_of_joining_until_they_are_forgotten() -> None:
    disk = SimDisk()
    log = new_log(disk, messages=2)
    log.sync()
    ahead = WriteAhead(disk, "", IDENTITY, 1, SeededEntropy(Random(3)))
    log.join_write_ahead(ahead)
    add_messages(log, 1)
    log.write_entries([(300, b"entry")])
    ahead.write()
    assert frames_by_file(disk) == {(SEGMENT, 1), (JOURNAL, 0)}
    log.durability.forget_frames()
    assert frames_by_file(disk) == set()


def test_a_log_that_has_not_joined_forgets_nothing() -> None:
    log = new_log(SimDisk(), messages=1)
    log.durability.forget_frames()
    assert not log.durability.uses_write_ahead
    assert not log.is_synced, "nothing had to be synced for it"
