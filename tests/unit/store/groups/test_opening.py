"""A start tells each group whether it may have forgotten, and repairs what it can."""

from random import Random

import pytest

from headwater.store.disk.format import HEADER_BYTES
from headwater.store.disk.store_file import STORE_FILE
from headwater.store.groups import group_logs
from headwater.store.groups.frames import GroupEntry, GroupMode, GroupState, SnapshotMark
from headwater.store.groups.group_log import GroupLog
from headwater.store.log.message_log import StoreError
from headwater.store.store import Store, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy
from headwater.testing.marks import SimMarks
from tests.kit.format_versions import with_version

GROUPS = {mode: bytes([65 + mode]) * 16 for mode in GroupMode}
ALL = {*GroupMode}


def opened(disk: SimDisk) -> Store:
    return open_store(disk, "/data", SeededEntropy(Random(disk.operations)), disk.boot_id)


def store_with_groups(disk: SimDisk, store: Store | None = None) -> Store:
    """A group of each mode, with three entries."""
    store = store or opened(disk)
    for mode, identity in GROUPS.items():
        state = GroupState(1, "voted")
        log, _ = store.groups.create(identity, mode, SnapshotMark(1, 1, b"m"), state)
        log.save(
            entries=[GroupEntry(index, 1, 1, 0, 0, b"entry %d" % index) for index in (2, 3, 4)]
        )
        store.commit()
    return store


def doubtful(store: Store) -> set[GroupMode]:
    return {mode for mode, identity in GROUPS.items() if store.groups[identity].may_have_forgotten}


def log_of(store: Store, mode: GroupMode = GroupMode.SYNCED) -> GroupLog:
    return store.groups[GROUPS[mode]]


def ahead_path(disk: SimDisk) -> str:
    return [path for path in disk.files() if "/ahead" in path][-1]


def replace(disk: SimDisk, path: str, data: bytes) -> None:
    disk.remove(path)
    file = disk.create(path)
    file.write(data)
    file.sync()
    disk.sync_folder(path.rpartition("/")[0])


def test_a_killed_process_forgets_only_what_was_in_memory() -> None:
    disk = SimDisk()
    store_with_groups(disk)
    disk.kill()
    store = opened(disk)
    assert doubtful(store) == {GroupMode.MEMORY}
    log = log_of(store, GroupMode.MEMORY)
    assert (log.state, log.snapshot, log.last_index) == (GroupState(1, "voted"), SnapshotMark(), 0)
    assert log_of(store, GroupMode.WRITTEN).last_index == 4


def test_a_machine_that_falls_may_forget_what_was_not_synced() -> None:
    disk = SimDisk()
    store_with_groups(disk)
    disk.power_loss("kind")
    assert doubtful(opened(disk)) == {GroupMode.MEMORY, GroupMode.WRITTEN}


def marked(disk: SimDisk, marks: SimMarks) -> Store:
    """A start on a machine that never falls, and has a mark of the store."""
    entropy = SeededEntropy(Random(disk.operations))
    return open_store(disk, "/data", entropy, "boot-1", marks=marks)


def test_a_killed_process_that_is_not_behind_its_mark_forgets_only_what_was_in_memory() -> None:
    disk, marks = SimDisk(), SimMarks()
    store_with_groups(disk, marked(disk, marks))
    disk.kill()
    assert doubtful(marked(disk, marks)) == {GroupMode.MEMORY}


def test_a_store_behind_its_mark_may_forget_what_was_not_synced() -> None:
    disk, marks = SimDisk(), SimMarks()
    store = store_with_groups(disk, marked(disk, marks))
    log_of(store, GroupMode.WRITTEN).save(entries=[GroupEntry(5, 1, 1, 0, 0, b"entry 5")])
    store.commit()
    disk.power_loss("strict")
    assert doubtful(marked(disk, marks)) == {GroupMode.MEMORY, GroupMode.WRITTEN}


def test_a_store_that_was_put_back_may_forget_what_was_synced() -> None:
    disk, marks = SimDisk(), SimMarks()
    store = store_with_groups(disk, marked(disk, marks))
    earlier = disk.clone()
    log_of(store).save(entries=[GroupEntry(5, 1, 1, 0, 0, b"entry 5")])
    store.commit()
    earlier.kill()
    assert doubtful(marked(earlier, marks)) == ALL


def test_a_second_start_has_the_same_doubt_until_a_hard_state_is_saved() -> None:
    disk = SimDisk()
    store_with_groups(disk)
    disk.power_loss("kind")
    opened(disk)
    disk.kill()
    store = opened(disk)
    assert GroupMode.WRITTEN in doubtful(store)
    store.close()
    store = opened(disk)
    assert GroupMode.WRITTEN in doubtful(store)
    log_of(store, GroupMode.WRITTEN).save(state=GroupState(1, "voted", 0, recovery=5))
    store.commit()
    disk.kill()
    store = opened(disk)
    assert doubtful(store) == {GroupMode.MEMORY}
    assert log_of(store, GroupMode.WRITTEN).state.recovery == 5


def test_a_store_file_of_an_earlier_start_leaves_a_doubt() -> None:
    disk = SimDisk()
    store_with_groups(disk)
    path = f"/data/{STORE_FILE}"
    earlier = disk.dump()[path]
    disk.kill()
    store = opened(disk)
    for identity in GROUPS.values():
        log = store.groups[identity]
        log.save(state=log.state._replace(term=2))
    store.commit()
    disk.kill()
    replace(disk, path, earlier)
    assert doubtful(opened(disk)) == ALL


