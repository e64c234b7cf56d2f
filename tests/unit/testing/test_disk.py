"""Faults of the simulated disk that strike while it runs, and views of it from outside."""

import errno
from typing import Final

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.store.disk.filesystem import read_file, replace_file
from headwater.testing.disk import FileCounts, PowerLost, SimDisk, SimFile
from headwater.testing.disk_faults import CHANGING
from tests.unit.testing.disk_scenes import (
    EVERY_OPERATION,
    disk_with,
    every_operation,
    unsynced_disk,
)

PAGE: Final = 4096


# --- a sync that fails ----------------------------------------------------------------------------


def fail_to_sync(disk: SimDisk, file: SimFile) -> None:
    fault = disk.fail("sync", "/f")
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    disk.heal(fault)


def test_what_a_failed_sync_gave_up_is_readable_and_gone_at_power_loss() -> None:
    disk, file = disk_with(b"s" * PAGE)
    file.write(b"w" * PAGE)
    file.overwrite(0, b"over")
    fail_to_sync(disk, file)
    assert file.read(0, 4) == b"over"
    file.sync()
    assert file.read(PAGE, PAGE) == b"w" * PAGE
    assert not disk.is_synced("/f")
    disk.power_loss("strict")
    assert disk.dump() == {"/f": b"s" * PAGE + bytes(PAGE)}


def test_what_is_written_after_a_failed_sync_is_synced_by_the_next_one() -> None:
    disk, file = disk_with(b"")
    file.write(b"a" * PAGE)
    fail_to_sync(disk, file)
    file.write(b"b" * PAGE)
    file.sync()
    disk.power_loss("strict")
    assert disk.dump() == {"/f": bytes(PAGE) + b"b" * PAGE}


def test_a_page_given_up_and_written_again_is_written_whole() -> None:
    disk, file = disk_with(b"")
    file.write(b"a" * 10)
    fail_to_sync(disk, file)
    file.write(b"b")
    file.sync()
    assert disk.is_synced("/f")
    disk.power_loss("strict")
    assert disk.dump() == {"/f": b"a" * 10 + b"b"}


def test_a_failed_sync_may_have_written_all_the_same() -> None:
    disk, file = disk_with(b"s" * PAGE)
    file.write(b"w" * PAGE)
    fail_to_sync(disk, file)
    file.sync()
    outcomes = set()
    for seed in range(30):
        survivor = disk.clone(seed)
        survivor.power_loss()
        outcomes.add(survivor.dump()["/f"])
    assert {b"s" * PAGE + bytes(PAGE), b"s" * PAGE + b"w" * PAGE} < outcomes


def test_a_failed_sync_of_a_folder_leaves_its_names_in_doubt() -> None:
    disk = SimDisk()
    disk.create("/f").close()
    disk.fail("sync_folder", "/")
    with pytest.raises(OSError, match="Input/output error"):
        disk.sync_folder("/")
    disk.power_loss("strict")
    assert disk.files() == []


# --- operations that fail -------------------------------------------------------------------------


def test_the_nth_write_fails() -> None:
    disk, file = disk_with(b"")
    disk.fail("write", skip=2, code=errno.ENOSPC)
    file.write(b"1")
    file.write(b"2")
    with pytest.raises(OSError, match="No space left on device") as caught:
        file.write(b"3")
    assert caught.value.filename == "/f"
    file.write(b"4")
    assert disk.dump() == {"/f": b"124"}


@pytest.mark.parametrize(("kept_size", "expected"), [(0, b""), (3, b"012"), (99, b"0123456789")])
def test_a_failing_write_leaves_a_prefix(kept_size: int, expected: bytes) -> None:
    disk, file = disk_with(b"")
    disk.fail("write", kept_size=kept_size)
    with pytest.raises(OSError, match="Input/output error"):
        file.write(b"0123456789")
    assert file.size == len(expected)
    assert disk.dump() == {"/f": expected}
    file.truncate(0)
    file.write(b"again")
    assert disk.dump() == {"/f": b"again"}


def test_dice_choose_the_prefix() -> None:
    sizes = set()
    for seed in range(60):
        disk, file = disk_with(b"", seed=seed)
        disk.fail("write", kept_size=None)
        with pytest.raises(OSError, match="Input/output error"):
            file.write(b"01234")
        sizes.add(file.size)
    assert sizes == set(range(6))


def test_faults_go_by_the_names_of_files() -> None:
    disk = SimDisk()
    disk.make_folder("/a")
    disk.fail("write", "/a/*.seg", times=None)
    good, bad = disk.create("/a/1.idx"), disk.create("/a/1.seg")
    for _ in range(3):
        good.write(b"x")
        with pytest.raises(OSError, match="Input/output error"):
            bad.write(b"x")
    disk.rename("/a/1.seg", "/a/1.old")
    bad.write(b"x")
    assert disk.dump() == {"/a/1.idx": b"xxx", "/a/1.old": b"x"}


