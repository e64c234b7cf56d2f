"""A snapshot as its follower takes it: chunks fill a log, and the log becomes a stream.

    header = read_header(first_chunk)                 to make a log by
    writer = SnapshotWriter(first_chunk, log)        an empty log that begins at its first sequence
    while not writer.accept(chunk): ...              the others, in order
    stream = at_once(writer.finishing(host))         the stream at `writer.place`

The log must be one that no stream uses, and that a crash removes: until the end it holds a state
that no entry of the group's log has led to. After an error the writer accepts nothing more. The log
then has all blocks before the one with the fault and nothing of that one; another snapshot that
begins behind the last sequence of the log (`SnapshotHeader.from_sequence`) goes on with it in
another writer. The caller names the redo point of the files (`FileLog.applied_entry`), before which
a crash would cut all of it off, and secures it.
"""

from typing import Final, final

from headwater.base.invariants import check
from headwater.base.sliced import Work, parts_of
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.stream_records import decode_copied
from headwater.jetstream.consumers.images import ConsumerImage, decode_image
from headwater.jetstream.records import Copied
from headwater.jetstream.snapshots import blocks
from headwater.jetstream.snapshots.blocks import Expiry, Place, Range, SnapshotEnd, SnapshotHeader
from headwater.jetstream.snapshots.chunks import Block, ChunkReader, SnapshotError
from headwater.jetstream.streams.file import encode_body
from headwater.jetstream.streams.host import Host
from headwater.jetstream.streams.stream import Stream
from headwater.store.index.expiry import COUNT_MAX
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import PURGED_AT_A_TIME, MessageLog

# An id is added in about as long as two units of work take.
_ID_COST: Final = 2


