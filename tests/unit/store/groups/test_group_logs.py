"""All groups share one write and one sync, and no file goes that one of them needs."""

import errno

import pytest

from headwater.store.errors import OfflineError
from headwater.store.groups import group_logs
from headwater.store.groups.frames import GroupEntry, GroupMode, GroupState, SnapshotMark
from headwater.store.groups.group_log import GroupLog
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng

AHEAD_BYTES_MAX = 4000


def opened(disk: SimDisk, ahead_bytes_max: int = AHEAD_BYTES_MAX) -> Store:
    return open_store(
        disk,
        "/data",
        SeededEntropy(labelled_rng(disk.operations, "store")),
        disk.boot_id,
        default_mode=SyncMode.ALWAYS,
        ahead_bytes_max=ahead_bytes_max,
    )


def identity(number: int) -> bytes:
    return b"%016d" % number


def create(store: Store, number: int, mode: GroupMode = GroupMode.SYNCED) -> GroupLog:
    snapshot = SnapshotMark(1, 1, b"m")
    log, _ = store.groups.create(identity(number), mode, snapshot, GroupState(1, f"s{number}"))
    return log


def append(log: GroupLog, size: int = 100) -> None:
    log.save(entries=[GroupEntry(log.last_index + 1, log.state.term, 1, 0, 0, b"x" * size)])


def files_of(disk: SimDisk) -> list[int]:
    return [int(path[-15:-3]) for path in disk.files() if "/ahead" in path]


def test_a_turn_of_many_groups_is_one_write_and_one_sync() -> None:
    disk = SimDisk()
    store = opened(disk, 10**6)
    logs = [create(store, number) for number in range(50)]
    store.commit()
    writes, syncs = disk.operation_counts["write"], disk.operation_counts["sync"]
    for log in logs:
        append(log)
    store.commit()
    assert disk.operation_counts["write"] == writes + 1
    assert disk.operation_counts["sync"] == syncs + 1


def test_the_last_word_on_a_vote_is_in_the_file_that_is_written_to() -> None:
    disk = SimDisk()
    store = opened(disk)
    silent, busy = create(store, 1), create(store, 2)
    for _ in range(200):
        append(busy)
        store.commit()
        busy.compact(busy.last_index, b"m")
    assert files_of(disk)[0] > 2
    disk.power_loss("strict")
    store = opened(disk)
    assert store.groups[silent.identity].state == GroupState(1, "s1")
    assert store.groups[busy.identity].last_index == busy.last_index


def test_a_file_with_entries_that_are_not_given_up_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_logs, "CARRIED_BYTES_MAX", 0)
    disk = SimDisk()
    store = opened(disk)
    waiting, busy = create(store, 1), create(store, 2)
    append(waiting)
    for _ in range(100):
        append(busy)
        store.commit()
        busy.compact(busy.last_index, b"m")
    first = files_of(disk)[0]
    assert len(files_of(disk)) > 2
    assert store.groups.holding_files() == [waiting]
    waiting.compact(waiting.last_index, b"m")
    for _ in range(50):
        append(busy)
        store.commit()
        busy.compact(busy.last_index, b"m")
    assert files_of(disk)[0] > first
    assert len(files_of(disk)) <= 2


def test_few_entries_of_a_group_without_quorum_are_carried_on() -> None:
    disk = SimDisk()
    store = opened(disk)
    waiting, busy = create(store, 1), create(store, 2)
    for _ in range(3):
        append(waiting)
    entries = waiting.entries(2, 4, 10**6)
    for _ in range(300):
        append(busy)
        store.commit()
        busy.compact(busy.last_index, b"m")
        assert len(files_of(disk)) <= 4
    assert waiting.entries(2, 4, 10**6) == entries
    disk.power_loss("strict")
    assert opened(disk).groups[waiting.identity].entries(2, 4, 10**6) == entries


def test_the_states_of_many_groups_do_not_fill_a_file_by_themselves() -> None:
    disk = SimDisk()
    store = opened(disk)
    logs = [create(store, number) for number in range(200)]
    store.commit()
    removals = disk.operation_counts["remove"]
    for _ in range(20):
        append(logs[0], size=10)
        store.commit()
    assert disk.operation_counts["remove"] <= removals + 1


def test_a_removed_group_is_gone_and_holds_no_file() -> None:
    disk = SimDisk()
    store = opened(disk)
    log = create(store, 1)
    append(log)
    store.commit()
    store.groups.remove(log.identity)
    store.commit()
    disk.power_loss("strict")
    store = opened(disk)
    assert log.identity not in store.groups
    assert len(store.groups) == 0


def test_a_store_that_is_closed_keeps_its_groups() -> None:
    disk = SimDisk()
    store = opened(disk)
    log = create(store, 1, GroupMode.WRITTEN)
    append(log)
    store.commit()
    store.close()
    disk.power_loss("strict")
    store = opened(disk)
    assert store.groups[log.identity].last_index == 2
    assert not store.groups[log.identity].may_have_forgotten


def test_a_store_without_groups_leaves_no_file_behind() -> None:
    disk = SimDisk()
    store = opened(disk)
    store.close()
    assert files_of(disk) == []


def test_a_full_disk_holds_replies_back_until_there_is_room() -> None:
    disk = SimDisk()
    store = opened(disk)
    log = create(store, 1)
    store.commit()
    disk.capacity_bytes = disk.used_bytes
    ticket = log.save(state=GroupState(2, "x"))
    assert not store.group_commit.begin()
    assert store.group_commit.has_waiting_entries
    assert not store.groups.numbers.covers(ticket)
    disk.capacity_bytes = None
    store.commit()
    assert store.groups.numbers.covers(ticket)
    disk.power_loss("strict")
    assert opened(disk).groups[log.identity].state == GroupState(2, "x")


def test_groups_confirm_nothing_behind_a_failed_sync() -> None:
    disk = SimDisk()
    store = opened(disk)
    log = create(store, 1)
    store.commit()
    ticket = log.save(state=GroupState(2, "x"))
    assert store.group_commit.begin()
    disk.fail("sync", "*ahead*", code=errno.EIO)
    with pytest.raises(OfflineError):
        store.group_commit.sync()
    assert store.groups.offline
    assert not store.groups.numbers.covers(ticket)
    with pytest.raises(OfflineError):
        store.commit()
