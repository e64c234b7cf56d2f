"""Opening what a crash, a bad disk or a careless hand left behind.

A stream:

| found                                     | done                              | reported         |
|-------------------------------------------|-----------------------------------|------------------|
| half a record behind the last one         | cut off, set aside                | torn             |
| half a record, and a disk that refuses    | left as it is, and read           | torn, offline    |
| other bytes behind the last record        | cut off, set aside; going on      | torn, lost       |
|                                           |   above the reservation           |                  |
| after the machine fell: any bytes behind  | cut off, set aside                | torn             |
|   the last record, and behind what was on |                                   |                  |
|   the disk for sure                       |                                   |                  |
| after the machine fell: damage behind     | cut off from there on, set aside  | torn             |
|   what was on the disk for sure, records  |                                   |                  |
|   behind it                               |                                   |                  |
| after the machine fell: the same, where   | the rest is used                  | damaged          |
|   the journal says what is damaged was    |                                   |                  |
|   deleted: it was being erased            |                                   |                  |
| bytes between records that are no record  | the rest is used                  | damaged, lost    |
| sealed segment without a sound footer     | read record by record             | unsealed         |
| segment whose header is not sound, or of  | file set aside                    | unreadable,      |
|   another stream                          |                                   |   missing, lost  |
| last segment whose header is not sound    | file set aside; going on above    | unreadable, lost |
|                                           |   the reservation                 |                  |
| segment that is gone and not by deleting  | the rest is used                  | missing, lost    |
| no segment at all                         | going on above the reservation    | missing, lost    |
| half an entry at the end of the journal   | cut off, set aside                | torn             |
| journal entry that is not sound, others   | rewritten with those, but for     | damaged          |
|   behind it                               |   callers', set aside             |                  |
| after the machine fell: the same before   | rewritten without those, set      | damaged          |
|   removals that were journalled together  |   aside                           |                  |
|   with callers' entries                   |                                   |                  |
| journal that is gone                      | rewritten                         | unreadable       |
| journal whose header is not sound, or of  | rewritten, set aside              | unreadable       |
|   another stream                          |                                   |                  |
| callers' entries about messages that are  | rewritten without them, set       | ahead, lost      |
|   not there                               |   aside; going on above the       |                  |
|                                           |   reservation                     |                  |
| after the machine fell: the same, and     | rewritten without both, set       | ahead, lost      |
|   removals journalled together with them  |   aside; going on above the       |                  |
|                                           |   reservation                     |                  |
| cut of the log's end that was begun       | finished                          |                  |
| skip of sequences that was journalled     | made                              |                  |
| file that was to replace another one      | removed                           |                  |
| checkpoint that is not sound or does not  | not used, set aside               | unused           |
|   fit                                     |                                   |                  |
| message that is not sound when it is read | gone from the index               | damaged, lost    |
| the same, in a replica                    | stays in the index until it is    | damaged          |
|                                           |   fetched from another replica    |                  |
| erased message that nothing else calls    | gone from the index               |                  |
|   deleted                                 |                                   |                  |
| stream file that is not sound or gone, or | not opened, nothing touched       | error            |
|   file the disk does not give             |                                   |                  |
| segment or journal of a newer format      | not opened, nothing touched       | error            |

Files that all streams share; the reservation is that of streams that are synced before each ack:

| found                                     | done                              | reported         |
|-------------------------------------------|-----------------------------------|------------------|
| half a frame behind the last one          | set aside                         | torn             |
| frame that is not sound                   | file set aside, the rest put back | damaged          |
| write-ahead file whose header is not      | file set aside                    | unreadable       |
|   sound, or of another store              |                                   |                  |
| after the machine fell: frame that is not | file set aside, the rest put      | damaged, lost    |
|   sound                                   |   back; going on above the        |                  |
|                                           |   reservation                     |                  |
| after the machine fell: write-ahead file  | file set aside; going on above    | unreadable, lost |
|   whose header is not sound               |   the reservation                 |                  |
| stream that cannot be opened              | the others are; write-ahead files | unreadable       |
|                                           |   of it set aside                 |                  |
| stream that was being removed             | removed                           |                  |
| stream that was being removed, and        | left until the next start         | unremoved        |
|   cannot be                               |                                   |                  |
| stream of which only the record is left   | nothing, until there is one of    | missing          |
|                                           |   that name                       |                  |
| stream whose deletion is recorded         | removed                           |                  |
| stream whose deletion is recorded, and    | not opened, left until the next   | unremoved        |
|   that cannot be removed                  |   start                           |                  |
| stream that is recorded, and whose folder | left to the caller, who makes it  |                  |
|   was not made                            |                                   |                  |
| stream that is not recorded, or another   | opened; left to the caller, who   |                  |
|   one than is recorded                    |   records it                      |                  |
| catalogue that is gone                    | streams found by their folders    |                  |
| catalogue whose header is not sound, or   | streams found by their folders;   | unreadable       |
|   of another store                        |   file set aside                  |                  |
| catalogue with entries that are not sound | streams found by their folders;   | damaged          |
|                                           |   file set aside                  |                  |
| stream that was being created             | not there; set aside when it is   |                  |
|                                           |   created again                   |                  |
| store file that is gone                   | as after the machine fell, frames | missing          |
|                                           |   put back                        |                  |
| store file that is not sound              | not opened, nothing touched       | error            |
| store file, write-ahead file or catalogue | not opened, nothing touched       | error            |
|   of a newer format                       |                                   |                  |
| disk that refuses the store file          | left as it is, and read           | offline          |

Streams that have entries in the write-ahead file are in `store.recovery.redo`.

"Lost" means that sequences are in the `lost` of the stream. A stream that goes on above its
reservation gives out no sequence that may have been given out, and calls those in between lost. So
does every stream of which the machine, or for ASYNC the process, may have cost an end.

Nothing is deleted because it could not be read: what is set aside lies in the folder `set-aside`
beside the file, under its name and where in its file it was.

Not in the table, because nobody can tell: a last segment that is gone without a trace, and bytes
that were synced in vain, by a disk that had failed before, and are in no write-ahead file.
"""

