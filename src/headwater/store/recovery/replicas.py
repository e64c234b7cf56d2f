"""Opening the log of a replicated stream, whose files are a cache of the log of its group.

The entries of the stream are those of the consensus group with its identity. The files are cut back
to the redo point, which names the index of the last entry whose effects they hold, and the caller
applies the entries of the group behind it. A replica whose files may hold anything else is not
repaired: its peers have what it lacks, so it is to be filled again (`FileLog.must_refill`), and
until then it is offline. Nothing of it is deleted; the files are set aside when that begins.

| found                                     | done                       | reported                |
|-------------------------------------------|----------------------------|-------------------------|
| bytes behind the redo point               | cut off                    |                         |
| bytes behind it, and after the machine    | cut off, set aside         | damaged                 |
|   fell a last write that is not sound     |                            |                         |
| a message that was being erased, by an    | deleted when it is applied | damaged                 |
|   entry behind the redo point             |                            |                         |
| a file that is shorter than the redo      | nothing is cut, to be      | doubtful                |
|   point says, or gone                     |   filled again             |                         |
| a frame elsewhere in the write-ahead file | the same                   | damaged, doubtful       |
|   that is not sound                       |                            |                         |
| a group without a redo point of its       | the same                   | doubtful                |
|   stream, or without the entries behind   |                            |                         |
|   that redo point                         |                            |                         |
| a message that is not sound, or a journal | the same                   | damaged, lost, doubtful |
|   that is not                             |                            |                         |
| a replica that was being filled again     | the same                   | doubtful                |
| a part of a snapshot                      | cut off behind the redo    |                         |
|                                           |   point, to be filled      |                         |
|                                           |   further                  |                         |
"""

from typing import Final

from headwater.base.entropy import Entropy
from headwater.store.disk.filesystem import FileSystem, read_file
from headwater.store.disk.format import HEADER_BYTES
from headwater.store.disk.layout import JOURNAL_FILE, JOURNAL_NEW_FILE
from headwater.store.disk.segment import sequence_of
from headwater.store.disk.set_aside import set_aside_file
from headwater.store.disk.unfinished import SUCCESSOR_SUFFIX
from headwater.store.disk.wal import VOID_POINT, Extent, RedoPoint
from headwater.store.index.ranges import RangeSet
from headwater.store.log.file_log import FileLog
from headwater.store.log.segments import SEGMENT_BYTES_MAX
from headwater.store.recovery.opening import create_log, open_log
from headwater.store.recovery.recovery import deletions_in
from headwater.store.recovery.redo import RedoPlan, cut_back, journal_in, why_not_to_cut
from headwater.store.upkeep.checkpoint import CHECKPOINT_FILE

NO_POINT: Final = "the write-ahead file has no redo point of it"


def open_replica(
    files: FileSystem,
    folder: str,
    entropy: Entropy,
    plan: RedoPlan,
    segment_bytes_max: int = SEGMENT_BYTES_MAX,
) -> FileLog:
    """Open a log as it was at its redo point, or as it is with `must_refill` and offline.

    It is offline as well if the disk refuses. Raises StoreError.
    """
    point = plan.redo.point or VOID_POINT
    refused = doubt = ""
    erased = RangeSet()
    try:
        doubt = _why_to_refill(files, folder, plan, point)
        if not doubt:
            erased = _deletions_behind(files, folder, point)
            cut_back(files, folder, point, sets_aside=plan.is_damaged)
    except OSError as error:
        refused = str(error)
    log = open_log(
        files,
        folder,
        entropy,
        segment_bytes_max=segment_bytes_max,
        machine_fell=plan.machine_fell,
        extent=Extent(point.segment_first, point.segment_bytes),
        syncs=False,
        may_jump=False,
    )
    doubt = doubt or ("" if refused else _trouble_in(log, erased))
    if doubt:
        log.must_refill = doubt
        log.findings.add("doubtful", f"{doubt}; the replica is to be filled again")
        log.go_offline(f"the replica is to be filled again: {doubt}")
    elif refused:
        log.go_offline(f"opening failed: {refused}")
    elif _is_unfilled(point):
        has_begun = log.last_sequence >= log.index.segments[0].first_sequence
        log.is_partial = has_begun or bool(plan.gap)
    return log


def _is_unfilled(point: RedoPoint) -> bool:
    """Whether a redo point is that of a replica which had a part of a snapshot: a group begins
    behind entry 0, which has the state of no replica."""
    return point.entry == 0


def _why_to_refill(files: FileSystem, folder: str, plan: RedoPlan, point: RedoPoint) -> str:
    """The reason why the files are not cut back; empty if they are to be. Raises OSError."""
    if plan.is_doubtful:
        return "the write-ahead file is damaged"
    if plan.redo.point is None:
        return NO_POINT
    if point.is_void:
        return "it was being filled again"
    if plan.gap and not _is_unfilled(point):
        return plan.gap
    return why_not_to_cut(files, folder, point)


def _deletions_behind(files: FileSystem, folder: str, point: RedoPoint) -> RangeSet:
    """The sequences that the journal calls deleted behind a redo point: some of them may have been
    erased in part. Raises OSError."""
    if journal_in(files, folder)[0] != point.journal_salt:
        return RangeSet()
    data = read_file(files, f"{folder}/{JOURNAL_FILE}")
    return deletions_in(data[:HEADER_BYTES] + data[point.journal_bytes :])


def _trouble_in(log: FileLog, erased: RangeSet) -> str:
    """The reason why a log that was cut back does not hold what it should; empty if it does."""
    if log.is_journal_replaced:
        return "its journal is damaged"
    if log.is_end_uncertain:
        return "its last segment is damaged"
    for first, last in log.newly_lost:
        for missing in erased.outside(first, last):
            return f"message {missing[0]} cannot be read"
    return ""


def begin_again(
    files: FileSystem,
    folder: str,
    entropy: Entropy,
    log: FileLog,
    first_sequence: int,
    segment_bytes_max: int = SEGMENT_BYTES_MAX,
) -> FileLog:
    """Put an empty log of the same stream in the place of a replica's log, whose redo point is void
    on the disk already. Raises OSError.

    The files of a log that is not trusted are set aside; others are of no use to anybody.
    """
    log.release()
    for name in files.list_folder(folder):
        if sequence_of(name) or name in (JOURNAL_FILE, CHECKPOINT_FILE):
            if log.must_refill:
                set_aside_file(files, folder, name)
            else:
                files.remove(f"{folder}/{name}")
        elif name == JOURNAL_NEW_FILE or name.endswith(SUCCESSOR_SUFFIX):
            files.remove(f"{folder}/{name}")
    files.sync_folder(folder)
    return create_log(
        files, folder, entropy, log.body, first_sequence, segment_bytes_max, log.identity
    )
