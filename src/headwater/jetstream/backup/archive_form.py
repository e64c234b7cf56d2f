"""Backups of nats-server from 2.15 on, and of Headwater: an archive with an entry per message."""

from typing import Final, final

import msgspec

from headwater.go.quoting import quote_bytes
from headwater.jetstream.backup.archive import (
    CONSUMERS_FOLDER,
    END,
    STATE_NAME,
    ArchiveReader,
    Entry,
)
from headwater.jetstream.backup.consumer_document import decode_consumer
from headwater.jetstream.backup.consumers import CONSUMER_BYTES_MAX, BackedUpConsumers
from headwater.jetstream.backup.documents import decode_document
from headwater.jetstream.backup.errors import BackupError
from headwater.jetstream.backup.filling import SEQUENCE_MAX, Filler, Rules
from headwater.jetstream.backup.form import Beginning, Progress

# Entries per step: some milliseconds.
ENTRIES_PER_STEP: Final = 500
# Consumers take longer.
CONSUMERS_PER_STEP: Final = 20
# A step ends after this many bytes; a single entry may be larger.
STEP_BYTES_MAX: Final = 64 * 1024


class _State(msgspec.Struct):
    """The part of a backup's state that is needed."""

    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    consumer_count: int = 0


@final
class ArchiveForm:
    """Decodes an archive, without its first eight bytes."""

    __slots__ = (
        "_is_complete",
        "_reader",
        "_state",
        "beginning",
        "consumers",
        "created_ns",
        "filler",
    )

    def __init__(self, rules: Rules) -> None:
        self._reader = ArchiveReader(rules.max_payload, CONSUMER_BYTES_MAX)
        self._state: _State | None = None
        self.consumers = BackedUpConsumers(rules.consumer_bytes_max)
        self._is_complete = False
        self.beginning: Beginning | None = None
        self.filler: Filler | None = None
        self.created_ns = 0

    def feed(self, data: bytes) -> None:
        """Add bytes to the input."""
        self._reader.feed(data)

    def step(self, now_ns: int) -> Progress:
        """Process some entries."""
        if self._state is None:
            self._state = self._read_state()
        if self._state is None:
            return Progress.NEEDS_INPUT
        if self.filler is None:
            return Progress.WANTS_LOG
        if len(self.consumers) < self._state.consumer_count:
            return self._process_consumers(self._state.consumer_count)
        return self._process_messages(self.filler, now_ns)

    def _process_consumers(self, count: int) -> Progress:
        size = 0
        for _ in range(CONSUMERS_PER_STEP):
            entry = self._reader.read()
            if entry is None:
                return Progress.NEEDS_INPUT
            self.consumers.add(decode_consumer(_name_of(entry), entry.payload))
            size += len(entry.payload)
            if len(self.consumers) == count or size > STEP_BYTES_MAX:
                break
        return Progress.BUSY

    def _process_messages(self, filler: Filler, now_ns: int) -> Progress:
        for _ in range(ENTRIES_PER_STEP):
            entry = self._reader.read()
            if entry is None:
                filler.flush()
                return Progress.NEEDS_INPUT
            if entry.sequence == 0:
                self._end(filler, entry == END)
                return Progress.COMPLETE
            filler.add(
                entry.sequence,
                entry.name,
                entry.header,
                entry.payload,
                entry.timestamp_ns,
                now_ns,
            )
            if filler.has_much_done:
                break
        filler.has_much_done = False
        filler.flush()
        return Progress.BUSY

    def _read_state(self) -> _State | None:
        entry = self._reader.read()
        if entry is None:
            return None
        if entry.name != STATE_NAME:
            raise BackupError("expected state.json first")
        state = decode_document(entry.payload, _State, "error in state.json")
        if min(state.bytes, state.first_seq, state.last_seq) < 0:
            raise BackupError("error in state.json: a number is negative")
        if max(state.first_seq, state.last_seq) > SEQUENCE_MAX:
            raise BackupError("error in state.json: a sequence is not possible")
        self.beginning = Beginning(max(state.first_seq, 1), state.bytes)
        return state

    def _end(self, filler: Filler, is_end: bool) -> None:
        if not is_end:
            raise BackupError("expected message sequence")
        if self._state is not None:
            filler.skip_to(self._state.last_seq + 1)
        self._is_complete = True

    def finish(self) -> None:
        """Raises BackupError if the archive is incomplete."""
        if not self._is_complete:
            raise BackupError("backup was truncated")


def _name_of(entry: Entry) -> str:
    """The name of the consumer in an entry."""
    name = entry.name.removeprefix(CONSUMERS_FOLDER)
    if name == entry.name or entry.sequence:
        raise BackupError(f"expected consumer, found {quote_bytes(entry.name)}")
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise BackupError("the name of a consumer is not UTF-8") from None