def test_a_store_without_its_file_leaves_a_doubt() -> None:
    disk = SimDisk()
    store_with_groups(disk).close()
    disk.remove(f"/data/{STORE_FILE}")
    for _ in range(2):
        store = opened(disk)
        assert doubtful(store) == ALL
        log = log_of(store)
        assert [each.data for each in log.entries(2, 4, 99)] == [b"entry 2", b"entry 3", b"entry 4"]
        disk.kill()


def test_damage_leaves_a_doubt_and_the_file_is_set_aside() -> None:
    disk = SimDisk()
    store_with_groups(disk)
    disk.kill()
    path = ahead_path(disk)
    disk.flip_bit(path, disk.dump()[path].rindex(b"entry 3"), 1)
    store = opened(disk)
    assert doubtful(store) == ALL
    assert any("/set-aside/" in each for each in disk.files())
    log = log_of(store)
    assert [each.data for each in log.entries(2, log.last_index, 99)] == [b"entry 2"]
    assert log_of(store, GroupMode.WRITTEN).last_index == 4
    disk.power_loss("strict")
    store = opened(disk)
    assert doubtful(store) == ALL
    assert log_of(store).last_index == 2


def test_a_torn_last_write_is_cut_off_and_leaves_no_doubt() -> None:
    disk = SimDisk()
    store_with_groups(disk)
    disk.kill()
    file = disk.open(ahead_path(disk))
    file.truncate(file.size - 1)
    file.sync()
    file.close()
    for _ in range(2):
        store = opened(disk)
        assert GroupMode.SYNCED not in doubtful(store)
        assert log_of(store).last_index == 3
        disk.kill()


def test_a_write_ahead_file_of_a_newer_version_is_refused_by_name() -> None:
    disk = SimDisk()
    store_with_groups(disk)
    disk.kill()
    path = ahead_path(disk)
    data = disk.dump()[path]
    newer = with_version(data[:HEADER_BYTES], 4, HEADER_BYTES - 4) + data[HEADER_BYTES:]
    replace(disk, path, newer)
    with pytest.raises(StoreError, match=r"ahead-\d+\.hw: format version 4 is newer"):
        opened(disk)


def test_a_flipped_bit_anywhere_is_noticed_or_changes_nothing() -> None:
    """No vote and no entry is taken for another one, whatever byte is damaged."""
    disk = SimDisk()
    store_with_groups(disk)
    disk.kill()
    path = ahead_path(disk)
    for offset in range(HEADER_BYTES, disk.size_of(path)):
        trial = disk.clone(offset)
        trial.flip_bit(path, offset, offset % 8)
        store = opened(trial)
        for mode, identity in GROUPS.items():
            if identity not in store.groups:
                assert store.findings.reported
                continue
            log = store.groups[identity]
            assert log.may_have_forgotten or log.last_index == 4, (offset, mode)
            assert log.state in (GroupState(1, "voted"), GroupState(1), GroupState()), offset
            found = [] if log.last_index < 2 else log.entries(2, log.last_index, 99)
            assert [each.data for each in found] == [
                b"entry %d" % index for index in range(2, log.last_index + 1)
            ]


def test_entries_behind_a_missing_file_are_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_logs, "CARRIED_BYTES_MAX", 0)
    disk = SimDisk()
    store = store_with_groups(disk)
    log = log_of(store)
    for index in range(5, 11):
        log.save(entries=[GroupEntry(index, 1, 1, 0, 0, b"entry %d" % index)])
        store.commit()
        store.trim()
    disk.kill()
    files = [path for path in disk.files() if "/ahead" in path]
    disk.remove(files[2])
    store = opened(disk)
    assert GroupMode.SYNCED in doubtful(store)
    log = log_of(store)
    found = [each.data for each in log.entries(2, log.last_index, 99)]
    assert found == [b"entry %d" % index for index in range(2, 2 + len(found))]
    assert 3 <= len(found) < 9
    kept = b"".join(data for path, data in disk.dump().items() if "/set-aside/" in path)
    assert b"entry 10" in kept


def test_a_file_that_cannot_be_begun_takes_groups_offline() -> None:
    disk = SimDisk()
    store = store_with_groups(disk)
    disk.fail("sync", "*ahead*.new")
    with pytest.raises(StoreError):
        store.trim()
    ticket = log_of(store).save(state=GroupState(2, "x"))
    with pytest.raises(StoreError):
        store.commit()
    assert not store.groups.numbers.covers(ticket)
    disk.power_loss("strict")
    assert log_of(opened(disk)).state == GroupState(1, "voted")


def test_half_of_the_birth_of_a_group_is_no_group() -> None:
    """The process died in the write by which the group begins: nobody was told of it."""
    disk = SimDisk()
    store = store_with_groups(disk)
    late = b"late" * 4
    store.groups.create(late, GroupMode.SYNCED, SnapshotMark(1, 1, b"m" * 40), GroupState(1, "", 1))
    store.commit()
    disk.kill()
    file = disk.open(ahead_path(disk))
    file.truncate(file.size - 20)
    file.close()
    store = opened(disk)
    assert late not in store.groups
    assert doubtful(store) == {GroupMode.MEMORY}
    _, ticket = store.groups.create(late, GroupMode.SYNCED, SnapshotMark(1, 1), GroupState(1))
    store.commit()
    assert store.groups.numbers.covers(ticket)
    disk.kill()
    assert opened(disk).groups[late].snapshot == SnapshotMark(1, 1)
