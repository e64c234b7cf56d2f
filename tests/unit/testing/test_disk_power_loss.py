"""The end of a process and of a machine: the bytes it takes, and the seed that repeats it."""

from collections.abc import Callable
from typing import Final

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.store.disk.filesystem import File, read_file, replace_file
from headwater.testing.disk import Mode, PowerLost, SimDisk, crash_points
from headwater.testing.disk_faults import CHANGING, Moment
from tests.unit.testing.disk_scenes import (
    USES,
    disk_with,
    every_operation,
    unsynced_disk,
)

MOMENTS: Final[tuple[Moment, ...]] = ("before", "during", "after")
MODES: Final[tuple[Mode, ...]] = ("strict", "kind", "random")
PAGE: Final = 4096


# --- the end of a process -------------------------------------------------------------------------


def test_a_kill_loses_nothing_that_was_written() -> None:
    disk, file = disk_with(b"synced ")
    file.write(b"written")
    disk.create("/g").close()
    lock = disk.lock("/lock")
    pid, boot_id = disk.pid, disk.boot_id
    disk.kill()
    assert disk.dump() == {"/f": b"synced written", "/g": b"", "/lock": b""}
    assert disk.pid != pid
    assert disk.boot_id == boot_id
    lock.release()
    disk.lock("/lock")
    with pytest.raises(BlockingIOError):
        disk.lock("/lock")


@pytest.mark.parametrize("use", USES)
def test_handles_end_with_their_process(use: Callable[[File], object]) -> None:
    disk, file = disk_with(b"data")
    disk.kill()
    with pytest.raises(OSError, match="Bad file descriptor"):
        use(file)
    file.close()
    assert disk.dump() == {"/f": b"data"}


def test_a_lock_of_a_dead_process_releases_nothing() -> None:
    disk = SimDisk()
    old = disk.lock("/lock")
    disk.kill()
    disk.lock("/lock")
    old.release()
    with pytest.raises(BlockingIOError, match=f"held by process {disk.pid}"):
        disk.lock("/lock")


def test_two_handles_do_not_write_to_one_file() -> None:
    disk, file = disk_with(b"data")
    other = disk.open("/f")
    other.write(b"more")
    with pytest.raises(InvariantViolation, match="another handle"):
        file.write(b"x")


# --- power loss -----------------------------------------------------------------------------------


def test_strict_keeps_what_was_synced_and_nothing_else() -> None:
    disk = unsynced_disk()
    disk.power_loss("strict")
    assert disk.dump() == {"/f": b"synced "}


def test_kind_keeps_everything() -> None:
    disk = unsynced_disk()
    disk.power_loss("kind")
    assert disk.dump() == {"/f": b"synced written", "/new": b""}
    disk.power_loss("strict")
    assert disk.dump() == {"/f": b"synced written", "/new": b""}


def test_random_keeps_some() -> None:
    survivors = set()
    for seed in range(200):
        disk = unsynced_disk().clone(seed)
        disk.power_loss()
        assert disk.dump()["/f"].startswith(b"synced ")
        survivors.add((disk.dump()["/f"], disk.exists("/new")))
    lengths = {len(data) for data, _ in survivors}
    assert lengths == set(range(7, 15))
    assert (b"synced wri", True) in survivors
    assert (b"synced wri", False) in survivors
    assert any(data.startswith(b"synced w") and data.endswith(b"\0") for data, _ in survivors)


def test_the_same_seed_leaves_the_same() -> None:
    def outcome(seed: int) -> tuple[dict[str, bytes], str]:
        disk = SimDisk(seed)
        for name in "abc":
            file = disk.create(f"/{name}")
            file.write(name.encode() * 3 * PAGE)
            file.overwrite(100, b"overwritten")
        disk.crash_at(disk.operations, "during")
        with pytest.raises(PowerLost):
            file.write(b"torn" * PAGE)
        disk.power_loss()
        return disk.dump(), disk.history()

    assert outcome(1) == outcome(1)
    assert len({str(outcome(seed)) for seed in range(10)}) == 10


def test_a_new_machine_is_a_new_boot_and_a_new_process() -> None:
    disk, file = disk_with(b"data")
    lock, pid, boot_id = disk.lock("/lock"), disk.pid, disk.boot_id
    disk.power_loss()
    assert disk.pid != pid
    assert disk.boot_id != boot_id
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.read(0, 1)
    lock.release()


def test_pages_that_were_synced_are_never_touched() -> None:
    disk, file = disk_with(b"s" * 5 * PAGE)
    file.write(b"w" * 5 * PAGE)
    for seed in range(50):
        survivor = disk.clone(seed)
        survivor.power_loss()
        assert survivor.dump()["/f"].startswith(b"s" * 5 * PAGE)


@pytest.mark.parametrize(("leftovers", "allowed"), [("zeros", b"w\0"), ("stale", b"w\0s")])
def test_pages_that_nobody_wrote_hold_what_was_chosen(leftovers: str, allowed: bytes) -> None:
    disk, file = disk_with(b"s" * PAGE)
    disk.leftovers = leftovers  # type: ignore[assignment]
    file.write(b"w" * 20 * PAGE)
    found: set[int] = set()
    for seed in range(20):
        survivor = disk.clone(seed)
        survivor.power_loss()
        found |= set(survivor.dump()["/f"][PAGE:])
    assert found == set(allowed)


