"""Folders of streams come and go as a whole, whenever the process dies."""

from random import Random

import pytest

from headwater.store.disk.encoding import Encoding
from headwater.store.disk.findings import Findings
from headwater.store.disk.format import StreamFile
from headwater.store.disk.layout import STREAM_FILE
from headwater.store.disk.set_aside import SET_ASIDE
from headwater.store.stream_folders import StreamFolders
from headwater.testing.disk import PowerLost, SimDisk, crash_points
from headwater.testing.entropy import SeededEntropy


def folders_on(disk: SimDisk) -> StreamFolders:
    folders = StreamFolders(disk, "/data", Encoding(), SeededEntropy(Random(1)))
    disk.make_folder(folders.path)
    for path in ("/", "/data"):
        disk.sync_folder(path)
    return folders


def make_stream(disk: SimDisk, folders: StreamFolders, name: str) -> str:
    folder = folders.make_folder(name)
    for file, data in (
        ("segment", b"x"),
        (STREAM_FILE, StreamFile(b"i" * 16, 0, b"body").encode()),
    ):
        created = disk.create(f"{folder}/{file}")
        created.write(data)
        created.sync()
    disk.sync_folder(folder)
    return folder


def test_a_folder_without_a_stream_file_is_no_stream() -> None:
    disk = SimDisk()
    folders = folders_on(disk)
    folders.make_folder("half")
    make_stream(disk, folders, "$G/whole")
    assert folders.names() == ["$G/whole"]
    assert folders.has_stream("$G/whole")
    assert not folders.has_stream("half")
    [(name, file)] = folders.read_stream_files().items()
    assert file is not None
    assert (name, file.identity, file.body) == ("$G/whole", b"i" * 16, b"body")


def test_a_stream_file_that_can_not_be_read_is_there_all_the_same() -> None:
    disk = SimDisk()
    folders = folders_on(disk)
    folder = make_stream(disk, folders, "$G/S")
    disk.flip_bit(f"{folder}/{STREAM_FILE}", 20, 1)
    assert folders.read_stream_files() == {"$G/S": None}


def test_files_of_an_interrupted_creation_are_set_aside() -> None:
    disk = SimDisk()
    folders = folders_on(disk)
    folder = folders.make_folder("s")
    disk.create(f"{folder}/segment").write(b"left")
    folders.make_folder("s")
    assert disk.dump() == {f"{folder}/{SET_ASIDE}/segment.0": b"left"}


def remove(disk: SimDisk) -> None:
    folders = folders_on(disk)
    make_stream(disk, folders, "s")
    folders.remove_folder("s")


@pytest.mark.parametrize("number", crash_points(remove))
def test_a_removal_is_finished_by_the_next_start_or_was_never_begun(number: int) -> None:
    disk = SimDisk()
    disk.crash_at(number)
    with pytest.raises(PowerLost):
        remove(disk)
    disk.power_loss("strict")
    folders = folders_on(disk)
    findings = Findings()
    removed = folders.finish_removals(findings)
    assert findings.reported == []
    if folders.names():
        file = folders.read_stream_files()["s"]
        assert file is not None
        assert file.body == b"body"
    else:
        assert removed in ({}, {"s": b"i" * 16})
