"""Opening what a crash, a bad disk or a careless hand left behind.

| found                                       | done                          | reported       |
|---------------------------------------------|-------------------------------|----------------|
| end of the last segment is not a record     | set aside, cut off            | torn           |
| record in the middle fails its checksum     | message gone, the rest is not | damaged, lost  |
| stretch of a segment can not be read        | gone to the next sound record | damaged, lost  |
| sealed segment without a sound footer       | read record by record         | unsealed       |
| segment whose header can not be read        | file set aside                | unreadable     |
| segment of another stream                   | file set aside                | unreadable     |
| sequences missing between two segments that | nothing                       | missing, lost  |
|   the journal does not call deleted         |                               |                |
| end of the journal is not an entry          | set aside, cut off            | torn           |
| journal whose header can not be read        | set aside, a new one begun    | unreadable     |
| journal entry about what is not there       | not used                      | ahead          |
| cut of the log's end begun and not done     | done now                      |                |
| checkpoint that is not sound or does not    | segments and journal are read | unused         |
|   fit the segments                          |   instead                     |                |
| format version newer than this program      | the stream is not opened      | error          |

Nothing is deleted because it could not be read: what is set aside lies in the folder `set-aside`
beside the segments, under its name and where in its file it was.
"""

from collections.abc import Callable
from typing import Final, final

from headwater.store.filesystem import FileSystem
from headwater.store.format import (
    FOOTER,
    Record,
    check_record,
    following_record,
    record_length,
    seed_of,
)
from headwater.store.ranges import RangeSet
from headwater.store.segment import SegmentFile

SET_ASIDE: Final = "set-aside"


@final
class Finding:
    """Something that was not as it should be, and where."""

    __slots__ = ("detail", "kind")

    def __init__(self, kind: str, detail: str) -> None:
        self.kind = kind
        self.detail = detail

    def __repr__(self) -> str:
        return f"{self.kind}: {self.detail}"


@final
class Findings:
    """All that recovery has to report, and the sequences that are lost."""

    __slots__ = ("lost", "reported")

    def __init__(self) -> None:
        self.reported: list[Finding] = []
        self.lost = RangeSet()

    def add(self, kind: str, detail: str) -> None:
        """Report something."""
        self.reported.append(Finding(kind, detail))

    def lose(self, first: int, last: int) -> None:
        """Sequences whose messages are gone."""
        if first <= last:
            self.lost.add(first, last)


def set_aside(files: FileSystem, folder: str, name: str, data: bytes) -> None:
    """Keep bytes that could not be understood, durably, before they go from where they are."""
    file = files.create(_place_aside(files, folder, name))
    try:
        file.write(data)
        file.sync()
    finally:
        file.close()
    files.sync_folder(f"{folder}/{SET_ASIDE}")


def set_aside_file(files: FileSystem, folder: str, name: str) -> None:
    """Keep a file that could not be understood; takes no room on a disk that may be full."""
    files.rename(f"{folder}/{name}", _place_aside(files, folder, name))
    files.sync_folder(f"{folder}/{SET_ASIDE}")
    files.sync_folder(folder)


def _place_aside(files: FileSystem, folder: str, name: str) -> str:
    target = f"{folder}/{SET_ASIDE}"
    files.make_folder(target)
    files.sync_folder(folder)
    taken = set(files.list_folder(target))
    number = 0
    while f"{name}.{number}" in taken:
        number += 1
    return f"{target}/{name}.{number}"


def scan_records(
    data: bytes,
    start: int,
    name: str,
    expected: int,
    found: Callable[[int, Record], None],
    findings: Findings,
    stop_at_damage: bool = False,
) -> int:
    """Tell every sound record of a segment's bytes from `start` on; returns where the last ends.

    `expected` is the sequence the next message should have. Damage between sound records costs the
    sequences in between; what follows the last sound record is left to the caller. With
    `stop_at_damage` all that follows damage is: after the machine fell it may be there or not, and
    what is missing then has to be an end of the log and no hole in it.
    """
    seed = seed_of(data)
    offset = end = start
    while offset < len(data):
        length = record_length(data, offset)
        if length and check_record(data, offset, length, seed):
            record = Record(data, offset, length)
            if record.kind == FOOTER:
                return end
            if record.sequence >= expected:
                if record.sequence > expected:
                    findings.lose(expected, record.sequence - 1)
                found(offset, record)
                expected = record.sequence + record.sequence_count
                offset += length
                end = offset
                continue
        following = 0 if stop_at_damage else following_record(data, offset, expected, seed)
        if following == 0:
            return end
        findings.add("damaged", f"{name}: bytes {offset} to {following - 1} are no record")
        offset = following
    return end


def cut_tail(
    files: FileSystem, folder: str, segment: SegmentFile, data: bytes, end: int, findings: Findings
) -> None:
    """Set aside and cut off what follows the last sound record of the last segment."""
    name = segment.path.rpartition("/")[2]
    findings.add("torn", f"{name}: {len(data) - end} bytes behind the last record")
    set_aside(files, folder, f"{name}-at-{end}", data[end:])
    segment.file.truncate(end)
    segment.synced_bytes = 0
