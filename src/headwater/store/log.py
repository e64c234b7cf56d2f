"""A log on disk: segments of messages, and a journal of everything else.

A batch is one write. What was written is told by `written_sequence`, what the disk has for sure by
`synced_sequence`; who may see a message when is decided above, by those two.

Order on disk, which recovery relies on:

* sequences are reserved in the synced stream file before they are given out;
* a deletion is in the synced journal before a segment file goes because of it;
* a new segment is only begun when the one before it has its footer.

A write that fails leaves index and counters as they were and takes the log offline: it can be read,
and a restart begins with what is on the disk.

All of this runs on one thread. Only what waits for the disk may run on others, on what was prepared
here before and is taken up here afterwards: `LogSync.run` and `Compaction.run`.
"""

from collections.abc import Sequence
from typing import Final, final

from headwater.base.entropy import Entropy
from headwater.base.invariants import check
from headwater.store.batch_records import encode_batch, records_size
from headwater.store.checkpoint import (
    CHECKPOINT_FILE,
    Covered,
    encode_segment,
    encode_subjects,
    write_checkpoint,
)
from headwater.store.compaction import LIVE_PART_MAX, Compaction
from headwater.store.filesystem import FileSystem, replace_file
from headwater.store.format import (
    ERASED,
    HEADER_BYTES,
    IDENTITY_BYTES,
    RECORD_BYTES,
    SKIP_BYTES,
    Entry,
    Record,
    StreamFile,
    encode_skip,
    take_record,
)
from headwater.store.index import LogIndex, SegmentIndex
from headwater.store.journal import (
    CALLER_KINDS,
    DELETED,
    LOST,
    TRUNCATED,
    TRUNCATING,
    Journal,
    as_ranges,
    encode_ranges,
)
from headwater.store.log_sync import LogSync
from headwater.store.message_log import (
    Batch,
    MessageBatch,
    MessageLog,
    OfflineError,
    StoredMessage,
    StoreError,
)
from headwater.store.ranges import RangeSet
from headwater.store.recovery import Findings
from headwater.store.segment import SegmentFile
from headwater.store.wal import JOURNAL, SEGMENT, SYNCED, WriteAhead

STREAM_FILE: Final = "stream.hw"
JOURNAL_FILE: Final = "journal.hw"
JOURNAL_NEW_FILE: Final = "journal-new.hw"

SEGMENT_BYTES_MAX: Final = 64 * 1024 * 1024
# Reserving costs two syncs, so it is done for many sequences at a time.
RESERVED_AT_A_TIME: Final = 65_536
# A log that defers its writes keeps no more than this in memory.
WAITING_BYTES_MAX: Final = 1024 * 1024
# Sequences without messages cost memory like messages up to here; more begin a new segment.
SKIPPED_IN_PLACE_MAX: Final = 65_536
# The last segment of a log from which everything was deleted goes when it is at least this large.
EMPTIED_BYTES_MIN: Final = 1024 * 1024
# What nats-server counts for a message on disk besides its bytes, and for having headers.
MESSAGE_OVERHEAD_BYTES: Final = 30
HEADER_OVERHEAD_BYTES: Final = 4
# By how much what a message without headers counts differs from the length of its record.
_COUNTED_BESIDES_RECORD: Final = MESSAGE_OVERHEAD_BYTES - RECORD_BYTES


