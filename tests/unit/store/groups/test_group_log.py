"""A log shows what was saved at once, and says when replies may leave."""

from random import Random

import pytest

from headwater.base.errors import ProgrammerError
from headwater.store.errors import StoreError
from headwater.store.groups.frames import GroupEntry, GroupMode, GroupState, SnapshotMark
from headwater.store.groups.group_log import RECENT_BYTES_MAX, GroupLog
from headwater.store.groups.written_group import NO_TERM
from headwater.store.store import Store, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy

GROUP = b"g" * 16


def opened(disk: SimDisk, boot_id: str = "", ahead_bytes_max: int = 10**6) -> Store:
    return open_store(
        disk,
        "/data",
        SeededEntropy(Random(disk.operations)),
        boot_id or disk.boot_id,
        ahead_bytes_max=ahead_bytes_max,
    )


def group_on(store: Store, mode: GroupMode = GroupMode.SYNCED) -> GroupLog:
    log, _ = store.groups.create(GROUP, mode, SnapshotMark(1, 1, b"m"), GroupState(1))
    store.commit()
    return log


def entry(index: int, term: int = 1, data: bytes = b"data") -> GroupEntry:
    return GroupEntry(index, term, 1, 10 * index, 5, data)


def run(first: int, last: int, term: int = 1) -> list[GroupEntry]:
    return [entry(index, term, b"%d" % index) for index in range(first, last + 1)]


def test_entries_are_there_before_and_after_they_are_written() -> None:
    store = opened(SimDisk())
    log = group_on(store)
    log.save(entries=run(2, 4))
    assert (log.first_index, log.last_index) == (2, 4)
    assert log.entries(2, 4, 100) == run(2, 4)
    store.commit()
    assert log.entries(2, 4, 100) == run(2, 4)
    assert [log.term_at(index) for index in range(6)] == [NO_TERM, 1, 1, 1, 1, NO_TERM]


def test_a_range_is_cut_where_its_bytes_end_and_has_one_entry_at_least() -> None:
    store = opened(SimDisk())
    log = group_on(store)
    log.save(entries=run(2, 5))
    assert log.entries(2, 5, 3) == run(2, 4)
    assert log.entries(3, 5, 0) == run(3, 3)


def test_old_entries_are_read_back_from_the_file_and_new_ones_are_in_memory() -> None:
    disk = SimDisk()
    store = opened(disk)
    log = group_on(store)
    size = RECENT_BYTES_MAX // 4
    entries = [entry(index, data=bytes([index]) * size) for index in range(2, 12)]
    for each in entries:
        log.save(entries=[each])
        store.commit()
    disk.fail_read("*ahead*", 0, 10**9)
    assert log.entries(11, 11, 0) == entries[-1:]
    with pytest.raises(StoreError, match="entry 2 of group"):
        log.entries(2, 2, 0)
    disk.heal()
    assert log.entries(2, 11, 10**9) == entries


def test_a_frame_that_was_damaged_is_not_taken_for_an_entry() -> None:
    disk = SimDisk()
    store = opened(disk)
    log = group_on(store)
    log.save(entries=[entry(2, data=b"x" * RECENT_BYTES_MAX), entry(3, data=b"y")])
    log.save(entries=[entry(4, data=b"z" * RECENT_BYTES_MAX)])
    store.commit()
    (path,) = [path for path in disk.files() if "ahead" in path]
    disk.flip_bit(path, disk.dump()[path].index(b"xxx"), 3)
    with pytest.raises(StoreError, match="no frame at"):
        log.entries(2, 2, 0)


def test_entries_replace_all_from_the_first_of_them_on() -> None:
    store = opened(SimDisk())
    log = group_on(store)
    log.save(entries=run(2, 5))
    store.commit()
    log.save(state=GroupState(2), entries=run(4, 4, term=2))
    assert log.last_index == 4
    assert log.entries(2, 4, 100) == [*run(2, 3), *run(4, 4, term=2)]


def test_a_truncated_suffix_is_gone_also_after_a_restart() -> None:
    disk = SimDisk()
    store = opened(disk)
    log = group_on(store)
    log.save(entries=run(2, 5))
    log.truncate(4)
    store.commit()
    disk.power_loss("strict")
    log = opened(disk).groups[GROUP]
    assert log.entries(2, log.last_index, 100) == run(2, 3)