def test_so_many_failures_and_no_more() -> None:
    disk, file = disk_with(b"")
    fault = disk.fail("write", times=2)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            file.write(b"x")
    file.write(b"x")
    assert fault.strikes == 2


def test_faults_are_healed_one_by_one_or_all() -> None:
    disk, file = disk_with(b"data")
    writes, reads = disk.fail("write", times=None), disk.fail("read", times=None)
    disk.fail("open", times=None)
    disk.heal(writes)
    file.write(b"x")
    with pytest.raises(OSError, match="Input/output error"):
        file.read(0, 1)
    disk.heal(reads)
    file.read(0, 1)
    with pytest.raises(OSError, match="Input/output error"):
        disk.open("/f")
    disk.heal()
    disk.open("/f").close()


@pytest.mark.parametrize("operation", CHANGING)
def test_every_operation_can_fail_without_effect(operation: str) -> None:
    def names_and_bytes(disk: SimDisk) -> object:
        return disk.dump(), disk.list_folder("/"), disk.list_folder("/a"), disk.used_bytes

    disk = SimDisk()
    disk.fail(operation)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="Input/output error"):
        every_operation(disk)
    expected = SimDisk()
    expected.crash_at(EVERY_OPERATION.index(operation))
    with pytest.raises(PowerLost):
        every_operation(expected)
    expected.kill()
    assert names_and_bytes(disk) == names_and_bytes(expected)


def test_reads_of_a_bad_range_fail() -> None:
    disk, file = disk_with(b"0123456789")
    disk.fail_read("/f", 4, 6)
    assert file.read(0, 4) == b"0123"
    assert file.read(6, 100) == b"6789"
    for offset, size in ((0, 5), (4, 1), (5, 1), (5, 9), (0, 10)):
        with pytest.raises(OSError, match="Input/output error"):
            file.read(offset, size)
    disk.power_loss()
    with pytest.raises(OSError, match="Input/output error"):
        read_file(disk, "/f")
    disk.heal()
    assert read_file(disk, "/f") == b"0123456789"


def test_a_flipped_bit_is_there_to_stay() -> None:
    disk, file = disk_with(b"\x00" * 10)
    file.overwrite(0, b"\x01")
    disk.flip_bit("/f", 0, 7)
    disk.flip_bit("/f", 9, 0)
    assert file.read(0, 10) == b"\x81" + bytes(8) + b"\x01"
    disk.power_loss("strict")
    assert read_file(disk, "/f") == b"\x80" + bytes(8) + b"\x01"
    for offset, bit in ((10, 0), (-1, 0), (0, 8)):
        with pytest.raises(InvariantViolation):
            disk.flip_bit("/f", offset, bit)


# --- room -----------------------------------------------------------------------------------------


def test_a_full_disk_takes_what_fits() -> None:
    disk, file = disk_with(b"0123", capacity_bytes=10)
    assert disk.free_bytes("/") == 6
    file.write(b"456789")
    assert disk.free_bytes("/") == 0
    with pytest.raises(OSError, match="No space left on device"):
        file.write(b"x")
    file.overwrite(0, b"abc")
    file.sync()
    other = disk.create("/g")
    file.truncate(8)
    with pytest.raises(OSError, match="No space left on device"):
        other.write(b"xyz")
    assert disk.dump() == {"/f": b"abc34567", "/g": b"xy"}
    assert disk.free_bytes("/") == 0


def test_room_comes_back_with_removing_once_nobody_reads() -> None:
    disk, file = disk_with(b"0123456789", capacity_bytes=10)
    disk.remove("/f")
    assert disk.free_bytes("/") == 0
    file.close()
    file.close()
    assert disk.free_bytes("/") == 10
    replace_file(disk, "/g", b"0123")
    replace_file(disk, "/g", b"012345")
    assert disk.used_bytes == 6


def test_room_comes_back_when_the_reader_dies() -> None:
    disk, _ = disk_with(b"0123456789", capacity_bytes=10)
    before = disk.clone()
    disk.remove("/f")
    disk.kill()
    assert disk.free_bytes("/") == 10
    before.open("/f")
    before.kill()
    before.remove("/f")
    assert before.free_bytes("/") == 10


def test_a_rename_that_changes_nothing_frees_nothing() -> None:
    disk, file = disk_with(b"0123456789", capacity_bytes=10)
    file.close()
    disk.rename("/f", "/f")
    assert disk.free_bytes("/") == 0