def test_noise_is_anything() -> None:
    disk, file = disk_with(b"s" * PAGE)
    file.write(b"w" * 20 * PAGE)
    found: set[int] = set()
    for seed in range(20):
        survivor = disk.clone(seed)
        survivor.power_loss()
        found |= set(survivor.dump()["/f"][PAGE:])
    assert len(found) == 256


@pytest.mark.parametrize("page_bytes", [512, 4096])
def test_the_unit_of_writing_back_can_be_chosen(page_bytes: int) -> None:
    disk, file = disk_with(b"old " * 4 * PAGE, page_bytes=page_bytes)
    file.overwrite(0, b"new " * 4 * PAGE)
    borders: set[int] = set()
    for seed in range(100):
        survivor = disk.clone(seed)
        survivor.power_loss()
        data = survivor.dump()["/f"]
        words = [data[start : start + 4] for start in range(0, len(data), 4)]
        borders |= {
            4 * index
            for index in range(1, len(words))
            if {words[index - 1], words[index]} == {b"old ", b"new "}
        }
    assert {border % page_bytes for border in borders} > {0}
    assert {page_bytes, 2 * page_bytes} <= borders


def test_the_name_of_a_folder_needs_a_sync_above_it() -> None:
    disk = SimDisk()
    disk.make_folder("/a/b")
    replace_file(disk, "/a/b/f", b"data")
    lost = disk.clone()
    lost.power_loss("strict")
    assert not lost.exists("/a")
    disk.sync_folder("/a")
    disk.sync_folder("/")
    disk.power_loss("strict")
    assert disk.dump() == {"/a/b/f": b"data"}


def test_a_folder_removed_and_not_synced_comes_back_with_its_files() -> None:
    disk = SimDisk()
    disk.make_folder("/a")
    disk.sync_folder("/")
    replace_file(disk, "/a/f", b"data")
    disk.remove("/a/f")
    disk.remove_folder("/a")
    back = disk.clone()
    back.power_loss("strict")
    assert back.dump() == {"/a/f": b"data"}
    disk.sync_folder("/")
    disk.power_loss("strict")
    assert disk.list_folder("/") == []


def test_a_file_renamed_twice_has_one_of_the_three_names() -> None:
    disk, _ = disk_with(b"data")
    disk.rename("/f", "/g")
    disk.rename("/g", "/h")
    found = set()
    for seed in range(50):
        survivor = disk.clone(seed)
        survivor.power_loss()
        found.add(tuple(survivor.files()))
    assert found == {("/f",), ("/g",), ("/h",)}


def test_a_file_moved_between_folders_has_a_name_at_any_time() -> None:
    disk = SimDisk()
    disk.make_folder("/a")
    disk.make_folder("/b")
    disk.sync_folder("/")
    replace_file(disk, "/a/f", b"data")
    disk.rename("/a/f", "/b/f")
    found = set()
    for seed in range(50):
        survivor = disk.clone(seed)
        survivor.power_loss()
        found.add(tuple(survivor.files()))
    assert found == {("/a/f",), ("/b/f",), ("/a/f", "/b/f")}
    # Its folder of origin cannot forget the file before the other one knows it.
    disk.sync_folder("/a")
    disk.power_loss("strict")
    assert disk.dump() == {"/b/f": b"data"}


def test_a_file_with_two_names_is_one_file() -> None:
    disk = SimDisk(capacity_bytes=100)
    disk.make_folder("/a")
    disk.make_folder("/b")
    disk.sync_folder("/")
    replace_file(disk, "/a/f", b"data")
    disk.rename("/a/f", "/b/f")
    disk.sync_folder("/b")
    disk.power_loss("strict")
    assert disk.dump() == {"/a/f": b"data", "/b/f": b"data"}
    assert disk.used_bytes == 4
    disk.remove("/a/f")
    assert disk.used_bytes == 4
    disk.remove("/b/f")
    assert disk.used_bytes == 0


# --- crash points ---------------------------------------------------------------------------------


def test_crash_points_count_every_operation_that_changes_something() -> None:
    assert crash_points(every_operation) == range(len(CHANGING))
    disk, _ = disk_with(b"")
    before = disk.operations
    assert crash_points(every_operation, disk) == range(before, before + len(CHANGING))
    assert disk.operations == before


def test_looking_is_not_counted() -> None:
    disk, file = disk_with(b"data")
    before = disk.operations
    file.read(0, 4)
    disk.open("/f").close()
    disk.make_folder("/")
    disk.list_folder("/")
    disk.free_bytes("/")
    assert disk.operations == before


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("number", range(len(CHANGING)))
def test_every_operation_can_be_the_last(number: int, moment: Moment) -> None:
    whole = SimDisk()
    every_operation(whole)
    disk = SimDisk()
    disk.crash_at(number, moment)
    with pytest.raises(PowerLost, match=f"{moment} operation {number}"):
        every_operation(disk)
    assert not disk.is_powered
    assert disk.operations == number + 1
    for use in (disk.list_folder, disk.exists, disk.open, disk.create, disk.lock, disk.free_bytes):
        with pytest.raises(PowerLost, match="machine is off"):
            use("/")
    disk.power_loss()
    assert disk.is_powered
    disk.list_folder("/")


