"""A log on disk: segments of messages, and a journal of everything else.

A batch is one write. What was written is told by `written_sequence`, what the disk has for sure by
`synced_sequence`; who may see a message when is decided above, by those two.

Order on disk, which recovery relies on:

* sequences are reserved in the synced stream file before they are given out;
* a deletion is in the synced journal before a segment file goes because of it;
* a new segment is only begun when the one before it has its footer, or when the synced journal
  says that no message is left in it.

A write that fails leaves index and counters as they were and takes the log offline: it can be read,
and a restart begins with what is on the disk. A write for which there is no room leaves the files
as they were too, and the log goes on when there is room; until then messages can be removed.

All of this runs on one thread. What is done to the files besides, partly on others, is in
`headwater.store.log.log_files`.
"""

from collections.abc import Sequence
from typing import Final, final

from headwater.base.emptying import Container
from headwater.base.sliced import Work, at_once
from headwater.store.disk.filesystem import NoRoomError
from headwater.store.disk.format import (
    ERASED,
    HEADER_BYTES,
    IDENTITY_BYTES,
    SKIP_BYTES,
    Record,
    encode_skip,
    take_records,
)
from headwater.store.disk.journal import (
    DELETED,
    LOST,
    TRUNCATED,
    TRUNCATING,
    as_ranges,
    encode_ranges,
)
from headwater.store.disk.segment import READ_BYTES, START_BYTES, SegmentFile
from headwater.store.disk.wal import SEGMENT
from headwater.store.index.log_index import SegmentIndex
from headwater.store.log.batch_records import (
    Wanted,
    encode_batch,
    message_sizes,
    records_size,
    take_at,
    take_messages,
)
from headwater.store.log.log_files import LogFiles
from headwater.store.log.message_log import (
    DELETION_COST,
    PURGED_AT_A_TIME,
    Batch,
    DiskFullError,
    MessageBatch,
    StoredMessage,
    StoreError,
)

# Reserving costs two syncs, so it is done for many sequences at a time.
RESERVED_AT_A_TIME: Final = 65_536
# A log that defers its writes keeps no more than this in memory.
WAITING_BYTES_MAX: Final = 1024 * 1024
# Sequences without messages cost memory like messages up to here; more begin a new segment.
SKIPPED_IN_PLACE_MAX: Final = 65_536
# The last segment of a log from which everything was deleted goes when it is at least this large.
EMPTIED_BYTES_MIN: Final = 1024 * 1024
# To remove the file of a segment, which may be a large one, takes so many units of work.
REMOVAL_COST: Final = 4096


