"""The store's FileSystem port without the operations that change files.

A command that reads a store beside a server, or before it was copied, must leave no trace.
Files are opened for reading only, so that reading needs no more rights than that.
"""

import fcntl
import os
from typing import Final, NoReturn

from headwater.runtime.entropy import SystemEntropy
from headwater.runtime.filesystem import SystemFileSystem
from headwater.store.disk.cipher import ServerKey
from headwater.store.disk.encoding import Encoding
from headwater.store.disk.filesystem import File, FileSystem, Lock
from headwater.store.disk.set_aside import SET_ASIDE

PID_BYTES_MAX: Final = 20


class ReadOnlyError(OSError):
    """A command tried to change a store that is open for reading only."""


def _refuse(path: str) -> NoReturn:
    raise ReadOnlyError(f"{path} is open for reading only")


class ReadOnlyFile:
    """A file that can only be read, as it is on the disk or as it would be after a restart."""

    def __init__(self, path: str, instead: bytes | None = None) -> None:
        self._path = path
        self._instead = instead
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._size = os.fstat(self._descriptor).st_size if instead is None else len(instead)

    @property
    def size(self) -> int:
        return self._size

    def read(self, offset: int, size: int) -> bytes:
        if self._instead is not None:
            return self._instead[offset : offset + size]
        parts = []
        while size > 0 and (part := os.pread(self._descriptor, size, offset)):
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return b"".join(parts)

    def write(self, data: bytes) -> None:
        _refuse(self._path)

    def overwrite(self, offset: int, data: bytes) -> None:
        _refuse(self._path)

    def truncate(self, size: int) -> None:
        _refuse(self._path)

    def sync(self) -> None:
        _refuse(self._path)

    def close(self) -> None:
        os.close(self._descriptor)


class ReadOnlyFiles:
    """The store's FileSystem port on the operating system, for reading only."""

    def __init__(self) -> None:
        self._system = SystemFileSystem()

    def open(self, path: str) -> File:
        return ReadOnlyFile(path)

    def list_folder(self, path: str) -> list[str]:
        return self._system.list_folder(path)

    def exists(self, path: str) -> bool:
        return self._system.exists(path)

    def is_folder(self, path: str) -> bool:
        return self._system.is_folder(path)

    def size_of(self, path: str) -> int:
        return self._system.size_of(path)

    def free_bytes(self, path: str) -> int:
        return self._system.free_bytes(path)

    def create(self, path: str) -> File:
        _refuse(path)

    def make_folder(self, path: str) -> None:
        _refuse(path)

    def remove(self, path: str) -> None:
        _refuse(path)

    def remove_folder(self, path: str) -> None:
        _refuse(path)

    def rename(self, source: str, target: str) -> None:
        _refuse(source)

    def sync_folder(self, path: str) -> None:
        _refuse(path)

    def lock(self, path: str) -> Lock:
        _refuse(path)

    def disk_bytes(self, path: str) -> int:
        """The bytes of a file, or of all files in a folder; an absent file has none."""
        if self.is_folder(path):
            return sum(self.disk_bytes(f"{path}/{name}") for name in self.list_folder(path))
        try:
            return os.stat(path).st_size
        except FileNotFoundError:
            return 0


class DecodedFiles(ReadOnlyFiles):
    """Files as the store reads them: decrypted, and completed if a server would complete them.

    Raises StoreError where a key is needed that `server_key` does not open.
    """

    def __init__(self, root: str, server_key: ServerKey | None) -> None:
        super().__init__()
        self._root = root
        self._encoding = Encoding(server_key=server_key)
        self._by_folder: dict[str, FileSystem] = {}
        # The bytes of files into which a server would put something back.
        self._replaced: dict[str, bytes] = {}

    def replace_content(self, path: str, data: bytes) -> None:
        """Let `data` be read in place of the content of a file."""
        self._replaced[path] = data

    def open(self, path: str) -> File:
        if path in self._replaced:
            return ReadOnlyFile(path, self._replaced[path])
        return self._in_folder(path.rpartition("/")[0]).open(path)

    def _in_folder(self, folder: str) -> FileSystem:
        """The files of one folder, which has a key of its own, as has what is set aside in it."""
        folder = folder.removesuffix(f"/{SET_ASIDE}")
        found = self._by_folder.get(folder)
        if found is None:
            context = "" if folder == self._root else folder.rpartition("/")[2]
            found = self._by_folder[folder] = self._encoding.files_in(
                ReadOnlyFiles(), folder, context, SystemEntropy(), is_new=False
            )
        return found


def lock_holder(path: str) -> str:
    """The process that holds the folder of a lock file; empty if none does.

    The shared locks that find it out are let go at once and leave the files as they are.
    """
    if not (_is_locked(os.path.dirname(path)) or _is_locked(path)):
        return ""
    try:
        with open(path, "rb", buffering=0) as file:
            text = file.read(PID_BYTES_MAX).strip()
    except FileNotFoundError:
        text = b""
    return f"process {int(text)}" if text.isdigit() else "another process"


def _is_locked(path: str) -> bool:
    """Whether a process holds the lock of a file or folder, which may be absent."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        # On a file system that locks no folders only the lock file is locked.
        return False
    finally:
        os.close(descriptor)
    return False
