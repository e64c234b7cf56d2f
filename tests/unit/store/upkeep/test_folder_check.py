"""Files of an open store that somebody has removed are put back."""

from headwater.store.disk.layout import LOCK_FILE
from headwater.store.disk.store_file import STORE_FILE
from headwater.store.upkeep.folder_check import put_back_own_files
from headwater.testing.disk import SimDisk

FOLDER = "/data"


def test_files_that_are_gone_are_put_back_and_named() -> None:
    disk = SimDisk()
    disk.make_folder(FOLDER)
    lock = disk.lock(f"{FOLDER}/{LOCK_FILE}")
    written: list[str] = []

    def write() -> None:
        disk.create(f"{FOLDER}/{STORE_FILE}").close()
        written.append(STORE_FILE)

    report = put_back_own_files(disk, FOLDER, lock, write)
    assert STORE_FILE in report
    assert written == [STORE_FILE]
    assert put_back_own_files(disk, FOLDER, lock, write) == ""
    assert written == [STORE_FILE]


def test_a_disk_that_refuses_is_told() -> None:
    disk = SimDisk()
    disk.make_folder(FOLDER)
    lock = disk.lock(f"{FOLDER}/{LOCK_FILE}")

    def refuse() -> None:
        raise OSError("no")

    assert "it cannot be put back: no" in put_back_own_files(disk, FOLDER, lock, refuse)
