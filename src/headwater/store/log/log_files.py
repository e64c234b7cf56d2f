"""The files of a log, and what is done to them besides putting messages in and taking them out.

A log keeps its files in order while it is used: it makes them durable, writes its index down
(checkpoint), writes segments anew without what was deleted (compaction), and its journal anew in
fewer words. Each has a part that waits for the disk or takes long and may run on another thread,
between a beginning and an end on the log's own: `LogSync.run`, `CheckpointWriting.write`,
`Compaction.run`, `JournalRewriting.run`. The log is used meanwhile as ever, so the end finds out
whether what was done still fits, and gives it up if not. When to do which is not known here.

What fails and concerns the log takes it offline: it can be read, and a restart begins with what is
on the disk. A write for which there was no room, and of which nothing is left, does not: it raises
DiskFullError, and messages are refused until there is room (`store.disk.room`). A file that
was to replace another one and could not be written concerns nobody.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from headwater.base.entropy import Entropy
from headwater.base.invariants import check
from headwater.store.disk.filesystem import File, FileSystem, NoRoomError, replace_file
from headwater.store.disk.findings import Findings
from headwater.store.disk.format import (
    IDENTITY_BYTES,
    JOURNAL_MAGIC,
    FileHeader,
    StreamFile,
)
from headwater.store.disk.journal import (
    CALLER_KINDS,
    DELETED,
    LOST,
    Journal,
    encode_ranges,
    size_of_entries,
)
from headwater.store.disk.layout import JOURNAL_FILE, JOURNAL_NEW_FILE, STREAM_FILE
from headwater.store.disk.room import NO_SPACE, Room
from headwater.store.disk.segment import SegmentFile
from headwater.store.disk.wal import JOURNAL, SYNCED, WriteAhead
from headwater.store.index.log_index import LogIndex
from headwater.store.index.ranges import RangeSet
from headwater.store.log.message_log import DiskFullError, MessageLog, OfflineError, StoreError
from headwater.store.upkeep.checkpoint import CHECKPOINT_FILE
from headwater.store.upkeep.checkpoint_writing import CheckpointWriting
from headwater.store.upkeep.compaction import Compaction, is_worthwhile
from headwater.store.upkeep.journal_rewriting import JournalRewriting
from headwater.store.upkeep.log_check import CUT, GONE, LogCheck, Relied
from headwater.store.upkeep.log_sync import LogSync

SEGMENT_BYTES_MAX: Final = 64 * 1024 * 1024


# Closes a file that has no name any more. The disk has to take note of all its room then: for one
# that is large that takes long enough to be done beside the log.
Close = Callable[[], None]
Dispose = Callable[[Close], object]


def at_once(close: Close) -> None:
    """Dispose of a file on the log's own thread."""
    close()


