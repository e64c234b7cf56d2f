"""A bound on open files, which the users of a file do not notice."""

import asyncio
import errno
import os
import resource
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from headwater.runtime.filesystem import SystemFileSystem
from headwater.runtime.open_files import (
    DESCRIPTORS_PART,
    LOOKED_AT_MAX,
    OPEN_FILES_MAX,
    OPEN_FILES_MIN,
    OPEN_PER_CLOSED,
    BoundedFile,
    OpenFiles,
    open_files_max,
)
from headwater.runtime.real import real_environment
from headwater.store.disk.filesystem import File
from headwater.store.log.message_log import Batch
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.disk import SimDisk, SimFile
from headwater.testing.entropy import SeededEntropy
from tests.kit import entries

BOUND = 4


class CountingDisk(SimDisk):
    """A disk that knows how often each file was opened, and has so many descriptors."""

    def __init__(self, descriptors: int = 1 << 30) -> None:
        super().__init__()
        self.opens: list[str] = []
        self.descriptors = descriptors
        self.bounded: OpenFiles | None = None

    def open(self, path: str) -> SimFile:
        self._take(path)
        return super().open(path)

    def create(self, path: str) -> SimFile:
        self._take(path)
        return super().create(path)

    def _take(self, path: str) -> None:
        if self.bounded is not None and self.bounded.open_count >= self.descriptors:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        self.opens.append(path)


def bounded(disk: SimDisk, open_max: int = BOUND) -> OpenFiles:
    files = OpenFiles(disk, open_max)
    if isinstance(disk, CountingDisk):
        disk.bounded = files
    return files


def made(files: OpenFiles, name: str, data: bytes = b"data") -> BoundedFile:
    """A file that is on the disk."""
    file = files.create(f"/{name}")
    file.write(data)
    file.sync()
    return file


def rested(files: OpenFiles, file: BoundedFile) -> BoundedFile:
    """The file, after so many others were used that it has no descriptor."""
    others = [made(files, f"other-{number}") for number in range(2 * BOUND)]
    assert file.file is None
    for other in others:
        other.close()
        files.remove(other.path)
    return file


# --- the bound ------------------------------------------------------------------------------------


def test_as_many_files_stay_open_as_may_and_not_one_more() -> None:
    disk = CountingDisk()
    files = bounded(disk)
    held = [made(files, str(number)) for number in range(BOUND)]
    assert files.open_count == BOUND
    disk.opens.clear()
    assert [file.read(0, 9) for file in held] == [b"data"] * BOUND
    assert disk.opens == []
    held.append(made(files, "more"))
    assert files.open_count == BOUND
    assert [file.read(0, 9) for file in held] == [b"data"] * (BOUND + 1)
    assert files.open_count == BOUND


def test_a_file_that_is_used_stays_open_while_others_come_and_go() -> None:
    disk = CountingDisk()
    files = bounded(disk)
    busy = made(files, "busy")
    for number in range(10 * BOUND):
        made(files, str(number))
        busy.read(0, 1)
    assert disk.opens.count("/busy") == 1


def test_a_file_that_is_only_synced_now_and_then_is_not_in_use() -> None:
    files = bounded(CountingDisk())
    idle = made(files, "idle")
    for number in range(3 * BOUND):
        made(files, str(number))
        idle.sync()
    assert idle.file is None


def test_a_file_that_is_closed_is_counted_no_longer() -> None:
    files = bounded(SimDisk())
    for number in range(3 * BOUND):
        file = made(files, str(number))
        file.close()
        file.close()
    assert files.open_count == 0
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.read(0, 1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.sync()


def test_the_size_of_a_file_is_known_without_opening_it() -> None:
    disk = CountingDisk()
    files = bounded(disk)
    file = rested(files, made(files, "f", b"seven b"))
    disk.opens.clear()
    assert file.size == 7
    assert disk.opens == []


def test_what_has_to_stay_open_does() -> None:
    disk = CountingDisk()
    files = OpenFiles(disk, BOUND, stays_open=lambda path: path == "/kept")
    kept = made(files, "kept")
    for number in range(5 * BOUND):
        made(files, str(number))
    assert kept.file is not None
    assert files.open_count == BOUND


@pytest.mark.parametrize(
    ("limit", "bound"),
    [
        (resource.RLIM_INFINITY, OPEN_FILES_MAX),
        (OPEN_FILES_MAX * DESCRIPTORS_PART + DESCRIPTORS_PART, OPEN_FILES_MAX),
        (OPEN_FILES_MAX * DESCRIPTORS_PART - DESCRIPTORS_PART, OPEN_FILES_MAX - 1),
        (OPEN_FILES_MIN * DESCRIPTORS_PART, OPEN_FILES_MIN),
        (OPEN_FILES_MIN * DESCRIPTORS_PART - 1, OPEN_FILES_MIN),
    ],
)
def test_the_bound_is_a_part_of_what_the_process_may_have(
    limit: int, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))
    assert open_files_max() == bound


