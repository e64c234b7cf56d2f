"""Whole-file operations on a real directory."""

import os
import stat
from pathlib import Path

import pytest

from headwater.runtime.files import SystemFiles


@pytest.fixture
def files() -> SystemFiles:
    return SystemFiles()


def test_replace_writes_the_whole_file_and_leaves_nothing_beside_it(
    files: SystemFiles, tmp_path: Path
) -> None:
    path = tmp_path / "server.pid"
    files.replace_bytes(str(path), b"first, and longer")
    files.replace_bytes(str(path), b"second")
    assert files.read_bytes(str(path)) == b"second"
    assert os.listdir(tmp_path) == ["server.pid"]


def test_a_replaced_file_can_be_read_by_others(files: SystemFiles, tmp_path: Path) -> None:
    path = tmp_path / "ports"
    files.replace_bytes(str(path), b"{}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_replace_works_with_a_bare_name(
    files: SystemFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files.replace_bytes("bare", b"x")
    assert (tmp_path / "bare").read_bytes() == b"x"


def test_a_failed_replace_leaves_the_old_file_and_nothing_else(
    files: SystemFiles, tmp_path: Path
) -> None:
    directory = tmp_path / "taken"
    directory.mkdir()
    (directory / "inside").write_bytes(b"x")
    with pytest.raises(OSError, match="taken"):
        files.replace_bytes(str(directory), b"new")
    assert os.listdir(tmp_path) == ["taken"]
    with pytest.raises(FileNotFoundError):
        files.replace_bytes(str(tmp_path / "absent" / "file"), b"x")


def test_append_creates_and_goes_on_where_it_was(files: SystemFiles, tmp_path: Path) -> None:
    path = tmp_path / "log"
    for text in (b"one\n", b"two\n"):
        file = files.open_append(str(path))
        file.write(text)
        # Other readers see the text before the file is closed.
        assert path.read_bytes().endswith(text)
        file.close()
    assert path.read_bytes() == b"one\ntwo\n"


def test_an_open_file_can_be_renamed_away(files: SystemFiles, tmp_path: Path) -> None:
    path, old = tmp_path / "log", tmp_path / "log.1"
    file = files.open_append(str(path))
    file.write(b"before ")
    files.rename(str(path), str(old))
    file.write(b"after")
    file.close()
    assert old.read_bytes() == b"before after"
    assert not path.exists()


def test_remove_does_not_mind_what_is_not_there(files: SystemFiles, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    files.remove(str(path))
    files.remove(str(path))
    assert not path.exists()


def test_directories(files: SystemFiles, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    assert not files.is_dir(str(path))
    path.mkdir(parents=True)
    assert files.is_dir(str(path))


def test_reading_what_is_not_there(files: SystemFiles, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.read_bytes(str(tmp_path / "absent"))
