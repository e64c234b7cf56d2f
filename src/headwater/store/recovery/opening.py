"""Making a log on disk, and opening one; `store.recovery.recovery` has the table of damage."""

from collections.abc import Callable
from itertools import pairwise
from typing import Final, final

from headwater.base.entropy import Entropy
from headwater.store.disk.filesystem import FileSystem, read_file, replace_file
from headwater.store.disk.findings import Findings
from headwater.store.disk.format import (
    HEADER_BYTES,
    IDENTITY_BYTES,
    JOURNAL_MAGIC,
    Entry,
    FileHeader,
    FormatError,
    NewerFormatError,
    Record,
    StreamFile,
    is_beginning,
    is_footer,
)
from headwater.store.disk.journal import (
    CALLER_KINDS,
    DELETED,
    ERASED_BY_HALF,
    LOST,
    TRUNCATED,
    TRUNCATING,
    Journal,
    JournalEntries,
    decode_ranges,
    encode_ranges,
    read_entries,
)
from headwater.store.disk.layout import JOURNAL_FILE, JOURNAL_NEW_FILE, STREAM_FILE
from headwater.store.disk.segment import SegmentFile, segment_name, sequence_of
from headwater.store.disk.set_aside import set_aside, set_aside_file
from headwater.store.disk.unfinished import SUCCESSOR_SUFFIX
from headwater.store.disk.wal import Extent
from headwater.store.index.log_index import Footer, LogIndex, SegmentIndex, decode_footer
from headwater.store.index.ranges import RangeSet
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import OfflineError, StoreError
from headwater.store.log.recovered import Recovered
from headwater.store.log.segments import SEGMENT_BYTES_MAX
from headwater.store.recovery.cuts import finish_truncation
from headwater.store.recovery.gathering import Gathered, Passed, Replayed
from headwater.store.recovery.recovery import cut_tail, deletions_in, scan_records
from headwater.store.upkeep.checkpoint import (
    CHECKPOINT_FILE,
    Checkpoint,
    index_from,
    read_checkpoint,
)

SEQUENCE_MAX: Final = 2**64 - 1


class UnreadableError(StoreError):
    """A stream that cannot be opened: its stream file is not sound, or the disk fails."""


def create_log(
    files: FileSystem,
    folder: str,
    entropy: Entropy,
    body: bytes = b"",
    first_sequence: int = 1,
    segment_bytes_max: int = SEGMENT_BYTES_MAX,
    identity: bytes = b"",
) -> FileLog:
    """Create a log in a new folder, durably. Without an `identity`, one is drawn."""
    new_folders = folders_above_new(files, folder)
    files.make_folder(folder)
    stream = StreamFile(identity or entropy.random_bytes(IDENTITY_BYTES), first_sequence - 1, body)
    segment = SegmentFile.create(files, folder, stream.identity, first_sequence)
    segment.sync()
    salt = entropy.random_bytes(IDENTITY_BYTES)
    journal = Journal.create(files, f"{folder}/{JOURNAL_FILE}", stream.identity, salt)
    if first_sequence > 1:
        # Else these sequences would count as lost if the first segment were gone.
        journal.write(0, [(DELETED, encode_ranges([(1, first_sequence - 1)]))])
    journal.sync()
    # Last: a folder with a stream file is whole.
    replace_file(files, f"{folder}/{STREAM_FILE}", stream.encode())
    for path in new_folders:
        files.sync_folder(path)
    segments = {first_sequence: segment}
    index = LogIndex(first_sequence)
    return FileLog(files, folder, entropy, stream, journal, index, segments, segment_bytes_max)


def folders_above_new(files: FileSystem, folder: str) -> list[str]:
    """The folders that get an entry when a folder, and missing ones above it, are made."""
    above = []
    while not files.exists(folder):
        folder = folder_above(folder)
        above.append(folder)
    return above


