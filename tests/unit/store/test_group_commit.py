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
        disk, "/data", SeededEntropy(Random(1)), disk.boot_id, default_mode=SyncMode.ALWAYS
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
