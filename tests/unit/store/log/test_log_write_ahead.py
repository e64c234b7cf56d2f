"""A log has entries in the write-ahead file once it has joined, and they are void once it left."""

from random import Random

from headwater.store.disk.findings import Findings
from headwater.store.disk.wal import FORGET, WriteAhead
from headwater.store.disk.wal_reading import read_ahead
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy
from tests.kit.logs import add_messages, new_log

IDENTITY = b"s" * 16


def entries_on(disk: SimDisk) -> list[int]:
    found = read_ahead(disk, "/", IDENTITY, Findings())
    return [entry[0] for redo in found.redos().values() for entry in redo.entries]


def test_entries_are_in_the_file_from_the_moment_of_joining_until_the_log_leaves() -> None:
    disk = SimDisk()
    log = new_log(disk, messages=2)
    log.sync()
    ahead = WriteAhead(disk, "", IDENTITY, 1, SeededEntropy(Random(3)))
    log.durability.join_write_ahead(ahead, applied=4, added=4)
    assert log.has_entries
    log.add_entry(5, 2, b"entry")
    ahead.write()
    assert entries_on(disk) == [5]
    log.durability.leave_write_ahead()
    assert entries_on(disk) == []
    assert not log.has_entries
    found = read_ahead(disk, "/", IDENTITY, Findings())
    forgets = [frame for frame in found.certain if frame.kind == FORGET]
    assert len(forgets) == 2, "damage to one of them must not bring the entries back"


def test_a_sync_of_the_files_makes_the_entries_applied_so_far_needless() -> None:
    disk = SimDisk()
    log = new_log(disk)
    ahead = WriteAhead(disk, "", IDENTITY, 1, SeededEntropy(Random(3)))
    log.durability.join_write_ahead(ahead, applied=0, added=0)
    for index in (1, 2, 3):
        log.add_entry(index, index - 1, b"entry")
    for index in (1, 2):
        add_messages(log, 1)
        log.applied_entry = index
    log.durability.secure_applied()
    assert entries_on(disk) == [3]


def test_a_log_that_has_not_joined_secures_nothing() -> None:
    log = new_log(SimDisk(), messages=1)
    log.durability.secure_applied()
    assert not log.has_entries
    assert not log.is_synced, "nothing had to be synced for it"
