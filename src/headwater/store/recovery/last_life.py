"""The end of a store's last life: its store file, and whether more was lost than a process.

The mark of the store tells. Damage is not judged here: bytes that are there and not sound are
reported as damage.
"""

from collections.abc import Iterable
from enum import Enum

from headwater.store.disk.filesystem import FileSystem, read_file
from headwater.store.disk.findings import Findings
from headwater.store.disk.format import FormatError, NewerFormatError
from headwater.store.disk.mark import FoundMark
from headwater.store.disk.store_file import STORE_FILE, StoreFile
from headwater.store.disk.wal_reading import AheadFrames
from headwater.store.errors import StoreError

_GO_ON = "streams go on above the sequences that may have been given out"


class Loss(Enum):
    """The loss that the mark of a store shows."""

    NONE = ""
    UNSYNCED = f"something that was written and not synced is gone; {_GO_ON}"
    PUT_BACK = f"the store was put back to an earlier state; {_GO_ON}"


def read_store_file(files: FileSystem, folder: str) -> StoreFile | None:
    """The store file in a folder; None without one. Raises StoreError, OSError."""
    path = f"{folder}/{STORE_FILE}"
    if not files.exists(path):
        return None
    try:
        return StoreFile.decode(read_file(files, path), path)
    except NewerFormatError as error:
        raise StoreError(str(error)) from error
    except FormatError as error:
        raise StoreError(
            f"{error}; restore it from a backup, or move it away to open the streams as after "
            "a crash"
        ) from error


def find_loss(
    mark: FoundMark,
    store: StoreFile,
    frames: AheadFrames,
    known: Iterable[bytes],
    findings: Findings,
) -> Loss:
    """The loss that a mark shows, which is reported.

    `known` are the identities of the streams that the store has, or has recorded.
    """
    ends = None if frames.is_damaged else frames.ends
    loss = Loss.NONE
    if mark.shows_put_back(store, ends, known):
        loss = Loss.PUT_BACK
    elif mark.shows_loss(store, ends):
        loss = Loss.UNSYNCED
    if loss.value:
        findings.add("lost", loss.value)
    return loss