@pytest.mark.parametrize(
    ("mode", "is_synced"), [(GroupMode.SYNCED, True), (GroupMode.WRITTEN, False)]
)
def test_entries_are_synced_only_where_the_mode_says_so(mode: GroupMode, is_synced: bool) -> None:
    disk = SimDisk()
    store = opened(disk)
    log = group_on(store, mode)
    ticket = log.save(entries=run(2, 2))
    assert not store.groups.numbers.covers(ticket)
    syncs = disk.operation_counts["sync"]
    assert store.group_commit.begin() == is_synced
    assert store.groups.numbers.covers(ticket) != is_synced
    store.group_commit.sync()
    store.group_commit.finish()
    assert disk.operation_counts["sync"] == syncs + 1
    assert store.groups.numbers.covers(ticket)


@pytest.mark.parametrize("mode", GroupMode)
def test_a_changed_term_or_vote_is_always_synced(mode: GroupMode) -> None:
    store = opened(SimDisk())
    log = group_on(store, mode)
    for state in (GroupState(2), GroupState(2, "a"), GroupState(2, "a", 0, 9)):
        ticket = log.save(state=state)
        assert ticket.needs_sync
        assert store.group_commit.begin()
        assert not store.groups.numbers.covers(ticket)
        store.group_commit.sync()
        store.group_commit.finish()
        assert store.groups.numbers.covers(ticket)


def test_a_new_commit_index_alone_is_not_synced() -> None:
    store = opened(SimDisk())
    log = group_on(store, GroupMode.WRITTEN)
    log.save(entries=run(2, 2))
    assert not log.save(state=GroupState(1, "", 2)).needs_sync


def test_a_group_in_memory_writes_its_hard_state_alone() -> None:
    disk = SimDisk()
    store = opened(disk)
    log = group_on(store, GroupMode.MEMORY)
    size = disk.used_bytes
    ticket = log.save(entries=run(2, 3))
    assert store.groups.numbers.covers(ticket)
    assert not store.group_commit.begin()
    assert disk.used_bytes == size
    assert log.entries(2, 3, 100) == run(2, 3)
    log.compact(2, b"m")
    assert log.entries(3, 3, 100) == run(3, 3)


def test_compacted_entries_are_gone_and_the_membership_stays() -> None:
    disk = SimDisk()
    store = opened(disk)
    log = group_on(store)
    log.save(entries=run(2, 6))
    store.commit()
    log.compact(4, b"members", 7_000)
    store.commit()
    with pytest.raises(ProgrammerError):
        log.entries(4, 4, 0)
    disk.kill()
    log = opened(disk).groups[GROUP]
    assert log.snapshot == SnapshotMark(4, 1, b"members", 7_000)
    assert log.entries(5, 6, 100) == run(5, 6)


def test_entries_that_are_not_written_cannot_be_given_up() -> None:
    store = opened(SimDisk())
    log = group_on(store)
    log.save(entries=run(2, 6))
    with pytest.raises(ProgrammerError, match="were written"):
        log.compact(4, b"members")


def test_entries_that_the_snapshot_covers_are_passed_over() -> None:
    store = opened(SimDisk())
    log = group_on(store)
    log.save(snapshot=SnapshotMark(10, 3, b"n"), state=GroupState(3))
    log.save(entries=run(9, 12, term=3))
    assert log.entries(11, 12, 100) == run(11, 12, term=3)


def test_a_hole_in_the_log_is_a_mistake_of_the_program() -> None:
    store = opened(SimDisk())
    log = group_on(store)
    with pytest.raises(ProgrammerError, match="hole"):
        log.save(entries=run(4, 5))


def test_another_mode_takes_effect_durably() -> None:
    disk = SimDisk()
    store = opened(disk)
    log = group_on(store)
    assert log.set_mode(GroupMode.WRITTEN).needs_sync
    store.commit()
    disk.power_loss("strict")
    log = opened(disk, "other boot").groups[GROUP]
    assert log.mode is GroupMode.WRITTEN
    assert log.may_have_forgotten
