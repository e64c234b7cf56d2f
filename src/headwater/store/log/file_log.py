"""A log on disk: segments of messages, and a journal of everything else.

A batch is one write. `Durability.synced_sequence` tells what the disk has for sure; by it the
layers above decide who may see a message when.

Order on disk, which recovery relies on:

* sequences are reserved in the synced stream file before they are given out;
* a deletion is in the synced journal before a segment file goes because of it;
* a new segment is only begun when the one before it has its footer, or when the synced journal
  says that no message is left in it.

A write that fails leaves index and counters as they were and takes the log offline: it can be read,
and a restart begins with what is on the disk. A write for which there is no room leaves the files
as they were too, and the log goes on when there is room; until then messages can be removed.

`FileLog` puts messages in and takes them out. Its parts know the rest:

    LogFolder          where the files are, whose they are
    Availability       whether the log can be written to
    StreamFileWriter   reserved sequences, and the body of the caller
    LogSegments        the segment files, and records that wait in memory
    LogJournal         the journal, and what of it the disk has
    LogWriteAhead      the log's part in the server's write-ahead file
    Durability         what is on the disk, and syncs
    LogEnd             sequences that are given out, and segments that begin
    Losses             messages that cannot be read
    EmptiedSegments    files of segments in which no message is left
    Checkpoints, Compactions, JournalRewrites, FileChecks
                       upkeep of the files, partly on another thread

All else runs on one thread. A part holds only parts above it in this list, and none holds the log.
"""

from collections.abc import Iterable, Sequence
from typing import final

from headwater.base.columns import Numbers
from headwater.base.emptying import Container
from headwater.base.entropy import Entropy
from headwater.base.invariants import check
from headwater.base.sliced import Work, at_once
from headwater.store.disk.filesystem import FileSystem
from headwater.store.disk.findings import Findings
from headwater.store.disk.format import (
    ERASED,
    Record,
    StreamFile,
    decode_records,
    encode_messages,
    seed_of_stream,
)
from headwater.store.disk.journal import (
    DELETED,
    ERASED_BY_HALF,
    LOST,
    Journal,
    as_ranges,
    encode_ranges,
    size_of_entries,
)
from headwater.store.disk.mark import SequenceMark
from headwater.store.disk.room import Room
from headwater.store.disk.segment import READ_BYTES, START_BYTES, SegmentFile
from headwater.store.disk.set_aside import set_aside
from headwater.store.disk.wal import RedoPoint
from headwater.store.errors import StoreError
from headwater.store.index.log_index import LogIndex
from headwater.store.index.segment_index import SegmentIndex
from headwater.store.log.availability import CLOSED, Availability
from headwater.store.log.batch_records import (
    Wanted,
    append_messages,
    append_messages_at,
    encode_batch,
    message_sizes,
)
from headwater.store.log.checkpoints import Checkpoints
from headwater.store.log.compactions import Compactions
from headwater.store.log.durability import Durability
from headwater.store.log.emptied_segments import EmptiedSegments
from headwater.store.log.file_checks import FileChecks
from headwater.store.log.journal_rewrites import JournalRewrites
from headwater.store.log.log_end import SKIPPED_IN_PLACE_MAX, WAITING_BYTES_MAX, LogEnd
from headwater.store.log.log_folder import LogFolder
from headwater.store.log.log_journal import LogJournal
from headwater.store.log.log_write_ahead import LogWriteAhead
from headwater.store.log.losses import Losses
from headwater.store.log.message_log import (
    DELETION_COST,
    PURGED_AT_A_TIME,
    Batch,
    EncodedMessages,
    MessageBatch,
    MessageLog,
    StoredMessage,
    Upcoming,
)
from headwater.store.log.recovered import Recovered
from headwater.store.log.segments import NO_OFFSET, SEGMENT_BYTES_MAX, LogSegments
from headwater.store.log.stream_file import StreamFileWriter
from headwater.store.upkeep.journal_rewriting import JournalRewriting
from headwater.store.upkeep.log_sync import LogSync