@final
class FileLog(LogFiles):
    """The log of one stream in one folder."""

    # --- writing -------------------------------------------------------------------------------

    def append(self, batch: Batch) -> int:
        """Store messages: one buffer, one write."""
        self._check_online()
        self._check_room()
        first = self.index.next_sequence
        count = len(batch.subjects)
        try:
            self._reserve(first + count - 1)
            segment = self._active(records_size(batch))
            data, lengths = encode_batch(first, batch, segment.seed)
            offset = self._write_records(segment, data)
        except OSError as error:
            raise self._failed("append", error) from error
        sizes = message_sizes(batch, lengths)
        self.index.append(offset, lengths, batch.subjects, batch.timestamps_ns, sizes)
        self.note_expiries(first, batch.expiries_ns)
        if self._waiting_bytes >= WAITING_BYTES_MAX:
            self.flush()
        return first

    def skip(self, count: int, timestamp_ns: int) -> None:
        """Give out sequences without messages."""
        self._check_online()
        self._check_room()
        first = self.index.next_sequence
        last = first + count - 1
        try:
            self._reserve(last)
            if count > SKIPPED_IN_PLACE_MAX:
                self._write_journal([(DELETED, encode_ranges([(first, last)]))])
                self._jump_at_once(last + 1)
                return
            segment = self._active(SKIP_BYTES)
            self._write_records(segment, encode_skip(first, count, timestamp_ns, segment.seed))
        except OSError as error:
            raise self._failed("skip", error) from error
        self.index.skip(count, timestamp_ns)

    def write_entries(self, entries: Sequence[tuple[int, bytes]]) -> None:
        """Journal what the caller has to keep."""
        self._check_online()
        # An entry speaks of what was before it: that must not be lost while it is not.
        self.flush()
        if entries:
            self._write_caller_entries([], entries)

    def delete(
        self,
        sequences: Sequence[int],
        erase: bool = False,
        entries: Sequence[tuple[int, bytes]] = (),
    ) -> int:
        """Remove messages."""
        self._check_online()
        if self.room.is_full:
            # Writes to files other than the journal may need room as well.
            self.room.lend()
        self.flush()
        there = self.index.present(sorted(set(sequences)))
        if not there:
            self.write_entries(entries)
            return 0
        try:
            if erase:
                self._settle()
            deleted = (DELETED, encode_ranges(as_ranges(there)))
            self._write_caller_entries([deleted], entries, makes_room=True)
            if erase:
                # Before anything is destroyed it must be known to be deleted.
                self._secure_caller_entries()
                self._journal.sync()
                self._erase(there)
                self._note_extent()
            self.index.delete_many(there)
            # Of thousands of segments not all are looked at for each message.
            if any(index.live == 0 for index, _ in self.index.by_segment(there)):
                at_once(self._dropping_empty_segments())
        except OSError as error:
            raise self._failed("delete", error) from error
        return len(there)

    def deleting(
        self, sequences: list[int], entries: Sequence[tuple[int, bytes]] = ()
    ) -> Work[None]:
        """Remove messages, some at a time: one entry in the journal speaks of all of them."""
        self._check_online()
        if self.room.is_full:
            # Writes to files other than the journal may need room as well.
            self.room.lend()
        self.flush()
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
            self._write_caller_entries([(DELETED, b"".join(ranges))], entries, makes_room=True)
            for there in parts:
                self.index.delete_many(there)
                yield DELETION_COST * len(there)
            if self._compaction is None:
                # Otherwise a thread may look at the names.
                yield from self.index.forgetting_subjects()
            yield from self._dropping_empty_segments()
        except OSError as error:
            raise self._failed("delete", error) from error
        finally:
            self.is_deleting = False

    def truncate(self, last_sequence: int) -> None:
        """Forget everything after a sequence."""
        self._check_online()
        self.flush()
        if last_sequence >= self.last_sequence:
            return
        try:
            self._truncate(last_sequence)
        except OSError as error:
            raise self._broken("truncate", error) from error

    def close(self) -> None:
        """Make everything durable and release the files."""
        try:
            if not self._offline and not self.is_deleting:
                self.checkpoint()
        finally:
            self.release()

    def abandon(self) -> list[Container]:
        """Forget all messages; the files are for whoever removes their folder."""
        names = self.index.subjects.names
        containers = super().abandon()
        if self._compaction is None:
            return containers
        # A thread may look at the names.
        return [each for each in containers if each is not names]

    def release(self) -> None:
        """Let the files go as they are."""
        for segment in self._segments.values():
            segment.close()
        self._journal.close()
        if self._checkpoint_file is not None:
            self._checkpoint_file.close()
        self._offline = "closed"

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

    def continue_above_reservation(self) -> None:
        """Give out no sequence that may have been given out before: a crash may have cost some."""
        self._check_online()
        first, reserved = self.last_sequence + 1, self._stream.reserved
        if reserved < first:
            return
        try:
            self._must_write_journal((LOST, encode_ranges([(first, reserved)])))
            self._journal.sync()
            self._jump(reserved + 1)
        except OSError as error:
            raise self._broken("going on after a crash", error) from error
        self.lost.add(first, reserved)

    def _jump_at_once(self, next_sequence: int) -> None:
        """Go on at a later sequence after the journal has said so: there is no way back."""
        try:
            self._jump(next_sequence)
        except NoRoomError as error:
            raise self._broken("skip", error) from error

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
            before = self._stream.reserved
            self._stream.reserved = sequence + RESERVED_AT_A_TIME
            try:
                self._replace_stream_file()
            except NoRoomError:
                self._stream.reserved = before
                raise

    def _erase(self, sequences: list[int]) -> None:
        for sequence in sequences:
            index = self.index.segment_of(sequence)
            segment = self._segments[index.first_sequence]
            offset = index.offsets[sequence - index.first_sequence]
            record = segment.read_record(offset)
            if record is not None:
                segment.overwrite_payload(offset, record)

    def _dropping_empty_segments(self) -> Work[None]:
        """Remove the files of segments in which no message is left, some at a time.

        Segments for whose removal the disk has no room stay, and say nothing any more.
        """
        empty = [index for index in self.index.segments[:-1] if index.live == 0]
        last = self.index.segments[-1]
        size = self._segments[last.first_sequence].size
        if not self.index.messages and size >= EMPTIED_BYTES_MIN:
            # Nothing is left at all: the log begins anew behind it, so that its file can go too.
            empty.append(last)
        if not empty:
            return
        if any(self._is_end_of_checkpoint(index.first_sequence) for index in empty):
            # It ends nowhere then.
            self._forget_checkpoint()
        try:
            self._secure_caller_entries()
            # Also of sequences that never had a message nobody may think that they are missing.
            ranges = [(index.first_sequence, index.next_sequence - 1) for index in empty]
            gone = encode_ranges(pair for pair in ranges if pair[0] <= pair[1])
            self._write_journal([(DELETED, gone)], makes_room=True)
        except DiskFullError:
            return
        self._journal.sync()
        if empty[-1] is last:
            try:
                # The segment before this one needs no footer: it would be as long as its index.
                self._begin_segment()
            except NoRoomError:
                empty.pop()
        for index in empty:
            self.index.remove_segment(index)
            segment = self._segments.pop(index.first_sequence)
            segment.close()
            self._files.remove(segment.path)
            yield REMOVAL_COST
        self._files.sync_folder(self._folder)

    def _seal(self, index: SegmentIndex) -> None:
        segment = self._segments[index.first_sequence]
        if segment.sealed:
            return
        # A footer is only believed because what it speaks of is on the disk.
        segment.sync()
        self._secure_caller_entries()
        first, end = index.first_sequence, index.next_sequence
        expiries = [pair for pair in self.expiries.pending() if first <= pair[0] < end]
        segment.seal(end - 1, index.encode(self.index.subjects.names, expiries))

    def finish_truncation(self, first: int, last: int) -> None:
        """Make the cut of `first` to `last` that a crash interrupted, as far as it is not made."""
        self._check_online()
        try:
            self._cut_files(first - 1)
            self._must_write_journal((TRUNCATED, encode_ranges([(first, last)])))
            self._journal.sync()
        except OSError as error:
            raise self._broken("truncate", error) from error

    def _truncate(self, last_sequence: int) -> None:
        self._settle()
        self._forget_checkpoint()
        doomed = encode_ranges([(last_sequence + 1, self.last_sequence)])
        self._write_journal([(TRUNCATING, doomed)])
        self._journal.sync()
        self._cut_files(last_sequence)
        self._must_write_journal((TRUNCATED, doomed))
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
        if self._waiting:
            self.flush_to_read()
        index = self.index.segment_of(sequence)
        if not index.has(sequence):
            return None
        position = sequence - index.first_sequence
        offset = index.offsets[position]
        segment = self._segments[index.first_sequence]
        try:
            data = segment.file.read(offset, START_BYTES)
            found = take_records(data, (0,), (sequence,), 0, segment.seed)
            if found[0]:
                (timestamp_ns,), (header,), (payload,) = found
                subject = self.index.subjects.names[index.subject_ids[position]]
                return StoredMessage(sequence, subject, header, payload, timestamp_ns)
            # A long one, or none that is sound.
            record = segment.read_record(offset)
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
        self.flush_to_read()
        batch = MessageBatch()
        names = self.index.subjects.names
        sequence = self.index.next_message(sequence)
        while sequence and len(batch) < count_max:
            index = self.index.segment_of(sequence)
            position = sequence - index.first_sequence
            begin = index.offsets[position]
            segment = self._segments[index.first_sequence]
            # Where the first message begins that is too much; unknown if it was deleted.
            behind = position + count_max - len(batch)
            size = index.offsets[behind] - begin if behind < len(index.offsets) else READ_BYTES
            try:
                data = segment.read_span(begin, size if size > 0 else READ_BYTES)
            except OSError as error:
                raise StoreError(f"{self._folder}: message {sequence}: {error}") from error
            before = len(batch)
            bytes_max = take_messages(
                batch, index, names, segment.seed, sequence, begin, data, count_max, bytes_max
            )
            if bytes_max < 0:
                break
            if len(batch) == before:
                # Sorts out what is wrong with it.
                self.get(sequence)
            else:
                sequence = batch.sequences[-1]
            sequence = self.index.next_message(sequence + 1)
        return batch

    def read_at(self, sequences: Sequence[int], bytes_max: int) -> MessageBatch:
        """The messages of some sequences, those near each other read at once."""
        self.flush_to_read()
        batch = MessageBatch()
        for index, wanted in self.index.by_segment(sequences):
            if bytes_max >= 0:
                bytes_max = self._read_in(index, wanted, batch, bytes_max)
        return batch

    def _read_in(
        self, index: SegmentIndex, sequences: Sequence[int], batch: MessageBatch, bytes_max: int
    ) -> int:
        """Add messages of one segment to a batch; returns what is left of `bytes_max`."""
        segment = self._segments[index.first_sequence]
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
                    f"{self._folder}: message {wanted.sequences[at]}: {error}"
                ) from error
            near = slice(at, stop)
            before = len(batch)
            bytes_max = take_at(
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
                # Sorts out what is wrong with it.
                self.get(wanted.sequences[at])
            at += max(taken, 1)
        return bytes_max

    def _leave_erased(self, sequence: int) -> None:
        """A message was erased, and nothing else says any more that it was deleted."""
        self._write_if_possible(DELETED, sequence)
        self.index.delete(sequence)


def _message(record: Record) -> StoredMessage:
    return StoredMessage(
        record.sequence, record.subject, record.header, record.payload, record.timestamp_ns
    )
