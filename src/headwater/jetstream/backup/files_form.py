"""Backups of nats-server before 2.15: the files of its stream store in a tar archive.

    meta.inf           configuration and time of creation, JSON
    meta.sum           its hash
    msgs/<n>.blk       messages, in order (`headwater.jetstream.backup.blocks`)
    msgs/index.db      deleted messages, among other things; comes after the blocks
    obs/<name>/…       a consumer (`headwater.jetstream.backup.consumer_files`)

Messages are written to the log as they come. Deleted ones among them are removed at the end, and
then the number of messages must equal that of the index.
"""

import re
from collections.abc import Iterator
from typing import Final, final

import msgspec

from headwater.go.quoting import quote
from headwater.go.times import parse_time
from headwater.jetstream.backup import consumer_files
from headwater.jetstream.backup.blocks import (
    INDEX_BYTES_MAX,
    BlockReader,
    BlockRecord,
    StoredIndex,
    decode_index,
    members,
)
from headwater.jetstream.backup.consumers import CONSUMER_BYTES_MAX, BackedUpConsumers
from headwater.jetstream.backup.documents import decode_document
from headwater.jetstream.backup.errors import BackupError
from headwater.jetstream.backup.filling import SEQUENCE_MAX, Filler, Rules
from headwater.jetstream.backup.form import Beginning, Progress
from headwater.jetstream.backup.tar import Piece, TarReader
from headwater.store.index.ranges import RangeSet
from headwater.store.log.message_log import MessageLog

# Records per step: some milliseconds.
RECORDS_PER_STEP: Final = 500
# Messages removed per step.
REMOVED_PER_STEP: Final = 4096
META_BYTES_MAX: Final = 4 * 1024 * 1024

_META: Final = "meta.inf"
_META_SUM: Final = "meta.sum"
_INDEX: Final = "msgs/index.db"
_BLOCKS: Final = "msgs/"
_BLOCK_SUFFIX: Final = ".blk"
_CONSUMERS: Final = "obs/"
_CONSUMER_FILES: Final = (consumer_files.META, consumer_files.META_SUM, consumer_files.STATE)
# A name with bytes that are not UTF-8 is refused.
_CONSUMER_FILE: Final = re.compile(
    f"{_CONSUMERS}[^/\ud800-\udfff]+/({'|'.join(map(re.escape, _CONSUMER_FILES))})"
)
# Written by a server that could not read its own files.
_ERRORS: Final = "errors.txt"


class _Meta(msgspec.Struct):
    """The part of `meta.inf` that is needed."""

    name: str = ""
    created: str = msgspec.field(name="Created", default="")


