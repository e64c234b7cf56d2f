"""The planned faults of a simulated disk.

A plan is asked once for every operation and returns an interruption: the part of the operation that
still happens, and the error for its caller. Crashes go by the number of the operation, faults by
its kind and by the file.

Must not know: files or folders. The disk applies an interruption.
"""

import errno
import fnmatch
import os
import random
import sys
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from headwater.base.invariants import check
from headwater.testing.entropy import labelled_rng

# fmt: off
Operation = Literal[
    "write", "overwrite", "truncate", "sync", "create", "rename", "remove", "make_folder",
    "remove_folder", "sync_folder", "open", "read",
]
# fmt: on

# Operations that change nothing. A crash at one of them would equal a crash at a neighbour.
LOOKING: Final[tuple[Operation, ...]] = ("open", "read")
CHANGING: Final[tuple[Operation, ...]] = tuple(
    operation for operation in get_args(Operation) if operation not in LOOKING
)

Moment = Literal["before", "during", "after"]


class PowerLost(BaseException):
    """The machine stopped here. Not an Exception, because no code is left to catch it."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """An operation of which a part happens before its caller gets an error.

    A write keeps its first `kept_size` bytes; any other operation happens, unless the size is 0.
    """

    kept_size: int
    error: BaseException


@dataclass(frozen=True, slots=True)
class DiskCrash:
    """The machine stops before, during or after the operation of that number.

    During a write, `kept_size` bytes are written, or a random number of them. After: the operation
    happens as a whole, and its caller does not learn of it.
    """

    number: int
    moment: Moment
    kept_size: int | None = None

    def kept_of(self, size: int, rng: random.Random) -> int:
        """The part of an operation of that size that happens."""
        if self.moment == "before":
            return 0
        if self.moment == "after":
            return size
        return rng.randint(0, size) if self.kept_size is None else min(size, self.kept_size)


@dataclass(slots=True)
class DiskFault:
    """Operations of one kind on matching files fail, some of them or all."""

    operation: Operation
    # As in a shell, but `*` also stands for `/`.
    pattern: str
    code: int
    # Let this many pass, then fail that many; None for all.
    skip: int = 0
    times: int | None = 1
    # The bytes of a write that are still written; None for a random number.
    kept_size: int | None = 0
    # Only operations that touch these bytes.
    start: int = 0
    end: int = sys.maxsize
    strikes: int = 0

    def is_due(self, operation: Operation, path: str, offset: int, size: int) -> bool:
        """Whether this operation fails, which is counted."""
        if operation != self.operation or not fnmatch.fnmatchcase(path, self.pattern):
            return False
        if offset >= self.end or offset + size <= self.start:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None and self.strikes >= self.times:
            return False
        self.strikes += 1
        return True


class DiskFaults:
    """All faults that are planned for one disk."""

    __slots__ = ("_seed", "crash", "faults")

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.crash: DiskCrash | None = None
        self.faults: list[DiskFault] = []

    def clone(self, seed: int) -> "DiskFaults":
        """A copy of the faults in their current state, without the crash."""
        twin = DiskFaults(seed)
        twin.faults = [replace(fault) for fault in self.faults]
        return twin

    def add(self, fault: DiskFault) -> None:
        """Plan a fault."""
        check(fault.skip >= 0, "a fault cannot skip fewer than no operations")
        self.faults.append(fault)

    def heal(self, *faults: DiskFault) -> None:
        """Remove these faults, or all."""
        self.faults = [each for each in self.faults if faults and not _is_among(each, faults)]

    def interruption(
        self, number: int, operation: Operation, path: str, offset: int, size: int
    ) -> Interruption | None:
        """The interruption of this operation, if any."""
        crash = self.crash
        if crash is not None and crash.number == number and operation not in LOOKING:
            self.crash = None
            what = f"power lost {crash.moment} operation {number}, {operation} {path}"
            return Interruption(crash.kept_of(size, self._rng(number)), PowerLost(what))
        for fault in self.faults:
            if fault.is_due(operation, path, offset, size):
                kept = fault.kept_size
                if kept is None:
                    kept = self._rng(number).randint(0, size)
                error = OSError(fault.code, os.strerror(fault.code), path)
                return Interruption(min(kept, size), error)
        return None

    def _rng(self, number: int) -> random.Random:
        return labelled_rng(self._seed, "operation", number)


def disk_full(path: str, kept_size: int) -> Interruption:
    """The interruption of a write that did not fit."""
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    return Interruption(kept_size, error)


def _is_among(fault: DiskFault, faults: tuple[DiskFault, ...]) -> bool:
    return any(fault is each for each in faults)
