"""A log in memory: the same answers as a log on disk, until the process ends."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, compress
from operator import add, sub
from typing import Final, final

from headwater.base.columns import Numbers
from headwater.base.emptying import Container
from headwater.base.invariants import check
from headwater.base.sliced import Work
from headwater.store.index.log_index import LogIndex
from headwater.store.log.batch_records import ReceivedBatch
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
from headwater.store.upkeep.log_sync import LogSync

# A segment's lists are freed when all its messages are gone.
SEGMENT_MESSAGES_MAX: Final = 32_768
# Messages that are looked at together; more may well be more than fit.
READ_AT_A_TIME: Final = 512

# The bytes that nats-server counts for a message in memory besides its own.
MESSAGE_OVERHEAD_BYTES: Final = 16


@final
class MemoryLog(MessageLog):
    """Messages as plain bytes objects in two lists per segment."""

    def __init__(
        self, first_sequence: int = 1, segment_messages_max: int = SEGMENT_MESSAGES_MAX
    ) -> None:
        super().__init__(LogIndex(first_sequence), record_seed=0)
        self._segment_messages_max = segment_messages_max
        # Headers and payloads by the first sequence of their segment.
        self._headers: dict[int, list[bytes]] = {first_sequence: []}
        self._payloads: dict[int, list[bytes]] = {first_sequence: []}
        self.body = b""
        self._offline = ""

    @property
    def offline(self) -> str:
        """The reason why the log cannot be written to: it was closed; else empty."""
        return self._offline

    def set_body(self, body: bytes) -> None:
        """Replace the bytes that the caller keeps."""
        self.body = body

    def sync(self) -> None:
        """Wait for nothing: there is no disk."""

    def begin_sync(self) -> None:
        """No work: there is no disk."""

    def finish_sync(self, done: LogSync) -> None:
        """Nothing to count: there is no disk."""

    def append(self, batch: Batch) -> int:
        """Store messages."""
        if isinstance(batch, ReceivedBatch):
            return self._append(batch, batch.heads.sizes(MESSAGE_OVERHEAD_BYTES, 0))
        sizes = [
            len(subject) + len(header) + len(payload) + MESSAGE_OVERHEAD_BYTES
            for subject, header, payload in zip(
                batch.subjects, batch.headers, batch.payloads, strict=True
            )
        ]
        return self._append(batch, sizes)

    def _append(self, batch: Batch, sizes: Numbers) -> int:
        index = self.index
        segment = index.segments[-1]
        if len(segment.offsets) >= self._segment_messages_max:
            self._roll_if_full()
            segment = index.segments[-1]
        first = segment.first_sequence + len(segment.offsets)
        # Offsets only have to be other than zero here.
        ones = [1] * len(sizes)
        index.append(len(segment.offsets) + 1, ones, batch.subjects, batch.timestamps_ns, sizes)
        self._headers[segment.first_sequence] += batch.headers
        self._payloads[segment.first_sequence] += batch.payloads
        if index.tally is not None:
            index.tally.store_contents((batch.headers, batch.payloads))
        if batch.expiries_ns:
            self.note_expiries(first, batch.expiries_ns)
        return first

    def append_encoded(self, batch: Batch, encoded: EncodedMessages) -> None:
        """Store messages whose records were encoded for this log and the next sequence."""
        check(
            encoded.first_sequence == self.index.next_sequence and encoded.seed == self.record_seed,
            "a batch was encoded for this log and the next sequence",
        )
        self.append(batch)

    def write_together(self, parts: Iterable[Upcoming]) -> None:
        """Write nothing: there is no disk."""

    def skip(
        self, count: int, timestamp_ns: int, header: bytes = b"", with_queue: bool = False
    ) -> None:
        """Give out sequences without messages."""
        if count > self._segment_messages_max:
            self._jump(self.last_sequence + 1 + count)
            return
        self._roll_if_full()
        first = self.index.segments[-1].first_sequence
        self.index.skip(count, timestamp_ns)
        self._headers[first] += [b""] * count
        self._payloads[first] += [b""] * count

    def _jump(self, next_sequence: int) -> None:
        """Go on at a later sequence, in a segment that begins there."""
        before = self.index.segments[-1]
        self.index.cut(next_sequence)
        self._headers[next_sequence] = []
        self._payloads[next_sequence] = []
        if before.live == 0:
            self._remove_segment(before.first_sequence)
            self.index.remove_segment(before)

    def get(self, sequence: int) -> StoredMessage | None:
        """A message, or None."""
        segment = self.index.segment_of(sequence)
        if not segment.has(sequence):
            return None
        position = sequence - segment.first_sequence
        return StoredMessage(
            sequence,
            self.index.subjects.names[segment.subject_ids[position]],
            self._headers[segment.first_sequence][position],
            self._payloads[segment.first_sequence][position],
            segment.timestamps_ns[position],
        )

    def read(self, sequence: int, count_max: int, bytes_max: int) -> MessageBatch:
        """Messages from `sequence` on."""
        batch = MessageBatch()
        while len(batch) < count_max and bytes_max >= 0:
            wanted = min(count_max - len(batch), READ_AT_A_TIME)
            found = self.index.messages_from(sequence, self.index.next_sequence, wanted)
            if not found:
                break
            bytes_max = self._add_messages(found, batch, bytes_max)
            sequence = found[-1] + 1
        return batch

    def read_at(self, sequences: Sequence[int], bytes_max: int) -> MessageBatch:
        """The messages of some sequences."""
        batch = MessageBatch()
        self._add_messages(sequences, batch, bytes_max)
        return batch

    def _add_messages(self, sequences: Sequence[int], batch: MessageBatch, bytes_max: int) -> int:
        """Add messages to a batch; returns what is left of `bytes_max`."""
        names = self.index.subjects.names
        for segment, wanted in self.index.by_segment(sequences):
            if bytes_max < 0:
                break
            first = segment.first_sequence
            positions = [sequence - first for sequence in wanted]
            if not segment.is_dense:
                is_there = map(segment.offsets.__getitem__, positions)
                positions = [*compress(positions, is_there)]
            headers = [*map(self._headers[first].__getitem__, positions)]
            payloads = [*map(self._payloads[first].__getitem__, positions)]
            sizes = map(add, map(len, headers), map(len, payloads))
            left = [*accumulate(sizes, sub, initial=bytes_max)]
            # As many as fit, but at least one.
            count = sum(map((0).__le__, left)) - 1 or int(not batch)
            del positions[count:]
            batch.sequences += map(first.__add__, positions)
            batch.subjects += [names[segment.subject_ids[position]] for position in positions]
            batch.headers += headers[:count]
            batch.payloads += payloads[:count]
            batch.timestamps_ns += map(segment.timestamps_ns.__getitem__, positions)
            bytes_max = left[-1]
        return bytes_max

    def write_entries(self, entries: Sequence[tuple[int, bytes]]) -> None:
        """Keep nothing: no later process reads it."""

    def queue_journal(self) -> None:
        """Queue nothing: there is no journal."""

    def write_journal(self) -> None:
        """Write nothing: there is no journal."""

    def delete(
        self,
        sequences: Sequence[int],
        erase: bool = False,
        entries: Sequence[tuple[int, bytes]] = (),
    ) -> int:
        """Remove messages; memory is given back, so erasing is the same."""
        there = self.index.present(sorted(set(sequences)))
        touched = {}
        for sequence in there:
            segment = self.index.segment_of(sequence)
            first = segment.first_sequence
            touched[first] = segment
            self._headers[first][sequence - first] = b""
            self._payloads[first][sequence - first] = b""
        self.index.delete_many(there)
        for first, segment in touched.items():
            if segment.live == 0 and segment is not self.index.segments[-1]:
                self._remove_segment(first)
                self.index.remove_segment(segment)
        return len(there)

    def deleting(
        self, sequences: list[int], entries: Sequence[tuple[int, bytes]] = ()
    ) -> Work[None]:
        """Remove messages, some at a time."""
        for begin in range(0, len(sequences), PURGED_AT_A_TIME):
            self.delete(sequences[begin : begin + PURGED_AT_A_TIME])
            yield DELETION_COST * PURGED_AT_A_TIME
        yield from self.index.forgetting_subjects()

    def abandon(self) -> list[Container]:
        """Forget all messages, with headers and payloads."""
        contents = [*self._headers.values(), *self._payloads.values()]
        self._headers.clear()
        self._payloads.clear()
        containers = super().abandon()
        self._headers[self.index.next_sequence] = []
        self._payloads[self.index.next_sequence] = []
        return [*containers, *contents]

    def close(self) -> None:
        """Release all messages."""
        self._offline = "closed"
        self._headers.clear()
        self._payloads.clear()

    def _roll_if_full(self) -> None:
        if len(self.index.segments[-1].offsets) >= self._segment_messages_max:
            full = self.index.segments[-1]
            self.index.renumber_if_worthwhile()
            first = self.index.begin_segment().first_sequence
            self._headers[first] = []
            self._payloads[first] = []
            if full.live == 0:
                # All its messages went while it was the last segment, as in a work queue.
                self._remove_segment(full.first_sequence)
                self.index.remove_segment(full)

    def _remove_segment(self, first_sequence: int) -> None:
        del self._headers[first_sequence]
        del self._payloads[first_sequence]
