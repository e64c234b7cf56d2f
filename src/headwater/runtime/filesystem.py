"""The FileSystem port of the store on the operating system: synchronous and unbuffered.

Every call is one system call in the common case and reaches the operating system before it returns,
so that written bytes survive the death of the process. Calls that a signal interrupts are repeated
by Python itself (PEP 475); transfers that the kernel cuts short are continued here.

A file knows its own end and writes there. Of two objects for one file only one may write. A file
may be synced and read on other threads while one writes to it.

Must not know: the contents of the files.
"""

import errno
import fcntl
import os
import stat
import subprocess
import sys
import weakref
from typing import Final

from headwater.store.disk.store_file import BOOT_UNKNOWN

FILE_MODE: Final = 0o640
FOLDER_MODE: Final = 0o750

_LINUX_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
# The boot time changes when the clock is set, which looks like a restart: that is the safe side.
# macOS also has an identifier that does not change.
_SYSCTL_NAMES: Final = ("kern.bootsessionuuid", "kern.boottime")
_SYSCTL_TIMEOUT_S: Final = 5.0

# Errors of file systems that have nothing to sync for this kind of file.
_CANNOT_SYNC: Final = (errno.EINVAL, errno.ENOTSUP)
_PID_BYTES_MAX: Final = 20


def _refusal(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


def _flush(descriptor: int, *, folder: bool = False) -> None:
    """Return when all that is needed to read a file or folder back is on the disk."""
    if sys.platform == "darwin":
        # On macOS fsync stops at the cache of the drive.
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in (*_CANNOT_SYNC, errno.ENOTTY):
                raise
            os.fsync(descriptor)
    elif folder:
        # The entries of a folder are metadata: fdatasync may leave them out.
        os.fsync(descriptor)
    else:
        # fdatasync leaves out the times of the file, never its size.
        os.fdatasync(descriptor)


class SystemFile:
    """An open file of the operating system."""

    __slots__ = ("_descriptor", "_path", "_seen", "_size")

    def __init__(self, path: str, flags: int) -> None:
        self._path = path
        self._descriptor = os.open(path, flags | os.O_RDWR | os.O_CLOEXEC, FILE_MODE)
        self._size = os.fstat(self._descriptor).st_size
        # The end that a read has found. It is apart from the end of the writes, because a read on
        # another thread may find a part of a write that is not counted yet.
        self._seen = self._size

    def __repr__(self) -> str:
        return f"<SystemFile {self._path} {self.size} bytes>"

    @property
    def size(self) -> int:
        """Bytes in the file when it was opened, and all that this object has seen since."""
        # No call of `max`: every publish asks.
        return self._size if self._size > self._seen else self._seen

    def write(self, data: bytes) -> None:
        """Append all of `data`; after an error `size` counts the part that was written."""
        end = self._size if self._size > self._seen else self._seen
        written = os.pwrite(self._descriptor, data, end)
        self._size = end + written
        if written < len(data):
            view = memoryview(data)[written:]
            while view:
                written = os.pwrite(self._descriptor, view, self._size)
                self._size += written
                view = view[written:]

    def overwrite(self, offset: int, data: bytes) -> None:
        """Replace existing bytes."""
        if offset < 0 or offset + len(data) > self.size:
            raise _refusal(errno.EINVAL, self._path)
        view = memoryview(data)
        while view:
            written = os.pwrite(self._descriptor, view, offset)
            offset += written
            view = view[written:]

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer only at the end of the file."""
        if offset < 0 or size < 0:
            raise _refusal(errno.EINVAL, self._path)
        if offset + size > self._size:
            # A read beyond the end would allocate memory for bytes that do not exist.
            self._seen = end = os.fstat(self._descriptor).st_size
            size = max(0, min(size, end - offset))
        data = os.pread(self._descriptor, size, offset)
        if len(data) == size:
            return data
        parts = [data]
        while data:
            size -= len(data)
            offset += len(data)
            data = os.pread(self._descriptor, size, offset)
            parts.append(data)
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        if not 0 <= size <= self.size:
            raise _refusal(errno.EINVAL, self._path)
        os.ftruncate(self._descriptor, size)
        self._size = self._seen = size

    def sync(self) -> None:
        """Return when all written bytes are on the disk."""
        if self._descriptor < 0:
            raise _refusal(errno.EBADF, self._path)
        _flush(self._descriptor)

    def close(self) -> None:
        """Release the file; a second call is harmless."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class SystemLock:
    """A folder that this process holds until `release`, or until it ends in any way.

    The folder itself is locked, so that it is held whatever becomes of the lock file in it. The
    file is locked too: it names the holder, and is the lock on file systems that lock no folders.
    """

    __slots__ = ("__weakref__", "_descriptors", "_path")

    def __init__(self, path: str, folder: int, file: int) -> None:
        """Takes ownership of both descriptors; `folder` is -1 if the folder cannot be locked."""
        self._path = path
        self._descriptors = [folder, file]
        _held_locks.add(self)

    @property
    def is_in_place(self) -> bool:
        """Whether the lock file still has its name. Raises OSError."""
        return _is_file_at(self._path, self._descriptors[1])

    def put_back(self) -> None:
        """Create the lock file again after it was removed or replaced. Raises OSError."""
        file = _lock_file(self._path)
        before, self._descriptors[1] = self._descriptors[1], file
        os.close(before)

    def release(self) -> None:
        """Release the folder; the file stays, because its removal would race with others."""
        # Unlocking by name would also take the lock from a parent process; closing does not.
        descriptors, self._descriptors = self._descriptors, []
        for descriptor in reversed(descriptors):
            if descriptor >= 0:
                os.close(descriptor)


_held_locks: Final[weakref.WeakSet[SystemLock]] = weakref.WeakSet()


def _leave_locks_to_the_parent() -> None:
    for lock in list(_held_locks):
        lock.release()


# A forked child that runs no other program would hold the lock after its parent has ended.
os.register_at_fork(after_in_child=_leave_locks_to_the_parent)


def _holder(path: str) -> str:
    try:
        with open(path, "rb") as file:
            text = file.read(_PID_BYTES_MAX).strip()
    except OSError:
        text = b""
    return f"process {int(text)}" if text.isdigit() else "another process"


def _held(error: OSError, path: str) -> BlockingIOError:
    return BlockingIOError(error.errno, f"held by {_holder(path)}", path)


def _is_file_at(path: str, descriptor: int) -> bool:
    """Whether a path still leads to an open file."""
    try:
        there = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    ours = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def _lock_folder(path: str) -> int:
    """Lock the folder of a lock file; -1 if the file system locks no folders, such as NFS.

    Raises BlockingIOError with the path of the lock file and its holder.
    """
    folder = os.path.dirname(path) or "."
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise _held(error, path) from None
        return -1
    return descriptor


def _lock_file(path: str) -> int:
    """Lock a lock file, created if it does not exist, and write the holder into it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Otherwise the file was removed meanwhile.
            if _is_file_at(path, descriptor):
                break
        except BlockingIOError as error:
            os.close(descriptor)
            raise _held(error, path) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except OSError:
        # The number is for people. On a full disk the server starts too, to read messages.
        pass
    return descriptor


class SystemFileSystem:
    """Files and folders of the operating system."""

    __slots__ = ()

    def open(self, path: str) -> SystemFile:
        """Open an existing file for reading and appending."""
        return SystemFile(path, 0)

    def create(self, path: str) -> SystemFile:
        """Create a file that does not exist yet."""
        return SystemFile(path, os.O_CREAT | os.O_EXCL)

    def list_folder(self, path: str) -> list[str]:
        """The names in a folder, sorted; none if the folder does not exist."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def exists(self, path: str) -> bool:
        """Whether a file or folder of that name exists. Raises OSError if that is unknown."""
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_folder(self, path: str) -> bool:
        """Whether a folder of that name exists. Raises OSError if that is unknown."""
        try:
            return stat.S_ISDIR(os.stat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def make_folder(self, path: str) -> None:
        """Create a folder and those above it, unless they exist."""
        try:
            os.mkdir(path, FOLDER_MODE)
        except FileExistsError:
            if not self.is_folder(path):
                raise
        except FileNotFoundError:
            above = os.path.dirname(path.rstrip("/"))
            # A folder that accepts no other, such as some of the system's own, has the same error.
            if above in ("", path) or self.is_folder(above):
                raise
            self.make_folder(above)
            self.make_folder(path)

    def remove(self, path: str) -> None:
        """Remove a file, which must exist."""
        os.unlink(path)

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        os.rmdir(path)

    def rename(self, source: str, target: str) -> None:
        """Rename a file in one step, replacing a file of that name."""
        if stat.S_ISDIR(os.lstat(source).st_mode):
            raise _refusal(errno.EISDIR, source)
        os.replace(source, target)

    def sync_folder(self, path: str) -> None:
        """Return when creations, renames and removals in this folder are on the disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _flush(descriptor, folder=True)
        except OSError as error:
            if error.errno not in _CANNOT_SYNC:
                raise
        finally:
            os.close(descriptor)

    def size_of(self, path: str) -> int:
        """The size of a file; -1 if it does not exist."""
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return -1
        return found.st_size if stat.S_ISREG(found.st_mode) else -1

    def free_bytes(self, path: str) -> int:
        """Free bytes for us on the disk that holds `path`, or will hold it once it is created."""
        place = os.path.abspath(path)
        while True:
            try:
                status = os.statvfs(place)
            except FileNotFoundError:
                place = os.path.dirname(place)
            else:
                return status.f_bavail * status.f_frsize

    def lock(self, path: str) -> SystemLock:
        """Lock the folder of a lock file. Raises BlockingIOError with the path and the holder."""
        folder = _lock_folder(path)
        try:
            return SystemLock(path, folder, _lock_file(path))
        except BaseException:
            if folder >= 0:
                os.close(folder)
            raise


def boot_id(source: str = _LINUX_BOOT_ID, sysctl: str = "sysctl") -> str:
    """An id that stays the same until the machine restarts, or BOOT_UNKNOWN.

    It distinguishes a killed process, which loses nothing that reached the operating system, from a
    machine that lost power, which loses what was not synced.
    """
    try:
        with open(source, encoding="ascii") as file:
            return file.read().strip() or BOOT_UNKNOWN
    except OSError:
        pass
    for name in _SYSCTL_NAMES:
        try:
            found = subprocess.run(
                [sysctl, "-n", name],
                capture_output=True,
                check=True,
                text=True,
                timeout=_SYSCTL_TIMEOUT_S,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        if found.stdout.strip():
            return found.stdout.strip()
    return BOOT_UNKNOWN