def sync_folders_above(files: FileSystem, folder: str) -> None:
    """Return when a folder and all above it are on the disk by name.

    Folders that cannot be opened, such as that above a home, were not made by the store.
    """
    above = folder_above(folder)
    while above != folder:
        try:
            files.sync_folder(above)
        except PermissionError:
            return
        folder, above = above, folder_above(above)


def folder_above(folder: str) -> str:
    """The folder above a folder."""
    return folder.rpartition("/")[0] or ("/" if folder.startswith("/") else ".")


def open_log(
    files: FileSystem,
    folder: str,
    entropy: Entropy,
    loss_possible: bool = False,
    segment_bytes_max: int = SEGMENT_BYTES_MAX,
    machine_fell: bool = False,
    extent: Extent | None = None,
    syncs: bool = True,
    may_jump: bool = True,
) -> FileLog:
    """Open the log in a folder, whatever state it is in.

    `loss_possible` says that something of which it was said that it is written may be missing: then
    no sequence that was reserved is given out again. `machine_fell` says that what was not synced
    may be there in parts; all that was promised to be there is within `extent` then, if it is
    known. Raises StoreError where nothing can be done without help. A log whose disk refuses to be
    written can still be read.

    The process that wrote the log may have been killed before it synced. `syncs` says that all of
    the log is on the disk when this returns; otherwise that is left to the next `begin_sync`.
    Without `may_jump` the caller goes on above the reservation, if the log's end is uncertain.
    """
    try:
        opening = _Opening(files, folder, loss_possible or machine_fell, extent)
    except NewerFormatError as error:
        raise StoreError(f"cannot open the stream in {folder}: {error}") from error
    except OSError as error:
        raise UnreadableError(f"cannot open the stream in {folder}: {error}") from error
    log = FileLog(
        files,
        folder,
        entropy,
        opening.stream,
        opening.journal,
        opening.index,
        opening.segments,
        segment_bytes_max,
        opening.recovered(),
    )
    if opening.refused:
        log.go_offline(f"opening failed: {opening.refused}")
        return log
    try:
        _make_sound(log, opening, loss_possible, may_jump)
        if syncs:
            log.sync()
        else:
            log.durability.owe_sync()
    except OSError as error:
        log.go_offline(f"opening failed: {error}")
    except OfflineError:
        # The log is offline and reports it itself.
        pass
    return log


def _make_sound(log: FileLog, opening: "_Opening", loss_possible: bool, may_jump: bool) -> None:
    """Write down what opening has found, so that the next opening finds the same."""
    opening.remove_unfinished()
    if opening.cut is not None and opening.cut_again:
        finish_truncation(log, *opening.cut)
    if opening.journal_unsound:
        kept = [(entry.kind, entry.body) for entry in log.entries]
        log.journal_rewrites.start_over(kept, log.lost)
    else:
        opening.write_conclusions(log.last_sequence)
    if opening.skipped_to > log.last_sequence:
        log.skip(opening.skipped_to - log.last_sequence, _last_timestamp_ns(log.index))
    log.is_end_uncertain = opening.end_uncertain
    log.newly_lost, log.is_journal_replaced = opening.newly_lost(), opening.journal_unsound
    if may_jump and (loss_possible or opening.end_uncertain):
        first = log.last_sequence + 1
        log.continue_above_reservation()
        if opening.end_uncertain and log.last_sequence >= first:
            lost = f"sequences {first} to {log.last_sequence} may have been given out"
            log.findings.add("lost", lost)


def _last_timestamp_ns(index: LogIndex) -> int:
    """When the last sequence was given out; 0 if that is not known."""
    segment = index.segment_of(index.last_sequence)
    position = index.last_sequence - segment.first_sequence
    return segment.timestamps_ns[position] if 0 <= position < len(segment.timestamps_ns) else 0


