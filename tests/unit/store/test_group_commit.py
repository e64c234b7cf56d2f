"""One sync of the write-ahead file makes a turn of all its streams durable."""

from random import Random

import pytest

from headwater.store.errors import OfflineError
from headwater.store.log.message_log import Batch
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy

STREAMS = ("a", "b", "c")


def store_on(disk: SimDisk, has_entries: bool = False) -> Store:
    store = open_store(
        disk,
        "/data",
        SeededEntropy(Random(1)),
        disk.boot_id,
        default_mode=SyncMode.ALWAYS,
        has_entries=has_entries,
    )
    for name in STREAMS:
        if name not in store.logs:
            store.create_stream(name, mode=SyncMode.ALWAYS)
    return store


def write_to(store: Store, *names: str) -> None:
    for name in names:
        store.logs[name].append(Batch([b"s"], [b""], [b"payload"], [1]))


def synced(store: Store) -> dict[str, int]:
    return {name: log.synced_sequence for name, log in store.logs.items()}


def test_a_turn_without_writes_has_nothing_to_commit() -> None:
    store = store_on(SimDisk())
    assert not store.group_commit.begin()
    write_to(store, "a")
    store.commit()
    assert not store.group_commit.begin()


def test_one_sync_covers_all_streams_and_only_what_was_written_before_it() -> None:
    disk = SimDisk()
    store = store_on(disk)
    store.commit()
    write_to(store, *STREAMS)
    store.commit()
    before = disk.operation_counts["sync"]
    write_to(store, *STREAMS)
    assert store.group_commit.begin()
    write_to(store, "a")
    store.group_commit.sync()
    store.group_commit.finish()
    assert disk.operation_counts["sync"] == before + 1
    assert synced(store) == {"a": 2, "b": 2, "c": 2}
    disk.power_loss("strict")
    assert {name: log.messages for name, log in store_on(disk).logs.items()} == {
        "a": 2,
        "b": 2,
        "c": 2,
    }


def test_a_commit_that_was_never_finished_is_part_of_the_next() -> None:
    store = store_on(SimDisk())
    write_to(store, "a")
    assert store.group_commit.begin()
    assert synced(store)["a"] == 0
    assert store.group_commit.begin()
    store.group_commit.sync()
    store.group_commit.finish()
    assert synced(store)["a"] == 1


def test_a_failed_sync_takes_every_stream_of_the_group_offline() -> None:
    disk = SimDisk()
    store = store_on(disk)
    write_to(store, "a")
    assert store.group_commit.begin()
    disk.fail("sync", "*/ahead*")
    with pytest.raises(OfflineError, match="write-ahead file failed"):
        store.group_commit.sync()
    store.group_commit.finish()
    assert synced(store)["a"] == 0
    assert all("write-ahead file failed" in log.offline for log in store.logs.values())


# --- entries ------------------------------------------------------------------------------------


def synced_entries(store: Store) -> list[int]:
    return [store.logs[name].synced_entry for name in STREAMS]


def test_one_sync_covers_the_entries_of_all_streams_that_were_added_before_it() -> None:
    disk = SimDisk()
    store = store_on(disk, has_entries=True)
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
    store = store_on(disk, has_entries=True)
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
    store = store_on(disk, has_entries=True)
    assert store.logs["b"].entries_to_apply == [(1, 0, b"one")]


def test_a_failed_sync_confirms_no_entry() -> None:
    disk = SimDisk()
    store = store_on(disk, has_entries=True)
    store.logs["a"].add_entry(1, 0, b"one")
    disk.fail("sync", "*/ahead*")
    with pytest.raises(OfflineError, match="write-ahead file failed"):
        store.commit()
    store.group_commit.finish()
    assert synced_entries(store) == [0, 0, 0]
    assert all(log.offline for log in store.logs.values())


def test_empty_segments_go_with_the_sync_that_covers_the_entry_that_emptied_them() -> None:
    disk = SimDisk()
    store = store_on(disk, has_entries=True)
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
    assert store_on(disk, has_entries=True).logs["a"].messages == 2
