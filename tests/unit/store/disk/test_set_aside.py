"""Unreadable bytes are kept beside their file, durably, under a name that nothing had before."""

import errno

import pytest

from headwater.store.disk.set_aside import SET_ASIDE, set_aside, set_aside_file
from headwater.testing.disk import SimDisk


def folder_on(disk: SimDisk) -> str:
    disk.make_folder("/log")
    disk.sync_folder("/")
    return "/log"


def test_bytes_set_aside_outlive_the_power() -> None:
    disk = SimDisk()
    folder = folder_on(disk)
    set_aside(disk, folder, "journal.hw-at-64", b"torn")
    disk.power_loss("strict")
    assert disk.dump()[f"{folder}/{SET_ASIDE}/journal.hw-at-64.0"] == b"torn"


def test_a_name_that_is_taken_gets_the_next_number() -> None:
    disk = SimDisk()
    folder = folder_on(disk)
    for data in (b"first", b"second"):
        set_aside(disk, folder, "x", data)
    disk.create(f"{folder}/x").write(b"third")
    set_aside_file(disk, folder, "x")
    kept = [disk.dump()[f"{folder}/{SET_ASIDE}/x.{number}"] for number in range(3)]
    assert kept == [b"first", b"second", b"third"]
    assert not disk.exists(f"{folder}/x")


def test_a_disk_without_room_keeps_no_part_of_it() -> None:
    disk = SimDisk()
    folder = folder_on(disk)
    disk.fail("write", f"{folder}/*", code=errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"):
        set_aside(disk, folder, "x", b"torn")
    assert disk.list_folder(f"{folder}/{SET_ASIDE}") == []
