"""The files of one stream as a server would find them, read without opening the stream.

The reader shares the layouts with the store, and the walk over damaged records with
`store.recovery.recovery`, so that both find the same damage. Beside a running server files grow
while they are read: a torn end is then a write on its way, and is not reported.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Protocol

from headwater.store.disk.filesystem import FileSystem, read_file
from headwater.store.disk.findings import Findings
from headwater.store.disk.format import (
    ERASED,
    HEADER_BYTES,
    JOURNAL_MAGIC,
    SEGMENT_MAGIC,
    SKIP,
    TRAILER_BYTES,
    Entry,
    FileHeader,
    FormatError,
    NewerFormatError,
    Record,
    StreamFile,
    footer_offset,
    is_beginning,
    is_footer,
    seed_of,
)
from headwater.store.disk.journal import (
    CALLER_KINDS,
    DELETED,
    ERASED_BY_HALF,
    LOST,
    TRUNCATED,
    TRUNCATING,
    JournalEntries,
    decode_ranges,
    read_entries,
)
from headwater.store.disk.layout import JOURNAL_FILE, STREAM_FILE
from headwater.store.disk.segment import SegmentFile, sequence_of
from headwater.store.disk.set_aside import SET_ASIDE
from headwater.store.index.log_index import LogIndex, SegmentIndex, decode_footer
from headwater.store.index.ranges import RangeSet
from headwater.store.log.batch_records import message_size
from headwater.store.recovery.recovery import scan_records
from headwater.store.upkeep.checkpoint import (
    CHECKPOINT_FILE,
    Checkpoint,
    index_from,
    read_checkpoint,
)

ENTRY_KINDS: Final = {
    DELETED: "deleted",
    TRUNCATING: "truncating",
    TRUNCATED: "truncated",
    LOST: "lost",
    ERASED_BY_HALF: "erased",
}

# A server's cure for damage when it opens the store: the table in `store.recovery.recovery`.
CUTS_OFF: Final = "sets these bytes aside and cuts them off"
LOSES: Final = "reports these sequences as lost; the rest stays readable"
ENDS_LOG: Final = (
    "ends a log here that was not synced before every ack, since the machine was restarted; any "
    "other one loses these sequences only"
)
READS_RECORDS: Final = "reads the segment record by record"
SETS_FILE_ASIDE: Final = "sets the file aside and goes on without it"
BEGINS_JOURNAL: Final = "sets the file aside and begins a new journal: deleted messages come back"
READS_ALL: Final = "does not use it and reads segments and journal instead"
REWRITES_JOURNAL: Final = "sets a copy aside and keeps the entries that are still of use"
IGNORES_ENTRIES: Final = "does not use these entries"
REFUSES_STREAM: Final = "does not open this stream; restore the file from a backup"
REFUSES_NEWER: Final = "does not open this stream; use a newer Headwater"
SKIPS_FOLDER: Final = "does not see this stream; restore its stream file, or remove the folder"


class InspectedFiles(FileSystem, Protocol):
    """Files that an inspection reads, some of them as they are after a server has opened them."""

    def disk_bytes(self, path: str) -> int:
        """The bytes of a file, or of all files in a folder; an absent file has none."""
        ...

    def replace_content(self, path: str, data: bytes) -> None:
        """Let `data` be read in place of the content of a file."""
        ...


# --- findings -----------------------------------------------------------------------------------

Ranges = list[tuple[int, int]]


@dataclass
class Problem:
    """Damage: its kind and place, the server's cure, and the lost sequences."""

    kind: str
    file: str
    detail: str
    server: str
    offset: int | None = None
    lost: Ranges = field(default_factory=list)
    stream: str = ""


@dataclass
class SegmentSurvey:
    """One segment file; `last` is below `first` where it covers no sequence."""

    file: str
    index: SegmentIndex
    table: list[bytes]
    size: int
    sealed: bool

    @property
    def first(self) -> int:
        return self.index.first_sequence

    @property
    def last(self) -> int:
        return self.index.next_sequence - 1


