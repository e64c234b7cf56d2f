"""A snapshot as its leader reads it: the state of a stream in chunks, while the stream goes on.

The snapshot is that of its END: the moment between two entries of the group's log at which the last
messages and everything else are taken in one step. Until then blocks are read from a stream that
changes, and each has what a later one does not repeat:

* messages are read once, in the order of their sequences. A message that is removed before it is
  read is not sent. For each segment of which a message was removed after it had been sent, a block
  says which of its messages are left;
* message ids are read in the order in which they came, as the window keeps them. The end says which
  was the oldest that counted; those before it have passed their window.

The step of the end is short, because only the last few messages, removals and ids are left for it;
the chunks that it makes are kept until they are sent. A follower has the state of the entry at
`SnapshotEnd.place` then and applies the entries behind it. A stream that stores messages for longer
than it takes to send them has no end in sight, and neither had a follower of it.

A follower that has messages of this incarnation, as from a snapshot that broke off or because it
is merely behind, asks for those behind its last sequence only; the first blocks then say which of
its messages are left.

No other caller may be in the midst of a change of the stream while a chunk is read.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, final

from headwater.jetstream.snapshots import blocks
from headwater.jetstream.snapshots.blocks import Place, Range, SnapshotEnd, SnapshotHeader
from headwater.jetstream.snapshots.chunks import (
    CHUNK_HEADER_BYTES,
    Block,
    ChunkWriter,
    SnapshotError,
)
from headwater.jetstream.streams.stream import Stream
from headwater.store.disk.journal import as_ranges
from headwater.store.errors import DamagedMessageError
from headwater.store.index.segment_index import SegmentIndex
from headwater.store.log.file_log import FileLog
from headwater.store.log.record_runs import RecordRun, read_runs

# A chunk of messages is read in one step, which takes two or three milliseconds.
CHUNK_BYTES_MAX: Final = 256 * 1024
# A block of messages is not filled further when only so little is left of its chunk.
_ROOM_MIN: Final = 16 * 1024
# The number of ids, expiries or schedules in a block.
_ENTRIES_MAX: Final = 8192
# The end may take so many messages, and bytes of them, in one step.
END_MESSAGES_MAX: Final = 4096
END_BYTES_MAX: Final = 4 * 1024 * 1024

# In place of a block that is not known yet.
_NOTHING: Final = Block(0, b"")


@final
class _Sent:
    """The messages of one segment that were sent: the last sequence, and how many are left."""

    __slots__ = ("last", "live")

    def __init__(self, last: int, live: int = 0) -> None:
        self.last = last
        self.live = live


@final
class SnapshotReader:
    """Reads the snapshot of one stream for one follower."""

    __slots__ = (
        "_blocks",
        "_chunk_bytes_max",
        "_chunks",
        "_cutter",
        "_ids_position",
        "_incarnation",
        "_is_waiting",
        "_log",
        "_next",
        "_place",
        "_sent",
        "_stream",
        "end",
    )

    def __init__(
        self,
        stream: Stream,
        incarnation: bytes,
        from_sequence: int = 0,
        chunk_bytes_max: int = CHUNK_BYTES_MAX,
    ) -> None:
        """`from_sequence` is the first sequence that the follower lacks; 0 if it lacks all.

        Raises SnapshotError if the stream does not have the sequence before it.
        """
        self._stream = stream
        self._log = stream.log
        if from_sequence > self._log.last_sequence + 1:
            raise SnapshotError(
                f"a follower asks for messages from {from_sequence} on, "
                f"and the last sequence of {stream.name} is {self._log.last_sequence}"
            )
        self._incarnation = incarnation
        self._chunk_bytes_max = chunk_bytes_max
        self._cutter = ChunkWriter(chunk_bytes_max)
        self._chunks: deque[bytes] = deque()
        # The first sequence that was not looked at, and what was sent of each segment, by its
        # first sequence.
        self._next = from_sequence
        self._sent: dict[int, _Sent] = {}
        # Whether the next message cannot be read before it is repaired.
        self._is_waiting = False
        self._ids_position = 0
        self._place = Place(0, 0)
        # The place of the snapshot in the group's log, once it is read.
        self.end: Place | None = None
        self._blocks = self._all_blocks()

    def next_chunk(self, index: int, term: int) -> bytes | None:
        """The next chunk; None behind the last one, and an empty one while the next message has to
        come from another server.

        `index` and `term` are those of the last entry that the stream has applied. Raises
        StoreError for a message that cannot be read.
        """
        if not self._chunks:
            self._place = Place(index, term)
            block = next(self._blocks, None)
            if block is None:
                return None
            if block is _NOTHING:
                return b""
            self._chunks.extend(self._cutter.cut(block))
        return self._chunks.popleft()

    def _all_blocks(self) -> Iterator[Block]:
        is_new = self._next == 0
        first_sequence = self._first_sequence()
        if is_new:
            self._next = first_sequence
        yield blocks.encode_header(self._header(first_sequence))
        if not is_new:
            yield from self._earlier_messages()
        last: list[Block] = []
        while not last:
            yield from self._messages()
            yield from self._removals()
            yield from self._ids()
            if self._is_waiting:
                yield _NOTHING
            elif self._is_near_end():
                # In one step, of which the chunks are sent one after the other.
                messages = [*self._messages()]
                if self._is_waiting:
                    yield from messages
                else:
                    last = [*messages, *self._removals(), *self._ids(), *self._state()]
        self.end = self._place
        yield from last

    def _first_sequence(self) -> int:
        """The sequence at which a new log begins."""
        index = self._log.index
        if index.messages or not index.last_timestamp_ns:
            return index.first_sequence
        # The last sequence has no message but a time, which messages to come must not precede.
        return index.last_sequence

    def _header(self, first_sequence: int) -> SnapshotHeader:
        stream = self._stream
        return SnapshotHeader(
            self._incarnation,
            self._place,
            first_sequence,
            self._next,
            self._log.record_seed,
            stream.created_ns,
            stream.config,
        )

    # --- messages ------------------------------------------------------------------------------

    def _messages(self) -> Iterator[Block]:
        """All messages that were not sent, up to the last one when this ends, or up to one that
        has to come from another server first."""
        while runs := self._read_some():
            yield blocks.encode_messages(runs)

    def _read_some(self) -> list[RecordRun]:
        found: list[RecordRun] = []
        room = self._chunk_bytes_max - CHUNK_HEADER_BYTES - blocks.RUN_BYTES
        while not found or room > _ROOM_MIN:
            try:
                runs = read_runs(self._log, self._next, max(room, 0))
            except DamagedMessageError:
                # The damage of the leader must not become the follower's.
                self._is_waiting = not found
                return found
            self._is_waiting = False
            if not runs:
                break
            found += runs
            room -= sum(len(run.data) + blocks.RUN_BYTES for run in runs)
            self._note_sent(runs)
        if not found:
            self._next = self._log.index.next_sequence
        return found

    def _note_sent(self, runs: list[RecordRun]) -> None:
        """Count messages that were read, all of one segment."""
        first = self._log.index.segment_of(runs[0].first_sequence).first_sequence
        sent = self._sent.setdefault(first, _Sent(0))
        sent.last = runs[-1].last_sequence
        sent.live += sum(run.message_count for run in runs)
        self._next = sent.last + 1

    def _is_near_end(self) -> bool:
        index, begin = self._log.index, self._next
        if index.next_sequence - begin > END_MESSAGES_MAX:
            return False
        tail = index.segments_between(begin, index.next_sequence)
        sizes = (sum(each.sizes[max(begin - each.first_sequence, 0) :]) for each in tail)
        return sum(sizes) <= END_BYTES_MAX

    # --- removals ------------------------------------------------------------------------------

    def _removals(self) -> Iterator[Block]:
        """The messages that are left of the segments of which some were removed since."""
        for first, sent in [*self._sent.items()]:
            segment = self._segment(first)
            end = sent.last + 1 - first
            live = 0 if segment is None else segment.count_live(0, end)
            if live != sent.live:
                yield self._present(first, sent)

    def _present(self, first: int, sent: _Sent) -> Block:
        """The messages that are left of those of one segment."""
        segment = self._segment(first)
        ranges: list[Range] = []
        if segment is not None:
            end = sent.last + 1 - first
            live = [first + position for position in segment.live_positions(0, end)]
            sent.live = len(live)
            ranges = as_ranges(live) if live else []
        if not ranges:
            del self._sent[first]
        return blocks.encode_present(first, sent.last, ranges)

    def _segment(self, first: int) -> SegmentIndex | None:
        """The segment that begins at a sequence, if it was not removed."""
        segment = self._log.index.segment_of(first)
        return segment if segment.first_sequence == first else None

    def _earlier_messages(self) -> Iterator[Block]:
        """The messages that are left of those which the follower has already."""
        behind = 1
        for segment in self._log.index.segments_between(1, self._next):
            first = segment.first_sequence
            if first > behind:
                yield blocks.encode_present(behind, first - 1, [])
            last = min(segment.next_sequence, self._next) - 1
            behind = max(behind, first, last + 1)
            if last >= first:
                self._sent[first] = _Sent(last)
                yield self._present(first, self._sent[first])
        if behind < self._next:
            yield blocks.encode_present(behind, self._next - 1, [])

    # --- everything else -----------------------------------------------------------------------

    def _ids(self) -> Iterator[Block]:
        """The message ids that were not sent."""
        dedupe = self._stream.dedupe
        while True:
            self._ids_position, found = dedupe.entries_from(self._ids_position, _ENTRIES_MAX)
            if not found:
                return
            yield blocks.encode_ids(found)

    def _state(self) -> Iterator[Block]:
        stream, log = self._stream, self._log
        if not isinstance(log, FileLog):
            # The records of a log on disk have them.
            expiries = log.expiries.pending()
            for begin in range(0, len(expiries), _ENTRIES_MAX):
                yield blocks.encode_expiries(expiries[begin : begin + _ENTRIES_MAX])
        schedules = stream.scheduling.entries()
        for begin in range(0, len(schedules), _ENTRIES_MAX):
            yield blocks.encode_schedules(schedules[begin : begin + _ENTRIES_MAX])
        if log.lost:
            yield blocks.encode_lost([*log.lost])
        kept_until, images = stream.consumers.encode_images()
        for image in images:
            yield Block(blocks.CONSUMER, image)
        for _, position in stream.positions.entries():
            yield Block(blocks.POSITION, position)
        _, last_ns = log.index.end()
        yield blocks.encode_end(
            SnapshotEnd(
                self._place,
                stream.config,
                log.last_sequence,
                last_ns,
                stream.dedupe.last_id,
                stream.dedupe.first_sequence,
                stream.tells_first_sequence,
                kept_until,
                log.messages,
                log.byte_count,
            )
        )