# --- unsynced bytes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.write(b"more"),
        lambda file: file.overwrite(0, b"D"),
        lambda file: file.truncate(1),
    ],
)
def test_a_file_that_is_dirty_keeps_its_descriptor_until_it_is_synced(
    change: Callable[[File], None],
) -> None:
    files = bounded(SimDisk())
    file = made(files, "dirty")
    change(file)
    for number in range(3 * BOUND):
        made(files, str(number))
    assert file.file is not None
    file.sync()
    for number in range(3 * BOUND):
        made(files, f"again-{number}")
    assert file.file is None


def test_files_that_become_clean_are_closed_where_they_are_too_many() -> None:
    files = bounded(SimDisk())
    held = [files.create(f"/{number}") for number in range(3 * BOUND)]
    assert files.open_count == 3 * BOUND
    for file in held:
        file.sync()
    assert files.open_count == BOUND


def test_a_sync_that_fails_leaves_the_file_dirty() -> None:
    disk = SimDisk()
    files = bounded(disk)
    file = made(files, "f")
    file.write(b"more")
    disk.fail("sync", "/f")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    for number in range(3 * BOUND):
        made(files, str(number))
    assert file.file is not None


def test_what_somebody_else_left_unsynced_is_synced_after_a_rest() -> None:
    disk = SimDisk()
    left = disk.create("/left")
    left.write(b"by a process that was killed")
    disk.sync_folder("/")
    files = bounded(disk)
    file = rested(files, files.open("/left"))
    file.sync()
    disk.power_loss("strict")
    assert disk.open("/left").read(0, 99) == b"by a process that was killed"


def test_what_is_on_the_disk_needs_no_descriptor_to_be_synced() -> None:
    disk = CountingDisk()
    files = bounded(disk)
    file = rested(files, made(files, "f"))
    disk.opens.clear()
    file.sync()
    assert disk.opens == []


# --- names ----------------------------------------------------------------------------------------


def test_a_file_follows_its_name() -> None:
    files = bounded(SimDisk())
    file = rested(files, made(files, "new"))
    files.rename("/new", "/old")
    rested(files, file)
    assert file.read(0, 9) == b"data"
    file.write(b" and more")
    assert files.open("/old").read(0, 99) == b"data and more"


def test_a_file_without_a_name_is_there_for_who_holds_it() -> None:
    files = bounded(SimDisk())
    removed = rested(files, made(files, "removed"))
    replaced = rested(files, made(files, "replaced"))
    files.remove("/removed")
    made(files, "successor", b"another").close()
    files.rename("/successor", "/replaced")
    for number in range(3 * BOUND):
        made(files, f"later-{number}")
    assert removed.read(0, 9) == replaced.read(0, 9) == b"data"
    assert files.open("/replaced").read(0, 9) == b"another"
    removed.close()
    replaced.close()


def test_a_name_that_could_not_be_changed_is_as_it_was() -> None:
    disk = SimDisk()
    files = bounded(disk)
    file = made(files, "f")
    fault = disk.fail("remove", "/f")
    with pytest.raises(OSError, match="Input/output"):
        files.remove("/f")
    disk.heal(fault)
    assert rested(files, file).read(0, 9) == b"data"


def test_a_file_that_was_cut_by_others_is_not_gone_on_with() -> None:
    disk = SimDisk()
    files = bounded(disk)
    file = rested(files, made(files, "f"))
    disk.open("/f").truncate(3)
    with pytest.raises(OSError, match="shorter than it was: 3 of 4 bytes") as caught:
        file.write(b"more")
    assert caught.value.errno == errno.ESTALE
    assert disk.open("/f").size == 3
    files.remove("/f")
    assert not disk.exists("/f")


def test_a_file_that_was_removed_by_others_is_missed() -> None:
    disk = SimDisk()
    files = bounded(disk)
    file = rested(files, made(files, "f"))
    disk.remove("/f")
    with pytest.raises(FileNotFoundError):
        file.write(b"more")

    made(files, "successor", b"another").close()
    files.rename("/successor", "/f")
    assert files.open("/f").read(0, 9) == b"another"


# --- no descriptors -------------------------------------------------------------------------------


def test_where_the_process_has_no_descriptor_left_an_idle_file_gives_up_its_own() -> None:
    disk = CountingDisk(descriptors=3)
    files = bounded(disk, open_max=1000)
    held = [made(files, str(number)) for number in range(20)]
    assert [file.read(0, 9) for file in held] == [b"data"] * 20
    assert files.open_count == 3


def test_where_none_is_idle_that_there_is_none_left_is_told() -> None:
    disk = CountingDisk(descriptors=3)
    files = bounded(disk, open_max=1000)
    for number in range(3):
        made(files, str(number)).write(b"dirty")
    with pytest.raises(OSError, match="Too many open files"):
        files.create("/more")


def test_a_folder_is_synced_without_a_descriptor_to_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk()
    files = bounded(disk, open_max=1000)
    made(files, "f")
    sync_folder = disk.sync_folder

    def sync(path: str) -> None:
        if files.open_count:
            raise OSError(errno.ENFILE, os.strerror(errno.ENFILE), path)
        sync_folder(path)

    monkeypatch.setattr(disk, "sync_folder", sync)
    files.sync_folder("/")
    assert files.open_count == 0