@dataclass
class StreamSurvey:
    """One stream as a server would have it after opening it."""

    name: str
    identity: bytes = b""
    """Empty if the stream file cannot be read."""
    sync: str = ""
    messages: int = 0
    byte_count: int = 0
    first_sequence: int = 0
    last_sequence: int = 0
    reserved: int = 0
    subjects: int = 0
    deleted: int = 0
    lost: RangeSet = field(default_factory=RangeSet)
    disk_bytes: int = 0
    segments: list[SegmentSurvey] = field(default_factory=list)
    entries: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def reason_of(error: Exception, path: str) -> str:
    """The text of an error without the path, which is reported beside it."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).removeprefix(f"{path}: ")


@dataclass
class Gap:
    """Bytes between two records that are no record, and the sequences between them."""

    start: int
    stop: int
    first: int
    last: int


class SegmentScan:
    """The index of a segment, gathered record by record, and the gaps between records."""

    def __init__(self, data: bytes, name: str, first_sequence: int) -> None:
        self.index = SegmentIndex(first_sequence)
        self.gaps: list[Gap] = []
        self._subjects: dict[bytes, int] = {}
        self._expected = first_sequence
        self._end = HEADER_BYTES
        scan_records(data, HEADER_BYTES, name, first_sequence, self._found, Findings())

    @property
    def end(self) -> int:
        """The offset behind the last sound record."""
        return self._end

    @property
    def table(self) -> list[bytes]:
        """The subjects; ids in the index are positions here."""
        return list(self._subjects)

    def _found(self, offset: int, record: Record) -> None:
        index = self.index
        sequence = record.sequence
        if offset > self._end or sequence > self._expected:
            self.gaps.append(Gap(self._end, offset, self._expected, sequence - 1))
            index.skip(sequence - self._expected, record.timestamp_ns)
        self._end = offset + record.length
        if record.kind in (SKIP, ERASED):
            index.skip(record.sequence_count, record.timestamp_ns)
        else:
            subject = record.subject
            index.offsets.append(offset)
            index.timestamps_ns.append(record.timestamp_ns)
            index.subject_ids.append(self._subjects.setdefault(subject, len(self._subjects)))
            index.sizes.append(message_size(len(subject), len(record.header), len(record.payload)))
            index.distances.append(0)
        self._expected = index.next_sequence


class StreamReader:
    """Reads the files of one stream, in the order in which each needs the one before."""

    def __init__(
        self,
        files: InspectedFiles,
        folder: str,
        name: str,
        thorough: bool,
        in_use: bool,
        machine_fell: bool,
        advance: Callable[[int], None] | None,
    ) -> None:
        """`thorough` reads every byte, else footers are believed.

        `advance` is called with the bytes that are read.
        """
        self._files = files
        self._folder = folder
        self._thorough = thorough
        self._in_use = in_use
        self._machine_fell = machine_fell
        self._advance = advance or (lambda _: None)
        self._deleted = RangeSet()
        self._journal_bytes = 0
        self._journal_salt = b""
        # Damage at the end: a server cannot tell which sequences were assigned.
        self._end_problem: Problem | None = None
        self._gaps: list[tuple[SegmentSurvey, Gap]] = []
        self.survey = StreamSurvey(name)

    def read(self) -> StreamSurvey:
        """Read all files of the stream."""
        survey = self.survey
        self._read_stream_file()
        names = [name for name in self._files.list_folder(self._folder) if sequence_of(name)]
        for name in names:
            segment = self._read_segment(name, is_last=name == names[-1])
            if segment is not None:
                survey.segments.append(segment)
        self._read_journal()
        if self._thorough:
            self._check_checkpoint()
        self._explain_gaps()
        self._count()
        survey.disk_bytes = self._files.disk_bytes(self._folder)
        if set_aside := self._files.disk_bytes(f"{self._folder}/{SET_ASIDE}"):
            survey.notes.append(
                f"{survey.name}: {set_aside} bytes that an earlier start set aside are in "
                f"{self._folder}/{SET_ASIDE}"
            )
        return survey

    def _report(
        self,
        kind: str,
        file: str,
        detail: str,
        server: str,
        offset: int | None = None,
        lost: Ranges | None = None,
    ) -> Problem:
        path = f"{self._folder}/{file}"
        problem = Problem(kind, path, detail, server, offset, lost or [], self.survey.name)
        self.survey.problems.append(problem)
        return problem

    def _report_unreadable(self, name: str, error: Exception, server: str) -> None:
        reason = reason_of(error, f"{self._folder}/{name}")
        if isinstance(error, NewerFormatError):
            self._report("newer", name, reason, REFUSES_NEWER)
        elif not (self._in_use and isinstance(error, FileNotFoundError)):
            self._report("unreadable", name, reason, server)

    def _read_stream_file(self) -> None:
        path = f"{self._folder}/{STREAM_FILE}"
        try:
            data = read_file(self._files, path)
            stream = StreamFile.decode(data, path)
        except FileNotFoundError:
            self._report("missing", STREAM_FILE, "there is no stream file", SKIPS_FOLDER)
        except (OSError, FormatError) as error:
            self._report_unreadable(STREAM_FILE, error, REFUSES_STREAM)
        else:
            self.survey.identity = stream.identity
            self.survey.reserved = stream.reserved
            self._advance(len(data))

    # --- segments ------------------------------------------------------------------------------

    def _read_segment(self, name: str, is_last: bool) -> SegmentSurvey | None:
        path = f"{self._folder}/{name}"
        try:
            identity = self.survey.identity or self._identity_in(path)
            segment = SegmentFile.open(self._files, path, identity)
        except (OSError, FormatError) as error:
            self._report_unreadable(name, error, SETS_FILE_ASIDE)
            # A segment without a whole header has never had a record.
            if is_last and self._files.disk_bytes(path) >= HEADER_BYTES and self.survey.problems:
                self._end_problem = self.survey.problems[-1]
            return None
        try:
            believed = None if self._thorough else self._by_footer(segment, name)
            return believed or self._by_records(segment, name, is_last)
        except OSError as error:
            self._report_unreadable(name, error, LOSES)
            return None
        finally:
            self._advance(segment.size)
            segment.close()

    def _identity_in(self, path: str) -> bytes:
        """The stream's identity in a segment, for a stream whose stream file is unreadable."""
        data = read_file(self._files, path)
        return FileHeader.decode(data[:HEADER_BYTES], SEGMENT_MAGIC, path).identity

    def _by_footer(self, segment: SegmentFile, name: str) -> SegmentSurvey | None:
        payload = segment.read_footer()
        if payload is None:
            return None
        try:
            footer = decode_footer(payload, name)
        except FormatError:
            return None
        if footer.index.first_sequence != segment.first_sequence:
            return None
        return SegmentSurvey(name, footer.index, footer.table, segment.size, sealed=True)

    def _by_records(self, segment: SegmentFile, name: str, is_last: bool) -> SegmentSurvey:
        data = segment.file.read(0, segment.size)
        scan = SegmentScan(data, name, segment.first_sequence)
        footer = self._by_footer(segment, name)
        survey = SegmentSurvey(name, scan.index, scan.table, segment.size, footer is not None)
        self._gaps += ((survey, gap) for gap in scan.gaps)
        next_sequence = scan.index.next_sequence
        if footer is not None:
            begin = footer_offset(data[-TRAILER_BYTES:])
            if scan.end < begin or next_sequence <= footer.last:
                self._gaps.append((survey, Gap(scan.end, begin, next_sequence, footer.last)))
                scan.index.skip(footer.last + 1 - next_sequence, 0)
        elif scan.end < len(data) and (
            not is_last or is_footer(data, scan.end, next_sequence - 1, seed_of(data))
        ):
            self._report("unsealed", name, "no sound footer", READS_RECORDS, scan.end)
        elif scan.end < len(data) and not self._in_use:
            torn = is_beginning(data, scan.end, next_sequence, seed_of(data))
            what = "of a record that was never whole" if torn else "that are no record"
            detail = f"{len(data) - scan.end} bytes {what}, behind sequence {next_sequence - 1}"
            problem = self._report("torn", name, detail, CUTS_OFF, scan.end)
            if not torn:
                self._end_problem = problem
        return survey

    # --- journal -------------------------------------------------------------------------------

    def _read_journal(self) -> None:
        path = f"{self._folder}/{JOURNAL_FILE}"
        try:
            data = read_file(self._files, path)
            self._journal_bytes = len(data)
            header = FileHeader.decode(data[:HEADER_BYTES], JOURNAL_MAGIC, path)
            self._journal_salt = header.salt
            if self.survey.identity and header.identity != self.survey.identity:
                raise FormatError(f"{path}: belongs to another stream")
        except (OSError, FormatError) as error:
            self._report_unreadable(JOURNAL_FILE, error, BEGINS_JOURNAL)
            return
        found = read_entries(data)
        if found.is_damaged:
            before = sum(entry.length for entry in found.entries[: found.sound_count])
            offset = HEADER_BYTES + before
            self._report("damaged", JOURNAL_FILE, found.damage, REWRITES_JOURNAL, offset)
        if found.end < len(data) and not self._in_use:
            detail = f"{len(data) - found.end} bytes behind the last whole entry"
            self._report("torn", JOURNAL_FILE, detail, CUTS_OFF, found.end)
        self._replay(found)
        self._advance(len(data))

    def _replay(self, found: JournalEntries) -> None:
        cuts = (TRUNCATING, TRUNCATED)
        last_cut = max(
            (at for at, entry in enumerate(found.entries) if entry.kind in cuts), default=-1
        )
        segments = self.survey.segments
        end = segments[-1].last if segments else self.survey.reserved
        ahead = 0
        for at, entry in enumerate(found.entries):
            self.survey.entries[ENTRY_KINDS.get(entry.kind, f"stream ({entry.kind})")] += 1
            if entry.kind < CALLER_KINDS:
                self._replay_own(entry)
            elif entry.position > end and last_cut < at < found.sound_count:
                ahead += 1
        if found.entries and found.entries[-1].kind == TRUNCATING and not self._in_use:
            self.survey.notes.append(
                f"{self.survey.name}: cutting off the end of the log was begun and not done; a "
                "server does it"
            )
        if ahead and not self._in_use:
            detail = f"{ahead} entries about what the log does not have"
            self._end_problem = self._report("ahead", JOURNAL_FILE, detail, IGNORES_ENTRIES)

    def _replay_own(self, entry: Entry) -> None:
        for first, last in decode_ranges(entry.body):
            if entry.kind == DELETED:
                self._deleted.add(first, last)
            elif entry.kind == LOST:
                self.survey.lost.add(first, last)
            elif entry.kind == ERASED_BY_HALF:
                self._deleted.add(first, last)
                self.survey.lost.remove(first, last)
            else:
                # A cut of the end: earlier entries do not apply to sequences assigned again.
                self._deleted.remove(first, last)
                self.survey.lost.remove(first, last)

    # --- the rest ------------------------------------------------------------------------------

    def _check_checkpoint(self) -> None:
        path = f"{self._folder}/{CHECKPOINT_FILE}"
        try:
            checkpoint = read_checkpoint(self._files, self._folder, self.survey.identity)
        except (OSError, FormatError) as error:
            if self.survey.identity:
                self._report("unused", CHECKPOINT_FILE, reason_of(error, path), READS_ALL)
            return
        if checkpoint is None:
            return
        self._advance(self._files.disk_bytes(path))
        if self._fits(checkpoint):
            # The checkpoint has deletions that a damaged journal has lost.
            index = index_from(checkpoint)
            before = (index.segments[0].first_sequence, index.first_sequence - 1)
            for first, last in (before, *index.gaps()):
                if first <= last:
                    self._deleted.add(first, last)
        elif not self._in_use:
            self._report("unused", CHECKPOINT_FILE, "does not fit the segments", READS_ALL)

    def _fits(self, checkpoint: Checkpoint) -> bool:
        sizes = {segment.first: segment.size for segment in self.survey.segments}
        covered = {part.index.first_sequence: part.covered_bytes for part in checkpoint.segments}
        return (
            max(covered) in sizes
            and all(size >= covered.get(first, 0) for first, size in sizes.items())
            and self._journal_bytes >= checkpoint.journal_bytes(self._journal_salt)
        )

    def _unexplained(self, first: int, last: int) -> Ranges:
        """The sequences of a range that are neither deleted nor known to be lost."""
        return [
            part
            for undeleted in self._deleted.outside(first, last)
            for part in self.survey.lost.outside(*undeleted)
        ]

    def _explain_gaps(self) -> None:
        """Report damage between records and segments, which only the journal can explain."""
        found = []
        segments = self.survey.segments
        for segment, gap in self._gaps:
            lost = self._unexplained(gap.first, gap.last)
            found += lost
            if gap.stop > gap.start and (lost or not self.survey.lost.within(gap.first, gap.last)):
                detail = f"bytes {gap.start} to {gap.stop - 1} are no record"
                is_end = self._machine_fell and segment is segments[-1]
                server = ENDS_LOG if is_end else LOSES
                self._report("damaged", segment.file, detail, server, gap.start, lost)
            elif lost:
                self._report("missing", segment.file, "no record", LOSES, gap.start, lost)
        for before, after in pairwise(segments):
            lost = self._unexplained(before.last + 1, after.first - 1)
            found += lost
            if lost:
                detail = f"the segment before it ends with sequence {before.last}"
                self._report("missing", after.file, detail, LOSES, None, lost)
        found += self._lost_at_the_end()
        for part in found:
            self.survey.lost.add(*part)

    def _lost_at_the_end(self) -> Ranges:
        """The lost sequences at a damaged end: a server goes on above all it may have assigned."""
        segments, reserved = self.survey.segments, self.survey.reserved
        problem = self._end_problem
        if problem is None:
            return []
        last = segments[-1].last if segments else 0
        problem.lost = self._unexplained(last + 1, reserved)
        if problem.lost:
            problem.server += (
                f"; it goes on after sequence {reserved}, since any up to there may have been used"
            )
        return problem.lost

    def _count(self) -> None:
        survey = self.survey
        if not survey.segments:
            survey.first_sequence, survey.last_sequence = survey.reserved + 1, survey.reserved
            return
        for segment in survey.segments:
            for gone in (self._deleted, survey.lost):
                for part in gone.within(segment.first, segment.last):
                    segment.index.clear(*part)
        index = LogIndex.loaded(
            [segment.index for segment in survey.segments],
            [segment.table for segment in survey.segments],
        )
        survey.messages = index.messages
        survey.byte_count = index.byte_count
        survey.first_sequence = index.first_sequence
        survey.last_sequence = index.last_sequence
        survey.subjects = len(index.subjects)
        if self._end_problem is not None:
            survey.last_sequence = max(survey.last_sequence, survey.reserved)
        if survey.messages:
            span = survey.first_sequence, survey.last_sequence
            lost = sum(last + 1 - first for first, last in survey.lost.within(*span))
            survey.deleted = span[1] + 1 - span[0] - survey.messages - lost
