"""Files that are open only while in use: a limit on the descriptors of a store.

A stream has a segment and a journal open, and there may be thousands of streams of which few are
used. Behind this port a file that was not used for a while gives up its descriptor and gets another
one with its next use; the holder of the file does not notice.

Rules:

* A file that was written to and not synced keeps its descriptor. The system reports a write that
  failed on its way to the disk to a sync of the same open file, and perhaps to no other.
* A file without a name, because it was removed or replaced, keeps its descriptor too.
* A file for which `stays_open` is true keeps its descriptor, and so does every file while an
  operation runs on it, on any thread.
* A file that is shorter when it is opened again is another file, and every use of it fails.

Dirty files may exceed the limit; the next sync makes them clean. When the process has no descriptor
left, a file that is not in use gives up its own.

Must not know: the contents of the files.
"""

import errno
import os
import resource
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from operator import attrgetter
from threading import Lock
from typing import Final, final

from headwater.store.disk.filesystem import File, FileSystem
from headwater.store.disk.filesystem import Lock as FolderLock

# Open files that are not in use: enough for the busy streams of a large server. Opening one again
# takes some microseconds.
OPEN_FILES_MAX: Final = 1024
# The part of the process's descriptors that files may take; the rest is for connections.
DESCRIPTORS_PART: Final = 4
OPEN_FILES_MIN: Final = 64
# The open files that one search inspects for one that may be closed. If none may, the next search
# continues behind them.
LOOKED_AT_MAX: Final = 64
# A search closes more than one file, in proportion to the limit: a search takes as long as opening
# several files, and a server that starts with many streams would search for every file it opens.
OPEN_PER_CLOSED: Final = 64

# The errors for a lack of descriptors, of the process or of the system.
_NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE)


