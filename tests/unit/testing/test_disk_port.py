"""The promises of the store's FileSystem port, kept by a real disk and by the simulated one."""

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headwater.runtime.filesystem import SystemFileSystem
from headwater.runtime.open_files import OpenFiles
from headwater.store.disk.cipher import StreamKey
from headwater.store.disk.encoding import EncodedFiles
from headwater.store.disk.filesystem import File, FileSystem, read_file, replace_file
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy


@pytest.fixture(
    params=["simulated", "system", "compressed", "encrypted", "bounded", "bounded system"]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, str]:
    """A file system and an empty folder of it."""
    if request.param == "system":
        return SystemFileSystem(), str(tmp_path)
    if request.param == "bounded system":
        return OpenFiles(SystemFileSystem(), open_max=1), str(tmp_path)
    disk = SimDisk()
    disk.make_folder("/place")
    if request.param == "bounded":
        return OpenFiles(disk, open_max=1), "/place"
    if request.param == "simulated":
        return disk, "/place"
    entropy = SeededEntropy(Random(1))
    key = StreamKey.generate(entropy) if request.param == "encrypted" else None
    return EncodedFiles(disk, entropy, compresses=True, key=key), "/place"


@pytest.fixture
def files(place: tuple[FileSystem, str]) -> FileSystem:
    return place[0]


@pytest.fixture
def root(place: tuple[FileSystem, str]) -> str:
    return place[1]


def make(files: FileSystem, path: str, data: bytes = b"") -> None:
    file = files.create(path)
    file.write(data)
    file.close()


# --- bytes --------------------------------------------------------------------------------------


def test_writes_go_to_the_end(files: FileSystem, root: str) -> None:
    file = files.create(f"{root}/f")
    assert file.size == 0
    file.write(b"one ")
    file.write(b"")
    file.write(b"two")
    assert file.size == 7
    assert file.read(0, 7) == b"one two"
    file.close()

    again = files.open(f"{root}/f")
    assert again.size == 7
    again.write(b" three")
    assert again.size == 13
    assert again.read(0, 13) == b"one two three"
    again.close()


def test_reads_return_what_there_is(files: FileSystem, root: str) -> None:
    make(files, f"{root}/f", b"0123456789")
    file = files.open(f"{root}/f")
    assert file.read(0, 10) == b"0123456789"
    assert file.read(3, 4) == b"3456"
    assert file.read(8, 100) == b"89"
    assert file.read(10, 1) == b""
    assert file.read(11, 1) == b""
    assert file.read(0, 0) == b""
    assert file.read(0, 1 << 60) == b"0123456789"
    for offset, size in ((-1, 1), (0, -1)):
        with pytest.raises(OSError, match="Invalid argument"):
            file.read(offset, size)
    file.close()


def test_reads_return_bytes(files: FileSystem, root: str) -> None:
    make(files, f"{root}/f", b"0123456789")
    assert type(read_file(files, f"{root}/f")) is bytes


def test_a_large_file(files: FileSystem, root: str) -> None:
    data = bytes(range(256)) * 8192
    make(files, f"{root}/f", data)
    assert read_file(files, f"{root}/f") == data


def test_overwriting_never_makes_a_file_longer(files: FileSystem, root: str) -> None:
    make(files, f"{root}/f", b"0123456789")
    file = files.open(f"{root}/f")
    file.overwrite(2, b"ab")
    file.overwrite(9, b"z")
    file.overwrite(10, b"")
    assert file.read(0, 10) == b"01ab45678z"
    for offset, data in ((9, b"zz"), (10, b"z"), (-1, b"z")):
        with pytest.raises(OSError, match="Invalid argument"):
            file.overwrite(offset, data)
    assert file.read(0, 10) == b"01ab45678z"
    file.write(b"!")
    assert file.read(0, 100) == b"01ab45678z!"
    file.close()


def test_truncating_only_cuts(files: FileSystem, root: str) -> None:
    make(files, f"{root}/f", b"0123456789")
    file = files.open(f"{root}/f")
    file.truncate(10)
    file.truncate(4)
    assert file.size == 4
    assert file.read(0, 10) == b"0123"
    file.write(b"ab")
    assert file.read(0, 10) == b"0123ab"
    for size in (7, -1):
        with pytest.raises(OSError, match="Invalid argument"):
            file.truncate(size)
    file.truncate(0)
    assert file.size == 0
    file.close()
    assert read_file(files, f"{root}/f") == b""


def test_a_reader_sees_what_a_writer_has_written(files: FileSystem, root: str) -> None:
    writer = files.create(f"{root}/f")
    reader = files.open(f"{root}/f")
    writer.write(b"one two")
    assert reader.read(4, 3) == b"two"
    assert reader.size == 7
    assert reader.read(0, 100) == b"one two"
    reader.close()
    writer.close()