def test_a_search_among_files_that_are_all_dirty_ends() -> None:
    files = bounded(SimDisk())
    held = [files.create(f"/{number}") for number in range(3 * LOOKED_AT_MAX)]
    clean = made(files, "clean")
    # One search looks at a bounded number of files, and the next one goes on behind them.
    for number in range(8):
        files.create(f"/more-{number}")
    assert clean.file is None
    assert all(file.file is not None for file in held)


def test_one_search_closes_several_files_where_many_may_be_open() -> None:
    files = OpenFiles(SimDisk(), 4 * OPEN_PER_CLOSED)
    held = [made(files, f"{number}") for number in range(4 * OPEN_PER_CLOSED)]
    assert files.open_count == 4 * OPEN_PER_CLOSED
    made(files, "one more")
    assert files.open_count == 4 * OPEN_PER_CLOSED - 4 + 1
    # The files that were not used for the longest time are closed.
    assert [file.file is None for file in held[:5]] == [True] * 4 + [False]


def test_a_write_that_ends_while_its_descriptor_is_sought_keeps_it() -> None:
    files = bounded(SimDisk())
    file = made(files, "clean")
    assert file.may_rest

    class EndsWhenLookedAt(list[None]):
        """The users of a file: the last one writes and goes just when the pool counts them."""

        def __bool__(self) -> bool:
            file._users = []
            file.write(b"more")
            return False

    file._users = EndsWhenLookedAt()
    assert not file.may_rest


# --- threads and real files -----------------------------------------------------------------------


def test_files_may_be_used_and_synced_on_several_threads(tmp_path: Path) -> None:
    files = OpenFiles(SystemFileSystem(), open_max=2)
    rounds, count = 15, 8
    held = [files.create(f"{tmp_path}/{number}") for number in range(count)]

    def write(number: int) -> None:
        for turn in range(rounds):
            held[number].write(b"%d:%d;" % (number, turn))
            neighbour = held[(number + 1) % count]
            assert neighbour.read(0, 2) in (b"", b"%d:" % ((number + 1) % count))

    def sync(number: int) -> None:
        for _ in range(rounds):
            held[number].sync()

    with ThreadPoolExecutor(count) as pool:
        work = [pool.submit(each, n) for n in range(count) for each in (write, sync)]
        for each in work:
            each.result()
    for number, file in enumerate(held):
        file.sync()
        wanted = b"".join(b"%d:%d;" % (number, turn) for turn in range(rounds))
        assert (tmp_path / str(number)).read_bytes() == wanted
    for file in held:
        file.sync()
    assert files.open_count <= 2


def opened(files: OpenFiles, folder: str) -> Store:
    store = open_store(files, folder, SeededEntropy(Random(1)), "boot", {}, segment_bytes_max=2_000)
    return entries.redo(store)


def fill(store: Store, streams: int) -> None:
    for number in range(streams):
        mode = [SyncMode.INTERVAL, SyncMode.ALWAYS, SyncMode.ASYNC][number % 3]
        store.create_stream(f"S{number}", mode=mode)
    for turn in range(3):
        for name in store.logs:
            batch = Batch([b"s"] * 9, [b""] * 9, [b"%d" % turn * 99] * 9, [1] * 9)
            entries.append(store, name, batch)
            entries.delete(store, name, [turn + 1])
        store.sync()


def payloads(store: Store) -> dict[str, list[bytes]]:
    return {name: log.read(1, 99, 1 << 20).payloads for name, log in sorted(store.logs.items())}


def test_a_store_of_many_streams_has_few_files_open() -> None:
    disk = SimDisk()
    disk.make_folder("/data")
    disk.sync_folder("/")
    files = bounded(disk)
    store = opened(files, "/data")
    fill(store, streams=40)
    assert files.open_count <= BOUND
    before = payloads(store)
    assert [len(found) for found in before.values()] == [24] * 40
    disk.power_loss("strict")
    again = opened(bounded(disk), "/data")
    assert payloads(again) == before
    again.close()


def test_a_store_on_a_real_disk_holds_few_descriptors(tmp_path: Path) -> None:
    def descriptors() -> int:
        found = [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        return sum(target.startswith(str(tmp_path)) for target in found)

    files = OpenFiles(SystemFileSystem(), BOUND)
    store = opened(files, str(tmp_path))
    fill(store, streams=12)
    # The lock of the store is no file of a stream.
    assert descriptors() <= BOUND + 2
    before = payloads(store)
    store.close()
    assert files.open_count == 0
    again = opened(OpenFiles(SystemFileSystem(), BOUND), str(tmp_path))
    assert payloads(again) == before
    again.close()


def test_the_write_ahead_file_of_a_server_stays_open(tmp_path: Path) -> None:
    async def run() -> None:
        files = real_environment().disk
        assert isinstance(files, OpenFiles)
        assert files.create(f"{tmp_path}/ahead-000000000001.hw").stays_open
        assert not files.create(f"{tmp_path}/journal.hw").stays_open

    asyncio.run(run())