class LogFiles(MessageLog):
    """The base of `headwater.store.log.file_log.FileLog`."""

    def __init__(
        self,
        files: FileSystem,
        folder: str,
        entropy: Entropy,
        stream: StreamFile,
        journal: Journal,
        index: LogIndex,
        segments: dict[int, SegmentFile],
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
    ) -> None:
        """Made by `headwater.store.recovery.opening`."""
        super().__init__(index)
        self._files = files
        self._folder = folder
        self._entropy = entropy
        self._stream = stream
        self._journal = journal
        self._segments = segments
        self._segment_bytes_max = segment_bytes_max
        # Whether messages are being removed, some at a time.
        self.is_deleting = False
        self._offline = ""
        # The room on the disk, as far as is known; shared by the logs of a store.
        self.room = Room(files, folder)
        # Findings of recovery, and findings since then.
        self.findings = Findings()
        # Problems of files that the log can do without until it is opened again, by file name.
        self.troubles: dict[str, str] = {}
        # The number of messages that turned out to be unreadable since the log was opened.
        self.unreadable_count = 0
        self._unreadable_told = 0
        # The segments as they were when they were last looked at, by first sequence.
        self._seen: dict[int, Relied] = {}
        self.synced_sequence = index.last_sequence
        # How many times entries were journalled, and how many of those the disk has.
        self.entries_written = 0
        self._entries_synced = 0
        # The last time that there was something of a caller among them.
        self._caller_entries_written = 0
        # How often the end was cut off: what was begun before says nothing about what came after.
        self._cuts = 0
        # The segment and the sequence with which the checkpoint ends; 0 if there is no checkpoint.
        self.checkpoint_segment = 0
        self.checkpoint_sequence = 0
        # Everything that was to be journalled up to here was found in the journal.
        self.journal_sequence = 0
        # Kept open for when it has to go, if it was written in this life.
        self._checkpoint_file: File | None = None
        # How long the journal was when it was last written anew; 0 if that was before this life.
        self.journal_bytes_anew = 0
        # What of all that callers have journalled is still true; as long as nobody says it, a
        # journal that is written anew keeps everything.
        self.caller_entries: Callable[[], list[tuple[int, bytes]]] | None = None
        # How much callers have journalled since, and how much of what they had was still true then.
        self.caller_bytes = 0
        self.caller_bytes_anew = 0
        self._checkpointing: CheckpointWriting | None = None
        self._compaction: Compaction | None = None
        self._rewriting: JournalRewriting | None = None
        # Where bytes go as well that have to be on the disk before anything is said.
        self.write_ahead: WriteAhead | None = None
        # Whether records wait in memory for `flush`, and those that do.
        self.deferred = False
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._waiting_from = 0
        # Why the log went offline, where nobody was told yet.
        self.untold_problem = ""

    # --- state ---------------------------------------------------------------------------------

    @property
    def written_sequence(self) -> int:
        """The last sequence the operating system has."""
        return self._waiting_from - 1 if self._waiting else self.last_sequence

    @property
    def offline(self) -> str:
        """Why the log can not be written to; empty if it can."""
        return self._offline

    @property
    def is_full(self) -> bool:
        """Whether messages are refused because there is no room on the disk."""
        return self.room.is_full

    @property
    def identity(self) -> bytes:
        """What tells this stream from all others, and from an earlier one of its name."""
        return self._stream.identity

    @property
    def is_synced(self) -> bool:
        """Whether there is nothing that the disk may not have."""
        return (
            self.synced_sequence >= self.last_sequence
            and self._entries_synced == self.entries_written
        )

    @property
    def body(self) -> bytes:
        """What the caller keeps in the stream file."""
        return self._stream.body

    def set_body(self, body: bytes) -> None:
        """Replace what the caller keeps in the stream file, durably."""
        self._check_online()
        before = self._stream.body
        self._stream.body = body
        try:
            self._replace_stream_file()
        except OSError as error:
            self._stream.body = before
            raise self._failed("replacing the stream file", error) from error

    def _replace_stream_file(self) -> None:
        replace_file(self._files, f"{self._folder}/{STREAM_FILE}", self._stream.encode())

    # --- durability ----------------------------------------------------------------------------

    @property
    def waiting_bytes(self) -> int:
        """How much is only in memory."""
        return self._waiting_bytes

    def flush(self) -> None:
        """Hand what waits to the operating system, in one write.

        What can not be written is gone, as it is when the process dies: nothing of it stays in the
        index, and the log goes offline. On a full disk that takes what is kept for such a case:
        these messages were acknowledged.
        """
        if not self._waiting:
            return
        data = b"".join(self._waiting)
        first = self._waiting_from
        self._waiting.clear()
        self._waiting_bytes = 0
        segment = self._segments[self.index.segments[-1].first_sequence]
        try:
            try:
                segment.write(data)
            except NoRoomError:
                self.room.met_end()
                if not self.room.lend():
                    raise
                segment.write(data)
        except OSError as error:
            while sequence := self.index.next_message(first):
                self.index.delete(sequence)
            self.index.cut(first)
            self.expiries.cut(first - 1)
            raise self._broken("flush", error) from error

    def flush_to_read(self) -> None:
        """The same for who only wants to read: what can not be written is gone, the rest is there.

        Who writes, or flushes, is told of it in time.
        """
        try:
            self.flush()
        except OfflineError as error:
            self.untold_problem = str(error)

    def sync(self) -> None:
        """Return when everything written so far is on the disk."""
        work = self.begin_sync()
        work.run()
        self.finish_sync(work)

    def owe_sync(self) -> None:
        """Nothing that was found in the files is known to be on the disk: the next sync sees to it,
        also of a log that nobody writes to."""
        self.synced_sequence = 0
        self.entries_written += 1
        # Some of them may be of callers.
        self._caller_entries_written = self.entries_written

    def _secure_caller_entries(self) -> None:
        """Before the disk learns otherwise than by the journal that messages are gone: it must not
        do so and lose what callers said together with their removal."""
        if self._entries_synced < self._caller_entries_written:
            self.sync()

    def begin_sync(self) -> LogSync:
        """Work for `LogSync.run`, and then for `finish_sync`."""
        self._check_online()
        self.flush()
        segments = [self._segments[index.first_sequence] for index in self.index.segments]
        return LogSync(
            segments, self._journal, self.last_sequence, self.entries_written, self._cuts
        )

    def finish_sync(self, done: LogSync) -> None:
        """Take note of what is on the disk now."""
        if done.problem is not None:
            raise self._failed("sync", done.problem) from done.problem
        if done.cuts == self._cuts:
            self.confirm(done.last_sequence, done.entries_written)
            self._note_synced(done.segment_first, done.segment_bytes)

    def confirm(self, sequence: int, entries_written: int) -> None:
        """Everything up to `sequence`, and so many entries, are on the disk one way or another."""
        self.synced_sequence = max(self.synced_sequence, min(sequence, self.last_sequence))
        self._entries_synced = max(self._entries_synced, entries_written)

    # --- checkpoint ----------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write the index down, so that opening has to read only what comes after this."""
        if self._checkpointing is not None:
            self.abandon_checkpoint(self._checkpointing)
        try:
            work = self.begin_checkpoint()
            while work.take():
                work.write()
            self.finish_checkpoint(work)
        except OfflineError:
            raise
        except StoreError as error:
            raise self._failed("checkpoint", error) from error

    def begin_checkpoint(self) -> CheckpointWriting:
        """Work for `take` and `write` in turn, then for `finish_checkpoint` or
        `abandon_checkpoint`."""
        check(self._checkpointing is None, "the checkpoint before this one is not over")
        sync = self.begin_sync()
        segments = [self._segments[index.first_sequence] for index in self.index.segments]
        picture = self.index.begin_picture()
        try:
            self._checkpointing = CheckpointWriting(
                self._files,
                self._folder,
                self._stream.identity,
                (self._journal.salt, self._journal.size),
                picture,
                [(segment.size, segment.sealed) for segment in segments],
                self.expiries.items(),
                sync,
            )
        except OSError as error:
            self.index.end_picture(picture)
            raise StoreError(f"{self._folder}: no checkpoint is written: {error}") from error
        return self._checkpointing

    def abandon_checkpoint(self, work: CheckpointWriting) -> None:
        """Give up a checkpoint that could not be written, or is not wanted any more."""
        if self._checkpointing is work:
            self._checkpointing = None
        self.index.end_picture(work.picture)
        work.give_up()

    def finish_checkpoint(self, done: CheckpointWriting, dispose: Dispose = at_once) -> bool:
        """Put a checkpoint in place; False if it would not fit what happened meanwhile.

        Raises StoreError if it could not be written; the log goes on with the one before.
        """
        is_usable = self._checkpointing is done and done.is_usable and not self._offline
        if not is_usable:
            self.abandon_checkpoint(done)
            self._check_online()
        if done.has_synced:
            self.finish_sync(done.sync)
        if done.problem is not None:
            raise StoreError(
                f"{self._folder}: no checkpoint is written: {done.problem}"
            ) from done.problem
        if not is_usable:
            return False
        self._checkpointing = None
        self.index.end_picture(done.picture)
        before = self._checkpoint_file
        try:
            self._checkpoint_file = done.put_in_place()
            self._files.sync_folder(self._folder)
        except OSError as error:
            raise self._failed("checkpoint", error) from error
        finally:
            if before is not None and before is not self._checkpoint_file:
                dispose(before.close)
        self.checkpoint_segment = done.segment_first
        self.checkpoint_sequence = done.last_sequence
        return True

    def _forget_checkpoint(self, dispose: Dispose = at_once) -> None:
        """What is about to happen to the files would make the checkpoint wrong."""
        if self._checkpointing is not None:
            self._checkpointing.picture.is_spoilt = True
        path = f"{self._folder}/{CHECKPOINT_FILE}"
        if self._files.exists(path):
            self._files.remove(path)
            self._files.sync_folder(self._folder)
        if self._checkpoint_file is not None:
            dispose(self._checkpoint_file.close)
            self._checkpoint_file = None
        self.checkpoint_segment = self.checkpoint_sequence = 0

    def _is_end_of_checkpoint(self, first_sequence: int) -> bool:
        """Whether a checkpoint, in place or under way, ends in a segment."""
        under_way = self._checkpointing
        return first_sequence == self.checkpoint_segment or (
            under_way is not None and first_sequence == under_way.segment_first
        )

    # --- compaction ----------------------------------------------------------------------------

    def compactable(self) -> list[int]:
        """Sealed segments that are mostly of no use any more, by their first sequence."""
        segments = self.index.segments
        return [
            index.first_sequence
            for number, index in enumerate(segments[:-1])
            if self._segments[index.first_sequence].sealed and is_worthwhile(index, number == 0)
        ]

    def begin_compaction(self, first_sequence: int) -> Compaction:
        """Work for `Compaction.run`, and then for `finish_compaction` or `abandon_compaction`.

        One at a time: successors of one segment have one name.
        """
        self._check_online()
        check(self._compaction is None, "the compaction before this one is not over")
        index = self.index.segment_of(first_sequence)
        segment = self._segments[index.first_sequence]
        check(segment.sealed, "only a sealed segment can be written anew")
        try:
            names = self.index.subjects.names
            self._compaction = Compaction(self._files, segment, index, names)
        except OSError as error:
            raise StoreError(f"{segment.path} is not compacted: {error}") from error
        return self._compaction

    def abandon_compaction(self, work: Compaction) -> None:
        """Give up a compaction that could not be run, or is not wanted any more."""
        check(self._compaction is work, "only the compaction that was begun can be over")
        self._compaction = None
        work.give_up()

    def finish_compaction(self, done: Compaction, dispose: Dispose = at_once) -> bool:
        """Swap the successor in; False if its segment was changed meanwhile, or is gone."""
        if self._offline or not self._is_current(done):
            self.abandon_compaction(done)
            self._check_online()
            return False
        self._compaction = None
        index = self.index.segment_of(done.segment_first)
        old = self._segments[done.segment_first]
        try:
            for sequence in done.damaged:
                if index.has(sequence):
                    self._lose(sequence)
            self._secure_caller_entries()
            self._settle()
            self._forget_checkpoint(dispose)
            done.put_in_place()
            self._files.sync_folder(self._folder)
            segment = SegmentFile.open(self._files, old.path, self._stream.identity)
        except NoRoomError as error:
            # Before the successor took the place of anything.
            done.give_up()
            raise self._failed("compaction", error) from error
        except OSError as error:
            raise self._failed("compaction", error) from error
        segment.sealed = True
        dispose(old.close)
        self._segments[done.segment_first] = segment
        done.hand_over(index)
        self._note_extent()
        return True

    def _is_current(self, done: Compaction) -> bool:
        segment = self._segments.get(done.segment_first)
        return segment is not None and done.is_of(segment)

    # --- journal -------------------------------------------------------------------------------

    @property
    def journal_bytes(self) -> int:
        """How long the journal is."""
        return self._journal.size

    def rewrite_journal(self, entries: list[tuple[int, bytes]]) -> None:
        """Begin the journal anew with what is still true: our own, and the caller's `entries`."""
        # Entries of now, on the disk, may not speak of messages that are not.
        self.sync()
        lost = RangeSet(self.lost)
        deleted = RangeSet([(1, self.first_sequence - 1)] if self.first_sequence > 1 else [])
        for first, last in self.index.gaps():
            for part in lost.outside(first, last):
                deleted.add(*part)
        ours = [(DELETED, encode_ranges(deleted)), (LOST, encode_ranges(lost))]
        path = f"{self._folder}/{JOURNAL_FILE}"
        try:
            self._settle()
            # Of a damaged journal it may know more than is known here.
            self._forget_checkpoint()
            temporary = f"{self._folder}/{JOURNAL_NEW_FILE}"
            if self._files.exists(temporary):
                self._files.remove(temporary)
            journal = Journal.create(
                self._files,
                temporary,
                self._stream.identity,
                self._entropy.random_bytes(IDENTITY_BYTES),
            )
            journal.write_apart(self.last_sequence, [*ours, *entries])
            journal.sync()
            self._files.rename(temporary, path)
            self._files.sync_folder(self._folder)
        except OSError as error:
            raise self._broken("rewriting the journal", error) from error
        self._take_journal(journal)
        self.caller_bytes, self.caller_bytes_anew = 0, size_of_entries(entries)

    def begin_journal_rewrite(self) -> JournalRewriting:
        """Work for `JournalRewriting.run`, and then for `finish_journal_rewrite` or
        `abandon_journal_rewrite`: the same journal in fewer words.

        Of what callers wrote so far only that is kept of which `caller_entries` says now that it is
        still true.
        """
        self._check_online()
        check(not self.is_rewriting, "the rewriting before this one is not over")
        salt = self._entropy.random_bytes(IDENTITY_BYTES)
        path = f"{self._folder}/{JOURNAL_FILE}"
        try:
            self._rewriting = JournalRewriting(
                self._files,
                path,
                f"{self._folder}/{JOURNAL_NEW_FILE}",
                FileHeader(JOURNAL_MAGIC, self._stream.identity, 0, salt),
                self._journal,
                self.last_sequence,
                None if self.caller_entries is None else self.caller_entries(),
                self.caller_bytes,
            )
        except OSError as error:
            raise StoreError(f"{path} is not written anew: {error}") from error
        return self._rewriting

    @property
    def is_rewriting(self) -> bool:
        """Whether the journal is being written anew."""
        return self._rewriting is not None

    def abandon_journal_rewrite(self, work: JournalRewriting) -> None:
        """Give up a rewriting that could not be run, or is not wanted any more."""
        check(self._rewriting is work, "only the rewriting that was begun can be over")
        self._rewriting = None
        work.give_up()

    def finish_journal_rewrite(self, done: JournalRewriting) -> bool:
        """Swap the successor in; False if the journal was replaced meanwhile.

        Raises StoreError if it could not be written; the log goes on with the one before.
        """
        if self._offline or not done.is_of(self._journal):
            self.abandon_journal_rewrite(done)
            self._check_online()
            return False
        try:
            # Entries on the disk may not speak of messages that are not.
            if self.synced_sequence < min(done.last_sequence, self.last_sequence):
                self.sync()
            done.catch_up()
        except StoreError:
            self.abandon_journal_rewrite(done)
            raise
        except OSError as error:
            self.abandon_journal_rewrite(done)
            raise StoreError(f"{self._folder}: no new journal is written: {error}") from error
        self._rewriting = None
        try:
            self._settle()
            journal = done.put_in_place()
            self._files.sync_folder(self._folder)
        except NoRoomError as error:
            # Before the successor took the place of the journal.
            done.give_up()
            raise self._failed("rewriting the journal", error) from error
        except OSError as error:
            raise self._failed("rewriting the journal", error) from error
        self._take_journal(journal)
        self.caller_bytes -= done.caller_bytes_covered
        if done.caller_entries is None:
            self.caller_bytes_anew += done.caller_bytes_covered
        else:
            self.caller_bytes_anew = size_of_entries(done.caller_entries)
        return True

    def rewrite_journal_now(self) -> None:
        """Do all three steps at once, for a caller whose entries are not complete any more."""
        work = self.begin_journal_rewrite()
        try:
            work.run()
        except StoreError:
            self.abandon_journal_rewrite(work)
            raise
        self.finish_journal_rewrite(work)

    def _take_journal(self, journal: Journal) -> None:
        """A successor is in place and on the disk."""
        self._journal.close()
        self._journal = journal
        self.journal_bytes_anew = journal.size
        self._note_extent()

    def _write_caller_entries(
        self,
        ours: list[tuple[int, bytes]],
        entries: Sequence[tuple[int, bytes]],
        makes_room: bool = False,
    ) -> None:
        """Journal what a caller wants kept together with what we say ourselves: all or nothing."""
        check(all(kind >= CALLER_KINDS for kind, _ in entries), "kinds below are the store's own")
        self._write_journal([*ours, *entries], makes_room)
        if entries:
            self.caller_bytes += size_of_entries(entries)
            self._caller_entries_written = self.entries_written

    def _write_journal(self, entries: list[tuple[int, bytes]], makes_room: bool = False) -> None:
        """Append entries; those that make room may have what is kept for them."""
        size = self._journal.size
        try:
            try:
                data = self._journal.write(self.last_sequence, entries)
            except NoRoomError:
                self.room.met_end()
                if not (makes_room and self.room.lend()):
                    raise
                data = self._journal.write(self.last_sequence, entries)
        except OSError as error:
            raise self._failed("journal", error) from error
        self.entries_written += 1
        if self.write_ahead is not None:
            self.write_ahead.add(self._stream.identity, JOURNAL, 0, size, data)

    def _must_write_journal(self, entry: tuple[int, bytes]) -> None:
        """Journal the end of an operation that was begun and cannot be tried again."""
        try:
            self._write_journal([entry], makes_room=True)
        except DiskFullError as error:
            raise self._broken("journal", error) from error

    # --- the write-ahead file ------------------------------------------------------------------

    def join_write_ahead(self, write_ahead: WriteAhead) -> None:
        """From now on be durable by way of that file; all that is there is on the disk."""
        self.write_ahead = write_ahead
        self._note_extent()

    def _settle(self) -> None:
        """Before files are changed otherwise than by appending: nothing of the write-ahead file may
        be put back into them."""
        if self.write_ahead is not None:
            self.sync()
            self.write_ahead.forget(self._stream.identity)

    def _note_extent(self) -> None:
        """All files are on the disk, after a change that the write-ahead file knows nothing of."""
        first = self.index.segments[-1].first_sequence
        self._note_synced(first, self._segments[first].size)

    def _note_synced(self, segment_first: int, size: int) -> None:
        """Let the write-ahead file tell how much of the last segment is on the disk by itself."""
        if self.write_ahead is not None:
            self.write_ahead.add(self._stream.identity, SYNCED, segment_first, size, b"")

    # --- files that somebody else changes ------------------------------------------------------

    def begin_check(self) -> LogCheck:
        """Work for `LogCheck.run`, and then for `finish_check`."""
        relied = [Relied(f"{self._folder}/{name}") for name in (STREAM_FILE, JOURNAL_FILE)]
        seen, self._seen = self._seen, {}
        for first, segment in self._segments.items():
            before = seen.get(first)
            if before is None or not before.is_seen_again(segment):
                before = Relied(segment.path, segment=segment, changes=segment.changes)
            self._seen[first] = before
            relied.append(before)
        return LogCheck(self._files, relied)

    def finish_check(self, done: LogCheck) -> str:
        """Problems that were found and were not known before; empty if there are none.

        Without a file that the next message relies on, the log goes offline: no publisher may be
        told that the message is stored. Messages in other missing files are lost when the log is
        opened again, and can be read until then.
        """
        problems = []
        for relied, found_bytes in zip(done.relied, done.found, strict=True):
            # Otherwise the state of the file cannot be told.
            if found_bytes is not None and not self._offline:
                problem = self._judge(relied, found_bytes)
                if problem:
                    problems.append(problem)
        if self.unreadable_count > self._unreadable_told:
            self._unreadable_told = self.unreadable_count
            problems.append(f"{self.unreadable_count} messages cannot be read any more: lost")
        return "; ".join(problems)

    def _judge(self, relied: Relied, found_bytes: int) -> str:
        """The problem of a file, if it was not known before; else empty."""
        segment = relied.segment
        is_last = segment is None
        is_cut = found_bytes < relied.seen_bytes
        if segment is not None:
            first = segment.first_sequence
            if not relied.is_seen_again(self._segments.get(first)):
                # The log itself has changed or removed it meanwhile.
                return ""
            is_last = first == self.index.segments[-1].first_sequence
            is_cut = is_cut or (is_last and not self._is_end_there(segment))
            if not is_cut:
                self._seen[first] = relied._replace(seen_bytes=found_bytes)
        name = relied.path.rpartition("/")[2]
        if not is_cut or name in self.troubles:
            return ""
        problem = f"{name} {GONE if found_bytes < 0 else CUT}"
        self.troubles[name] = problem
        self.findings.add("missing", problem)
        if is_last:
            self._leave_end(problem)
        return problem

    def _is_end_there(self, segment: SegmentFile) -> bool:
        """Whether the last message of the last segment is where it was put, or its header."""
        index = self.index.segments[-1]
        written = min(self.written_sequence, index.next_sequence - 1)
        sequence = self.index.last_message(written)
        if not sequence or sequence < index.first_sequence:
            return segment.size > 0 and len(segment.file.read(segment.size - 1, 1)) == 1
        try:
            record = segment.read_record(index.offsets[sequence - index.first_sequence])
        except OSError:
            # Reads tell of that.
            return True
        return record is not None and record.sequence == sequence

    def _leave_end(self, problem: str) -> None:
        """Go offline because the end of the log may be missing when it is opened again.

        Then nobody could tell how far it went: the journal says that sequences behind its end were
        given out, so that the log goes on above all that were.
        """
        behind = self.last_sequence + 1
        with suppress(StoreError):
            self._write_journal([(LOST, encode_ranges([(behind, behind)]))], makes_room=True)
            self._journal.sync()
        self.go_offline(f"{problem}; restart the server: what is missing then is reported as lost")

    # --- failing -------------------------------------------------------------------------------

    def _lose(self, sequence: int) -> None:
        """A message that was stored can not be read: nobody shall wait for it."""
        self.findings.add("damaged", f"message {sequence} fails its checksum")
        self.unreadable_count += 1
        self._write_if_possible(LOST, sequence)
        self.index.delete(sequence)
        self.lost.add(sequence, sequence)

    def _write_if_possible(self, kind: int, sequence: int) -> None:
        """Journal what whoever opens the log finds out again, if there is no room for it now."""
        if not self._offline:
            with suppress(DiskFullError):
                self._write_journal([(kind, encode_ranges([(sequence, sequence)]))])

    def go_offline(self, reason: str) -> None:
        """Write no more: something this log relies on has failed."""
        self._offline = self._offline or reason

    def _check_online(self) -> None:
        if self._offline:
            raise OfflineError(f"{self._folder} is offline for writes: {self._offline}")

    def _check_room(self) -> None:
        if self.room.is_full:
            raise DiskFullError(f"{self._folder}: {NO_SPACE}")

    def _failed(self, what: str, error: Exception) -> StoreError:
        """The error to raise if an operation failed; without room all of it may be tried again."""
        if isinstance(error, NoRoomError):
            self.room.met_end()
            return DiskFullError(f"{self._folder}: {what} failed: {error}")
        return self._broken(what, error)

    def _broken(self, what: str, error: Exception) -> StoreError:
        """The error to raise when an operation was done by half, for any reason."""
        self._offline = f"{what} failed: {error}"
        return OfflineError(
            f"{self._folder}: {self._offline}; reads go on, restart the server to write again"
        )
