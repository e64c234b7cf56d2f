"""The marks of stores in a folder that the machine empties when it restarts.

A mark is a file that is mapped into memory: a change of a word costs no call of the operating
system, and outlives the process. Runtime folders are in memory, so the file is on no disk.
"""

import mmap
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from errno import ENOENT, EPERM
from hashlib import sha256
from pathlib import Path
from typing import Final, final

# Folders in memory that all processes of a machine have, in the order in which they are tried.
_SYSTEM_FOLDERS: Final = ("/run", "/dev/shm")
_NAME_DIGITS: Final = 32


@final
class SystemMarks:
    """The marks of this machine, in one folder."""

    __slots__ = ("_folder",)

    def __init__(self, folder: str = "") -> None:
        """An empty folder stands for the first runtime folder that this user may write to."""
        self._folder = folder

    def read(self, folder: str) -> bytes:
        """The mark of the store in a folder; empty without one. Raises OSError."""
        path = self._path(folder)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        with open(handle, "rb") as file:
            return file.read()

    def replace(self, folder: str, data: bytes) -> "memoryview[int]":
        """Put another mark in the place of the store's, whole or not at all. Returns its words,
        which are changed in place. Raises OSError."""
        path = self._path(folder)
        unfinished = f"{path}.new"
        with suppress(FileNotFoundError):
            os.unlink(unfinished)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(unfinished, flags, 0o600), "r+b") as file:
            # The file gets its room here: a word that is changed later never lacks any.
            file.write(data)
            file.flush()
            words = memoryview(mmap.mmap(file.fileno(), len(data))).cast("Q")
        os.rename(unfinished, path)
        return words

    def _path(self, folder: str) -> str:
        """The file of the mark of a store, which is known by its place on the disk."""
        own = self._folder or default_folder()
        if not own:
            raise OSError(ENOENT, "there is no folder in memory that this user may write to")
        _own_folder(own)
        name = sha256(os.path.realpath(folder).encode(errors="surrogateescape")).hexdigest()
        return f"{own}/{name[:_NAME_DIGITS]}.mark"


def default_folder(
    environment: Mapping[str, str] = os.environ, system: Iterable[str] = _SYSTEM_FOLDERS
) -> str:
    """The folder for marks where none is configured; empty if there is none."""
    own = environment.get("XDG_RUNTIME_DIR", "")
    if own and os.access(own, os.W_OK):
        return f"{own}/headwater"
    for folder in system:
        if _is_apart(folder) and os.access(folder, os.W_OK):
            return f"{folder}/headwater-{os.getuid()}"
    return ""


def _is_apart(folder: str) -> bool:
    """Whether a folder is a file system of its own, and no part of the disk."""
    try:
        return os.stat(folder).st_dev != os.stat("/").st_dev
    except OSError:
        return False


def _own_folder(folder: str) -> None:
    """Make a folder for this user alone. Raises OSError if it is another user's."""
    Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    status = os.lstat(folder)
    if status.st_uid != os.getuid() or not os.path.isdir(folder) or os.path.islink(folder):
        raise OSError(EPERM, "the folder of marks belongs to another user", folder)
