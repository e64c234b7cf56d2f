"""A disk in memory with the FileSystem port of the store, which fails as real disks fail.

The fault model lists the faults, and what a program has to preserve in each. A `sync` of a file
puts its bytes on the medium, a `sync_folder` the names in that folder; these are "synced" below.

kill            The process dies between two operations, or in the middle of one (`crash_at`, then
                `kill`). All written bytes stay; handles and locks are gone.
                Survivable: no written byte is missing.
power_loss      The machine dies. Synced bytes and names stay. As for the rest:
                - A page (4096 bytes, or 512 for sectors) is as synced, as written, in any state
                  between the two, or torn between two states at any byte; each page on its own.
                - A file has its synced length, its written length, or any length in between. It
                  holds zeros in place of pages that did not reach the medium or, if so chosen,
                  noise or pieces of other files.
                - A name that was created, renamed or removed is as before or as after, each on its
                  own, or in order within a folder if so chosen. A rename is atomic.
                Survivable: nothing synced is missing, and no damaged bytes count as a record.
                "strict" keeps only synced bytes and names, "kind" keeps everything, in "random"
                the seed decides.
failed sync     `sync` raises, and the pages that waited are given up: reads still show them, the
                next sync succeeds without them, and a power loss loses them.
                Survivable by never trusting that file again.
failed write    `write` raises EIO or ENOSPC with none, some or all of its bytes in the file; also
                whenever the disk is full. Survivable: readers do not notice, and no acknowledged
                message is missing.
failed read     EIO for a range of a file. Survivable: the rest stays readable.
flipped bit     Reads return it as if written so. Survivable: the damage is noticed and reported.

Not in the model: reads that are short before the end of a file, and calls that are interrupted by
signals, because the port excludes them; changes of synced bytes other than by `flip_bit`; writes
that land in another file; two machines that use one disk.

Seed and operations decide the content of the disk. It is for one thread. Operations that change
something are numbered from 0, and `crash_at` takes a number, so that a test can visit them all:

    for number in crash_points(workload):
        disk = SimDisk(seed=number)
        disk.crash_at(number)
        with pytest.raises(PowerLost):
            workload(disk)
        for seed in range(10):
            survivor = disk.clone(seed)
            survivor.power_loss()
            look_at(survivor)
"""

import errno
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from headwater.base.invariants import check
from headwater.testing.disk_contents import Contents, Leftover, noise, stale, zeros
from headwater.testing.disk_faults import (
    CHANGING,
    DiskCrash,
    DiskFault,
    DiskFaults,
    Interruption,
    Moment,
    Operation,
    PowerLost,
    disk_full,
)
from headwater.testing.disk_folders import Folder, Inode, Tree, normal, refusal
from headwater.testing.entropy import labelled_rng

__all__ = ["FileCounts", "PowerLost", "SimDisk", "SimFile", "SimLock", "crash_points"]

PAGE_BYTES: Final = 4096
# The capacity of a disk whose size does not matter.
BOUNDLESS_BYTES: Final = 1 << 50
LOG_LINES_MAX: Final = 1000
_CLOSED: Final = -1

Mode = Literal["strict", "kind", "random"]
Leftovers = Literal["zeros", "noise", "stale"]


@dataclass(frozen=True, slots=True)
class FileCounts:
    """The operations on a file since it was created, under any name."""

    writes: int
    written_bytes: int
    syncs: int