def test_syncing_changes_nothing_that_is_seen(files: FileSystem, root: str) -> None:
    file = files.create(f"{root}/f")
    file.sync()
    file.write(b"one")
    file.sync()
    file.sync()
    assert file.read(0, 3) == b"one"
    file.close()
    files.sync_folder(root)
    assert files.list_folder(root) == ["f"]


@pytest.mark.parametrize(
    "use",
    [
        lambda file: file.write(b"x"),
        lambda file: file.overwrite(0, b"x"),
        lambda file: file.read(0, 1),
        lambda file: file.truncate(0),
        lambda file: file.sync(),
    ],
)
def test_a_closed_file_refuses(files: FileSystem, root: str, use: Callable[[File], object]) -> None:
    file = files.create(f"{root}/f")
    file.write(b"one")
    file.close()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        use(file)
    assert read_file(files, f"{root}/f") == b"one"


# --- names --------------------------------------------------------------------------------------


def test_open_wants_a_file_that_exists(files: FileSystem, root: str) -> None:
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/absent")
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/absent/f")
    with pytest.raises(IsADirectoryError):
        files.open(root)
    make(files, f"{root}/f")
    with pytest.raises(NotADirectoryError):
        files.open(f"{root}/f/g")


def test_create_wants_a_name_that_is_free(files: FileSystem, root: str) -> None:
    make(files, f"{root}/f", b"old")
    with pytest.raises(FileExistsError):
        files.create(f"{root}/f")
    assert read_file(files, f"{root}/f") == b"old"
    with pytest.raises(FileExistsError):
        files.create(root)
    with pytest.raises(FileNotFoundError):
        files.create(f"{root}/absent/f")
    with pytest.raises(NotADirectoryError):
        files.create(f"{root}/f/g")


def test_folders_list_their_names_sorted(files: FileSystem, root: str) -> None:
    assert files.list_folder(f"{root}/absent") == []
    for name in ("b", ".c", "a", "B", "10", "9"):
        make(files, f"{root}/{name}")
    files.make_folder(f"{root}/folder/inner")
    assert files.list_folder(root) == sorted(["b", ".c", "a", "B", "10", "9", "folder"])
    assert files.list_folder(f"{root}/folder") == ["inner"]
    with pytest.raises(NotADirectoryError):
        files.list_folder(f"{root}/a")


def test_names_exist_or_do_not(files: FileSystem, root: str) -> None:
    make(files, f"{root}/f")
    assert files.exists(root)
    assert files.exists(f"{root}/f")
    assert not files.exists(f"{root}/g")
    assert not files.exists(f"{root}/g/h")
    assert not files.exists(f"{root}/f/g")


def test_names_are_folders_or_not(files: FileSystem, root: str) -> None:
    make(files, f"{root}/f")
    assert files.is_folder(root)
    assert not files.is_folder(f"{root}/f")
    assert not files.is_folder(f"{root}/g/h")
    assert not files.is_folder(f"{root}/f/g")


def test_making_folders(files: FileSystem, root: str) -> None:
    files.make_folder(f"{root}/a/b/c")
    files.make_folder(f"{root}/a/b/c")
    files.make_folder(f"{root}/a/d/")
    assert files.list_folder(f"{root}/a") == ["b", "d"]
    make(files, f"{root}/a/b/f")
    with pytest.raises(FileExistsError):
        files.make_folder(f"{root}/a/b/f")
    with pytest.raises(NotADirectoryError):
        files.make_folder(f"{root}/a/b/f/g")


def test_removing_files(files: FileSystem, root: str) -> None:
    make(files, f"{root}/f")
    files.remove(f"{root}/f")
    assert not files.exists(f"{root}/f")
    with pytest.raises(FileNotFoundError):
        files.remove(f"{root}/f")
    files.make_folder(f"{root}/folder")
    # POSIX says one, Linux the other.
    with pytest.raises((PermissionError, IsADirectoryError)):
        files.remove(f"{root}/folder")


def test_a_removed_file_stays_readable_while_it_is_open(files: FileSystem, root: str) -> None:
    make(files, f"{root}/f", b"old")
    file = files.open(f"{root}/f")
    files.remove(f"{root}/f")
    make(files, f"{root}/f", b"new")
    file.write(b"er")
    assert file.read(0, 9) == b"older"
    assert read_file(files, f"{root}/f") == b"new"
    file.close()


def test_removing_folders(files: FileSystem, root: str) -> None:
    files.make_folder(f"{root}/a/b")
    with pytest.raises(OSError) as caught:  # noqa: PT011
        files.remove_folder(f"{root}/a")
    assert caught.value.errno in (errno.ENOTEMPTY, errno.EEXIST)
    files.remove_folder(f"{root}/a/b")
    files.remove_folder(f"{root}/a")
    assert files.list_folder(root) == []
    with pytest.raises(FileNotFoundError):
        files.remove_folder(f"{root}/a")
    make(files, f"{root}/f")
    with pytest.raises(NotADirectoryError):
        files.remove_folder(f"{root}/f")