def test_a_power_loss_can_fill_the_disk_again() -> None:
    disk, file = disk_with(b"0123456789", capacity_bytes=10)
    file.truncate(0)
    assert disk.free_bytes("/") == 10
    disk.power_loss("strict")
    assert disk.free_bytes("/") == 0


def test_a_disk_without_a_size_has_room_for_all() -> None:
    assert SimDisk().free_bytes("/") > 1 << 40


def test_a_torn_write_does_not_overfill_the_disk() -> None:
    disk, file = disk_with(b"0123", capacity_bytes=6)
    disk.crash_at(disk.operations, "after")
    with pytest.raises(PowerLost):
        file.write(b"0123456789")
    assert disk.used_bytes == 6
    assert disk.dump() == {"/f": b"012301"}


# --- looking from outside -------------------------------------------------------------------------


def test_a_clone_goes_its_own_way() -> None:
    disk, file = disk_with(b"data")
    file.write(b" more")
    disk.fail("write", skip=1, times=1)
    clone = disk.clone()
    file.write(b" on the first")
    other = clone.open("/f")
    other.write(b" on the second")
    assert disk.dump() == {"/f": b"data more on the first"}
    assert clone.dump() == {"/f": b"data more on the second"}
    for handle in (file, other):
        with pytest.raises(OSError, match="Input/output error"):
            handle.write(b"each has its own fault")
    clone.power_loss("strict")
    assert clone.dump() == {"/f": b"data"}
    assert disk.dump() == {"/f": b"data more on the first"}


def test_a_clone_has_no_process() -> None:
    disk, _ = disk_with(b"data", capacity_bytes=10)
    disk.lock("/lock")
    disk.remove("/f")
    clone = disk.clone()
    clone.lock("/lock")
    assert (disk.free_bytes("/"), clone.free_bytes("/")) == (6, 10)


def test_a_clone_with_the_same_seed_meets_the_same_fate() -> None:
    disk = unsynced_disk()
    clone, other = disk.clone(), disk.clone(disk.seed)
    for each in (disk, clone, other):
        each.power_loss()
    assert disk.dump() == clone.dump() == other.dump()


def test_a_clone_of_a_disk_without_power_has_none() -> None:
    disk, file = disk_with(b"data")
    disk.crash_at(disk.operations)
    with pytest.raises(PowerLost):
        file.sync()
    clone = disk.clone()
    with pytest.raises(PowerLost):
        clone.open("/f")
    clone.power_loss()
    assert read_file(clone, "/f") == b"data"
    assert not disk.is_powered


def test_what_was_done_is_counted() -> None:
    disk, file = disk_with(b"0123")
    file.write(b"45")
    file.overwrite(0, b"a")
    file.sync()
    disk.rename("/f", "/g")
    assert disk.counts("/g") == FileCounts(writes=3, written_bytes=7, syncs=2)
    assert disk.clone().counts("/g") == disk.counts("/g")
    counted = {kind: count for kind, count in disk.operation_counts.items() if count}
    # fmt: off
    assert counted == {
        "create": 1, "write": 2, "overwrite": 1, "sync": 2, "sync_folder": 1, "rename": 1,
    }
    # fmt: on
    assert sum(counted.values()) == disk.operations
    assert disk.files() == ["/g"]


def test_the_history_tells_what_happened() -> None:
    disk, file = disk_with(b"0123")
    file.overwrite(1, b"ab")
    file.truncate(3)
    disk.fail("write", code=errno.ENOSPC, kept_size=1)
    with pytest.raises(OSError, match="No space"):
        file.write(b"xyz")
    disk.crash_at(disk.operations)
    with pytest.raises(PowerLost):
        file.sync()
    disk.power_loss("strict")
    disk.flip_bit("/f", 0, 3)
    assert disk.history().splitlines() == [
        "      0 create /f",
        "      1 write /f 4 bytes at 0",
        "      2 sync /f",
        "      3 sync_folder /",
        "      4 overwrite /f 2 bytes at 1",
        "      5 truncate /f to 3 bytes",
        "      6 write /f 3 bytes at 3",
        "        /f: interrupted after 1: [Errno 28] No space left on device: '/f'",
        "      7 sync /f",
        "        /f: interrupted after 0: power lost before operation 7, sync /f",
        "        power loss, strict",
        "        /f: bit 3 of byte 0 flipped",
    ]
    assert disk.history(1) == "        /f: bit 3 of byte 0 flipped"


def test_paths_begin_at_the_root() -> None:
    disk = SimDisk()
    disk.make_folder("a/./b/")
    disk.create("a//b/f").close()
    assert disk.files() == ["/a/b/f"]
    assert disk.exists("/a/b/../b") is False
    with pytest.raises(OSError, match="busy"):
        disk.remove_folder("/")
