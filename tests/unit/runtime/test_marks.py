"""Marks are files in a folder in memory, which outlive the process that wrote them."""

import os
from pathlib import Path

import pytest

from headwater.runtime.marks import SystemMarks, default_folder

DATA = bytes(range(64))


def test_words_of_a_mark_are_changed_in_place_and_read_by_the_next_process(tmp_path: Path) -> None:
    marks = SystemMarks(str(tmp_path / "marks"))
    assert marks.read("/data") == b""
    words = marks.replace("/data", DATA)
    words[1] = 77
    again = SystemMarks(str(tmp_path / "marks")).read("/data")
    assert memoryview(again).cast("Q")[1] == 77
    assert again[:8] == DATA[:8]


def test_another_mark_takes_the_place_of_the_first_one(tmp_path: Path) -> None:
    marks = SystemMarks(str(tmp_path))
    first = marks.replace("/data", DATA)
    second = marks.replace("/data", DATA * 2)
    first[0], second[0] = 1, 2
    assert len(marks.read("/data")) == 128
    assert memoryview(marks.read("/data")).cast("Q")[0] == 2


def test_a_mark_belongs_to_the_place_of_a_store(tmp_path: Path) -> None:
    marks = SystemMarks(str(tmp_path / "marks"))
    (tmp_path / "link").symlink_to(tmp_path / "data")
    marks.replace(str(tmp_path / "data"), DATA)
    assert marks.read(str(tmp_path / "link")) == DATA
    assert marks.read(str(tmp_path / "other")) == b""


def test_an_unfinished_mark_is_in_nobodys_way(tmp_path: Path) -> None:
    marks = SystemMarks(str(tmp_path))
    marks.replace("/data", DATA)
    (path,) = tmp_path.iterdir()
    Path(f"{path}.new").write_bytes(b"half")
    assert marks.read("/data") == DATA
    marks.replace("/data", DATA[:8])
    assert [*tmp_path.iterdir()] == [path]


def test_nobody_else_may_read_the_marks(tmp_path: Path) -> None:
    folder = tmp_path / "marks"
    SystemMarks(str(folder)).replace("/data", DATA)
    (path,) = folder.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(OSError, match="another user"):
        SystemMarks(str(tmp_path / "link")).replace("/data", DATA)


def test_a_mark_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    marks = SystemMarks(str(tmp_path / "marks"))
    marks.replace("/data", DATA)
    (path,) = (tmp_path / "marks").iterdir()
    (tmp_path / "secret").write_bytes(DATA)
    path.unlink()
    path.symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic"):
        marks.read("/data")


def test_the_runtime_folder_of_the_user_comes_first(tmp_path: Path) -> None:
    assert default_folder({"XDG_RUNTIME_DIR": str(tmp_path)}) == f"{tmp_path}/headwater"


def test_a_folder_on_the_disk_is_no_runtime_folder(tmp_path: Path) -> None:
    assert default_folder({"XDG_RUNTIME_DIR": str(tmp_path / "gone")}, ["/", "/gone"]) == ""
    assert default_folder({}, ["/gone", "/dev/shm"]) == f"/dev/shm/headwater-{os.getuid()}"


def test_a_machine_without_such_a_folder_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.runtime.marks.default_folder", lambda: "")
    with pytest.raises(OSError, match="no folder in memory"):
        SystemMarks().read("/data")
