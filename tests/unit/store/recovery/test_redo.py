"""After a crash a log is cut back to its redo point, unless that could cost a message."""

from random import Random

import pytest

from headwater.store.recovery.redo import apply_entries
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy
from tests.kit.logs import add_messages, sequences_in

FOLDER = "/data"


def opened(disk: SimDisk, boot_id: str = "boot", mode: SyncMode = SyncMode.ALWAYS) -> Store:
    return open_store(
        disk,
        FOLDER,
        SeededEntropy(Random(disk.operations)),
        boot_id,
        default_mode=mode,
        segment_bytes_max=1000,
    )


def used(applied: int = 3) -> tuple[SimDisk, Store]:
    """A store whose stream has five entries of a message each, of which some are applied."""
    disk = SimDisk()
    disk.make_folder(FOLDER)
    disk.sync_folder("/")
    store = opened(disk)
    log = store.create_stream("s", mode=SyncMode.ALWAYS)
    for index in range(1, 6):
        log.add_entry(index, index - 1, b"entry %d" % index)
    store.commit()
    for index in range(1, applied + 1):
        add_messages(log, 1)
        log.applied_entry = index
    return disk, store


def redo(store: Store) -> list[int]:
    """Apply what is left; returns the indexes."""
    log = store.logs["s"]
    applied: list[int] = []

    def apply(index: int, follows: int, data: bytes) -> None:
        assert data == b"entry %d" % index
        add_messages(log, 1)
        applied.append(index)

    apply_entries(log, apply)
    store.finish_redo()
    return applied


def damage_entry(disk: SimDisk, index: int) -> None:
    (name,) = (name for name in disk.list_folder(FOLDER) if name.startswith("ahead"))
    path = f"{FOLDER}/{name}"
    disk.flip_bit(path, disk.dump()[path].index(b"entry %d" % index), 1)


def kinds_in(store: Store) -> set[str]:
    return {finding.kind for finding in store.logs["s"].findings.reported}


@pytest.mark.parametrize("power_lost", [False, True])
def test_entries_behind_the_redo_point_are_applied_again(power_lost: bool) -> None:
    disk, _ = used()
    if power_lost:
        disk.power_loss("strict")
    else:
        disk.kill()
    store = opened(disk, "boot 2" if power_lost else "boot")
    assert store.logs["s"].messages == 0, "the redo point is that of the new stream"
    assert [entry[0] for entry in store.logs["s"].entries_to_apply] == [1, 2, 3, 4, 5]
    assert redo(store) == [1, 2, 3, 4, 5]
    assert sequences_in(store.logs["s"]) == [1, 2, 3, 4, 5]
    assert kinds_in(store) == set()


def test_entries_up_to_the_redo_point_are_not() -> None:
    disk, store = used()
    store.sync()
    # The redo point gets to the disk with the next entry.
    store.logs["s"].add_entry(6, 5, b"entry 6")
    store.commit()
    disk.kill()
    store = opened(disk)
    assert sequences_in(store.logs["s"]) == [1, 2, 3]
    assert redo(store) == [4, 5, 6]
    assert store.logs["s"].applied_entry == store.logs["s"].synced_entry == 6


def test_a_store_that_is_closed_in_order_has_nothing_to_apply() -> None:
    disk, store = used(applied=5)
    store.close()
    assert not [name for name in disk.list_folder(FOLDER) if name.startswith("ahead")]
    store = opened(disk)
    assert store.logs["s"].entries_to_apply == []
    assert sequences_in(store.logs["s"]) == [1, 2, 3, 4, 5]


def test_entries_that_were_not_applied_outlive_an_orderly_end() -> None:
    disk, store = used(applied=3)
    store.close()
    store = opened(disk)
    assert redo(store) == [4, 5]
    assert sequences_in(store.logs["s"]) == [1, 2, 3, 4, 5]


def test_a_trim_waits_for_the_entries_in_the_files_that_it_removes() -> None:
    disk, store = used(applied=3)
    log = store.logs["s"]
    store.trim()
    for index in (4, 5):
        assert not store.group_commit.is_trim_due
        add_messages(log, 1)
        log.applied_entry = index
    assert store.group_commit.is_trim_due
    store.trim()
    assert not store.group_commit.is_trim_due
    assert [name for name in disk.list_folder(FOLDER) if name.startswith("ahead")] == [
        "ahead-000000000002.hw"
    ]
    disk.kill()
    store = opened(disk)
    assert store.logs["s"].entries_to_apply == []
    assert sequences_in(store.logs["s"]) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("mode", [SyncMode.INTERVAL, SyncMode.ASYNC])
