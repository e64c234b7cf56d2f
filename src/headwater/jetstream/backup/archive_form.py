"""Backups of nats-server from 2.15 on, and of Headwater: an archive with an entry per message."""

from typing import Final, final

import msgspec

from headwater.jetstream.backup.archive import (
    CONSUMERS_FOLDER,
    END,
    STATE_NAME,
    ArchiveReader,
)
from headwater.jetstream.backup.errors import BackupError, consumers_refused
from headwater.jetstream.backup.filling import SEQUENCE_MAX, Filler, Rules
from headwater.jetstream.backup.form import Beginning, Progress

# Entries taken in by one step: some milliseconds.
ENTRIES_PER_STEP: Final = 500
# The description of a stream is short, whatever the limit for messages is.
STATE_BYTES_MAX: Final = 1024 * 1024


class _State(msgspec.Struct):
    """What a backup tells of its stream; whatever else it tells is not needed."""

    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    consumer_count: int = 0


@final
class ArchiveForm:
    """Takes in what follows the first eight bytes."""

    __slots__ = ("_is_complete", "_reader", "_state", "beginning", "created_ns", "filler")

    def __init__(self, rules: Rules) -> None:
        self._reader = ArchiveReader(max(rules.max_payload, STATE_BYTES_MAX))
        self._state: _State | None = None
        self._is_complete = False
        self.beginning: Beginning | None = None
        self.filler: Filler | None = None
        self.created_ns = 0

    def feed(self, data: bytes) -> None:
        """Take bytes in."""
        self._reader.feed(data)

    def step(self, now_ns: int) -> Progress:
        """Take some entries in."""
        if self._state is None and not self._read_state():
            return Progress.HUNGRY
        if self.filler is None:
            return Progress.WANTS_LOG
        for _ in range(ENTRIES_PER_STEP):
            entry = self._reader.read()
            if entry is None:
                self.filler.flush()
                return Progress.HUNGRY
            if entry.sequence == 0:
                self._end(entry.name, entry == END)
                return Progress.COMPLETE
            self.filler.add(
                entry.sequence,
                entry.name,
                entry.header,
                entry.payload,
                entry.timestamp_ns,
                now_ns,
            )
            if self.filler.has_much_done:
                break
        self.filler.has_much_done = False
        self.filler.flush()
        return Progress.BUSY

    def _read_state(self) -> bool:
        entry = self._reader.read()
        if entry is None:
            return False
        if entry.name != STATE_NAME:
            raise BackupError("expected state.json first")
        try:
            state = msgspec.json.decode(entry.payload, type=_State)
        except msgspec.MsgspecError as error:
            raise BackupError(f"error in state.json: {error}") from error
        if min(state.bytes, state.first_seq, state.last_seq) < 0:
            raise BackupError("error in state.json: a number is negative")
        if max(state.first_seq, state.last_seq) > SEQUENCE_MAX:
            raise BackupError("error in state.json: a sequence is not possible")
        if state.consumer_count > 0:
            raise consumers_refused(state.consumer_count)
        self._state = state
        self.beginning = Beginning(max(state.first_seq, 1), state.bytes)
        return True

    def _end(self, name: bytes, is_end: bool) -> None:
        if name.startswith(CONSUMERS_FOLDER):
            raise BackupError("a consumer is where a message should be")
        if not is_end:
            raise BackupError("expected message sequence")
        if self.filler is not None and self._state is not None:
            self.filler.skip_to(self._state.last_seq + 1)
        self._is_complete = True

    def finish(self) -> None:
        """Nothing more comes."""
        if not self._is_complete:
            raise BackupError("backup was truncated")