@pytest.mark.parametrize("use", USES)
def test_after_a_crash_every_use_of_a_handle_is_a_crash(use: Callable[[File], object]) -> None:
    disk, file = disk_with(b"data")
    disk.crash_at(disk.operations)
    with pytest.raises(PowerLost):
        disk.create("/g")
    with pytest.raises(PowerLost):
        use(file)
    file.close()
    disk.power_loss("kind")
    assert disk.dump() == {"/f": b"data"}


@pytest.mark.parametrize(
    ("moment", "kept_size", "expected"),
    [
        ("before", None, b"data"),
        ("during", 0, b"data"),
        ("during", 3, b"data012"),
        ("during", 99, b"data0123456789"),
        ("after", None, b"data0123456789"),
    ],
)
def test_a_write_is_torn_where_one_says(
    moment: Moment, kept_size: int | None, expected: bytes
) -> None:
    disk, file = disk_with(b"data")
    disk.crash_at(disk.operations, moment, kept_size)
    with pytest.raises(PowerLost):
        file.write(b"0123456789")
    disk.kill()
    assert disk.dump() == {"/f": expected}


def test_an_overwrite_is_torn_where_one_says() -> None:
    disk, file = disk_with(b"0123456789")
    disk.crash_at(disk.operations, "during", 3)
    with pytest.raises(PowerLost):
        file.overwrite(2, b"abcdef")
    disk.kill()
    assert disk.dump() == {"/f": b"01abc56789"}


def test_dice_tear_a_write_at_any_byte() -> None:
    found = set()
    for seed in range(100):
        disk, file = disk_with(b"", seed=seed)
        disk.crash_at(disk.operations, "during")
        with pytest.raises(PowerLost):
            file.write(b"01234")
        found.add(disk.dump()["/f"])
    assert found == {b"01234"[:size] for size in range(6)}


def test_a_sync_may_have_happened_although_nobody_was_told() -> None:
    disk, file = disk_with(b"data")
    file.write(b"more")
    disk.crash_at(disk.operations, "after")
    with pytest.raises(PowerLost):
        file.sync()
    disk.power_loss("strict")
    assert disk.dump() == {"/f": b"datamore"}


def test_a_crash_is_planned_ahead() -> None:
    disk, _ = disk_with(b"data")
    with pytest.raises(InvariantViolation, match="past"):
        disk.crash_at(disk.operations - 1)


def test_no_handler_of_errors_stops_a_crash() -> None:
    assert not issubclass(PowerLost, Exception)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("ordered_folders", [False, True])
def test_a_replaced_file_is_the_old_or_the_new_wherever_power_is_lost(
    moment: Moment, ordered_folders: bool
) -> None:
    start = SimDisk(ordered_folders=ordered_folders)
    replace_file(start, "/f", b"old" * PAGE)
    outcomes = {mode: set[bytes]() for mode in MODES}
    for number in crash_points(lambda disk: replace_file(disk, "/f", b"new" * PAGE), start):
        crashed = start.clone()
        crashed.crash_at(number, moment)
        with pytest.raises(PowerLost):
            replace_file(crashed, "/f", b"new" * PAGE)
        for mode in MODES:
            for seed in range(20):
                survivor = crashed.clone(seed)
                survivor.power_loss(mode)
                outcomes[mode].add(read_file(survivor, "/f"))
                replace_file(survivor, "/f", b"newest")
    assert set().union(*outcomes.values()) <= {b"old" * PAGE, b"new" * PAGE}
    assert outcomes["random"] == {b"old" * PAGE, b"new" * PAGE}


def replace_without_syncing_the_file(disk: SimDisk, path: str, data: bytes) -> None:
    file = disk.create(f"{path}.new")
    file.write(data)
    file.close()
    disk.rename(f"{path}.new", path)
    disk.sync_folder("/")


def replace_without_syncing_the_folder(disk: SimDisk, path: str, data: bytes) -> None:
    file = disk.create(f"{path}.new")
    file.write(data)
    file.sync()
    file.close()
    disk.rename(f"{path}.new", path)


@pytest.mark.parametrize(
    "careless", [replace_without_syncing_the_file, replace_without_syncing_the_folder]
)
def test_a_sync_that_is_left_out_is_found_out(
    careless: Callable[[SimDisk, str, bytes], None],
) -> None:
    disk = SimDisk()
    replace_file(disk, "/f", b"old" * PAGE)
    careless(disk, "/f", b"new" * PAGE)
    outcomes = set()
    for seed in range(20):
        survivor = disk.clone(seed)
        survivor.power_loss()
        outcomes.add(read_file(survivor, "/f"))
    assert outcomes > {b"new" * PAGE}
