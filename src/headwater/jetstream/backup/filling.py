"""A log that is filled from a backup: messages keep their sequences and times.

All forms of backups pass their messages to this module, in order. Sequences between them are
assigned without messages. Nothing in a backup is trusted: a message that a client could not have
published is refused.
"""

from typing import Final, final

import msgspec

from headwater.jetstream import header_names
from headwater.jetstream.backup.errors import BackupError
from headwater.jetstream.streams.publishing.ttl import TtlError, expiry_ns, ttl_seconds
from headwater.store.disk.format import SUBJECT_BYTES_MAX
from headwater.store.log.message_log import Batch, MessageLog
from headwater.subjects.grammar import is_one_word
from headwater.wire.headers import value_of

# Messages are appended to the log in batches of this size.
_RUN_BYTES_MAX: Final = 1024 * 1024
# Sequences and times have 64 bits everywhere; one more sequence must always be possible.
SEQUENCE_MAX: Final = (1 << 63) - 1
TIMESTAMP_NS_MAX: Final = (1 << 63) - 1
# A gap of this many sequences takes a step of its own.
_GAP_LARGE: Final = 1024
# The memory of a sequence without a message, in a segment with messages.
GAP_SEQUENCE_BYTES: Final = 24


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for messages of a backup."""

    stream_name: str = ""
    # The server's limit of header and payload together.
    max_payload: int
    # The stream's limit of header and payload together; negative for no limit.
    max_msg_size: int = -1
    # Whether the stream allows a TTL in a message.
    allow_msg_ttl: bool = False
    # The limit of memory for sequences without messages.
    gap_bytes_max: int = 1 << 40
    # The limit of memory for consumers.
    consumer_bytes_max: int = 1 << 40


@final
class Filler:
    """Appends messages to a log that is empty."""

    __slots__ = (
        "_bytes",
        "_expiries_ns",
        "_gap_bytes",
        "_last_seen",
        "_last_seen_ns",
        "_next",
        "_rules",
        "_run",
        "expired",
        "has_much_done",
        "log",
    )

    def __init__(self, log: MessageLog, rules: Rules) -> None:
        self.log = log
        self._rules = rules
        # The sequence after the last one that was assigned or is in the batch.
        self._next = log.last_sequence + 1
        # The last message of the backup, stored or not.
        self._last_seen = log.last_sequence
        self._last_seen_ns = 0
        # The batch: messages with consecutive sequences.
        self._run: list[tuple[bytes, bytes, bytes, int]] = []
        self._expiries_ns: list[int] = []
        self._bytes = 0
        self._gap_bytes = 0
        # Set when an operation took so long that the step should end.
        self.has_much_done = False
        # The number of messages that were left out because they had expired.
        self.expired = 0

    def add(
        self,
        sequence: int,
        subject: bytes,
        header: bytes,
        payload: bytes,
        timestamp_ns: int,
        now_ns: int,
    ) -> None:
        """Add the next message. Raises BackupError, or StoreError."""
        self._check(sequence, subject, header, payload, timestamp_ns)
        self._last_seen = sequence
        self._last_seen_ns = timestamp_ns
        expiry = self._expiry(header, timestamp_ns, sequence)
        if 0 < expiry <= now_ns:
            # Its sequence is still assigned.
            self.expired += 1
            return
        if sequence > self._next:
            self.skip_to(sequence)
        self._run.append((subject, header, payload, timestamp_ns))
        self._expiries_ns.append(expiry)
        self._next = sequence + 1
        self._bytes += len(header) + len(payload)
        if self._bytes >= _RUN_BYTES_MAX:
            self.flush()

    def _check(
        self, sequence: int, subject: bytes, header: bytes, payload: bytes, timestamp_ns: int
    ) -> None:
        rules = self._rules
        size = len(header) + len(payload)
        if sequence <= self._last_seen:
            raise BackupError(f"message sequence {sequence} out of order")
        if sequence > SEQUENCE_MAX or not 0 <= timestamp_ns <= TIMESTAMP_NS_MAX:
            raise BackupError(f"message sequence {sequence} has no possible sequence or time")
        if size > rules.max_payload:
            raise BackupError(f"message sequence {sequence} exceeds maximum payload size")
        if 0 <= rules.max_msg_size < size:
            raise BackupError(f"message sequence {sequence} exceeds maximum message size")
        if len(subject) > SUBJECT_BYTES_MAX or not is_one_word(subject):
            raise BackupError(f"message sequence {sequence} has no valid subject")

    def _expiry(self, header: bytes, timestamp_ns: int, sequence: int) -> int:
        if not header or not self._rules.allow_msg_ttl:
            return 0
        value = value_of(header, header_names.TTL)
        if not value:
            return 0
        try:
            ttl_s = ttl_seconds(value)
        except TtlError:
            raise BackupError(f"failed to parse message TTL of sequence {sequence}") from None
        return expiry_ns(timestamp_ns, ttl_s) if ttl_s > 0 else 0

    def skip_to(self, sequence: int, timestamp_ns: int = 0) -> None:
        """Assign the sequences before this one without messages. Raises StoreError.

        Without a time, the time of the message before them is used.
        """
        if sequence - 1 > SEQUENCE_MAX:
            raise BackupError("its last sequence is out of range")
        self.flush()
        count = sequence - self._next
        if count <= 0:
            return
        self._gap_bytes += self.log.skipped_positions(count) * GAP_SEQUENCE_BYTES
        if self._gap_bytes > self._rules.gap_bytes_max:
            raise BackupError(
                f"more than {self._rules.gap_bytes_max // GAP_SEQUENCE_BYTES} of its sequences "
                "have no message: they would take more memory than the server may use"
            )
        self.log.skip(count, timestamp_ns or self._last_seen_ns)
        self._next = sequence
        self.has_much_done = count > _GAP_LARGE

    def flush(self) -> None:
        """Append the batch to the log. Raises StoreError."""
        if not self._run:
            return
        subjects, headers, payloads, timestamps_ns = map(list, zip(*self._run, strict=True))
        expiries = self._expiries_ns if any(self._expiries_ns) else None
        self.log.append(Batch(subjects, headers, payloads, timestamps_ns, expiries))
        self._run.clear()
        self._expiries_ns = []
        self._bytes = 0