def open_files_max() -> int:
    """The limit that suits this process."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return OPEN_FILES_MAX
    return max(OPEN_FILES_MIN, min(OPEN_FILES_MAX, limit // DESCRIPTORS_PART))


@final
class BoundedFile:
    """A file that is open while it is used. Made by `OpenFiles`.

    An operation announces itself in `_users` and then reads the descriptor; a search takes the
    descriptor first and then checks for users, and puts it back if there are any. So an operation
    needs no lock as long as the file is open.
    """

    __slots__ = (
        "_begun",
        "_is_closed",
        "_pool",
        "_size",
        "_synced",
        "_tick",
        "_users",
        "_written",
        "file",
        "has_name",
        "path",
        "stays_open",
        "used_at",
    )

    def __init__(self, pool: "DescriptorPool", path: str, file: File, is_new: bool) -> None:
        self._pool = pool
        self.path = path
        # None without a descriptor.
        self.file: File | None = file
        self._size = 0
        self._is_closed = False
        # The number of changes that were begun, of those completed, and of those on the disk. A
        # file that was opened may have been left unsynced by its last writer: it has to be synced,
        # but is not dirty for that.
        self._begun = self._written = int(is_new)
        self._synced = -1
        # One entry for each running operation.
        self._users: list[None] = []
        self._tick = pool.tick
        self.used_at = self._tick()
        self.has_name = True
        self.stays_open = False

    def __repr__(self) -> str:
        return f"<BoundedFile {self.path} {'closed' if self.file is None else 'open'}>"

    # --- for the pool, with its guard ------------------------------------------------------------

    @property
    def may_rest(self) -> bool:
        """Whether the file can give up its descriptor without a loss, if no operation needs it."""
        if self._users or self.stays_open or not self.has_name:
            return False
        # Read after the users: an operation that has just ended has counted its change here.
        return self._begun <= max(self._synced, 0)

    def rest(self) -> File | None:
        """Give up the descriptor. Returns the file to close; None if an operation needs it."""
        file = self.file
        if file is None:
            return None
        self._size = file.size
        self.file = None
        if not self.may_rest:
            # An operation has begun meanwhile.
            self.file = file
            return None
        return file

    def wake(self, file: File) -> None:
        """Use another descriptor. Raises OSError if it is not of the same file."""
        if file.size < self._size:
            file.close()
            lost = f"shorter than it was: {file.size} of {self._size} bytes"
            raise OSError(errno.ESTALE, lost, self.path)
        self.file = file

    def hold(self) -> None:
        """Keep the descriptor until `let_go`."""
        self._users.append(None)

    def let_go(self) -> None:
        """End the hold on the descriptor."""
        self._users.pop()

    # --- the port --------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes in the file, as far as this object has read or written it."""
        file = self.file
        return self._size if file is None else file.size

    def write(self, data: bytes) -> None:
        """Append all of `data`."""
        # As `_changing` does, but faster: every publish passes here.
        self._users.append(None)
        try:
            file = self.file or self._reopened()
            self.used_at = self._tick()
            self._begun += 1
            file.write(data)
        finally:
            self._written = self._begun
            self._users.pop()

    def overwrite(self, offset: int, data: bytes) -> None:
        """Replace existing bytes."""
        with self._changing() as file:
            file.overwrite(offset, data)

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer only at the end of the file."""
        self._users.append(None)
        try:
            file = self.file or self._reopened()
            self.used_at = self._tick()
            return file.read(offset, size)
        finally:
            self._users.pop()

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        with self._changing() as file:
            file.truncate(size)

    def sync(self) -> None:
        """Return when all written bytes are on the disk.

        A sync does not count as a use of the file.
        """
        written = self._written
        if self.file is None and self._synced == written and not self._is_closed:
            # All was on the disk when the descriptor was given up.
            return
        self._users.append(None)
        try:
            (self.file or self._reopened()).sync()
            self._synced = max(self._synced, written)
        finally:
            self._users.pop()
        self._pool.close_idle()

    def close(self) -> None:
        """Release the file; a second call is harmless."""
        with self._pool.guard:
            self._is_closed = True
            if self.file is not None:
                self._size = self.file.size
            file, self.file = self.file, None
            self._pool.forget(self)
        if file is not None:
            file.close()

    @contextmanager
    def _changing(self) -> Iterator[File]:
        """The open file, which counts as dirty from now on."""
        self._users.append(None)
        try:
            file = self.file or self._reopened()
            self.used_at = self._tick()
            self._begun += 1
            yield file
        finally:
            self._written = self._begun
            self._users.pop()

    def _reopened(self) -> File:
        """The open file, with a new descriptor if it has none."""
        with self._pool.guard:
            if self._is_closed:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
            if self.file is None:
                self._pool.wake(self)
            assert self.file is not None
            return self.file


@final
class DescriptorPool:
    """All held files, and those that have a descriptor."""

    __slots__ = ("_by_path", "_files", "_open", "_open_max", "_stays_open", "guard", "tick")

    def __init__(self, files: FileSystem, open_max: int, stays_open: Callable[[str], bool]) -> None:
        self._files = files
        self._open_max = open_max
        self._stays_open = stays_open
        # Files may be used on several threads. The lock covers bookkeeping and reopening.
        self.guard = Lock()
        # A counter that orders the uses.
        self.tick: Callable[[], int] = count().__next__
        # Files with a descriptor; a search takes them from the front and puts them at the end.
        self._open: OrderedDict[BoundedFile, None] = OrderedDict()
        # All held files, with a descriptor or without.
        self._by_path: dict[str, list[BoundedFile]] = {}

    @property
    def open_count(self) -> int:
        """The number of files that have a descriptor."""
        return len(self._open)

    def adopt(self, path: str, take: Callable[[str], File], is_new: bool) -> BoundedFile:
        """Add a file that was opened or created."""
        with self.guard:
            self._make_room()
            bounded = BoundedFile(self, path, self._opened(take, path), is_new)
            bounded.stays_open = self._stays_open(path)
            self._open[bounded] = None
            self._by_path.setdefault(path, []).append(bounded)
        return bounded

    def yield_one(self, error: OSError) -> bool:
        """Close a file after a failure for lack of a descriptor. Returns whether to retry."""
        with self.guard:
            return self._yield_one(error)

    def wake(self, bounded: BoundedFile) -> None:
        """Open a file again. Called with the guard held."""
        self._make_room()
        bounded.wake(self._opened(self._files.open, bounded.path))
        self._open[bounded] = None

    def forget(self, bounded: BoundedFile) -> None:
        """Drop a file that is no longer held. Called with the guard held."""
        self._open.pop(bounded, None)
        self._leave_path(bounded)

    def close_idle(self) -> None:
        """Close files beyond the limit, after some may have become clean."""
        if len(self._open) > self._open_max:
            with self.guard:
                while (excess := len(self._open) - self._open_max) > 0 and self._close(excess):
                    pass

    @contextmanager
    def renaming(self, source: str | None, target: str) -> Iterator[None]:
        """Rename files at `source` to `target`; those that had this name lose it.

        All of them keep their descriptors meanwhile.
        """
        with self.guard:
            moved = [] if source is None else [*self._by_path.get(source, ())]
            nameless = [*self._by_path.get(target, ())]
            for bounded in (*moved, *nameless):
                bounded.hold()
        is_done = False
        try:
            with self.guard:
                for bounded in (*moved, *nameless):
                    self._wake_if_there(bounded)
            yield
            is_done = True
        finally:
            with self.guard:
                for bounded in (*moved, *nameless):
                    bounded.let_go()
                if is_done:
                    self._rename_all(nameless, moved, target)

    def _wake_if_there(self, bounded: BoundedFile) -> None:
        """Open a file again, unless it was removed or cut from outside."""
        if bounded.file is None:
            try:
                self.wake(bounded)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ESTALE):
                    raise

    def _rename_all(
        self, nameless: list[BoundedFile], moved: list[BoundedFile], target: str
    ) -> None:
        for bounded in (*nameless, *moved):
            self._leave_path(bounded)
        for bounded in nameless:
            bounded.has_name = False
        for bounded in moved:
            bounded.path = target
            self._by_path.setdefault(target, []).append(bounded)

    def _opened(self, take: Callable[[str], File], path: str) -> File:
        while True:
            try:
                return take(path)
            except OSError as error:
                if not self._yield_one(error):
                    raise

    def _yield_one(self, error: OSError) -> bool:
        return error.errno in _NO_DESCRIPTOR and self._close(1, len(self._open))

    def _make_room(self) -> None:
        """Make sure that one more file may be open."""
        while len(self._open) >= self._open_max and self._close(
            max(self._open_max // OPEN_PER_CLOSED, 1)
        ):
            pass

    def _close(self, count_max: int, looked_at_max: int = LOOKED_AT_MAX) -> bool:
        """Close up to `count_max` inspected files, longest unused first; False if none was."""
        found: list[BoundedFile] = []
        for _ in range(min(len(self._open), looked_at_max)):
            bounded = next(iter(self._open))
            self._open.move_to_end(bounded)
            if bounded.may_rest:
                found.append(bounded)
        found.sort(key=_used_at)
        is_closed = False
        for bounded in found[:count_max]:
            file = bounded.rest()
            if file is not None:
                is_closed = True
                del self._open[bounded]
                file.close()
        return is_closed

    def _leave_path(self, bounded: BoundedFile) -> None:
        held = self._by_path.get(bounded.path, [])
        if bounded in held:
            held.remove(bounded)
            if not held:
                del self._by_path[bounded.path]


_used_at: Final = attrgetter("used_at")


@final
class OpenFiles:
    """A file system with a limit on open files that are not in use."""

    __slots__ = ("_files", "_pool")

    def __init__(
        self,
        files: FileSystem,
        open_max: int,
        stays_open: Callable[[str], bool] = lambda path: False,
    ) -> None:
        self._files = files
        self._pool = DescriptorPool(files, open_max, stays_open)

    @property
    def open_count(self) -> int:
        """The number of files that have a descriptor now."""
        return self._pool.open_count

    def open(self, path: str) -> BoundedFile:
        """Open an existing file for reading and appending."""
        return self._pool.adopt(path, self._files.open, is_new=False)

    def create(self, path: str) -> BoundedFile:
        """Create a file that does not exist yet."""
        return self._pool.adopt(path, self._files.create, is_new=True)

    def remove(self, path: str) -> None:
        """Remove a file, which must exist."""
        with self._pool.renaming(None, path):
            self._files.remove(path)

    def rename(self, source: str, target: str) -> None:
        """Rename a file in one step, replacing a file of that name."""
        with self._pool.renaming(source, target):
            self._files.rename(source, target)

    def list_folder(self, path: str) -> list[str]:
        """The names in a folder, sorted; none if the folder does not exist."""
        return self._files.list_folder(path)

    def exists(self, path: str) -> bool:
        """Whether a file or folder of that name exists."""
        return self._files.exists(path)

    def is_folder(self, path: str) -> bool:
        """Whether a folder of that name exists."""
        return self._files.is_folder(path)

    def make_folder(self, path: str) -> None:
        """Create a folder and those above it, unless they exist."""
        self._files.make_folder(path)

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        self._files.remove_folder(path)

    def sync_folder(self, path: str) -> None:
        """Return when creations, renames and removals in this folder are on the disk."""
        while True:
            try:
                self._files.sync_folder(path)
            except OSError as error:
                # Syncing a folder takes a descriptor.
                if not self._pool.yield_one(error):
                    raise
            else:
                return

    def size_of(self, path: str) -> int:
        """The size of a file; -1 if it does not exist."""
        return self._files.size_of(path)

    def free_bytes(self, path: str) -> int:
        """Room left on the disk that holds `path`."""
        return self._files.free_bytes(path)

    def lock(self, path: str) -> FolderLock:
        """Lock the folder of a lock file. Raises BlockingIOError."""
        return self._files.lock(path)