@final
class SnapshotWriter:
    """Fills a log by the chunks of one snapshot."""

    __slots__ = (
        "_chunks",
        "_consumers",
        "_end",
        "_expiries",
        "_fault",
        "_header",
        "_ids",
        "_last_ns",
        "_log",
        "_lost",
        "_names",
        "_positions",
        "_schedules",
    )

    def __init__(self, first_chunk: bytes, log: MessageLog) -> None:
        """`log` begins at the first sequence of the snapshot's header and is empty, or has messages
        up to the one before `from_sequence`. Raises SnapshotError."""
        self._chunks = ChunkReader()
        self._header = _header_in(self._chunks, first_chunk)
        if log.last_sequence + 1 != self._header.from_sequence:
            raise SnapshotError(
                f"the snapshot begins at sequence {self._header.from_sequence}, "
                f"and the log ends with {log.last_sequence}"
            )
        self._log = log
        # The time of the last message, for sequences without messages.
        self._last_ns = log.index.last_timestamp_ns
        self._ids: list[bytes] = []
        self._expiries: list[Expiry] = []
        self._schedules: list[blocks.Schedule] = []
        self._lost: list[Range] = []
        self._consumers: list[ConsumerImage] = []
        self._names: set[str] = set()
        self._positions: list[Copied] = []
        self._end: SnapshotEnd | None = None
        self._fault = ""

    @property
    def header(self) -> SnapshotHeader:
        """The values of the snapshot's beginning."""
        return self._header

    @property
    def place(self) -> Place:
        """The place of a complete snapshot in the group's log: entries behind it are to apply."""
        check(self._end is not None, "a snapshot has a place once it is complete")
        assert self._end is not None
        return self._end.place

    def accept(self, chunk: bytes) -> bool:
        """Take over the next chunk. Returns whether the snapshot is complete.

        Raises SnapshotError, which names the fault, and StoreError.
        """
        if self._fault:
            raise SnapshotError(f"the snapshot has a fault: {self._fault}")
        try:
            if self._end is not None:
                raise SnapshotError("a chunk follows the end of the snapshot")
            block = self._chunks.join(chunk)
            if block is not None:
                self._accept_block(block)
        except SnapshotError as error:
            self._fault = str(error)
            raise
        return self._end is not None

    def _accept_block(self, block: Block) -> None:
        kind, body, _ = block
        if kind == blocks.MESSAGES:
            self._append(body)
        elif kind == blocks.PRESENT:
            self._remove(body)
        elif kind == blocks.IDS:
            # They take less memory as they are.
            blocks.decode_ids(body)
            self._ids.append(body)
        elif kind == blocks.EXPIRIES:
            self._expiries += blocks.decode_expiries(body)
        elif kind == blocks.SCHEDULES:
            self._schedules += blocks.decode_schedules(body)
        elif kind == blocks.LOST:
            self._lost += blocks.decode_lost(body)
        elif kind == blocks.CONSUMER:
            self._add_consumer(body)
        elif kind == blocks.POSITION:
            self._add_position(body)
        elif kind == blocks.END:
            self._end = self._checked(blocks.decode_end(body))
        else:
            raise SnapshotError(f"a block of kind {kind} is unknown to this program")

    # --- messages ------------------------------------------------------------------------------

    def _append(self, body: bytes) -> None:
        log, seed = self._log, self._header.record_seed
        runs = blocks.decode_messages(body, seed)
        first = runs[0][1].first_sequence
        if first <= log.last_sequence:
            raise SnapshotError(f"message {first} follows sequence {log.last_sequence}")
        for batch, encoded in runs:
            missing = encoded.first_sequence - log.last_sequence - 1
            if missing:
                log.skip(missing, self._last_ns)
            if seed == log.record_seed:
                log.append_encoded(batch, encoded)
            else:
                log.append(batch)
            self._last_ns = batch.timestamps_ns[-1]

    def _remove(self, body: bytes) -> None:
        first, last, ranges = blocks.decode_present(body)
        index = self._log.index
        if last > index.last_sequence:
            raise SnapshotError(f"message {last} cannot be removed: it was not sent")
        gone: list[int] = []
        begin, left = first, 0
        for start, end in ranges:
            gone += index.messages_from(begin, start, COUNT_MAX)
            left += end + 1 - start
            begin = end + 1
        gone += index.messages_from(begin, last + 1, COUNT_MAX)
        there = index.count_from(first) - index.count_from(last + 1)
        if there - len(gone) != left:
            raise SnapshotError(
                f"{left} messages from {first} to {last} should be left, "
                f"and {there - len(gone)} of them are there"
            )
        for some in parts_of(gone, PURGED_AT_A_TIME):
            self._log.delete(some)

    # --- the end -------------------------------------------------------------------------------

    def _add_consumer(self, body: bytes) -> None:
        try:
            image = decode_image(body)
        except RecordError as error:
            raise SnapshotError(f"a consumer of a snapshot: {error}") from error
        if image.created.name in self._names:
            raise SnapshotError(f"consumer {image.created.name} is there twice")
        self._names.add(image.created.name)
        self._consumers.append(image)

    def _add_position(self, body: bytes) -> None:
        try:
            self._positions.append(decode_copied(body))
        except RecordError as error:
            raise SnapshotError(f"a position of a snapshot: {error}") from error

    def _checked(self, end: SnapshotEnd) -> SnapshotEnd:
        log, config = self._log, self._header.config
        if (end.config.name, end.config.storage) != (config.name, config.storage):
            raise SnapshotError("the snapshot ends with another stream than it began with")
        if end.last_sequence < log.last_sequence:
            raise SnapshotError(
                f"the snapshot ends with sequence {end.last_sequence}, "
                f"and has messages up to {log.last_sequence}"
            )
        if (end.messages, end.byte_count) != (log.messages, log.byte_count):
            raise SnapshotError(
                f"the snapshot ends with {end.messages} messages of {end.byte_count} bytes, "
                f"and {log.messages} of {log.byte_count} bytes were sent"
            )
        return end

    def finishing(self, host: Host) -> Work[Stream]:
        """Make the stream of a complete snapshot, some messages at a time. Raises StoreError."""
        end, log = self._end, self._log
        check(end is not None, "a snapshot is complete before it is a stream")
        assert end is not None
        if end.last_sequence > log.last_sequence:
            log.skip(end.last_sequence - log.last_sequence, end.last_ns)
        log.expiries.extend(self._expiries)
        log.note_lost(self._lost)
        stream = Stream(end.config, log, self._header.created_ns, host)
        stream.tells_first_sequence = end.tells_first_sequence
        yield from self._adding_ids(stream, end)
        for subject, sequence, due_ns in self._schedules:
            stream.scheduling.table.put(subject, sequence, due_ns)
        yield len(self._schedules)
        stream.positions.restore(self._positions)
        yield from stream.consumers.restoring(end.kept_until, self._consumers)
        if isinstance(log, FileLog):
            # The stream may have been changed since the file was written.
            log.set_body(encode_body(end.config, stream.created_ns))
            assert log.caller_entries is not None
            log.write_entries(log.caller_entries())
            log.write_journal()
        return stream

    def _adding_ids(self, stream: Stream, end: SnapshotEnd) -> Work[None]:
        dedupe = stream.dedupe
        for body in self._ids:
            found = blocks.decode_ids(body)
            for message_id, sequence, timestamp_ns in found if end.ids_from else ():
                if sequence >= end.ids_from:
                    dedupe.add(message_id, sequence, timestamp_ns)
            yield _ID_COST * len(found)
        self._ids.clear()
        dedupe.last_id = end.last_id


def read_header(first_chunk: bytes) -> SnapshotHeader:
    """The header of a snapshot, for the log that it is to fill. Raises SnapshotError."""
    return _header_in(ChunkReader(), first_chunk)


def _header_in(chunks: ChunkReader, first_chunk: bytes) -> SnapshotHeader:
    block = chunks.join(first_chunk)
    check(block is not None, "the first block is one chunk")
    assert block is not None
    return blocks.decode_header(block)
