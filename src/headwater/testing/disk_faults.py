"""What is planned to go wrong on a simulated disk, and when.

A plan is asked once for every operation and answers with an interruption: how much of the operation
still happens, and the error that its caller gets then. Crashes go by the number of the operation,
faults by its kind and by the file.

It must not know files or folders: the disk does what an interruption says.
"""

import errno
import fnmatch
import os
import random
import sys
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from headwater.base.invariants import check
from headwater.testing.entropy import labelled_dice

# fmt: off
Operation = Literal[
    "write", "overwrite", "truncate", "sync", "create", "rename", "remove", "make_folder",
    "remove_folder", "sync_folder", "open", "read",
]
# fmt: on

# Operations that change nothing: no crash strikes them, since the one before or behind it does.
LOOKING: Final[tuple[Operation, ...]] = ("open", "read")
CHANGING: Final[tuple[Operation, ...]] = tuple(
    operation for operation in get_args(Operation) if operation not in LOOKING
)

Moment = Literal["before", "during", "after"]


class PowerLost(BaseException):
    """The machine stopped here. No code of a dying machine catches it, so no Exception does."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """An operation of which a part happens before its caller gets an error.

    Of a write these are its first `kept_size` bytes; any other operation happens, or does not if
    it is 0.
    """

    kept_size: int
    error: BaseException


@dataclass(frozen=True, slots=True)
class DiskCrash:
    """The machine stops before, during or after the operation of that number.

    During: of a write, `kept_size` bytes are there, or as many as the dice say. After: the
    operation happens as a whole, and nobody is told.
    """

    number: int
    moment: Moment
    kept_size: int | None = None

    def kept_of(self, size: int, dice: random.Random) -> int:
        """How much of an operation of that size happens."""
        if self.moment == "before":
            return 0
        if self.moment == "after":
            return size
        return dice.randint(0, size) if self.kept_size is None else min(size, self.kept_size)


@dataclass(slots=True)
class DiskFault:
    """Operations of one kind on files of some names fail, some of them or all."""

    operation: Operation
    # As in a shell, but `*` also stands for `/`.
    pattern: str
    code: int
    # Let this many pass, then fail that many; None for all.
    skip: int = 0
    times: int | None = 1
    # How much of a write happens nevertheless, None for as much as the dice say.
    kept_size: int | None = 0
    # Only operations that touch these bytes.
    start: int = 0
    end: int = sys.maxsize
    strikes: int = 0

    def is_due(self, operation: Operation, path: str, offset: int, size: int) -> bool:
        """Whether this operation fails; counts it."""
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
    """All that is planned for one disk."""

    __slots__ = ("_seed", "crash", "faults")

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.crash: DiskCrash | None = None
        self.faults: list[DiskFault] = []

    def clone(self, seed: int) -> "DiskFaults":
        """The same faults, as far as they have come; no crash, since operations go other ways."""
        twin = DiskFaults(seed)
        twin.faults = [replace(fault) for fault in self.faults]
        return twin

    def add(self, fault: DiskFault) -> None:
        """Plan one more."""
        check(fault.skip >= 0, "a fault can not skip fewer than no operations")
        self.faults.append(fault)

    def heal(self, *faults: DiskFault) -> None:
        """Forget these faults, or all."""
        self.faults = [each for each in self.faults if faults and not _is_among(each, faults)]

    def interruption(
        self, number: int, operation: Operation, path: str, offset: int, size: int
    ) -> Interruption | None:
        """What interrupts this operation, if anything does."""
        crash = self.crash
        if crash is not None and crash.number == number and operation not in LOOKING:
            self.crash = None
            what = f"power lost {crash.moment} operation {number}, {operation} {path}"
            return Interruption(crash.kept_of(size, self._dice(number)), PowerLost(what))
        for fault in self.faults:
            if fault.is_due(operation, path, offset, size):
                kept = fault.kept_size
                if kept is None:
                    kept = self._dice(number).randint(0, size)
                error = OSError(fault.code, os.strerror(fault.code), path)
                return Interruption(min(kept, size), error)
        return None

    def _dice(self, number: int) -> random.Random:
        return labelled_dice(self._seed, "operation", number)


def disk_full(path: str, kept_size: int) -> Interruption:
    """A write that did not fit."""
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    return Interruption(kept_size, error)


def _is_among(fault: DiskFault, faults: tuple[DiskFault, ...]) -> bool:
    return any(fault is each for each in faults)
