"""Files in memory refuse what a disk refuses."""

from pathlib import Path

import pytest

from headwater.runtime.environment import Files
from headwater.runtime.files import SystemFiles
from headwater.testing.files import MemoryFiles


@pytest.fixture(params=["memory", "system"])
def files_and_root(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    """Files of each kind: the tests hold both to one set of rules."""
    if request.param == "system":
        return SystemFiles(), str(tmp_path)
    files = MemoryFiles()
    files.make_dirs("/root")
    return files, "/root"


def make_folders(files: Files, path: str) -> None:
    """Make a folder and those above it, which the server itself never does."""
    if isinstance(files, MemoryFiles):
        files.make_dirs(path)
    else:
        Path(path).mkdir(parents=True, exist_ok=True)


def test_whole_files(files_and_root: tuple[Files, str]) -> None:
    files, root = files_and_root
    path = f"{root}/file"
    files.replace_bytes(path, b"one")
    files.replace_bytes(path, b"two")
    assert files.read_bytes(path) == b"two"
    assert files.read_bytes(f"{root}/./file") == b"two"
    files.remove(path)
    files.remove(path)
    with pytest.raises(FileNotFoundError):
        files.read_bytes(path)


def test_folders(files_and_root: tuple[Files, str]) -> None:
    files, root = files_and_root
    assert files.is_dir(root)
    assert not files.is_dir(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        files.replace_bytes(f"{root}/a/file", b"")
    make_folders(files, f"{root}/a/b/c")
    make_folders(files, f"{root}/a/b/c")
    assert files.is_dir(f"{root}/a/b")
    files.replace_bytes(f"{root}/a/b/file", b"")
    assert not files.is_dir(f"{root}/a/b/file")
    for refused in (files.read_bytes, files.open_append):
        with pytest.raises(IsADirectoryError):
            refused(f"{root}/a")
    with pytest.raises(FileExistsError):
        make_folders(files, f"{root}/a/b/file")
    with pytest.raises(NotADirectoryError):
        make_folders(files, f"{root}/a/b/file/d")
    assert not files.is_dir(f"{root}/a/b/file/d")


def test_appending_goes_on_after_a_rename(files_and_root: tuple[Files, str]) -> None:
    files, root = files_and_root
    log = files.open_append(f"{root}/log")
    log.write(b"one ")
    files.rename(f"{root}/log", f"{root}/log.1")
    log.write(b"two ")
    log.close()
    again = files.open_append(f"{root}/log.1")
    again.write(b"three")
    again.close()
    assert files.read_bytes(f"{root}/log.1") == b"one two three"
    with pytest.raises(FileNotFoundError):
        files.rename(f"{root}/log", f"{root}/log.2")
    with pytest.raises(OSError, match="Bad file descriptor"):
        again.write(b"closed")