@final
class _Opening:
    """The steps of opening a log, in order; each needs the results of those before."""

    def __init__(
        self, files: FileSystem, folder: str, machine_fell: bool, extent: Extent | None
    ) -> None:
        self._files = files
        self._folder = folder
        self._machine_fell = machine_fell
        self._extent = extent
        # The reason why the files could not be repaired; the log can be read as it is.
        self.refused = ""
        self.findings = Findings()
        self.lost = RangeSet()
        # Sequences between sound records whose own records are not sound.
        self._unsound = RangeSet()
        self.entries: list[Entry] = []
        # The log's last sequence when the last entry was written; 0 without one.
        self.journal_sequence = 0
        self.expiries: list[tuple[int, int]] = []
        self.passed: Passed = {}
        self.segments: dict[int, SegmentFile] = {}
        # A cut of the log's end that the journal does not say is done, and whether to make it
        # again.
        self.cut: tuple[int, int] | None = None
        self.cut_again = False
        # The end of a skip of sequences that was journalled and not made; 0 without one.
        self.skipped_to = 0
        # Sequences behind the end may have been given out.
        self.end_uncertain = False
        # The journal is not to be written to: it is replaced by one with all that is known.
        self.journal_unsound = False
        self._deleted = RangeSet()
        self._footers: list[Footer] = []
        self.stream = self._read_stream_file()
        self._checkpoint = self._read_checkpoint()
        # The segment and the sequence with which the checkpoint ends; 0 without one.
        self.checkpoint_segment = self.checkpoint_sequence = 0
        self._restored: LogIndex | None = None
        if self._checkpoint is not None:
            self._restored = self._restore(self._checkpoint)
        self._load_segments()
        self.journal = self._load_journal()
        self._lost_before = RangeSet(self.lost)
        self._judge_end()
        self.index = self._build_index()

    def recovered(self) -> Recovered:
        """The facts for the log that were found besides its files and its index."""
        return Recovered(
            self.findings,
            self.lost,
            self.entries,
            self.expiries,
            self.passed,
            self.checkpoint_segment,
            self.checkpoint_sequence,
            self.journal_sequence,
        )

    def _read_stream_file(self) -> StreamFile:
        path = f"{self._folder}/{STREAM_FILE}"
        try:
            return StreamFile.decode(read_file(self._files, path), path)
        except NewerFormatError:
            raise
        except (OSError, FormatError) as error:
            raise UnreadableError(f"cannot open the stream in {self._folder}: {error}") from error

    def _put_in_order(self, step: Callable[[], object]) -> None:
        """Take a step of opening that writes.

        If the disk refuses, the files are left as they are.
        """
        if not self.refused:
            try:
                step()
            except OSError as error:
                self.refused = str(error)

    def remove_unfinished(self) -> None:
        """Remove unfinished successors of files: they may hold messages that were erased since."""
        unfinished = [
            name
            for name in self._files.list_folder(self._folder)
            if name.endswith(SUCCESSOR_SUFFIX) or name == JOURNAL_NEW_FILE
        ]
        for name in unfinished:
            self._files.remove(f"{self._folder}/{name}")
        if unfinished:
            self._files.sync_folder(self._folder)

    # --- checkpoint ----------------------------------------------------------------------------

    def _read_checkpoint(self) -> Checkpoint | None:
        """The checkpoint, if it is sound and fits the segments that are there."""
        try:
            checkpoint = read_checkpoint(self._files, self._folder, self.stream.identity)
        except (FormatError, OSError) as error:
            self._set_checkpoint_aside(str(error))
            return None
        if checkpoint is None or self._fits(checkpoint):
            return checkpoint
        self._set_checkpoint_aside("does not fit the segments")
        return None

    def _set_checkpoint_aside(self, reason: str) -> None:
        """Set a checkpoint aside that does not fit: it must not seem to fit once the files grow."""
        self.findings.add("unused", f"checkpoint: {reason}")
        self._put_in_order(lambda: set_aside_file(self._files, self._folder, CHECKPOINT_FILE))

    def _fits(self, checkpoint: Checkpoint) -> bool:
        """Whether every segment is at least as long as the checkpoint says; some may be gone."""
        names = set(self._files.list_folder(self._folder))
        last = checkpoint.segments[-1].index.first_sequence
        if JOURNAL_FILE not in names or segment_name(last) not in names:
            return False
        for covered in checkpoint.segments:
            name = segment_name(covered.index.first_sequence)
            if name in names and self._size_of(name) < covered.covered_bytes:
                return False
        return self._size_of(JOURNAL_FILE) >= checkpoint.journal_bytes(self._journal_salt())

    def _journal_salt(self) -> bytes:
        """The salt, which tells the journal from those before it; empty without a sound header."""
        file = self._files.open(f"{self._folder}/{JOURNAL_FILE}")
        try:
            return FileHeader.decode(file.read(0, HEADER_BYTES), JOURNAL_MAGIC, JOURNAL_FILE).salt
        except FormatError:
            return b""
        finally:
            file.close()

    def _size_of(self, name: str) -> int:
        file = self._files.open(f"{self._folder}/{name}")
        size = file.size
        file.close()
        return size

    def _restore(self, checkpoint: Checkpoint) -> LogIndex | None:
        """The index of the checkpoint, with records that its last segment has got since."""
        last = checkpoint.segments[-1]
        name = segment_name(last.index.first_sequence)
        is_last = name == self._segment_names()[-1]
        segment = self._open_segment(name, is_last)
        if segment is None:
            self._set_checkpoint_aside("its last segment cannot be read")
            self._checkpoint = None
            return None
        index = index_from(checkpoint)
        self.checkpoint_segment = segment.first_sequence
        self.checkpoint_sequence = index.last_sequence
        self.expiries += checkpoint.expiries
        self.segments[segment.first_sequence] = segment
        replayed = Replayed(index, self.passed)
        segment.sealed = last.sealed or segment.read_footer() is not None
        data = segment.file.read(0, segment.size)
        start, next_sequence = last.covered_bytes, index.next_sequence
        end = self._scan(segment, data, start, next_sequence, is_last, replayed.add)
        if not segment.sealed:
            self._treat_tail(segment, data, end, index.next_sequence, is_last)
        self.expiries += replayed.expiries
        return index

    # --- segments ------------------------------------------------------------------------------

    def _segment_names(self) -> list[str]:
        return [name for name in self._files.list_folder(self._folder) if sequence_of(name)]

    def _load_segments(self) -> None:
        names = self._segment_names()
        restored = 0 if self._restored is None else self._restored.segments[-1].first_sequence
        for name in names:
            if sequence_of(name) == restored:
                continue
            segment = self._open_segment(name, name == names[-1])
            if segment is None:
                continue
            if segment.first_sequence < restored:
                segment.sealed = True
                self.segments[segment.first_sequence] = segment
            else:
                self._load_segment(segment, name == names[-1])

    def _open_segment(self, name: str, is_last: bool) -> SegmentFile | None:
        path = f"{self._folder}/{name}"
        try:
            return SegmentFile.open(self._files, path, self.stream.identity)
        except NewerFormatError:
            raise
        except FormatError as error:
            self.findings.add("unreadable", str(error))
            # A segment without a whole header has never had a record.
            self.end_uncertain |= is_last and self._size_of(name) >= HEADER_BYTES
            self._put_in_order(lambda: set_aside_file(self._files, self._folder, name))
            return None

    def _load_segment(self, segment: SegmentFile, is_last: bool) -> None:
        footer = self._footer_of(segment, segment.path.rpartition("/")[2])
        if footer is None:
            gathered = Gathered(segment.first_sequence, self.passed)
            data = segment.file.read(0, segment.size)
            first = segment.first_sequence
            end = self._scan(segment, data, HEADER_BYTES, first, is_last, gathered.add)
            self._treat_tail(segment, data, end, gathered.next_sequence, is_last)
            footer = gathered.footer()
        else:
            segment.sealed = True
        self._footers.append(footer)
        self.segments[segment.first_sequence] = segment
        self.expiries += footer.expiries

    def _footer_of(self, segment: SegmentFile, name: str) -> Footer | None:
        data = segment.read_footer()
        if data is None:
            return None
        try:
            footer = decode_footer(data, name)
        except FormatError as error:
            self.findings.add("unsealed", str(error))
            return None
        return footer if footer.index.first_sequence == segment.first_sequence else None

    def _scan(
        self,
        segment: SegmentFile,
        data: bytes,
        start: int,
        next_sequence: int,
        is_last: bool,
        found: Callable[[int, Record], None],
    ) -> int:
        """Read a segment record by record; returns the offset behind the last sound one."""
        return scan_records(
            data,
            start,
            segment.path.rpartition("/")[2],
            next_sequence,
            found,
            self.findings,
            stop_at_damage=is_last and self._machine_fell,
            known_bytes=max(self._known_bytes(segment), 0),
            lost=self._unsound,
            is_deleted=self._is_journalled_as_deleted,
        )

    def _is_journalled_as_deleted(self, first: int, last: int) -> bool:
        """Whether the journal says that all sequences from one to another were deleted.

        Segments are read before the journal, which is looked into only where one is damaged.
        """
        path = f"{self._folder}/{JOURNAL_FILE}"
        data = read_file(self._files, path) if self._files.exists(path) else b""
        return not deletions_in(data).outside(first, last)

    def _known_bytes(self, segment: SegmentFile) -> int:
        """The bytes of the last segment that were on the disk for sure; -1 if that is not known."""
        extent = self._extent
        if extent is None or extent.segment_first > segment.first_sequence:
            return -1
        # A segment that was begun later held nothing that was promised.
        return extent.size if extent.segment_first == segment.first_sequence else 0

    def _treat_tail(
        self, segment: SegmentFile, data: bytes, end: int, next_sequence: int, is_last: bool
    ) -> None:
        """Cut off, or leave, the bytes of a segment behind its last sound record."""
        name = segment.path.rpartition("/")[2]
        if is_last:
            self.end_uncertain |= self._is_end_uncertain(segment, data, end, next_sequence)
        if end == len(data):
            segment.sealed = not is_last
        elif not is_last or is_footer(data, end, next_sequence - 1, segment.seed):
            self.findings.add("unsealed", f"{name}: no sound footer")
            segment.sealed = True
        else:
            self._put_in_order(
                lambda: cut_tail(self._files, self._folder, segment, data, end, self.findings)
            )

    def _is_end_uncertain(
        self, segment: SegmentFile, data: bytes, end: int, next_sequence: int
    ) -> bool:
        """Whether there may have been more records in the last segment that were relied upon."""
        known_bytes = self._known_bytes(segment)
        if self._machine_fell and known_bytes >= 0:
            return end < known_bytes
        if end == len(data) or is_footer(data, end, next_sequence - 1, segment.seed):
            return False
        return not is_beginning(data, end, next_sequence, segment.seed)

    # --- journal -------------------------------------------------------------------------------

    @property
    def _last_sequence(self) -> int:
        """The last sequence of the segments."""
        if self._footers:
            return self._footers[-1].index.next_sequence - 1
        return self.stream.reserved if self._restored is None else self._restored.last_sequence

    def _load_journal(self) -> Journal:
        path = f"{self._folder}/{JOURNAL_FILE}"
        data = read_file(self._files, path) if self._files.exists(path) else b""
        try:
            header = FileHeader.decode(data[:HEADER_BYTES], JOURNAL_MAGIC, path)
            if header.identity != self.stream.identity:
                raise FormatError(f"{path}: belongs to another stream")
        except NewerFormatError:
            raise
        except FormatError as error:
            return self._replace_journal(path, str(error))
        found = read_entries(data)
        checkpoint = self._checkpoint
        self._replay(found, 0 if checkpoint is None else checkpoint.journal_bytes(header.salt))
        rest = data[found.end :]
        journal = Journal(self._files.open(path), header.salt)
        if self.journal_unsound:
            self._put_in_order(lambda: set_aside(self._files, self._folder, JOURNAL_FILE, data))
        elif rest:
            self.findings.add("torn", f"journal: {len(rest)} bytes behind the last entry")
            self._put_in_order(lambda: self._cut_journal(journal, found.end, rest))
        return journal

    def _cut_journal(self, journal: Journal, end: int, rest: bytes) -> None:
        set_aside(self._files, self._folder, f"{JOURNAL_FILE}-at-{end}", rest)
        journal.truncate(end)

    def _replace_journal(self, path: str, reason: str) -> Journal:
        """Set an unreadable journal aside; it stays in place until its successor is written."""
        self.findings.add("unreadable", reason)
        self.journal_unsound = True
        if not self._files.exists(path):
            return Journal.create(self._files, path, self.stream.identity, bytes(IDENTITY_BYTES))
        data = read_file(self._files, path)
        self._put_in_order(lambda: set_aside(self._files, self._folder, JOURNAL_FILE, data))
        return Journal(self._files.open(path), bytes(IDENTITY_BYTES))

    def _replay(self, found: JournalEntries, known_bytes: int) -> None:
        """Apply the entries, of which the first `known_bytes` are in the checkpoint.

        The store's own are of use, always. Those of callers build upon each other, so they are not
        behind damage, and not where they speak of what the log has lost: unless it was lost on
        purpose, by a cut of its end that came later. Entries that are left out because the power
        went take the store's own of their group with them.
        """
        entries = found.entries
        positions = [entry.position for entry in entries[: found.sound_count]]
        self.journal_sequence = max(
            (at for at in positions if at <= self._last_sequence), default=0
        )
        cuts = [at for at, entry in enumerate(entries) if entry.kind in (TRUNCATING, TRUNCATED)]
        last_cut = cuts[-1] if cuts else -1
        ahead = 0
        for at, entry in enumerate(entries):
            is_behind_damage = at >= found.sound_count
            is_ahead = entry.position > self._last_sequence and at > last_cut
            if entry.kind < CALLER_KINDS:
                if not (entry.is_joint and self._machine_fell and (is_behind_damage or is_ahead)):
                    self._replay_own(entry, in_checkpoint=found.offsets[at] < known_bytes)
            elif is_behind_damage:
                continue
            elif is_ahead:
                ahead += 1
            else:
                self.entries.append(entry)
        if found.is_damaged:
            self.findings.add("damaged", f"journal: {found.damage}")
            self.journal_unsound = True
        if ahead:
            self.findings.add("ahead", f"journal: {ahead} entries about what the log has lost")
            self.end_uncertain = self.journal_unsound = True
        # A cut is begun, made and done before anything else is written.
        is_open = bool(entries) and entries[-1].kind == TRUNCATING
        self.cut_again = (
            is_open
            and not found.is_damaged
            and found.is_torn
            and self.cut is not None
            and self.cut[0] <= self._last_sequence
        )

    def _replay_own(self, entry: Entry, in_checkpoint: bool) -> None:
        if self.cut is not None:
            self._forget_cut(*self.cut)
        self.cut = None
        for first, last in decode_ranges(entry.body):
            if entry.kind == DELETED and not in_checkpoint:
                self._deleted.add(first, last)
            elif entry.kind == LOST:
                self.lost.add(first, last)
            elif entry.kind == ERASED_BY_HALF:
                self.lost.remove(first, last)
                self._deleted.add(first, last)
            elif entry.kind == TRUNCATING:
                self.cut = (first, last)
            elif entry.kind == TRUNCATED:
                self._forget_cut(first, last)

    def _forget_cut(self, first: int, last: int) -> None:
        self._deleted.remove(first, last)
        self.lost.remove(first, last)

    def _judge_end(self) -> None:
        """Judge whether entries about sequences behind the end mean that those were given out."""
        behind = self._last_sequence + 1
        skipped = self._deleted.within(behind, SEQUENCE_MAX)
        if self.cut is not None:
            self._forget_cut(*self.cut)
        elif self.lost.within(behind, SEQUENCE_MAX):
            # A jump over sequences that may have been used was begun and not made.
            self.end_uncertain = True
        elif skipped and not self.end_uncertain:
            is_skip = len(skipped) == 1 and skipped[0][0] == behind
            if is_skip and not self._machine_fell and skipped[0][1] <= self.stream.reserved:
                # The skip is one change with the removals that were journalled before it.
                self.skipped_to = skipped[0][1]
                return
            # Messages that were deleted are lost: the stream goes on above the reservation.
            self.cut = (behind, SEQUENCE_MAX)
            self._deleted.remove(*self.cut)

    def write_conclusions(self, last_sequence: int) -> None:
        """Journal the conclusions of opening, so that the next opening finds them."""
        conclusions = []
        if self.cut is not None and not self.cut_again:
            conclusions.append((TRUNCATED, encode_ranges([self.cut])))
        lost = self.newly_lost()
        if lost:
            conclusions.append((LOST, encode_ranges(lost)))
        if conclusions:
            self.journal.write(last_sequence, conclusions)
            self.journal.sync()

    def newly_lost(self) -> list[tuple[int, int]]:
        """The ranges of sequences that the journal did not call lost."""
        return [part for lost in self.lost for part in self._lost_before.outside(*lost)]

    # --- index ---------------------------------------------------------------------------------

    def _build_index(self) -> LogIndex:
        if self._restored is not None:
            return self._bring_up_to_date(self._restored)
        if not self._footers:
            return self._begin_empty()
        self._explain_gap(1, self._footers[0].index.first_sequence - 1)
        for before, after in pairwise(self._footers):
            self._explain_gap(before.index.next_sequence, after.index.first_sequence - 1)
        for first, last in self._unsound:
            for part in self._deleted.outside(first, last):
                self.lost.add(*part)
        for footer in self._footers:
            index = footer.index
            for gone in (self._deleted, self.lost):
                for first, last in gone.within(index.first_sequence, index.next_sequence - 1):
                    index.clear(first, last)
        return LogIndex.loaded(
            [footer.index for footer in self._footers], [footer.table for footer in self._footers]
        )

    def _bring_up_to_date(self, index: LogIndex) -> LogIndex:
        """A restored index, with the segments and deletions that came after its checkpoint."""
        for footer in self._footers:
            self._explain_gap(index.next_sequence, footer.index.first_sequence - 1)
            index.attach(footer.index, footer.table)
        for first, last in (*self._deleted, *self.lost):
            sequence = index.next_message(first)
            while sequence and sequence <= last:
                index.delete(sequence)
                sequence = index.next_message(sequence + 1)
        for part in self._unsound:
            for first, last in self._deleted.outside(*part):
                self.lost.add(first, last)
        for segment in index.segments[:-1]:
            if segment.first_sequence not in self.segments:
                self._account_for_missing(index, segment)
        return index

    def _account_for_missing(self, index: LogIndex, segment: SegmentIndex) -> None:
        """Account for a missing segment of the checkpoint: its messages are deleted, or lost."""
        lost_count = 0
        for sequence in range(segment.first_sequence, segment.next_sequence):
            if index.delete(sequence) >= 0:
                self.lost.add(sequence, sequence)
                lost_count += 1
        if lost_count:
            name = segment_name(segment.first_sequence)
            self.findings.add("missing", f"{name}: gone with {lost_count} messages")
        index.remove_segment(segment)

    def _explain_gap(self, first: int, last: int) -> None:
        for part in self._deleted.outside(first, last):
            if not self.lost.within(*part):
                self.findings.add("missing", f"sequences {part[0]} to {part[1]} have no segment")
            self.lost.add(*part)

    def _begin_empty(self) -> LogIndex:
        """Begin an empty index above all reserved sequences: no segment can be read."""
        first_sequence = self.stream.reserved + 1
        if first_sequence > 1:
            self.findings.add("missing", f"no segment; sequences up to {first_sequence - 1} gone")
            for part in self._deleted.outside(1, first_sequence - 1):
                self.lost.add(*part)
        identity = self.stream.identity
        segment = SegmentFile.create(self._files, self._folder, identity, first_sequence)
        segment.sync()
        self._files.sync_folder(self._folder)
        self.segments[first_sequence] = segment
        return LogIndex(first_sequence)
