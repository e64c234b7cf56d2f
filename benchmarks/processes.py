"""Child processes that take part in a round: start together, report, and never outlive it."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Final, TypeAlias

from benchmarks.servers import BenchmarkError

REPORT_PATIENCE_S: Final = 300.0

# Spawned, not forked: a child then holds none of the parent's sockets and none of its memory.
context: Final = multiprocessing.get_context("spawn")

# Quoted because the class is generic to type checkers only.
Line: TypeAlias = "Connection[Any, Any]"


@dataclass(frozen=True)
class Failure:
    """The report of a child that failed."""

    text: str


@contextmanager
def child(role: Callable[..., None], *arguments: object) -> Iterator[Line]:
    """Run `role(parent, *arguments)` in a process of its own; yields our end of the line to it.

    When the block ends the process is ended too, in any state.
    """
    ours, theirs = context.Pipe()
    process = context.Process(target=run_role, args=(role, theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        process.terminate()
        process.join()
        process.close()


def run_role(role: Callable[..., None], parent: Line, *arguments: object) -> None:
    """Run a role in the child; a failure is reported instead of printed."""
    try:
        role(parent, *arguments)
    except (BenchmarkError, OSError) as error:
        parent.send(Failure(f"{type(error).__name__}: {error}"))


def wait_for_parent(parent: Line) -> None:
    """Return when the parent says go, or has closed its end."""
    try:
        parent.recv()
    except EOFError:
        return


def reports(*children: Line) -> list[Any]:
    """One report of each child, in the order of the children. The first failure is raised."""
    found: dict[int, Any] = {}
    while len(found) < len(children):
        missing = [each for index, each in enumerate(children) if index not in found]
        ready = wait(missing, REPORT_PATIENCE_S)
        if not ready:
            raise BenchmarkError(f"no report within {REPORT_PATIENCE_S:g} s")
        for index, each in enumerate(children):
            if each in ready:
                found[index] = report(each)
    return [found[index] for index in range(len(children))]


def report(line: Line) -> Any:
    """The next report of one child."""
    try:
        value = line.recv()
    except EOFError as error:
        raise BenchmarkError("a process of the load generator died") from error
    if isinstance(value, Failure):
        raise BenchmarkError(value.text)
    return value
