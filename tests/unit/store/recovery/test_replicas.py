"""A replica is cut back to its redo point or is to be filled again: nothing is guessed."""

from random import Random

import pytest

from headwater.store.disk.filesystem import read_file
from headwater.store.groups.frames import GroupEntry, GroupMode, GroupState, SnapshotMark
from headwater.store.log.file_log import FileLog
from headwater.store.store import Store, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy
from tests.kit.logs import add_messages, sequences_in

FOLDER = "/data"
STREAM = f"{FOLDER}/streams/s"


def opened(disk: SimDisk, boot_id: str = "boot") -> Store:
    entropy = SeededEntropy(Random(disk.operations))
    return open_store(disk, FOLDER, entropy, boot_id, segment_bytes_max=1000)


def killed(messages: int = 5, behind: int = 3) -> SimDisk:
    """The disk of a replica with messages up to its redo point and behind it."""
    disk = SimDisk()
    disk.make_folder(FOLDER)
    disk.sync_folder("/")
    store = opened(disk)
    log = store.create_stream("s", is_replica=True)
    group, _ = store.groups.create(log.identity, GroupMode.SYNCED, SnapshotMark(), GroupState(1))
    group.save(entries=[GroupEntry(index, 1, 0, 0, 0, b"") for index in (1, 2)])
    store.commit()
    add_messages(log, messages)
    log.applied_entry = 1
    log.secure_applied()
    add_messages(log, behind)
    log.delete([2])
    log.applied_entry = 2
    disk.kill()
    return disk


def ahead_in(disk: SimDisk) -> str:
    names = [name for name in disk.list_folder(FOLDER) if name.startswith("ahead")]
    return f"{FOLDER}/{names[-1]}"


def cut(disk: SimDisk, path: str, size: int) -> None:
    file = disk.open(path)
    file.truncate(size)
    file.close()


def last_segment(disk: SimDisk) -> str:
    return [name for name in disk.list_folder(STREAM) if name.startswith("segment")][-1]


def test_whole_segments_behind_the_redo_point_go() -> None:
    disk = killed(messages=5, behind=40)
    assert len([name for name in disk.list_folder(STREAM) if name.startswith("segment")]) > 2
    log = opened(disk).logs["s"]
    assert sequences_in(log) == [1, 2, 3, 4, 5]
    assert log.applied_entry == 1


def test_a_replica_whose_segment_is_shorter_than_its_redo_point_is_to_be_filled_again() -> None:
    disk = killed()
    cut(disk, f"{STREAM}/{last_segment(disk)}", 200)
    log = opened(disk).logs["s"]
    assert "shorter" in log.must_refill
    assert log.offline
    assert log.applied_entry == 0


@pytest.mark.parametrize("is_segment", [False, True])
def test_a_replica_without_a_file_of_its_redo_point_is_to_be_filled_again(
    is_segment: bool,
) -> None:
    disk = killed()
    disk.remove(f"{STREAM}/{last_segment(disk) if is_segment else 'journal.hw'}")
    assert "gone" in opened(disk).logs["s"].must_refill


def test_damage_in_the_write_ahead_file_leaves_no_guess() -> None:
    disk = killed()
    path = ahead_in(disk)
    # The group and the last redo point are behind the first frame.
    disk.flip_bit(path, 64 + 60, 1)
    store = opened(disk)
    assert "damaged" in store.logs["s"].must_refill
    assert sequences_in(store.logs["s"]), "nothing is cut"


def test_a_message_that_cannot_be_read_makes_no_hole() -> None:
    disk = killed()
    disk.flip_bit(f"{STREAM}/{last_segment(disk)}", 120, 1)
    log = opened(disk).logs["s"]
    assert log.must_refill == "message 1 cannot be read"


def erasing(disk: SimDisk) -> FileLog:
    """A replica that erases a message amid an entry, which came after a removal."""
    store = opened(disk)
    log = store.logs["s"]
    log.delete([1])
    log.delete([3], erase=True)
    return log


def test_a_message_that_was_erased_by_half_is_deleted_when_its_entry_is_applied_again() -> None:
    disk = killed()
    log = erasing(disk)
    place = log.index.segments[0]
    path = log.segments.last.path
    assert not place.has(3)
    disk.kill()
    data = read_file(disk, path)
    # A part of the old record is still there.
    disk.flip_bit(path, data.index(b"payload 4") - 100, 1)
    store = opened(disk)
    log = store.logs["s"]
    assert not log.must_refill
    assert sequences_in(log) == [1, 2, 4, 5]
    log.delete([1])
    log.delete([3], erase=True)
    log.applied_entry = 2
    log.secure_applied()
    disk.kill()
    log = opened(disk).logs["s"]
    assert (sequences_in(log), log.applied_entry) == ([2, 4, 5], 2)
    assert not log.lost


@pytest.mark.parametrize("offset", range(0, 200, 7))
def test_the_last_write_of_a_machine_that_fell_may_be_torn_anywhere(offset: int) -> None:
    disk = killed()
    store = opened(disk)
    log = store.logs["s"]
    store.groups[log.identity].save(entries=[GroupEntry(3, 1, 0, 0, 0, bytes(100))])
    size = len(read_file(disk, ahead_in(disk)))
    assert store.group_commit.begin()
    disk.kill()
    cut(disk, ahead_in(disk), min(size + offset, len(read_file(disk, ahead_in(disk)))))
    log = opened(disk, "boot 2").logs["s"]
    assert not log.must_refill
    assert (log.applied_entry, sequences_in(log)) == (1, [1, 2, 3, 4, 5])


def test_a_replica_whose_group_has_given_up_entries_that_it_lacks_is_to_be_filled_again() -> None:
    disk = killed()
    store = opened(disk)
    store.groups[store.logs["s"].identity].compact(2, b"")
    store.group_commit.secure_frames()
    disk.kill()
    assert "given up" in opened(disk).logs["s"].must_refill


def test_a_replica_that_holds_more_than_its_group_is_to_be_filled_again() -> None:
    disk = killed()
    store = opened(disk)
    store.groups[store.logs["s"].identity].truncate(1)
    store.commit()
    disk.kill()
    assert "does not have" in opened(disk).logs["s"].must_refill