class SimFile:
    """An open file."""

    __slots__ = ("_disk", "_epoch", "_inode", "_size")

    def __init__(self, disk: "SimDisk", inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._epoch = disk._epoch
        self._size = inode.contents.size
        inode.handles += 1

    def __repr__(self) -> str:
        return f"<SimFile {self._inode.path} {self._size} bytes>"

    @property
    def size(self) -> int:
        """Bytes in the file when it was opened, and all that this object has seen since."""
        return self._size

    def write(self, data: bytes) -> None:
        """Append all of `data`."""
        disk, inode = self._disk, self._inode
        if self._epoch != disk._epoch:
            raise self._refusal()
        contents = inode.contents
        if contents.size != self._size:
            check(False, f"{inode.path} was changed through another handle")
        interruption = disk._begin("write", inode.path, self._size, len(data))
        if interruption is not None:
            data = data[: interruption.kept_size]
        contents.append(data)
        size = len(data)
        self._size += size
        disk._used_bytes += size
        inode.writes += 1
        inode.written_bytes += size
        if interruption is not None:
            raise interruption.error

    def overwrite(self, offset: int, data: bytes) -> None:
        """Replace existing bytes."""
        if self._epoch != self._disk._epoch:
            raise self._refusal()
        inode = self._inode
        if offset < 0 or offset + len(data) > inode.contents.size:
            raise refusal(errno.EINVAL, inode.path)
        interruption = self._disk._begin("overwrite", inode.path, offset, len(data))
        if interruption is not None:
            data = data[: interruption.kept_size]
        inode.contents.overwrite(offset, data)
        inode.writes += 1
        inode.written_bytes += len(data)
        if interruption is not None:
            raise interruption.error

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer only at the end of the file."""
        if self._epoch != self._disk._epoch:
            raise self._refusal()
        inode = self._inode
        if offset < 0 or size < 0:
            raise refusal(errno.EINVAL, inode.path)
        data = inode.contents.read(offset, size)
        self._disk._look("read", inode.path, offset, len(data))
        if data and offset + len(data) > self._size:
            self._size = offset + len(data)
        return data

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        if self._epoch != self._disk._epoch:
            raise self._refusal()
        inode, disk = self._inode, self._disk
        cut_bytes = inode.contents.size - size
        if size < 0 or cut_bytes < 0:
            raise refusal(errno.EINVAL, inode.path)
        interruption = disk._begin("truncate", inode.path, size)
        if interruption is None or interruption.kept_size:
            inode.contents.truncate(size)
            self._size = size
            disk._used_bytes -= cut_bytes
        if interruption is not None:
            raise interruption.error

    def sync(self) -> None:
        """Return when all written bytes are on the medium."""
        if self._epoch != self._disk._epoch:
            raise self._refusal()
        inode = self._inode
        interruption = self._disk._begin("sync", inode.path)
        if interruption is None or interruption.kept_size:
            inode.contents.sync()
            inode.syncs += 1
        elif isinstance(interruption.error, OSError):
            inode.contents.fail_sync()
        if interruption is not None:
            raise interruption.error

    def close(self) -> None:
        """Release the file; a second call, or one after its process died, is harmless."""
        if self._epoch == self._disk._epoch:
            self._inode.handles -= 1
            self._disk._free_if_unused(self._inode)
        self._epoch = _CLOSED

    def _refusal(self) -> BaseException:
        """The error for any use of this handle."""
        self._disk._require_power()
        return refusal(errno.EBADF, self._inode.path)


class SimLock:
    """A folder that a process holds until `release`, or until it ends in any way."""

    __slots__ = ("_disk", "_epoch", "_file", "_path")

    def __init__(self, disk: "SimDisk", path: str) -> None:
        self._disk = disk
        self._epoch = disk._epoch
        self._path = path
        self._file = disk._tree.file(path)

    @property
    def is_in_place(self) -> bool:
        """Whether the lock file is still the one that was locked."""
        return self._disk.exists(self._path) and self._disk._tree.file(self._path) is self._file

    def put_back(self) -> None:
        """Create the lock file again if it does not exist."""
        if not self._disk.exists(self._path):
            self._disk.create(self._path).close()
        self._file = self._disk._tree.file(self._path)

    def release(self) -> None:
        """Release the folder."""
        if self._epoch == self._disk._epoch:
            self._disk._locks.discard(self._path.rpartition("/")[0])
        self._epoch = _CLOSED


class SimDisk:
    """Files in folders. Paths use `/` and begin at the root, with or without a leading `/`."""

    def __init__(
        self,
        seed: int = 0,
        *,
        page_bytes: int = PAGE_BYTES,
        capacity_bytes: int | None = None,
        ordered_folders: bool = False,
        leftovers: Leftovers = "noise",
    ) -> None:
        check(page_bytes > 0, "a page has at least one byte")
        self.seed = seed
        self.page_bytes = page_bytes
        self.capacity_bytes = capacity_bytes
        # Whether changes of names in one folder reach the medium in order.
        self.ordered_folders = ordered_folders
        # The content of pages that a file got and no one wrote: zeros always, and at times this.
        self.leftovers: Leftovers = leftovers
        # The number of changing operations so far, which is the number of the next one.
        self.operations = 0
        self.operation_counts: dict[Operation, int] = dict.fromkeys(CHANGING, 0)
        self.power_losses = 0
        self.kills = 0
        self._tree = Tree()
        self._plan = DiskFaults(seed)
        self._used_bytes = 0
        self._powered = True
        # Handles and locks of an earlier process carry an earlier epoch.
        self._epoch = 0
        # Folders that are locked.
        self._locks: set[str] = set()
        self._log: deque[tuple[int, str, str, int, int]] = deque(maxlen=LOG_LINES_MAX)

    # --- the port: files ------------------------------------------------------------------------

    def open(self, path: str) -> SimFile:
        """Open an existing file for reading and appending."""
        self._require_power()
        inode = self._tree.file(normal(path))
        self._look("open", inode.path)
        return SimFile(self, inode)

    def create(self, path: str) -> SimFile:
        """Create a file that does not exist yet."""
        self._require_power()
        path = normal(path)
        self._refuse_existing(path)
        inode = Inode(Contents(self.page_bytes), path)
        interruption = self._begin("create", path)
        if interruption is None or interruption.kept_size:
            self._tree.put(path, inode)
        if interruption is not None:
            raise interruption.error
        return SimFile(self, inode)

    def remove(self, path: str) -> None:
        """Remove a file, which must exist."""
        self._require_power()
        path = normal(path)
        inode = self._tree.file(path)
        interruption = self._begin("remove", path)
        if interruption is None or interruption.kept_size:
            self._tree.drop(path)
            self._free_if_unused(inode)
        if interruption is not None:
            raise interruption.error

    def rename(self, source: str, target: str) -> None:
        """Rename a file in one step, replacing a file of that name."""
        self._require_power()
        source, target = normal(source), normal(target)
        self._tree.file(source)
        folder, name = self._tree.above(target)
        if isinstance(folder.entries.get(name), Folder):
            raise refusal(errno.EISDIR, target)
        interruption = self._begin("rename", target)
        if interruption is None or interruption.kept_size:
            replaced = self._tree.move(source, target)
            if replaced is not None:
                self._free_if_unused(replaced)
        if interruption is not None:
            raise interruption.error

    # --- the port: folders ----------------------------------------------------------------------

    def list_folder(self, path: str) -> list[str]:
        """The names in a folder, sorted; none if the folder does not exist."""
        self._require_power()
        try:
            return sorted(self._tree.folder(normal(path)).entries)
        except FileNotFoundError:
            return []

    def exists(self, path: str) -> bool:
        """Whether a file or folder of that name exists."""
        self._require_power()
        try:
            return self._tree.find(normal(path)) is not None
        except NotADirectoryError:
            return False

    def is_folder(self, path: str) -> bool:
        """Whether a folder of that name exists."""
        self._require_power()
        try:
            return isinstance(self._tree.find(normal(path)), Folder)
        except NotADirectoryError:
            return False

    def make_folder(self, path: str) -> None:
        """Create a folder and those above it, unless they exist."""
        self._require_power()
        path = normal(path)
        node = self._tree.find(path)
        if isinstance(node, Inode):
            raise refusal(errno.EEXIST, path)
        if node is None:
            self.make_folder(path.rpartition("/")[0])
            interruption = self._begin("make_folder", path)
            if interruption is None or interruption.kept_size:
                self._tree.put(path, Folder())
            if interruption is not None:
                raise interruption.error

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        self._require_power()
        path = normal(path)
        self._tree.above(path)
        if self._tree.folder(path).entries:
            raise refusal(errno.ENOTEMPTY, path)
        interruption = self._begin("remove_folder", path)
        if interruption is None or interruption.kept_size:
            self._tree.drop(path)
        if interruption is not None:
            raise interruption.error

    def sync_folder(self, path: str) -> None:
        """Return when creations, renames and removals in this folder are on the medium."""
        self._require_power()
        path = normal(path)
        folder = self._tree.folder(path)
        interruption = self._begin("sync_folder", path)
        if interruption is None or interruption.kept_size:
            self._tree.sync(folder)
        if interruption is not None:
            raise interruption.error

    def size_of(self, path: str) -> int:
        """The size of a file; -1 if it does not exist."""
        if not self.exists(path) or self.is_folder(path):
            return -1
        return self._tree.file(normal(path)).contents.size

    def free_bytes(self, path: str) -> int:
        """Free bytes of the disk; there is only one disk, whatever the path."""
        self._require_power()
        capacity = BOUNDLESS_BYTES if self.capacity_bytes is None else self.capacity_bytes
        return max(0, capacity - self._used_bytes)

    def lock(self, path: str) -> SimLock:
        """Lock the folder of a lock file. Raises BlockingIOError with the path and the holder."""
        self._require_power()
        path = normal(path)
        folder = path.rpartition("/")[0]
        if folder in self._locks:
            raise BlockingIOError(errno.EAGAIN, f"held by process {self.pid}", path)
        if not self.exists(path):
            self.create(path).close()
        self._tree.file(path)
        self._locks.add(folder)
        return SimLock(self, path)

    # --- the end of processes and machines ------------------------------------------------------

    @property
    def pid(self) -> int:
        """The process that uses the disk; every kill and every power loss begins another one."""
        return 1 + self.kills + self.power_losses

    @property
    def boot_id(self) -> str:
        """An id that stays the same until the machine is restarted."""
        return f"boot-{self.power_losses}"

    def kill(self) -> None:
        """End the process: all written bytes stay, and nothing is open or locked."""
        self.kills += 1
        self._note("killed", "")
        self._start_anew()

    def power_loss(self, mode: Mode = "random") -> None:
        """End the machine and start it again, with the content that the disk has kept."""
        self.power_losses += 1
        self._note(f"power loss, {mode}", "")
        leftover = self._leftover()
        if mode == "strict":
            self._tree.keep_synced()
        elif mode == "kind":
            self._tree.keep_written()
        else:
            rng = labelled_rng(self.seed, "folders", self.power_losses)
            self._note(self._tree.keep_some(rng, ordered=self.ordered_folders), "")
        for inode in self._tree.count_links():
            if not inode.contents.is_settled:
                self._settle(inode, mode, leftover)
        self._start_anew()

    def crash_at(
        self, number: int, moment: Moment = "before", kept_size: int | None = None
    ) -> None:
        """Stop the machine at the operation of that number; see `disk_faults.DiskCrash`.

        Its caller gets PowerLost, and so does every caller until `power_loss` or `kill` is called.
        """
        check(number >= self.operations, f"operation {number} is in the past")
        self._plan.crash = DiskCrash(number, moment, kept_size)

    def _leftover(self) -> Leftover:
        if self.leftovers == "stale" and self.files():
            return stale([inode.contents.clone() for _, inode in self._tree.files()])
        return zeros if self.leftovers == "zeros" else noise

    def _settle(self, inode: Inode, mode: Mode, leftover: Leftover) -> None:
        if mode == "strict":
            inode.contents.keep_synced()
        elif mode == "kind":
            inode.contents.keep_written()
        else:
            rng = labelled_rng(self.seed, "contents", self.power_losses, inode.path)
            self._note(inode.contents.keep_some(rng, leftover), inode.path)

    def _start_anew(self) -> None:
        self._powered = True
        self._epoch += 1
        self._locks.clear()
        inodes = self._tree.count_links()
        for inode in inodes:
            inode.handles = 0
        self._used_bytes = sum(inode.contents.size for inode in inodes)

    # --- faults ---------------------------------------------------------------------------------

    def fail(
        self,
        operation: Operation,
        pattern: str = "*",
        *,
        code: int = errno.EIO,
        skip: int = 0,
        times: int | None = 1,
        kept_size: int | None = 0,
    ) -> DiskFault:
        """Let operations on matching paths fail: after `skip` of them, `times` or, for None, all.

        A failing write keeps `kept_size` of its bytes, or a random number of them for None.
        """
        fault = DiskFault(operation, pattern, code, skip, times, kept_size)
        self._plan.add(fault)
        return fault

    def fail_read(self, pattern: str, start: int, end: int, *, code: int = errno.EIO) -> DiskFault:
        """Let all reads of any of the bytes `start:end` of matching files fail."""
        fault = DiskFault("read", pattern, code, times=None, start=start, end=end)
        self._plan.add(fault)
        return fault

    def heal(self, *faults: DiskFault) -> None:
        """Remove faults, or all of them."""
        self._plan.heal(*faults)

    def flip_bit(self, path: str, offset: int, bit: int) -> None:
        """Damage one bit of a file on the medium."""
        inode = self._tree.file(normal(path))
        check(0 <= offset < inode.contents.size and 0 <= bit < 8, f"{path} has no such bit")
        inode.contents.flip_bit(offset, bit)
        self._note(f"bit {bit} of byte {offset} flipped", inode.path)

    # --- inspection from outside ----------------------------------------------------------------

    def clone(self, seed: int | None = None) -> "SimDisk":
        """A copy of the disk, without the process that has files open on it.

        Clones share bytes until one of them writes; another seed leads to other faults.
        """
        twin = SimDisk(
            self.seed if seed is None else seed,
            page_bytes=self.page_bytes,
            capacity_bytes=self.capacity_bytes,
            ordered_folders=self.ordered_folders,
            leftovers=self.leftovers,
        )
        twin.operations = self.operations
        twin.operation_counts = dict(self.operation_counts)
        twin.power_losses = self.power_losses
        twin.kills = self.kills
        twin._tree = self._tree.clone()
        twin._plan = self._plan.clone(twin.seed)
        twin._log.extend(self._log)
        twin._start_anew()
        twin._powered = self._powered
        return twin

    @property
    def is_powered(self) -> bool:
        """Whether no crash has happened, or it is over."""
        return self._powered

    @property
    def used_bytes(self) -> int:
        """Bytes of all files, with those that are removed and still open."""
        return self._used_bytes

    def files(self) -> list[str]:
        """The paths of all files, sorted."""
        return sorted(path for path, _ in self._tree.files())

    def dump(self) -> dict[str, bytes]:
        """All files with the content that reads show, damaged or not."""
        contents = {path: inode.contents for path, inode in self._tree.files()}
        return {path: contents[path].read(0, contents[path].size) for path in sorted(contents)}

    def is_synced(self, path: str) -> bool:
        """Whether the bytes of a file are on the medium; its name may still not be."""
        return self._tree.file(normal(path)).contents.is_settled

    def counts(self, path: str) -> FileCounts:
        """The number of writes and syncs of a file."""
        inode = self._tree.file(normal(path))
        return FileCounts(inode.writes, inode.written_bytes, inode.syncs)

    def history(self, lines: int = 50) -> str:
        """The last operations, for the message of a test that failed."""
        entries = list(self._log)[-lines:]
        return "\n".join(_line(*entry) for entry in entries)

    # --- the steps of every operation ----------------------------------------------------------

    def _require_power(self) -> None:
        if not self._powered:
            raise PowerLost("the machine is off until power_loss() or kill() is called")

    def _begin(
        self, operation: Operation, path: str, offset: int = 0, size: int = 1
    ) -> Interruption | None:
        """Count an operation that changes something. Returns its interruption, if any."""
        number = self.operations
        self.operations = number + 1
        self.operation_counts[operation] += 1
        self._log.append((number, operation, path, offset, size))
        plan = self._plan
        if plan.crash is None and not plan.faults and self.capacity_bytes is None:
            return None
        return self._interruption(number, operation, path, offset, size)

    def _interruption(
        self, number: int, operation: Operation, path: str, offset: int, size: int
    ) -> Interruption | None:
        interruption = self._plan.interruption(number, operation, path, offset, size)
        if operation == "write" and self.capacity_bytes is not None:
            room_bytes = max(0, self.capacity_bytes - self._used_bytes)
            if interruption is not None:
                kept_size = min(room_bytes, interruption.kept_size)
                interruption = Interruption(kept_size, interruption.error)
            elif size > room_bytes:
                interruption = disk_full(path, room_bytes)
        if interruption is not None:
            self._note(f"interrupted after {interruption.kept_size}: {interruption.error}", path)
            if isinstance(interruption.error, PowerLost):
                self._powered = False
                self._epoch += 1
        return interruption

    def _look(self, operation: Operation, path: str, offset: int = 0, size: int = 1) -> None:
        """Raise the error of an operation that changes nothing, if it is to fail."""
        if self._plan.faults:
            interruption = self._plan.interruption(self.operations, operation, path, offset, size)
            if interruption is not None:
                self._note(f"{operation} refused: {interruption.error}", path)
                raise interruption.error

    def _refuse_existing(self, path: str) -> None:
        folder, name = self._tree.above(path)
        if name in folder.entries:
            raise refusal(errno.EEXIST, path)

    def _free_if_unused(self, inode: Inode) -> None:
        if not inode.links and not inode.handles:
            self._used_bytes -= inode.contents.size

    def _note(self, what: str, path: str) -> None:
        self._log.append((self.operations, what, path, -1, -1))


def _line(number: int, what: str, path: str, offset: int, size: int) -> str:
    if offset < 0:
        return f"        {path + ': ' if path else ''}{what}"
    extent = f" {size} bytes at {offset}" if what in ("write", "overwrite") else ""
    extent = f" to {offset} bytes" if what == "truncate" else extent
    return f"{number:>7} {what} {path}{extent}"


def crash_points(workload: Callable[[SimDisk], object], disk: SimDisk | None = None) -> range:
    """The numbers of all operations of a workload, for `crash_at`.

    The workload runs once, on a new disk or on a clone of `disk`; repeat it the same way for each
    number.
    """
    trial = SimDisk() if disk is None else disk.clone()
    first = trial.operations
    workload(trial)
    return range(first, trial.operations)
