"""Disks that tests begin with, and things that they do to them."""

from collections.abc import Callable
from typing import Final

from headwater.store.disk.filesystem import File
from headwater.testing.disk import PAGE_BYTES, SimDisk, SimFile

USES: Final[list[Callable[[File], object]]] = [
    lambda file: file.write(b"x"),
    lambda file: file.overwrite(0, b"x"),
    lambda file: file.read(0, 1),
    lambda file: file.truncate(0),
    lambda file: file.sync(),
]

# The order in which `every_operation` does them.
# fmt: off
EVERY_OPERATION: Final = [
    "make_folder", "create", "write", "overwrite", "truncate", "sync", "sync_folder", "rename",
    "remove", "remove_folder",
]
# fmt: on


def disk_with(
    data: bytes,
    *,
    seed: int = 0,
    page_bytes: int = PAGE_BYTES,
    capacity_bytes: int | None = None,
) -> tuple[SimDisk, SimFile]:
    """A disk with one file, of which everything is synced."""
    disk = SimDisk(seed, page_bytes=page_bytes, capacity_bytes=capacity_bytes)
    file = disk.create("/f")
    file.write(data)
    file.sync()
    disk.sync_folder("/")
    return disk, file


def unsynced_disk() -> SimDisk:
    """A disk with a file that was written to after its sync, and a file with an unsynced name."""
    disk, file = disk_with(b"synced ")
    file.write(b"written")
    disk.create("/new").close()
    return disk


def every_operation(disk: SimDisk) -> None:
    """Do one operation of each kind."""
    disk.make_folder("/a")
    file = disk.create("/a/f")
    file.write(b"0123456789")
    file.overwrite(0, b"abc")
    file.truncate(5)
    file.sync()
    file.close()
    disk.sync_folder("/a")
    disk.rename("/a/f", "/a/g")
    disk.remove("/a/g")
    disk.remove_folder("/a")