from collections.abc import Callable

from headwater.store.disk.filesystem import FileSystem
from headwater.store.disk.findings import Findings
from headwater.store.disk.format import (
    FOOTER,
    Record,
    check_record,
    following_record,
    record_length,
    seed_of,
)
from headwater.store.disk.journal import (
    CALLER_KINDS,
    DELETED,
    ERASED_BY_HALF,
    TRUNCATED,
    decode_ranges,
    read_entries,
)
from headwater.store.disk.segment import SegmentFile
from headwater.store.disk.set_aside import set_aside
from headwater.store.index.ranges import RangeSet


def scan_records(
    data: bytes,
    start: int,
    name: str,
    expected: int,
    found: Callable[[int, Record], None],
    findings: Findings,
    stop_at_damage: bool = False,
    known_bytes: int = 0,
    lost: RangeSet | None = None,
    is_deleted: Callable[[int, int], bool] | None = None,
) -> int:
    """Tell every sound record of a segment's bytes from `start` on; returns where the last ends.

    `expected` is the sequence that the next message should have. Damage between sound records costs
    the sequences in between, which are added to `lost`; the caller treats the bytes behind the last
    sound record. With `stop_at_damage` the scan ends at damage behind `known_bytes`: after the
    machine fell, records behind it may be there or not, and what is missing then has to be an end
    of the log and no hole in it. Damage to messages that were deleted, which `is_deleted` tells by
    first and last sequence, is no hole: they were being erased.
    """
    seed = seed_of(data)
    offset = end = start
    while offset < len(data):
        length = record_length(data, offset)
        if length and check_record(data, offset, length, seed):
            record = Record(data, offset, length)
            if record.kind == FOOTER and record.sequence >= expected - 1:
                return end
            if record.kind != FOOTER and record.sequence >= expected:
                if record.sequence > expected and lost is not None:
                    lost.add(expected, record.sequence - 1)
                found(offset, record)
                expected = record.sequence + record.sequence_count
                offset += length
                end = offset
                continue
        following = following_record(data, offset, expected, seed)
        if following == 0:
            return end
        if stop_at_damage and offset >= known_bytes:
            behind = Record(data, following, record_length(data, following))
            if is_deleted is None or not is_deleted(expected, behind.sequence - 1):
                return end
        findings.add("damaged", f"{name}: bytes {offset} to {following - 1} are no record")
        offset = following
    return end


def deletions_in(journal: bytes) -> RangeSet:
    """The sequences that the bytes of a journal call deleted, up to the first damage."""
    found = read_entries(journal)
    deleted = RangeSet()
    for entry in found.entries[: found.sound_count]:
        for part in decode_ranges(entry.body) if entry.kind < CALLER_KINDS else ():
            if entry.kind in (DELETED, ERASED_BY_HALF):
                deleted.add(*part)
            elif entry.kind == TRUNCATED:
                deleted.remove(*part)
    return deleted


def cut_tail(
    files: FileSystem, folder: str, segment: SegmentFile, data: bytes, end: int, findings: Findings
) -> None:
    """Set aside and cut off what follows the last sound record of the last segment."""
    name = segment.path.rpartition("/")[2]
    findings.add("torn", f"{name}: {len(data) - end} bytes behind the last record")
    set_aside(files, folder, f"{name}-at-{end}", data[end:])
    segment.cut_tail(end)
