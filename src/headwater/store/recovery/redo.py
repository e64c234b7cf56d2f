"""Redo: a log is opened as it was at its redo point, with the entries that are to be applied again.

Files are cut back to the redo point, whatever was written behind it: all of that is the effect of
entries that are in the write-ahead file. So a log on which an entry was applied by half is one on
which it was not applied at all.

Nothing is cut if the write-ahead file has lost something that the disk had, or if the files are
shorter than the redo point says: a message in a segment may be in no entry any more.

| found                                     | done                              | reported         |
|-------------------------------------------|-----------------------------------|------------------|
| entries behind the redo point             | cut back to it, entries applied   |                  |
| entries behind the redo point, and after  | file and all that is cut set      | damaged, lost    |
|   the machine fell a last write that is   |   aside, entries applied; going   |                  |
|   not sound                               |   on above the reservation        |                  |
| entries, and a frame elsewhere that is    | not cut; file set aside, entries  | damaged,         |
|   not sound                               |   applied that follow the end     |   doubtful,      |
|                                           |                                   |   unapplied      |
| entries behind a redo point that is       | not cut; entries applied that     | torn, doubtful,  |
|   beyond the end of a file                |   follow the end, rest set aside  |   lost           |
| half an erased message that an entry      | deleted when it is applied        |                  |
|   behind the redo point erases            |                                   |                  |
"""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.base.entropy import Entropy
from headwater.store.disk.filesystem import File, FileSystem
from headwater.store.disk.format import HEADER_BYTES, JOURNAL_MAGIC, FileHeader, FormatError
from headwater.store.disk.layout import JOURNAL_FILE
from headwater.store.disk.segment import segment_name, sequence_of
from headwater.store.disk.set_aside import set_aside, set_aside_file
from headwater.store.disk.wal import VOID_POINT, Extent, Redo, RedoPoint
from headwater.store.log.file_log import FileLog
from headwater.store.log.segments import SEGMENT_BYTES_MAX
from headwater.store.recovery.opening import open_log


def apply_entries(log: FileLog, apply: Callable[[int, int, bytes], object]) -> None:
    """Apply the entries of a log that was opened for redo, by index, sequence and bytes.

    An entry that follows a sequence which the log does not have comes after messages that are lost;
    one that follows an earlier sequence is applied already. Both happen only after damage.
    """
    for index, follows, data in log.entries_to_apply:
        if follows > log.last_sequence:
            log.lose_sequences(follows)
        if follows == log.last_sequence:
            apply(index, follows, data)
        else:
            log.findings.add("unapplied", f"entry {index} of the write-ahead file")
        log.applied_entry = index


@dataclass(frozen=True, slots=True)
class RedoPlan:
    """The entries of a stream that are to be applied again, and what is known of them."""

    # The stream's.
    identity: bytes
    redo: Redo
    # Whether something is missing in the write-ahead file that the disk had.
    is_doubtful: bool = False
    # Whether something may be missing, so that bytes that are cut off are kept.
    is_damaged: bool = False
    machine_fell: bool = False
    extent: Extent | None = None
    # The reason why the group of a replica does not have the entries behind the redo point.
    gap: str = ""


def plan_redos(
    redos: dict[bytes, Redo],
    folders: dict[bytes, str],
    extents: dict[bytes, Extent],
    is_doubtful: bool,
    is_damaged: bool,
    machine_fell: bool,
) -> dict[str, RedoPlan]:
    """The plans of streams with entries or redo points, by folder; `folders` are by identity."""
    plans = {}
    for identity, redo in redos.items():
        if is_doubtful:
            redo.point = VOID_POINT if redo.is_replica else None
        if identity in folders:
            extent = extents.get(identity)
            plans[folders[identity]] = RedoPlan(
                identity, redo, is_doubtful, is_damaged, machine_fell, extent
            )
    return plans