def test_renaming_replaces_what_had_the_name(files: FileSystem, root: str) -> None:
    make(files, f"{root}/new", b"new")
    make(files, f"{root}/f", b"old")
    old = files.open(f"{root}/f")
    new = files.open(f"{root}/new")
    files.rename(f"{root}/new", f"{root}/f")
    assert files.list_folder(root) == ["f"]
    assert read_file(files, f"{root}/f") == b"new"
    new.write(b"er")
    assert read_file(files, f"{root}/f") == b"newer"
    assert old.read(0, 9) == b"old"
    old.close()
    new.close()


def test_renaming_into_another_folder(files: FileSystem, root: str) -> None:
    files.make_folder(f"{root}/a")
    files.make_folder(f"{root}/b")
    make(files, f"{root}/a/f", b"data")
    files.rename(f"{root}/a/f", f"{root}/b/g")
    assert files.list_folder(f"{root}/a") == []
    assert read_file(files, f"{root}/b/g") == b"data"


def test_renaming_to_the_same_name(files: FileSystem, root: str) -> None:
    make(files, f"{root}/f", b"data")
    files.rename(f"{root}/f", f"{root}/f")
    assert read_file(files, f"{root}/f") == b"data"


def test_what_can_not_be_renamed(files: FileSystem, root: str) -> None:
    make(files, f"{root}/f", b"data")
    files.make_folder(f"{root}/folder")
    with pytest.raises(FileNotFoundError):
        files.rename(f"{root}/absent", f"{root}/g")
    with pytest.raises(FileNotFoundError):
        files.rename(f"{root}/f", f"{root}/absent/g")
    with pytest.raises(NotADirectoryError):
        files.rename(f"{root}/f", f"{root}/f/g")
    with pytest.raises(IsADirectoryError):
        files.rename(f"{root}/f", f"{root}/folder")
    with pytest.raises(IsADirectoryError):
        files.rename(f"{root}/folder", f"{root}/g")
    assert files.list_folder(root) == ["f", "folder"]


def test_only_folders_that_exist_are_synced(files: FileSystem, root: str) -> None:
    make(files, f"{root}/f")
    with pytest.raises(FileNotFoundError):
        files.sync_folder(f"{root}/absent")
    with pytest.raises(NotADirectoryError):
        files.sync_folder(f"{root}/f")


def test_there_is_room_where_a_folder_is_yet_to_come(files: FileSystem, root: str) -> None:
    assert files.free_bytes(root) > 0
    assert files.free_bytes(f"{root}/not/yet") > 0


# --- locks --------------------------------------------------------------------------------------


def test_a_lock_is_held_once(files: FileSystem, root: str) -> None:
    path = f"{root}/lock"
    lock = files.lock(path)
    with pytest.raises(BlockingIOError, match=r"held by process \d+") as caught:
        files.lock(path)
    assert caught.value.filename == path
    assert path in str(caught.value)
    lock.release()
    lock.release()
    again = files.lock(path)
    lock.release()
    with pytest.raises(BlockingIOError):
        files.lock(path)
    again.release()


def test_locks_of_different_folders_do_not_meet(files: FileSystem, root: str) -> None:
    for folder in ("one", "two"):
        files.make_folder(f"{root}/{folder}")
    locks = {folder: files.lock(f"{root}/{folder}/lock") for folder in ("one", "two")}
    for folder, lock in locks.items():
        with pytest.raises(BlockingIOError):
            files.lock(f"{root}/{folder}/lock")
        lock.release()


def test_a_lock_holds_its_folder_whatever_the_file_is_called(files: FileSystem, root: str) -> None:
    lock = files.lock(f"{root}/one")
    with pytest.raises(BlockingIOError):
        files.lock(f"{root}/two")
    lock.release()
    files.lock(f"{root}/two").release()


def test_a_lock_file_that_is_removed_changes_nothing_but_is_noticed(
    files: FileSystem, root: str
) -> None:
    lock = files.lock(f"{root}/lock")
    assert lock.is_in_place
    files.remove(f"{root}/lock")
    assert not lock.is_in_place
    with pytest.raises(BlockingIOError):
        files.lock(f"{root}/lock")
    lock.put_back()
    assert lock.is_in_place
    files.remove(f"{root}/lock")
    files.create(f"{root}/lock").close()
    assert not lock.is_in_place, "it has the name of another file"
    lock.release()


def test_a_lock_needs_a_place(files: FileSystem, root: str) -> None:
    with pytest.raises(FileNotFoundError):
        files.lock(f"{root}/absent/lock")
    with pytest.raises(IsADirectoryError):
        files.lock(root)


# --- operations built on others -----------------------------------------------------------------


def test_replacing_a_file(files: FileSystem, root: str) -> None:
    replace_file(files, f"{root}/f", b"one, and longer")
    make(files, f"{root}/.f.new", b"left behind by a crash")
    replace_file(files, f"{root}/f", b"two")
    assert read_file(files, f"{root}/f") == b"two"
    assert files.list_folder(root) == ["f"]
