"""Files that after a crash exist completely or not at all.

A file is written under a hidden name, flushed to the disk, and then renamed; a rename is flushed
through its directory. A listing of a directory has complete files only.

Hidden names begin with a dot, which Spark, pyarrow and delta-rs all leave out.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

HIDDEN: Final = "."


def sync(path: str | Path) -> None:
    """Flush a file's content, or a directory's names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Create `path` and the missing directories above it, so that they survive a crash."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        sync(each.parent)


def write_document(path: Path, document: Any) -> None:
    """Replace the JSON file at `path` in one step."""
    draft = path.with_name(f"{HIDDEN}{path.name}.{os.getpid()}")
    with open(draft, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync(path.parent)


def read_document(path: Path) -> dict[str, Any] | None:
    """The JSON object at `path`; None without a file."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    document: dict[str, Any] = json.loads(text)
    return document


def remove(path: Path) -> bool:
    """Remove a file, if it exists. Returns whether it did."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


@contextlib.contextmanager
def locked(path: Path, wait: bool) -> Iterator[bool]:
    """Hold the lock file at `path`; yields False if another process holds it, unless `wait`.

    The system releases the lock of a process that dies.
    """
    with open(path, "a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