@final
class FilesForm:
    """Decodes a tar archive."""

    __slots__ = (
        "_blocks",
        "_buffer",
        "_consumer_files",
        "_consumer_name",
        "_deleted",
        "_has_meta",
        "_held",
        "_index",
        "_is_complete",
        "_last",
        "_last_ns",
        "_pending",
        "_removals",
        "_stream_name",
        "_tar",
        "beginning",
        "consumers",
        "created_ns",
        "filler",
    )

    def __init__(self, rules: Rules) -> None:
        self._tar = TarReader()
        self._blocks = BlockReader(rules.max_payload)
        self._stream_name = rules.stream_name
        self._has_meta = False
        # The content of a small file that is not complete yet.
        self._buffer = bytearray()
        # A piece of a block that was fed and has records left.
        self._pending: Piece | None = None
        # A message that was read before there was a log.
        self._held: BlockRecord | None = None
        # The last sequence in the blocks and its time, and the deletions in the blocks.
        self._last = 0
        self._last_ns = 0
        self._deleted = RangeSet()
        self._index: StoredIndex | None = None
        # A consumer whose files are incomplete, and their contents so far.
        self._consumer_name = ""
        self._consumer_files: dict[str, bytes] = {}
        self.consumers = BackedUpConsumers(rules.consumer_bytes_max)
        self._removals: Iterator[list[int]] | None = None
        self._is_complete = False
        self.beginning: Beginning | None = None
        self.created_ns = 0
        self.filler: Filler | None = None

    def feed(self, data: bytes) -> None:
        """Add bytes to the input."""
        self._tar.feed(data)

    def step(self, now_ns: int) -> Progress:
        """Process some records, or the next piece of a file; at the end, remove messages."""
        if self._pending is not None:
            return self._process_records(self._pending, now_ns)
        piece = self._tar.read()
        if piece is None:
            return self._remove_deleted() if self._tar.is_complete else Progress.NEEDS_INPUT
        self._process_piece(piece)
        return Progress.BUSY

    # --- files ---------------------------------------------------------------------------------

    def _process_piece(self, piece: Piece) -> None:
        name = piece.name
        if name.startswith(_BLOCKS) and name.endswith(_BLOCK_SUFFIX):
            self._blocks.feed(piece.data)
            self._pending = piece
            return
        self._buffer += piece.data
        if len(self._buffer) > _bytes_max(name):
            raise BackupError(f"its file {name} is too large")
        if not piece.is_last:
            return
        data = bytes(self._buffer)
        self._buffer.clear()
        if name == _META:
            self._read_meta(data)
        elif name == _INDEX:
            self._index = decode_index(data)
        elif name == _ERRORS:
            text = data[:200].decode(errors="replace")
            raise BackupError(f"the backup was not made to its end: {text}")
        elif name.startswith(_CONSUMERS):
            self._process_consumer_file(name, data)

    def _read_meta(self, data: bytes) -> None:
        meta = decode_document(data, _Meta, f"error in {_META}")
        try:
            self.created_ns = parse_time(meta.created) if meta.created else 0
        except ValueError as error:
            raise BackupError(f"error in {_META}: {error}") from error
        if meta.name != self._stream_name:
            raise BackupError("stream names do not match")
        self._has_meta = True

    def _process_consumer_file(self, path: str, data: bytes) -> None:
        _, name, file = path.split("/")
        if name != self._consumer_name:
            self._check_consumer_files()
            self._consumer_name = name
        files = self._consumer_files
        files[file] = data
        if len(files) == len(_CONSUMER_FILES):
            meta, state = files[consumer_files.META], files[consumer_files.STATE]
            files.clear()
            self.consumers.add(consumer_files.decode_files(name, meta, state))

    def _check_consumer_files(self) -> None:
        """Raises BackupError if a file of the last consumer is missing: its files are adjacent."""
        if self._consumer_files:
            name = quote(self._consumer_name)
            raise BackupError(f"error restoring consumer [{name}]: one of its files is missing")

    # --- messages ------------------------------------------------------------------------------

    def _process_records(self, piece: Piece, now_ns: int) -> Progress:
        for _ in range(RECORDS_PER_STEP):
            record = self._held or self._blocks.read()
            if record is None:
                self._pending = None
                if piece.is_last and not self._blocks.is_between_records:
                    raise BackupError(f"its file {piece.name} ends within a message")
                break
            if record.subject and not self._add(record, now_ns):
                return Progress.WANTS_LOG
            self._note(record)
            if self.filler is not None and self.filler.has_much_done:
                break
        if self.filler is not None:
            self.filler.has_much_done = False
            self.filler.flush()
        return Progress.BUSY

    def _add(self, record: BlockRecord, now_ns: int) -> bool:
        """Add a message to the log. Returns False if there is no log yet."""
        if self.filler is None:
            self.beginning = Beginning(record.sequence)
            self._held = record
            return False
        self._held = None
        if record.sequence > self._last:
            self.filler.add(
                record.sequence,
                record.subject,
                record.header,
                record.payload,
                record.timestamp_ns,
                now_ns,
            )
        return True

    def _note(self, record: BlockRecord) -> None:
        if record.sequence > SEQUENCE_MAX:
            raise BackupError("a message has no possible sequence")
        if record.is_tombstone:
            self._deleted.add(record.sequence, record.sequence)
        if record.sequence >= self._last:
            self._last = record.sequence
            self._last_ns = record.timestamp_ns

    # --- the end -------------------------------------------------------------------------------

    def _remove_deleted(self) -> Progress:
        """Remove deleted messages at the end of the archive, and set the last sequence."""
        if not self._has_meta:
            raise BackupError(f"it has no {_META}")
        self._check_consumer_files()
        if self.filler is None:
            if self._index is not None:
                self._last = max(self._last, self._index.last_sequence)
            # A stream that was emptied still knows the time of its last message.
            first = self._last if self._last_ns > 0 else self._last + 1
            self.beginning = Beginning(first)
            return Progress.WANTS_LOG
        log = self.filler.log
        if self._removals is None:
            self.filler.skip_to(self._last + 1, self._last_ns)
            self._removals = self._gone(log)
        gone = next(self._removals, None)
        if gone is not None:
            log.delete(gone)
            return Progress.BUSY
        self._check_count(self.filler)
        self._is_complete = True
        return Progress.COMPLETE

    def _gone(self, log: MessageLog) -> Iterator[list[int]]:
        """Deleted messages that are in the log, some at a time."""
        ranges = [*self._deleted]
        if self._index is not None:
            ranges += _between(self._index)
        batch: list[int] = []
        for first, last in ranges:
            sequence = log.index.next_message(first)
            while 0 < sequence <= last:
                batch.append(sequence)
                if len(batch) == REMOVED_PER_STEP:
                    yield batch
                    batch = []
                sequence = log.index.next_message(sequence + 1)
        for node in [] if self._index is None else self._index.deleted:
            batch += [sequence for sequence in members(node) if log.index.has(sequence)]
            if len(batch) >= REMOVED_PER_STEP:
                yield batch
                batch = []
        yield batch

    def _check_count(self, filler: Filler) -> None:
        """Raises BackupError if the log differs from an index of the same blocks."""
        index = self._index
        if index is None or index.last_sequence != self._last or filler.expired:
            return
        if filler.log.messages != index.messages:
            raise BackupError(
                f"its index speaks of {index.messages} messages, and it has {filler.log.messages}"
            )

    def finish(self) -> None:
        """Raises BackupError if the archive is incomplete."""
        if not self._is_complete:
            raise BackupError("backup was truncated")


def _bytes_max(name: str) -> int:
    """The size limit of a file without messages. Raises BackupError for an unknown file."""
    if name == _INDEX:
        return INDEX_BYTES_MAX
    if name in (_META, _META_SUM, _ERRORS):
        return META_BYTES_MAX
    found = _CONSUMER_FILE.fullmatch(name)
    if found is None:
        raise BackupError(f"unexpected content: the file {name!r}")
    return CONSUMER_BYTES_MAX if found[1] == consumer_files.STATE else META_BYTES_MAX


def _between(index: StoredIndex) -> list[tuple[int, int]]:
    """The sequences before, between and after the blocks of an index, as ranges."""
    ranges = []
    begin = 1
    for first, last in index.blocks:
        if first > begin:
            ranges.append((begin, first - 1))
        begin = max(begin, last + 1)
    if begin <= index.last_sequence:
        ranges.append((begin, index.last_sequence))
    return ranges