def open_for_redo(
    files: FileSystem,
    folder: str,
    entropy: Entropy,
    plan: RedoPlan,
    segment_bytes_max: int = SEGMENT_BYTES_MAX,
) -> FileLog:
    """Open a log as it was at its redo point; all of it is on the disk.

    `entries_to_apply` has the entries that follow. A log whose files cannot be cut back is opened
    as it is, and is offline if the disk refuses. Raises StoreError.
    """
    redo = plan.redo
    refused = ""
    doubt = "something before them is missing" if plan.is_doubtful else ""
    left_out = 0
    try:
        doubt = doubt or why_not_to_cut(files, folder, redo.point)
        if not doubt and redo.point is not None:
            left_out = redo.cut_at_gap()
            cut_back(files, folder, redo.point, sets_aside=plan.is_damaged)
    except OSError as error:
        refused = str(error)
    log = open_log(
        files,
        folder,
        entropy,
        segment_bytes_max=segment_bytes_max,
        machine_fell=plan.machine_fell,
        extent=plan.extent,
        may_jump=False,
    )
    if refused:
        log.go_offline(f"opening failed: {refused}")
        return log
    entries = redo.entries
    if doubt:
        # Entries before it are applied already, or what they rest on is missing.
        entries = [entry for entry in redo.entries if entry[1] >= log.last_sequence]
        left_out = len(redo.entries) - len(entries)
        log.findings.add("doubtful", f"entries of the write-ahead file: {doubt}; nothing is cut")
    if left_out:
        log.findings.add("unapplied", f"{left_out} entries of the write-ahead file")
    log.entries_to_apply = entries
    return log


def why_not_to_cut(files: FileSystem, folder: str, point: RedoPoint | None) -> str:
    """The reason why a log cannot be cut back to a redo point; empty if it can. Raises OSError."""
    if point is None:
        return "there is no redo point"
    name = segment_name(point.segment_first)
    if not files.exists(f"{folder}/{name}") or not files.exists(f"{folder}/{JOURNAL_FILE}"):
        return f"{name} or the journal is gone"
    try:
        if _size_of(files, f"{folder}/{name}") < point.segment_bytes:
            return f"{name} is shorter than it was"
        salt, size = journal_in(files, folder)
    except FormatError as error:
        return str(error)
    if salt == point.journal_salt and size < point.journal_bytes:
        return "the journal is shorter than it was"
    return ""


def cut_back(files: FileSystem, folder: str, point: RedoPoint, sets_aside: bool) -> None:
    """Remove all that was written behind a redo point, durably. Raises OSError.

    A journal with another salt took the place of that of the redo point, and nothing was written
    to it since. If it is interrupted, the same redo point is found again.
    """
    for name in reversed(files.list_folder(folder)):
        if sequence_of(name) > point.segment_first:
            if sets_aside:
                set_aside_file(files, folder, name)
            else:
                files.remove(f"{folder}/{name}")
    files.sync_folder(folder)
    _cut(files, folder, segment_name(point.segment_first), point.segment_bytes, sets_aside)
    if journal_in(files, folder)[0] == point.journal_salt:
        _cut(files, folder, JOURNAL_FILE, point.journal_bytes, sets_aside)


def _cut(files: FileSystem, folder: str, name: str, size: int, sets_aside: bool) -> None:
    file: File = files.open(f"{folder}/{name}")
    try:
        if file.size > size:
            if sets_aside:
                rest = file.read(size, file.size - size)
                set_aside(files, folder, f"{name}-at-{size}", rest)
            file.truncate(size)
            file.sync()
    finally:
        file.close()


def journal_in(files: FileSystem, folder: str) -> tuple[bytes, int]:
    """The salt of the journal, empty without a sound header, and its size."""
    file = files.open(f"{folder}/{JOURNAL_FILE}")
    try:
        header = FileHeader.decode(file.read(0, HEADER_BYTES), JOURNAL_MAGIC, JOURNAL_FILE)
        return header.salt, file.size
    except FormatError:
        return b"", file.size
    finally:
        file.close()


def _size_of(files: FileSystem, path: str) -> int:
    file = files.open(path)
    try:
        return file.size
    finally:
        file.close()