def message_size(subject: int, header: int, payload: int) -> int:
    """What a message on disk counts in a stream's bytes."""
    size = MESSAGE_OVERHEAD_BYTES + subject + payload
    return size + HEADER_OVERHEAD_BYTES + header if header else size


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
    ) -> None:
        """Made by `headwater.store.opening`."""
        super().__init__(index)
        self._files = files
        self._folder = folder
        self._entropy = entropy
        self._stream = stream
        self._journal = journal
        self._segments = segments
        self._segment_bytes_max = segment_bytes_max
        self._offline = ""
        # What recovery had to report, and the caller's own journal entries that it found.
        self.findings = Findings()
        self.entries: list[Entry] = []
        self.synced_sequence = index.last_sequence
        # How many times entries were journalled, and how many of those the disk has.
        self.entries_written = 0
        self._entries_synced = 0
        # How often the end was cut off: what was begun before says nothing about what came after.
        self._cuts = 0
        # The segment in which the checkpoint ends; 0 if there is no checkpoint.
        self.checkpoint_segment = 0
        self._compaction: Compaction | None = None
        # Where bytes go as well that have to be on the disk before anything is said.
        self.write_ahead: WriteAhead | None = None
        # Whether records wait in memory for `flush`, and those that do.
        self.deferred = False
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._waiting_from = 0

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

    # --- writing -------------------------------------------------------------------------------

    def append(self, batch: Batch) -> int:
        """Store messages: one buffer, one write."""
        self._check_online()
        first = self.index.next_sequence
        count = len(batch.subjects)
        try:
            self._reserve(first + count - 1)
            segment = self._active(records_size(batch))
            data, lengths = encode_batch(first, batch, segment.seed)
            offset = self._write_records(segment, data)
        except OSError as error:
            raise self._failed("append", error) from error
        sizes = _sizes(batch, lengths)
        self.index.append(offset, lengths, batch.subjects, batch.timestamps_ns, sizes)
        self.note_expiries(first, batch.expiries_ns)
        if self._waiting_bytes >= WAITING_BYTES_MAX:
            self.flush()
        return first

    def skip(self, count: int, timestamp_ns: int) -> None:
        """Give out sequences without messages."""
        self._check_online()
        first = self.index.next_sequence
        last = first + count - 1
        try:
            self._reserve(last)
            if count > SKIPPED_IN_PLACE_MAX:
                self._write_journal([(DELETED, encode_ranges([(first, last)]))])
                self._jump(last + 1)
                return
            segment = self._active(SKIP_BYTES)
            self._write_records(segment, encode_skip(first, count, timestamp_ns, segment.seed))
        except OSError as error:
            raise self._failed("skip", error) from error
        self.index.skip(count, timestamp_ns)

    def write_entries(self, entries: list[tuple[int, bytes]]) -> None:
        """Journal what the caller has to keep: kinds from CALLER_KINDS on."""
        self._check_online()
        check(all(kind >= CALLER_KINDS for kind, _ in entries), "kinds below are the store's own")
        # An entry speaks of what was before it: that must not be lost while it is not.
        self.flush()
        self._write_journal(entries)

    def delete(self, sequences: Sequence[int], erase: bool = False) -> int:
        """Remove messages."""
        self._check_online()
        self.flush()
        there = sorted({sequence for sequence in sequences if self.index.has(sequence)})
        if not there:
            return 0
        try:
            if erase:
                self._settle()
            self._write_journal([(DELETED, encode_ranges(as_ranges(there)))])
            if erase:
                # Before anything is destroyed it must be known to be deleted.
                self._journal.sync()
                self._erase(there)
                self._note_extent()
            for sequence in there:
                self.index.delete(sequence)
            self._drop_empty_segments()
        except OSError as error:
            raise self._failed("delete", error) from error
        return len(there)

    def truncate(self, last_sequence: int) -> None:
        """Forget everything after a sequence."""
        self._check_online()
        self.flush()
        if last_sequence >= self.last_sequence:
            return
        try:
            self._truncate(last_sequence)
        except OSError as error:
            raise self._failed("truncate", error) from error

    def sync(self) -> None:
        """Return when everything written so far is on the disk."""
        work = self.begin_sync()
        work.run()
        self.finish_sync(work)

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

    def checkpoint(self) -> None:
        """Write the index down, so that opening has to read only what comes after this."""
        self.sync()
        self.index.ensure_linked()
        pending = self.expiries.pending()
        parts = [encode_subjects(self.index.subjects)]
        for index in self.index.segments:
            first, end = index.first_sequence, index.next_sequence
            segment = self._segments[first]
            expiries = [pair for pair in pending if first <= pair[0] < end]
            parts.append(encode_segment(Covered(index, segment.size, segment.sealed, expiries)))
        try:
            write_checkpoint(
                self._files, self._folder, self._stream.identity, self._journal.size, parts
            )
        except OSError as error:
            raise self._failed("checkpoint", error) from error
        self.checkpoint_segment = self.index.segments[-1].first_sequence

    def _forget_checkpoint(self) -> None:
        """What is about to happen to the files would make the checkpoint wrong."""
        path = f"{self._folder}/{CHECKPOINT_FILE}"
        if self._files.exists(path):
            self._files.remove(path)
            self._files.sync_folder(self._folder)
        self.checkpoint_segment = 0

    def close(self) -> None:
        """Make everything durable and release the files."""
        try:
            if not self._offline:
                self.checkpoint()
        finally:
            self.release()

    def release(self) -> None:
        """Let the files go as they are."""
        for segment in self._segments.values():
            segment.close()
        self._journal.close()
        self._offline = "closed"

    def go_offline(self, reason: str) -> None:
        """Write no more: something this log relies on has failed."""
        self._offline = self._offline or reason

    def _write_records(self, segment: SegmentFile, data: bytes) -> int:
        """Append records to the active segment; returns where they begin."""
        if self.deferred:
            return self._defer(segment, data)
        offset = segment.write(data)
        if self.write_ahead is not None:
            identity = self._stream.identity
            self.write_ahead.add(identity, SEGMENT, segment.first_sequence, offset, data)
        return offset

    def _defer(self, segment: SegmentFile, data: bytes) -> int:
        """Keep records for the next `flush`; returns where they will begin."""
        if not self._waiting:
            self._waiting_from = self.index.next_sequence
        offset = segment.size + self._waiting_bytes
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        return offset

    @property
    def waiting_bytes(self) -> int:
        """How much is only in memory."""
        return self._waiting_bytes

    def flush(self) -> None:
        """Hand what waits to the operating system, in one write.

        What can not be written is gone, as it is when the process dies: nothing of it stays in the
        index, and the log goes offline.
        """
        if not self._waiting:
            return
        data = b"".join(self._waiting)
        first = self._waiting_from
        self._waiting.clear()
        self._waiting_bytes = 0
        try:
            self._segments[self.index.segments[-1].first_sequence].write(data)
        except OSError as error:
            while sequence := self.index.next_message(first):
                self.index.delete(sequence)
            self.index.cut(first)
            self.expiries.cut(first - 1)
            raise self._failed("flush", error) from error

    def continue_above_reservation(self) -> None:
        """Give out no sequence that may have been given out before: a crash may have cost some."""
        self._check_online()
        first, reserved = self.last_sequence + 1, self._stream.reserved
        if reserved < first:
            return
        try:
            self._write_journal([(LOST, encode_ranges([(first, reserved)]))])
            self._journal.sync()
            self._jump(reserved + 1)
        except OSError as error:
            raise self._failed("going on after a crash", error) from error
        self.lost.add(first, reserved)

    def _jump(self, next_sequence: int) -> None:
        """Go on at a later sequence, in a segment that begins there."""
        self.flush()
        self._seal(self.index.segments[-1])
        self.index.cut(next_sequence)
        self._begin_segment()

    def _active(self, size: int) -> SegmentFile:
        """The segment to write `size` more bytes to; the one before it is sealed if it is full."""
        index = self.index.segments[-1]
        segment = self._segments[index.first_sequence]
        # With what waits, so that a flush never has to begin a segment.
        size += segment.size + self._waiting_bytes
        full = size > self._segment_bytes_max and segment.size > HEADER_BYTES
        if not full and not segment.sealed:
            return segment
        self.flush()
        self._seal(index)
        return self._begin_segment()

    def _begin_segment(self) -> SegmentFile:
        created = SegmentFile.create(
            self._files,
            self._folder,
            self._stream.identity,
            self.index.next_sequence,
            self._entropy.random_bytes(IDENTITY_BYTES),
        )
        # Its header must be there whatever happens: it says what the sequences are.
        created.sync()
        self._files.sync_folder(self._folder)
        self.index.renumber_if_worthwhile()
        if self.index.segments[-1].first_sequence != created.first_sequence:
            self.index.begin_segment()
        self._segments[created.first_sequence] = created
        return created

    def _reserve(self, sequence: int) -> None:
        """See to it that `sequence` may be given out."""
        if sequence > self._stream.reserved:
            self._stream.reserved = sequence + RESERVED_AT_A_TIME
            self._replace_stream_file()

    def _replace_stream_file(self) -> None:
        replace_file(self._files, f"{self._folder}/{STREAM_FILE}", self._stream.encode())

    def _erase(self, sequences: list[int]) -> None:
        for sequence in sequences:
            index = self.index.segment_of(sequence)
            segment = self._segments[index.first_sequence]
            offset = index.offsets[sequence - index.first_sequence]
            record = segment.read_record(offset)
            if record is not None:
                segment.overwrite_payload(offset, record)

    def _drop_empty_segments(self) -> None:
        empty = [index for index in self.index.segments[:-1] if index.live == 0]
        last = self.index.segments[-1]
        size = self._segments[last.first_sequence].size
        if not self.index.messages and size >= EMPTIED_BYTES_MIN:
            # Nothing is left at all: begin anew behind it, so that its file can go too.
            self._seal(last)
            self._begin_segment()
            empty.append(last)
        if not empty:
            return
        if self.checkpoint_segment in [index.first_sequence for index in empty]:
            # It ends nowhere then.
            self._forget_checkpoint()
        # Also of sequences that never had a message nobody may think that they are missing.
        ranges = [(index.first_sequence, index.next_sequence - 1) for index in empty]
        self._write_journal(
            [(DELETED, encode_ranges(pair for pair in ranges if pair[0] <= pair[1]))]
        )
        self._journal.sync()
        for index in empty:
            self.index.remove_segment(index)
            segment = self._segments.pop(index.first_sequence)
            segment.close()
            self._files.remove(segment.path)
        self._files.sync_folder(self._folder)

    def _seal(self, index: SegmentIndex) -> None:
        segment = self._segments[index.first_sequence]
        if segment.sealed:
            return
        # A footer is only believed because what it speaks of is on the disk.
        segment.sync()
        first, end = index.first_sequence, index.next_sequence
        expiries = [pair for pair in self.expiries.pending() if first <= pair[0] < end]
        segment.seal(end - 1, index.encode(self.index.subjects.names, expiries))

    def finish_truncation(self, first: int, last: int) -> None:
        """Make the cut of `first` to `last` that a crash interrupted, as far as it is not made."""
        self._check_online()
        try:
            self._cut_files(first - 1)
            self._write_journal([(TRUNCATED, encode_ranges([(first, last)]))])
            self._journal.sync()
        except OSError as error:
            raise self._failed("truncate", error) from error

    def _truncate(self, last_sequence: int) -> None:
        self._settle()
        self._forget_checkpoint()
        doomed = encode_ranges([(last_sequence + 1, self.last_sequence)])
        self._write_journal([(TRUNCATING, doomed)])
        self._journal.sync()
        self._cut_files(last_sequence)
        self._write_journal([(TRUNCATED, doomed)])
        self._journal.sync()
        self.synced_sequence = min(self.synced_sequence, last_sequence)
        self._note_extent()

    def _cut_files(self, last_sequence: int) -> None:
        self._cuts += 1
        self.lost.remove(last_sequence + 1, self.last_sequence)
        self.expiries.cut(last_sequence)
        while sequence := self.index.next_message(last_sequence + 1):
            self.index.delete(sequence)
        for index in self.index.cut(last_sequence + 1):
            segment = self._segments.pop(index.first_sequence)
            segment.close()
            self._files.remove(segment.path)
        first = self.index.segments[-1].first_sequence
        if first in self._segments:
            self._segments[first].cut_after(last_sequence)
        else:
            self._begin_segment()
        self._files.sync_folder(self._folder)

    # --- reading -------------------------------------------------------------------------------

    def get(self, sequence: int) -> StoredMessage | None:
        """A message, or None."""
        self.flush()
        index = self.index.segment_of(sequence)
        if not index.has(sequence):
            return None
        offset = index.offsets[sequence - index.first_sequence]
        try:
            record = self._segments[index.first_sequence].read_record(offset)
        except OSError as error:
            raise StoreError(f"{self._folder}: message {sequence}: {error}") from error
        if record is None or record.sequence != sequence:
            self._lose(sequence)
            return None
        if record.kind == ERASED:
            self._leave_erased(sequence)
            return None
        return _message(record)

    def read(self, sequence: int, count_max: int, bytes_max: int) -> MessageBatch:
        """Messages from `sequence` on, read a stretch of file at a time."""
        self.flush()
        batch = MessageBatch()
        sequence = self.index.next_message(sequence)
        while sequence and len(batch) < count_max:
            index = self.index.segment_of(sequence)
            begin = index.offsets[sequence - index.first_sequence]
            try:
                data = self._segments[index.first_sequence].read_span(begin)
            except OSError as error:
                raise StoreError(f"{self._folder}: message {sequence}: {error}") from error
            before = len(batch)
            bytes_max = self._take(batch, index, sequence, begin, data, count_max, bytes_max)
            if bytes_max < 0:
                break
            if len(batch) == before:
                # Sorts out what is wrong with it.
                self.get(sequence)
            else:
                sequence = batch.sequences[-1]
            sequence = self.index.next_message(sequence + 1)
        return batch

    def _take(
        self,
        batch: MessageBatch,
        index: SegmentIndex,
        sequence: int,
        begin: int,
        data: bytes,
        count_max: int,
        bytes_max: int,
    ) -> int:
        """Add messages that lie whole in `data`, which begins at offset `begin` of their segment.

        Returns what is left of `bytes_max`; below zero when it is used up.
        """
        names = self.index.subjects.names
        seed = self._segments[index.first_sequence].seed
        offsets, subject_ids = index.offsets, index.subject_ids
        for position in range(sequence - index.first_sequence, len(offsets)):
            offset = offsets[position]
            if not offset:
                continue
            parts = take_record(data, offset - begin, seed)
            if parts is None or parts[0] != index.first_sequence + position:
                return bytes_max
            _, timestamp_ns, header, payload = parts
            bytes_max -= len(header) + len(payload)
            if bytes_max < 0 and len(batch):
                return bytes_max
            batch.sequences.append(parts[0])
            batch.subjects.append(names[subject_ids[position]])
            batch.headers.append(header)
            batch.payloads.append(payload)
            batch.timestamps_ns.append(timestamp_ns)
            if len(batch) == count_max:
                return bytes_max
        return bytes_max

    def _lose(self, sequence: int) -> None:
        """A message that was stored can not be read: nobody shall wait for it."""
        self.findings.add("damaged", f"message {sequence} fails its checksum")
        if not self._offline:
            self._write_journal([(LOST, encode_ranges([(sequence, sequence)]))])
        self.index.delete(sequence)
        self.lost.add(sequence, sequence)

    def _leave_erased(self, sequence: int) -> None:
        """A message was erased, and nothing else says any more that it was deleted."""
        if not self._offline:
            self._write_journal([(DELETED, encode_ranges([(sequence, sequence)]))])
        self.index.delete(sequence)

    # --- compaction ----------------------------------------------------------------------------

    def compactable(self) -> list[int]:
        """Sealed segments that are mostly of no use any more, by their first sequence."""
        found = []
        for index in self.index.segments[:-1]:
            segment = self._segments[index.first_sequence]
            if segment.sealed and index.live_bytes < sum(index.sizes) * LIVE_PART_MAX:
                found.append(index.first_sequence)
        return found

    def begin_compaction(self, first_sequence: int) -> Compaction:
        """Work for `Compaction.run`, and then for `finish_compaction` or `abandon_compaction`.

        One at a time: successors of one segment have one name.
        """
        self._check_online()
        check(self._compaction is None, "the compaction before this one is not over")
        index = self.index.segment_of(first_sequence)
        segment = self._segments[index.first_sequence]
        check(segment.sealed, "only a sealed segment can be written anew")
        first, end = index.first_sequence, index.next_sequence
        expiries = [pair for pair in self.expiries.pending() if first <= pair[0] < end]
        names = list(self.index.subjects.names)
        self._compaction = Compaction(self._files, segment, index, names, expiries)
        return self._compaction

    def abandon_compaction(self, work: Compaction) -> None:
        """Give up a compaction that could not be run, or is not wanted any more."""
        check(self._compaction is work, "only the compaction that was begun can be over")
        self._compaction = None
        work.give_up()

    def finish_compaction(self, done: Compaction) -> bool:
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
            self._settle()
            self._forget_checkpoint()
            self._files.rename(done.successor_path, old.path)
            self._files.sync_folder(self._folder)
            segment = SegmentFile.open(self._files, old.path, self._stream.identity)
        except OSError as error:
            raise self._failed("compaction", error) from error
        segment.sealed = True
        old.close()
        self._segments[done.segment_first] = segment
        index.take_offsets(done.offsets)
        self._note_extent()
        return True

    def _is_current(self, done: Compaction) -> bool:
        segment = self._segments.get(done.segment_first)
        return segment is not None and done.is_of(segment)

    # --- journal -------------------------------------------------------------------------------

    def rewrite_journal(self, entries: list[tuple[int, bytes]]) -> None:
        """Begin the journal anew with what is still true: our own, and the caller's `entries`."""
        self._check_online()
        lost = RangeSet(self.lost)
        deleted = RangeSet([(1, self.first_sequence - 1)] if self.first_sequence > 1 else [])
        for first, last in self.index.gaps():
            for part in lost.outside(first, last):
                deleted.add(*part)
        ours = [(DELETED, encode_ranges(deleted)), (LOST, encode_ranges(lost))]
        path = f"{self._folder}/{JOURNAL_FILE}"
        try:
            self._settle()
            self._forget_checkpoint()
            temporary = f"{self._folder}/{JOURNAL_NEW_FILE}"
            if self._files.exists(temporary):
                self._files.remove(temporary)
            journal = Journal.create(self._files, temporary, self._stream.identity)
            journal.write(self.last_sequence, [*ours, *entries])
            journal.sync()
            self._files.rename(temporary, path)
            self._files.sync_folder(self._folder)
        except OSError as error:
            raise self._failed("rewriting the journal", error) from error
        self._journal.close()
        self._journal = journal
        self._note_extent()

    def _write_journal(self, entries: list[tuple[int, bytes]]) -> None:
        size = self._journal.size
        try:
            data = self._journal.write(self.last_sequence, entries)
        except OSError as error:
            raise self._failed("journal", error) from error
        self.entries_written += 1
        if self.write_ahead is not None:
            self.write_ahead.add(self._stream.identity, JOURNAL, 0, size, data)

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

    # --- failing -------------------------------------------------------------------------------

    def _check_online(self) -> None:
        if self._offline:
            raise OfflineError(f"{self._folder} is offline for writes: {self._offline}")

    def _failed(self, what: str, error: OSError) -> StoreError:
        self._offline = f"{what} failed: {error}"
        return OfflineError(
            f"{self._folder}: {self._offline}; reads go on, restart the server to write again"
        )


def _sizes(batch: Batch, lengths: list[int]) -> list[int]:
    """What the messages of a batch count; `lengths` are those of their records."""
    if not any(batch.headers) and not any(batch.expiries_ns):
        return [length + _COUNTED_BESIDES_RECORD for length in lengths]
    return [
        message_size(len(subject), len(header), len(payload))
        for subject, header, payload in zip(
            batch.subjects, batch.headers, batch.payloads, strict=True
        )
    ]


def _message(record: Record) -> StoredMessage:
    return StoredMessage(
        record.sequence, record.subject, record.header, record.payload, record.timestamp_ns
    )
