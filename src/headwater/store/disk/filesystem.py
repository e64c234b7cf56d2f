"""The port by which the store uses a disk, real or simulated; it is synchronous.

Contracts that everything above relies on:

* `write` puts all bytes at the end of the file, or raises. After a raise any prefix of them may be
  there; the caller knows how long the file was before and cuts it back or gives up.
* Written bytes are safe from the process dying. They are safe from the machine dying only after
  `sync` of the file returned, and, for a file that was created, renamed or removed, after
  `sync_folder` of its folder returned as well. A folder is such an entry of the one above it.
* A `sync` that raised may have lost the data for good although it is still readable now. It is
  never tried again as if nothing had happened: the file is not written to any more.

All operations raise OSError. One of them has a name here: `NoRoomError` says that the disk has no
room for a write, and that nothing is left of it. That write may be tried again.
"""

import errno
from typing import Final, Protocol

# The errors of a disk that is full, and of a user whose quota is used up.
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)


class NoRoomError(OSError):
    """A write for which there is no room on the disk: all is as it was before."""


class File(Protocol):
    """An open file."""

    @property
    def size(self) -> int:
        """Bytes in the file, as far as this object has read or written it."""
        ...

    def write(self, data: bytes) -> None:
        """Append all of `data`."""
        ...

    def overwrite(self, offset: int, data: bytes) -> None:
        """Replace bytes that are there; never makes the file longer."""
        ...

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer only at the end of the file."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        ...

    def sync(self) -> None:
        """Return when all that was written is on the disk."""
        ...

    def close(self) -> None:
        """Release the file; writes nothing more."""
        ...


class Lock(Protocol):
    """A folder that is ours, whatever becomes of the lock file in it."""

    @property
    def is_in_place(self) -> bool:
        """Whether the lock file is still the one that was taken."""
        ...

    def put_back(self) -> None:
        """Make the lock file again if it is gone."""
        ...

    def release(self) -> None:
        """Let others have it."""
        ...


class FileSystem(Protocol):
    """Files in folders. Paths use `/`."""

    def open(self, path: str) -> File:
        """Open a file that exists for reading and appending."""
        ...

    def create(self, path: str) -> File:
        """Create a file that does not exist yet."""
        ...

    def list_folder(self, path: str) -> list[str]:
        """Names in a folder, sorted. A folder that does not exist is empty."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of that name."""
        ...

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder of that name."""
        ...

    def make_folder(self, path: str) -> None:
        """Create a folder and those above it; one that exists is fine."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; absent is an error."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give a file another name in one step, replacing what had it."""
        ...

    def sync_folder(self, path: str) -> None:
        """Return when creations, renames and removals in this folder are on the disk."""
        ...

    def size_of(self, path: str) -> int:
        """Bytes that a file takes as it is stored; -1 if there is no file of that name."""
        ...

    def free_bytes(self, path: str) -> int:
        """Room left on the disk that holds `path`."""
        ...

    def lock(self, path: str) -> Lock:
        """Take the folder of a lock file, which is made if need be: no other process can have it
        meanwhile, also where somebody removes the file. Raises BlockingIOError."""
        ...


def write_whole(file: File, data: bytes) -> int:
    """Append all of `data`, or leave the file as it was. Raises NoRoomError if there is no room.

    If the file cannot be cut back, the error of cutting is raised. Returns where the data begins.
    """
    size = file.size
    write_behind(file, size, data)
    return size


def write_behind(file: File, size: int, data: bytes) -> None:
    """Do what `write_whole` does, for a file that has `size` bytes."""
    try:
        file.write(data)
    except OSError as error:
        file.truncate(size)
        if error.errno in _NO_ROOM:
            raise NoRoomError(*error.args) from error
        raise


def create_whole(files: FileSystem, path: str, data: bytes) -> File:
    """Create a file with `data` in it, or none. Raises NoRoomError if there is no room."""
    try:
        file = files.create(path)
    except OSError as error:
        if error.errno in _NO_ROOM:
            if files.exists(path):
                files.remove(path)
            raise NoRoomError(*error.args) from error
        raise
    try:
        write_whole(file, data)
    except OSError:
        file.close()
        files.remove(path)
        raise
    return file


def replace_file(files: FileSystem, path: str, data: bytes) -> None:
    """Put `data` in place of a file: after a crash it is the old or the new, never half.

    Raises NoRoomError if there is no room for the new one; the old one is there then.
    """
    folder, _, name = path.rpartition("/")
    temporary = f"{folder}/.{name}.new"
    if files.exists(temporary):
        files.remove(temporary)
    file = create_whole(files, temporary, data)
    try:
        file.sync()
    finally:
        file.close()
    files.rename(temporary, path)
    files.sync_folder(folder)


def read_file(files: FileSystem, path: str) -> bytes:
    """All bytes of a file."""
    file = files.open(path)
    try:
        return file.read(0, file.size)
    finally:
        file.close()
