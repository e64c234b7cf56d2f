"""One sync of the write-ahead file makes a turn of all its streams durable."""

from random import Random

import pytest

from headwater.store.errors import OfflineError
from headwater.store.log.message_log import Batch
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy

STREAMS = ("a", "b", "c")


def store_on(disk: SimDisk) -> Store:
    store = open_store(
        disk,
        "/data",
        SeededEntropy(Random(1)),
        disk.boot_id,
        default_mode=SyncMode.ALWAYS,
    )
    for name in STREAMS:
        if name not in store.logs:
            store.create_stream(name, mode=SyncMode.ALWAYS)
    return store


def synced_entries(store: Store) -> list[int]:
    return [store.logs[name].synced_entry for name in STREAMS]


def test_a_turn_without_entries_has_nothing_to_commit() -> None:
    store = store_on(SimDisk())
    assert not store.group_commit.begin()
    store.logs["a"].add_entry(1, 0, b"one")
    store.commit()
    assert not store.group_commit.begin()


def test_a_commit_that_was_never_finished_is_part_of_the_next() -> None:
    store = store_on(SimDisk())
    store.logs["a"].add_entry(1, 0, b"one")
    assert store.group_commit.begin()
    assert synced_entries(store) == [0, 0, 0]
    assert store.group_commit.begin()
    store.group_commit.sync()
    store.group_commit.finish()
    assert synced_entries(store) == [1, 0, 0]


def test_one_sync_covers_the_entries_of_all_streams_that_were_added_before_it() -> None:
    disk = SimDisk()
    store = store_on(disk)
    store.commit()
    for name in STREAMS:
        store.logs[name].add_entry(1, 0, b"one")
    store.logs["b"].add_entry(2, 0, b"two")
    before = dict(disk.operation_counts)
    assert store.group_commit.begin()
    store.logs["a"].add_entry(2, 0, b"two")
    store.group_commit.sync()
    assert synced_entries(store) == [0, 0, 0]
    store.group_commit.finish()
    assert synced_entries(store) == [1, 2, 1]
    # The first write begins the file.
    assert disk.operation_counts["sync"] - before.get("sync", 0) == 2
    store.commit()
    assert synced_entries(store) == [2, 2, 1]
    assert not store.group_commit.begin()


def test_entries_for_which_there_is_no_room_wait_for_it() -> None:
    disk = SimDisk()
    store = store_on(disk)
    store.logs["a"].add_entry(1, 0, b"one")
    store.commit()
    disk.capacity_bytes = disk.used_bytes
    store.logs["b"].add_entry(1, 0, b"one")
    store.commit()
    assert store.group_commit.has_waiting_entries
    assert store.logs["b"].is_full
    assert synced_entries(store) == [1, 0, 0]
    disk.capacity_bytes = None
    assert store.room.look_for_room()
    store.commit()
    assert synced_entries(store) == [1, 1, 0]
    assert not store.group_commit.has_waiting_entries
    disk.kill()
    store = store_on(disk)
    assert store.logs["b"].entries_to_apply == [(1, 0, b"one")]


def test_a_failed_sync_confirms_no_entry_and_takes_every_stream_of_the_group_offline() -> None:
    disk = SimDisk()
    store = store_on(disk)
    store.logs["a"].add_entry(1, 0, b"one")
    disk.fail("sync", "*/ahead*")
    with pytest.raises(OfflineError, match="write-ahead file failed"):
        store.commit()
    store.group_commit.finish()
    assert synced_entries(store) == [0, 0, 0]
    assert all("write-ahead file failed" in log.offline for log in store.logs.values())


def test_empty_segments_go_with_the_sync_that_covers_the_entry_that_emptied_them() -> None:
    disk = SimDisk()
    store = store_on(disk)
    log = store.logs["a"]
    log.segments.bytes_max = 100
    for index in range(1, 6):
        log.append(Batch([b"s"], [b""], [b"payload"], [1]))
        log.applied_entry = index
    log.delete([1, 2, 3])
    log.applied_entry = 6
    before = len(log.segments.in_order())
    store.sync()
    assert len(log.segments.in_order()) < before
    disk.power_loss("strict")
    assert store_on(disk).logs["a"].messages == 2
