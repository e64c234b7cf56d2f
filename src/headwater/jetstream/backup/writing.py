"""The writer of backups: the archive of nats-server 2.15, in plain S2 frames.

A backup is made a piece at a time from a log that is in use: later publishes are not in it, and
messages that are removed before the writer reaches them are missing. nats-server restores it, and
so does `headwater.jetstream.backup.reading`.
"""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, final

from headwater.jetstream.backup.archive import (
    CONSUMERS_FOLDER,
    END,
    MAGIC,
    STATE_NAME,
    Entry,
    encode_entries,
)
from headwater.jetstream.backup.consumer_document import encode_consumer
from headwater.jetstream.backup.s2 import BEGINNING, plain_frame
from headwater.store.log.message_log import MessageLog, StoreError

if TYPE_CHECKING:
    from headwater.jetstream.consumers.machine import Consumer

# The size of a piece, unless a single message is larger.
PIECE_BYTES: Final = 64 * 1024
# As many small messages as are read and written in a millisecond.
_PIECE_MESSAGES_MAX: Final = 256
# Readers of the format may refuse larger frames; a large message takes several.
_FRAME_BYTES_MAX: Final = 1024 * 1024


@final
class BackupWriter:
    """Returns the backup of a log piece by piece.

    `state` is the document that describes the stream and has the number of its `consumers`;
    `last_sequence` is the last message of the backup.
    """

    __slots__ = ("_consumers", "_first", "_last", "_log", "_next", "_now_ns", "_state")

    def __init__(
        self,
        log: MessageLog,
        state: bytes,
        last_sequence: int,
        now_ns: int,
        consumers: "Sequence[Consumer]" = (),
    ) -> None:
        self._log = log
        # The consumers that are not written yet.
        self._consumers = deque(consumers)
        self._first = min(log.first_sequence, last_sequence + 1)
        self._last = last_sequence
        self._now_ns = now_ns
        # Empty once it is written.
        self._state = state
        # The next message to write; 0 once the end is written.
        self._next = log.first_sequence

    def read(self) -> bytes:
        """The next piece; empty after the last. Raises StoreError."""
        if self._state:
            state = Entry(STATE_NAME, self._now_ns, payload=self._state)
            self._state = b""
            return BEGINNING + plain_frame(MAGIC + encode_entries([state]))
        if not self._next:
            return b""
        if self._consumers:
            # Consumers come before messages, so that a reader knows which messages are needed.
            return _frames(self._next_consumers())
        entries = self._next_messages()
        if not entries:
            self._next = 0
            return plain_frame(encode_entries([END]))
        return _frames(entries)

    def _next_consumers(self) -> list[Entry]:
        entries = []
        size = 0
        while self._consumers and size < PIECE_BYTES:
            consumer = self._consumers.popleft()
            name = CONSUMERS_FOLDER + consumer.name.encode()
            document = encode_consumer(consumer, self._first, self._last)
            entries.append(Entry(name, self._now_ns, payload=document))
            size += len(document)
        return entries

    def _next_messages(self) -> list[Entry]:
        if self._next > self._last:
            return []
        lost = self._log.lost.count
        found = self._log.read(self._next, _PIECE_MESSAGES_MAX, PIECE_BYTES)
        if self._log.lost.count != lost:
            # An error instead of a silent gap. The messages are known as lost from now on, so that
            # the next backup succeeds without them.
            raise StoreError("messages cannot be read any more: their checksums fail")
        entries = [
            Entry(subject, timestamp_ns, sequence, header, payload)
            for sequence, subject, header, payload, timestamp_ns in zip(
                found.sequences,
                found.subjects,
                found.headers,
                found.payloads,
                found.timestamps_ns,
                strict=True,
            )
            if sequence <= self._last
        ]
        if entries:
            self._next = entries[-1].sequence + 1
        return entries


def _frames(entries: list[Entry]) -> bytes:
    data = encode_entries(entries)
    return b"".join(
        plain_frame(data[begin : begin + _FRAME_BYTES_MAX])
        for begin in range(0, len(data), _FRAME_BYTES_MAX)
    )