@final
class FileLog(MessageLog):
    """The log of one stream in one folder."""

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
        recovered: Recovered | None = None,
    ) -> None:
        """Made by `headwater.store.recovery.opening`."""
        super().__init__(index, seed_of_stream(stream.identity))
        recovered = recovered or Recovered()
        self.entries = recovered.entries
        self.expiries.extend(recovered.expiries)
        self.passed = recovered.passed
        self.lost = recovered.lost
        self._journal_sequence = recovered.journal_sequence
        # Whether messages are being removed, some at a time.
        self.is_deleting = False
        # Whether sequences behind the end that opening has found may have been given out.
        self.is_end_uncertain = False
        # The reason why the files of a replica are to be filled again from another one; empty if
        # they hold exactly the effects of the entries up to `applied_entry`.
        self.must_refill = ""
        # Whether the messages are a part of those of a snapshot, all of them right, and the log has
        # the effects of no entry: it is filled further from another replica.
        self.is_partial = False
        # The sequences that this start has found lost and the journal did not call so, and whether
        # the journal was damaged and is replaced.
        self.newly_lost: list[tuple[int, int]] = []
        self.is_journal_replaced = False
        place = self._folder = LogFolder(files, folder, stream.identity, entropy)
        state = self.availability = Availability(folder, Room(files, folder))
        ahead = LogWriteAhead(stream.identity)
        self._stream_file = StreamFileWriter(place, stream, state)
        self.segments = LogSegments(place, state, index, self.expiries, segments, segment_bytes_max)
        caller_bytes = size_of_entries((entry.kind, entry.body) for entry in recovered.entries)
        self.journal = LogJournal(state, index, journal, caller_bytes)
        written = (state, index, self.segments, self.journal)
        self.durability = Durability(*written, ahead)
        # The last sequence that the operating system has, in the mark of the store.
        self.mark = SequenceMark()
        self.mark.note(index.last_sequence)
        self.end = LogEnd(*written, self.durability, self._stream_file, self.record_seed, self.mark)
        self._written = self.end.written
        self.losses = Losses(index, self.journal, self.durability, recovered.findings, self.lost)
        self.checkpoints = Checkpoints(
            place,
            state,
            index,
            self.expiries,
            self.segments,
            self.journal,
            self.durability,
            recovered.checkpoint_segment,
            recovered.checkpoint_sequence,
        )
        self.emptied = EmptiedSegments(
            place, state, index, self.segments, self.journal, self.durability, self.checkpoints
        )
        self.compactions = Compactions(
            place, state, index, self.segments, self.durability, self.checkpoints, self.losses
        )
        self.journal_rewrites = JournalRewrites(
            place, state, index, self.journal, self.durability, self.checkpoints
        )
        self.file_checks = FileChecks(place, state, index, self.segments, self.journal, self.losses)

    # --- state ---------------------------------------------------------------------------------

    @property
    def offline(self) -> str:
        """Why the log cannot be written to; empty if it can."""
        return self.availability.offline

    @property
    def is_full(self) -> bool:
        """Whether messages are refused because there is no room on the disk."""
        return self.availability.room.is_full

    @property
    def is_writable(self) -> bool:
        """Whether messages are accepted: the log is not offline, and the disk has room."""
        state = self.availability
        return not (state.offline or state.room.is_full)

    @property
    def identity(self) -> bytes:
        """Random bytes that tell this stream from all others, also of its name."""
        return self._folder.identity

    @property
    def findings(self) -> Findings:
        """Findings of recovery, and findings since then."""
        return self.losses.findings

    @property
    def unreadable_count(self) -> int:
        """The number of messages that are damaged, or were found lost since the log was opened."""
        return self.losses.unreadable_count

    @property
    def troubles(self) -> dict[str, str]:
        """Problems of files that the log can do without until it is opened again, by file name."""
        return self.file_checks.problems

    @property
    def journalled_sequence(self) -> int:
        """The last sequence whose consequences are in the journal or the checkpoint."""
        return max(self.checkpoints.last_sequence, self._journal_sequence)

    @property
    def body(self) -> bytes:
        """The bytes that the caller keeps in the stream file."""
        return self._stream_file.body

    def set_body(self, body: bytes) -> None:
        """Replace the bytes that the caller keeps in the stream file, durably."""
        self.availability.check_online()
        if self.durability.has_entries:
            # Entries before this one are not applied again under a body that came later.
            self._secure_applied("replacing the stream file")
        self._stream_file.set_body(body)

    def go_offline(self, reason: str) -> None:
        """Write no more: something this log relies on has failed."""
        self.availability.go_offline(reason)

    # --- what the store sets up ----------------------------------------------------------------

    def share_room(self, room: Room) -> None:
        """Refuse messages when the disk of the store has no room."""
        self.availability.room = room

    def defer_writes(self, is_deferred: bool = True) -> None:
        """From now on keep records in memory until `flush`, or until they are many; or not."""
        self.segments.flush()
        self.segments.is_deferred = is_deferred

    # --- durability ----------------------------------------------------------------------------

    @property
    def is_synced(self) -> bool:
        """Whether everything is known to be on the disk."""
        return self.durability.is_synced

    @property
    def has_entries(self) -> bool:
        """Whether the files are a cache of entries, which the caller adds or its group has."""
        return self.durability.has_entries

    @property
    def is_replica(self) -> bool:
        """Whether the files are a cache of the log of the group with the log's identity."""
        return self.durability.is_replica

    @property
    def durable_entry(self) -> int:
        """The last entry of a replica's group whose effects the disk has: the group may give up the
        entries up to it."""
        return self.durability.redo.durable_entry

    @property
    def synced_sequence(self) -> int:
        """The last sequence up to which messages are known to be on the disk."""
        return self.durability.synced_sequence

    @property
    def synced_entry(self) -> int:
        """The index of the last entry that the write-ahead file has on the disk."""
        return self.durability.synced_entry

    @property
    def applied_entry(self) -> int:
        """The index of the last entry whose effects, and those of all before it, the log has.

        The caller sets it when an entry is applied, before anything else is written.
        """
        return self.durability.redo.applied.entry

    @applied_entry.setter
    def applied_entry(self, index: int) -> None:
        self.durability.mark_applied(index)

    def files_after(self, entry: int) -> RedoPoint:
        """The files as they are now, for `mark_behind`: they have the effects of the entries up to
        one, which may be taken back."""
        return self.durability.redo.files_after(entry)

    def mark_behind(self, point: RedoPoint) -> None:
        """Note that the entries up to that of a point stay. Until the files have no effects of
        others, they are only appended to."""
        self.durability.mark_behind(point)

    def take_upkeep_wanted(self) -> bool:
        """Whether upkeep has waited, since the last call, for a moment in which the files have the
        effects of no entry that may be taken back."""
        redo = self.durability.redo
        is_awaited, redo.is_awaited = redo.is_awaited, False
        return is_awaited

    def set_aside(self, name: str, data: bytes) -> str:
        """Keep bytes beside the files of the log, durably. Returns the path of their file, which
        begins with a name. Raises StoreError."""
        place = self._folder
        try:
            return set_aside(place.files, place.path, name, data)
        except OSError as error:
            raise StoreError(f"{place.path}: nothing is set aside: {error}") from error

    def queue_journal(self) -> None:
        """From now on keep entries of the journal in memory until `write_journal`."""
        self.journal.is_queueing = True

    @property
    def has_queued_journal(self) -> bool:
        """Whether entries of the journal wait for `write_journal`."""
        return self.journal.has_queue

    def write_journal(self) -> None:
        """Write the queue of the journal, then remove files of segments that were emptied."""
        if not self.journal.has_queue:
            return
        self.availability.check_online()
        # An entry speaks of what was before it: that must not be lost while it is not.
        self.segments.flush()
        self.journal.write_queue()
        if self.emptied.are_possible and not self.durability.has_entries:
            self.emptied.remove_some()

    def add_entry(self, index: int, follows: int, data: bytes) -> None:
        """Add an entry to the write-ahead file; the next commit writes and syncs it.

        `index` is that of the entry before it plus one, `follows` the stream's last sequence when
        the entry is applied. The caller applies it when `synced_entry` has reached it.
        """
        self.durability.add_entry(index, follows, data)

    def withdraw_entries(self, index: int) -> None:
        """Drop the entries behind an index, none of which has been written."""
        self.durability.withdraw_entries(index)

    def secure_applied(self) -> None:
        """Return when the effects of the last entry that was applied, and its redo point, are on
        the disk. Raises StoreError."""
        self._secure_applied("sync")

    def _secure_applied(self, operation: str) -> None:
        try:
            self.durability.secure_applied()
        except OSError as error:
            raise self.availability.failed(operation, error) from error

    def flush(self) -> None:
        """Write the records that wait in memory, in one write. Raises StoreError."""
        self.segments.flush()

    def sync(self) -> None:
        """Return when everything written so far is on the disk. Raises StoreError."""
        self.durability.sync()

    def begin_sync(self) -> LogSync:
        """Work for `LogSync.run`, and then for `finish_sync`. Raises StoreError.

        Amid a change of the caller the queue of the journal speaks of a part of it, and waits.
        """
        return self.durability.begin_sync(with_queue=not self.is_held)

    def finish_sync(self, done: LogSync) -> None:
        """Count as durable what a sync has brought to the disk. Raises StoreError."""
        self.durability.finish_sync(done)

    # --- the journal ---------------------------------------------------------------------------

    def begin_journal_rewrite(self) -> JournalRewriting:
        """Work for `JournalRewriting.run`, and then for `finish` or `abandon` of
        `journal_rewrites`.

        Of what callers have written so far only the entries are kept that `caller_entries` says are
        still true. Raises StoreError.
        """
        self.availability.check_online()
        return self.journal_rewrites.begin(self._true_caller_entries())

    def rewrite_journal_now(self) -> None:
        """Do all steps at once, for a caller whose entries are not complete any more."""
        self.availability.check_online()
        self.journal_rewrites.rewrite_now(self._true_caller_entries())

    def _true_caller_entries(self) -> list[tuple[int, bytes]] | None:
        return None if self.caller_entries is None else self.caller_entries()

    # --- writing -------------------------------------------------------------------------------

    def append(self, batch: Batch) -> int:
        """Store messages: one buffer, one write."""
        first = self.index.next_sequence
        if self._written:
            self._count_written(first, batch)
            return first
        state = self.availability
        if state.offline or state.room.is_full:
            self.end.check_writable()
        if batch.expiries_ns:
            data, lengths = encode_batch(first, batch, self.record_seed)
        else:
            columns = batch.subjects, batch.headers, batch.payloads, batch.timestamps_ns
            data, lengths = encode_messages(first, *columns, self.record_seed)
        self._append_records(first, data, lengths, batch)
        return first

    def append_encoded(self, batch: Batch, encoded: EncodedMessages) -> None:
        """Store messages whose records were encoded for this log and the next sequence."""
        first = self.index.next_sequence
        if self._written:
            self._count_written(first, batch)
            return
        self.end.check_writable()
        check(
            encoded.first_sequence == first and encoded.seed == self.record_seed,
            "a batch was encoded for this log and the next sequence",
        )
        self._append_records(first, encoded.data[encoded.begin :], encoded.lengths, batch)

    def write_together(self, parts: Iterable[Upcoming]) -> None:
        """Write what the next calls store, in one write."""
        upcoming = [*parts]
        if upcoming:
            self.end.write_together(upcoming)

    def _append_records(self, first: int, data: bytes, lengths: Numbers, batch: Batch) -> None:
        try:
            self._stream_file.reserve(first + len(lengths) - 1)
            offset = self.segments.append(data)
            if offset == NO_OFFSET:
                offset = self.end.append_to_next(data)
        except OSError as error:
            offset = self.end.append_with_reserve(first + len(lengths) - 1, data, error)
        self.mark.note(first + len(lengths) - 1)
        if self.segments.waiting_bytes >= WAITING_BYTES_MAX:
            self.segments.flush()
        self._count(first, offset, data, lengths, batch)

    def _count_written(self, first: int, batch: Batch) -> None:
        self._count(*self.end.take_written(first), batch)

    def _count(self, first: int, offset: int, data: bytes, lengths: Numbers, batch: Batch) -> None:
        """Have the index, and all that is counted by message, know messages that are written."""
        sizes = message_sizes(batch, lengths)
        if len(lengths) == 1:
            self.index.append_one(offset, batch.subjects[0], batch.timestamps_ns[0], sizes[0])
        else:
            self.index.append(offset, lengths, batch.subjects, batch.timestamps_ns, sizes)
        if self.index.tally is not None:
            self.index.tally.store(data, lengths)
        if batch.expiries_ns:
            self.note_expiries(first, batch.expiries_ns)

    def skip(
        self, count: int, timestamp_ns: int, header: bytes = b"", with_queue: bool = False
    ) -> None:
        """Give out sequences without messages."""
        self.end.skip(count, timestamp_ns, header, with_queue)

    def skipped_positions(self, count: int) -> int:
        """The number of positions of the index that a skip takes; a long one begins a segment."""
        return count if count <= SKIPPED_IN_PLACE_MAX else 0

    def write_entries(self, entries: Sequence[tuple[int, bytes]]) -> None:
        """Write entries of the caller to the journal."""
        self.availability.check_online()
        if not self.journal.is_queueing:
            # An entry speaks of what was before it: that must not be lost while it is not.
            self.segments.flush()
        if entries:
            self.journal.write_with_callers([], entries)

    def delete(
        self,
        sequences: Sequence[int],
        erase: bool = False,
        entries: Sequence[tuple[int, bytes]] = (),
    ) -> int:
        """Remove messages."""
        self.availability.check_online()
        if self.availability.room.is_full:
            # Writes to files other than the journal may need room as well.
            self.availability.room.release_reserve()
        if erase or not self.journal.is_queueing:
            self.segments.flush()
        if erase and self.lost:
            self._explain_losses(sequences)
        there = self.index.present(sorted(set(sequences)))
        if not there:
            self.write_entries(entries)
            return 0
        # Whether the deletion is the first effect of its entry, if the log has entries.
        is_first = self.durability.has_entries and self.durability.redo.is_current
        try:
            if erase and not is_first:
                self.durability.secure_applied()
            deleted = (DELETED, encode_ranges(as_ranges(there)))
            self.journal.write_with_callers([deleted], entries, makes_room=True, at_once=erase)
            if erase:
                # Before anything is destroyed it must be known to be deleted, also to an entry
                # that is applied again. A loss of power may damage it, and opening looks behind
                # damage only where the journal speaks of messages that are all there.
                if is_first:
                    self.durability.secure_upkeep()
                self.durability.sync()
                self.segments.erase(there)
            self.index.delete_many(there)
            # Only segments of these messages are looked at: there may be thousands.
            if any(index.live == 0 for index, _ in self.index.by_segment(there)):
                self.emptied.are_possible = True
                if not self._removes_later:
                    at_once(self.emptied.removing())
        except OSError as error:
            raise self.availability.failed("delete", error) from error
        return len(there)

    @property
    def _removes_later(self) -> bool:
        """Whether files of emptied segments stay until the journal is written, or an entry applied
        as a whole."""
        return self.journal.is_queueing or self.durability.has_entries

    def _explain_losses(self, sequences: Sequence[int]) -> None:
        """Count lost messages that are to be erased as deleted: an entry that is applied again had
        erased them by half."""
        lost = [sequence for sequence in sorted(set(sequences)) if sequence in self.lost]
        if lost and self.durability.has_entries:
            self.journal.write([(ERASED_BY_HALF, encode_ranges(as_ranges(lost)))])
            for sequence in lost:
                self.lost.remove(sequence, sequence)

    def deleting(
        self, sequences: list[int], entries: Sequence[tuple[int, bytes]] = ()
    ) -> Work[None]:
        """Remove messages, some at a time: one entry in the journal speaks of all of them."""
        self.availability.check_online()
        if self.availability.room.is_full:
            # Writes to files other than the journal may need room as well.
            self.availability.room.release_reserve()
        if not self.journal.is_queueing:
            self.segments.flush()
        parts: list[list[int]] = []
        ranges: list[bytes] = []
        for begin in range(0, len(sequences), PURGED_AT_A_TIME):
            there = self.index.present(sequences[begin : begin + PURGED_AT_A_TIME])
            if there:
                parts.append(there)
                ranges.append(encode_ranges(as_ranges(there)))
            yield PURGED_AT_A_TIME
        if not parts:
            self.write_entries(entries)
            return
        # Until all are taken out, a checkpoint would say that some of them are there.
        self.is_deleting = True
        try:
            self.journal.write_with_callers([(DELETED, b"".join(ranges))], entries, makes_room=True)
            for there in parts:
                self.index.delete_many(there)
                yield DELETION_COST * len(there)
            if not self.compactions.is_running:
                # Otherwise the compaction's thread may look at the names.
                yield from self.index.forgetting_subjects()
            self.emptied.are_possible = True
            if not self._removes_later:
                yield from self.emptied.removing()
        except OSError as error:
            raise self.availability.failed("delete", error) from error
        finally:
            self.is_deleting = False

    def close(self) -> None:
        """Make everything durable and release the files."""
        try:
            if not (self.availability.offline or self.is_deleting or self._written):
                self.checkpoints.write_now()
        finally:
            self.release()

    def abandon(self) -> list[Container]:
        """Forget all messages; the files stay until their folder is removed."""
        names = self.index.subjects.names
        containers = super().abandon()
        if not self.compactions.is_running:
            return containers
        # The compaction's thread may look at the names.
        return [each for each in containers if each is not names]

    def release(self) -> None:
        """Release the files as they are."""
        self.segments.close()
        self.journal.close()
        self.checkpoints.close()
        self.availability.offline = CLOSED

    def note_lost(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Note ranges of sequences whose messages cannot be read anywhere, also in the journal."""
        self.availability.check_online()
        if ranges:
            self.journal.write([(LOST, encode_ranges(ranges))])
        super().note_lost(ranges)

    @property
    def reserved_sequence(self) -> int:
        """The last sequence that may have been given out, whatever a crash has cost."""
        return self._stream_file.reserved

    def continue_above_reservation(self) -> None:
        """Give out no sequence that may have been given out before: a crash may have cost some."""
        self.lose_sequences(self._stream_file.reserved)

    def continue_above(self, given_out: int) -> None:
        """Give out no sequence up to one that is known to have been given out, if the log has lost
        its end. A copy gets its sequences from its origin again."""
        first = self.last_sequence + 1
        if given_out >= first and not (self.is_copy or self.offline):
            self.lose_sequences(max(given_out, self.reserved_sequence))
            self.findings.add("lost", f"sequences {first} to {given_out} were given out")

    def lose_sequences(self, last_sequence: int) -> None:
        """Go on behind `last_sequence`: messages up to it are lost, if there were any."""
        self.availability.check_online()
        first = self.last_sequence + 1
        if last_sequence < first:
            return
        try:
            self._stream_file.reserve(last_sequence)
            self.journal.must_write((LOST, encode_ranges([(first, last_sequence)])))
            self.journal.sync()
            self.end.jump(last_sequence + 1)
        except OSError as error:
            raise self.availability.broken("going on after a crash", error) from error
        self.lost.add(first, last_sequence)
        self.newly_lost.append((first, last_sequence))

    def drop_empty_segments(self) -> None:
        """Remove files of segments in which no message is left, some of them, between two changes.

        A log that has entries in the write-ahead file does not remove them while it applies one:
        after a crash the entry would not find them. Raises StoreError.
        """
        if not self.emptied.are_possible or self.offline or self.is_held or self.is_deleting:
            return
        if not self.durability.has_entries or self.durability.redo.may_begin_upkeep():
            self.emptied.remove_some()

    # --- reading -------------------------------------------------------------------------------

    def get(self, sequence: int) -> StoredMessage | None:
        """A message, or None."""
        if self.segments.waiting_bytes:
            self.segments.flush_to_read()
        index = self.index.segment_of(sequence)
        if not index.has(sequence):
            return None
        position = sequence - index.first_sequence
        offset = index.offsets[position]
        segment = self.segments.by_first[index.first_sequence]
        try:
            data = segment.file.read(offset, START_BYTES)
            found = decode_records(data, (0,), (sequence,), 0, segment.seed)
            if found[0]:
                (timestamp_ns,), (header,), (payload,) = found
                subject = self.index.subjects.names[index.subject_ids[position]]
                return StoredMessage(sequence, subject, header, payload, timestamp_ns)
            # A long record, or an unsound one.
            record = segment.read_record(offset)
        except OSError as error:
            raise StoreError(f"{self._folder.path}: message {sequence}: {error}") from error
        if record is None or record.sequence != sequence:
            self.losses.lose_message(sequence)
            return None
        if record.kind == ERASED:
            self.losses.remove_erased(sequence)
            return None
        return _message(record)

    def read(self, sequence: int, count_max: int, bytes_max: int) -> MessageBatch:
        """Messages from `sequence` on, read a stretch of file at a time."""
        if self.segments.waiting_bytes:
            self.segments.flush_to_read()
        batch = MessageBatch()
        names = self.index.subjects.names
        sequence = self.index.next_message(sequence)
        while sequence and len(batch.sequences) < count_max:
            index = self.index.segment_of(sequence)
            position = sequence - index.first_sequence
            begin = index.offsets[position]
            segment = self.segments.by_first[index.first_sequence]
            # The offset of the first message that is too much; unknown if it was deleted. A read
            # beyond the end would ask the system for the size of the file.
            behind = position + count_max - len(batch.sequences)
            end = index.offsets[behind] if behind < len(index.offsets) else segment.size
            size = end - begin
            try:
                data = segment.read_span(begin, size if size > 0 else READ_BYTES)
            except OSError as error:
                raise StoreError(f"{self._folder.path}: message {sequence}: {error}") from error
            before = len(batch.sequences)
            bytes_max = append_messages(
                batch, index, names, segment.seed, sequence, begin, data, count_max, bytes_max
            )
            if bytes_max < 0:
                break
            if len(batch.sequences) == before:
                if before and self.is_replica:
                    break
                # `get` finds out what is wrong with the message.
                self.get(sequence)
            else:
                sequence = batch.sequences[-1]
                if len(batch.sequences) == count_max:
                    break
            sequence = self.index.next_message(sequence + 1)
        return batch

    def read_at(self, sequences: Sequence[int], bytes_max: int) -> MessageBatch:
        """The messages of some sequences, those near each other read at once."""
        self.segments.flush_to_read()
        batch = MessageBatch()
        for index, wanted in self.index.by_segment(sequences):
            if bytes_max >= 0:
                bytes_max = self._read_in(index, wanted, batch, bytes_max)
        return batch

    def _read_in(
        self, index: SegmentIndex, sequences: Sequence[int], batch: MessageBatch, bytes_max: int
    ) -> int:
        """Add messages of one segment to a batch; returns what is left of `bytes_max`."""
        segment = self.segments.by_first[index.first_sequence]
        names = self.index.subjects.names
        wanted = Wanted(index, sequences)
        at = 0
        while at < len(wanted.sequences) and bytes_max >= 0:
            begin = wanted.offsets[at]
            stop, size = wanted.near(at, bytes_max)
            try:
                data = segment.read_span(begin, size)
            except OSError as error:
                raise StoreError(
                    f"{self._folder.path}: message {wanted.sequences[at]}: {error}"
                ) from error
            near = slice(at, stop)
            before = len(batch)
            bytes_max = append_messages_at(
                batch,
                names,
                segment.seed,
                wanted.sequences[near],
                wanted.ids[near],
                wanted.offsets[near],
                begin,
                data,
                bytes_max,
            )
            taken = len(batch) - before
            if taken == 0 and bytes_max >= 0:
                if len(batch) and self.is_replica:
                    return -1
                # `get` finds out what is wrong with the message.
                self.get(wanted.sequences[at])
            at += max(taken, 1)
        return bytes_max


def _message(record: Record) -> StoredMessage:
    return StoredMessage(
        record.sequence, record.subject, record.header, record.payload, record.timestamp_ns
    )
