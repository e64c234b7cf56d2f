"""The tables of damage in `headwater.store.recovery.recovery`, and the scenarios of their rows."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.store.disk.format import HEADER_BYTES
from headwater.store.log.message_log import Batch, StoreError
from headwater.store.recovery import recovery
from headwater.testing.disk import SimDisk
from tests.kit.format_versions import with_version


@dataclass
class Outcome:
    """The outcome of opening a log or a store, in the words of a table."""

    reported: set[str] = field(default_factory=set)
    sets_aside: bool = False
    is_above: bool = False
    is_opened: bool = True
    is_touched: bool = True


Scenario = Callable[[], Outcome]


class RecoveryTable:
    """One of the tables: the outcome that each row names, and the scenarios that bring it about."""

    def __init__(self, number: int) -> None:
        self.rows = {found: _outcome(done, told) for found, done, told in _tables()[number]}
        self.scenarios: dict[str, list[Scenario]] = {}

    def scenario(self, found: str) -> Callable[[Scenario], Scenario]:
        """A scenario that brings about the state of a row; a row may have several."""

        def register(function: Scenario) -> Scenario:
            self.scenarios.setdefault(found, []).append(function)
            return function

        return register


def _tables() -> list[list[list[str]]]:
    """The cells of all rows; a line whose cells begin with two more blanks goes on."""
    assert recovery.__doc__ is not None
    tables: list[list[list[str]]] = []
    for line in recovery.__doc__.splitlines():
        cells = [cell[1:] for cell in line.split("|")[1:-1]]
        if line.startswith("| found"):
            tables.append([])
        elif not cells or line.startswith("|--"):
            continue
        elif all(cell.startswith("  ") or not cell.strip() for cell in cells):
            last = tables[-1][-1]
            tables[-1][-1] = [f"{a} {b.strip()}".strip() for a, b in zip(last, cells, strict=True)]
        else:
            tables[-1].append([cell.strip() for cell in cells])
    return tables


def _outcome(done: str, told: str) -> Outcome:
    reported = set(re.findall(r"\w+", told))
    return Outcome(
        reported,
        sets_aside="set aside" in done,
        is_above="above the reservation" in done,
        is_opened="error" not in reported,
        is_touched="nothing touched" not in done,
    )


def refused(error: StoreError, folder: str, is_touched: bool) -> Outcome:
    """The outcome of an error, which names the folder."""
    assert folder in str(error), "it says what it is about"
    return Outcome({"error"}, is_opened=False, is_touched=is_touched)


# --- messages and damage --------------------------------------------------------------------------


def batch(sequence: int) -> Batch:
    """One message that names its sequence."""
    return Batch([b"s"], [b""], [b"message %d" % sequence], [sequence])


def change(disk: SimDisk, path: str, data: bytes) -> None:
    """Let a file have other bytes, as if it had always had them."""
    file = disk.open(path)
    file.truncate(0)
    file.write(data)
    file.sync()
    file.close()


def extend(disk: SimDisk, path: str, data: bytes) -> None:
    """Let a file have more bytes at its end."""
    change(disk, path, disk.dump()[path] + data)


def make_newer(disk: SimDisk, path: str, size: int = HEADER_BYTES) -> None:
    """Let the header of a file, of so many bytes, name a version to come."""
    data = disk.dump()[path]
    change(disk, path, with_version(data[:size], 99, size - 4) + data[size:])
