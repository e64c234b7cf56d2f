"""The check of the folder of an open store: its own files that were removed are put back."""

from collections.abc import Callable

from headwater.store.disk.filesystem import FileSystem, Lock
from headwater.store.disk.layout import LOCK_FILE
from headwater.store.disk.store_file import STORE_FILE
from headwater.store.upkeep.log_check import GONE


def put_back_own_files(
    files: FileSystem, folder: str, lock: Lock, write_store_file: Callable[[], None]
) -> str:
    """Put back the lock file and the store file of a store; returns the problems, or nothing."""
    problems = []
    try:
        if not lock.is_in_place:
            problems.append(f"{LOCK_FILE} {GONE}, the folder is locked all the same")
            lock.put_back()
        if files.size_of(f"{folder}/{STORE_FILE}") < 0:
            problems.append(f"{STORE_FILE} {GONE}")
            write_store_file()
    except OSError as error:
        problems.append(f"it cannot be put back: {error}")
    return f"{folder}: {', '.join(problems)}" if problems else ""