def test_a_stream_that_is_of_another_mode_by_now_gets_its_entries_and_no_others(
    mode: SyncMode,
) -> None:
    disk, _ = used()
    disk.kill()
    store = opened(disk, mode=mode)
    assert redo(store) == [1, 2, 3, 4, 5]
    add_messages(store.logs["s"], 2)
    store.flush()
    disk.kill()
    store = opened(disk, mode=mode)
    assert store.logs["s"].entries_to_apply == []
    assert sequences_in(store.logs["s"]) == [1, 2, 3, 4, 5, 6, 7]


def test_nothing_is_cut_where_the_write_ahead_file_is_damaged() -> None:
    disk, store = used()
    store.logs["s"].add_entry(6, 5, b"entry 6")
    store.commit()
    damage_entry(disk, 2)
    disk.kill()
    store = opened(disk)
    assert sequences_in(store.logs["s"]) == [1, 2, 3]
    assert redo(store) == [4, 5, 6]
    assert sequences_in(store.logs["s"]) == [1, 2, 3, 4, 5, 6]
    assert kinds_in(store) == {"doubtful", "unapplied"}


def test_sequences_of_an_entry_that_is_gone_are_lost_and_those_behind_it_are_not() -> None:
    disk, store = used(applied=2)
    store.sync()
    store.logs["s"].add_entry(6, 5, b"entry 6")
    store.commit()
    damage_entry(disk, 4)
    disk.kill()
    store = opened(disk)
    assert redo(store) == [3, 5, 6]
    assert sequences_in(store.logs["s"]) == [1, 2, 3, 5, 6]
    assert list(store.logs["s"].lost) == [(4, 4)]


def test_a_segment_shorter_than_the_redo_point_says_is_not_cut() -> None:
    disk, store = used()
    store.sync()
    store.logs["s"].add_entry(6, 5, b"entry 6")
    store.commit()
    path = store.logs["s"].segments.last.path
    disk.kill()
    file = disk.open(path)
    file.truncate(file.size - 10)
    file.close()
    store = opened(disk)
    assert kinds_in(store) >= {"torn", "doubtful"}
    assert redo(store) == [4, 5, 6]
    assert sequences_in(store.logs["s"]) == [1, 2, 4, 5, 6]
    assert (3, 3) in list(store.logs["s"].lost)


def test_after_a_last_write_that_is_not_sound_the_cut_bytes_are_set_aside() -> None:
    disk, store = used()
    store.logs["s"].add_entry(6, 5, b"entry 6")
    assert store.group_commit.begin()
    damage_entry(disk, 6)
    disk.kill()
    store = opened(disk, "boot 2")
    assert redo(store) == [1, 2, 3, 4, 5]
    log = store.logs["s"]
    assert sequences_in(log) == [1, 2, 3, 4, 5]
    assert log.lost.within(6, 6), "entry 6 may have been confirmed"
    assert log.last_sequence > 1000
    assert disk.list_folder(f"{FOLDER}/streams/s/set-aside") == [
        "segment-00000000000000000001.hw-at-64.0"
    ]


def test_a_message_that_was_erased_by_half_is_deleted_and_not_lost() -> None:
    disk, store = used(applied=5)
    log = store.logs["s"]
    log.add_entry(6, 5, b"erase 2")
    store.commit()
    path, offset = log.segments.last.path, log.index.segments[0].offsets[1]
    log.delete([2], erase=True, entries=[(300, b"note")])
    disk.kill()
    disk.flip_bit(path, offset + 35, 0)
    store = opened(disk)
    log = store.logs["s"]
    assert [entry[2] for entry in log.entries_to_apply] == [b"erase 2"]
    assert list(log.lost) == [], "the deletion is part of the redo point"
    apply_entries(log, lambda *_: log.delete([2], erase=True, entries=[(300, b"note")]))
    store.finish_redo()
    disk.kill()
    log = opened(disk).logs["s"]
    assert (list(log.lost), sequences_in(log)) == ([], [1, 3, 4, 5])
    assert {entry.body for entry in log.entries} == {b"note"}


def test_a_disk_that_refuses_the_cut_leaves_the_log_readable_and_the_entries_in_place() -> None:
    disk, _ = used()
    disk.kill()
    disk.fail("truncate", "*/segment*")
    store = opened(disk)
    assert store.logs["s"].offline
    assert store.logs["s"].entries_to_apply == []
    assert sequences_in(store.logs["s"]) == [1, 2, 3]
    disk.kill()
    store = opened(disk)
    assert redo(store) == [1, 2, 3, 4, 5]


def test_a_stream_that_cannot_be_opened_keeps_its_entries() -> None:
    disk, _ = used()
    disk.kill()
    disk.fail_read("*/segment*", 0, 2**62)
    store = opened(disk)
    assert "s" in store.unreadable
    other = store.create_stream("other", mode=SyncMode.ALWAYS)
    other.add_entry(1, 0, b"1")
    store.commit()
    add_messages(other, 1)
    other.applied_entry = 1
    store.trim()
    store.close()
    disk.heal()
    store = opened(disk)
    assert redo(store) == [1, 2, 3, 4, 5]
