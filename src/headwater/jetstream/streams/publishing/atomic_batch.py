"""Atomic batches: messages that are collected until a commit, then stored all or not at all.

An open batch lives in memory and belongs to its stream. It ends by its commit, by an error in it,
by the refusal of a proposal that has a message of it, or by a timeout. Nothing of it is visible or
durable before the commit, and a crash before it leaves nothing. The stored messages keep their
batch headers, by which recovery recognizes a batch that was only half written (`recovery`).
"""

from collections.abc import Iterable
from typing import Final, final

from headwater.jetstream import error_codes
from headwater.jetstream import header_names as names
from headwater.jetstream.config.api_level import exceeds_level
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record
from headwater.jetstream.streams.publishing.admission import Admission
from headwater.jetstream.streams.publishing.batch_limits import BatchRoom
from headwater.jetstream.streams.publishing.checks import check_message_size, check_not_sealed
from headwater.jetstream.streams.publishing.pub_acks import PubAcks
from headwater.wire.headers import value_of, with_value, without

ID_BYTES_MAX: Final = 64
_SEQUENCE_MAX: Final = (1 << 64) - 1
_SEQUENCE_DIGITS_MAX: Final = len(str(_SEQUENCE_MAX))

_COMMIT: Final = b"1"
# A commit whose own message is not stored.
_COMMIT_WITHOUT: Final = b"eob"

# Reasons for abandoning a batch, as advisories state them.
TIMEOUT: Final = "timeout"
TOO_LARGE: Final = "large"
INCOMPLETE: Final = "incomplete"
UNSUPPORTED: Final = "unsupported"


@final
class _Batch:
    """An open batch: subject, header and body of each message."""

    __slots__ = ("byte_count", "last_ns", "messages")

    def __init__(self) -> None:
        self.messages: list[tuple[bytes, bytes, bytes]] = []
        self.byte_count = 0
        self.last_ns = 0

    def mark_committed(self) -> None:
        """Mark the last message, so that recovery sees that the batch is complete."""
        subject, header, body = self.messages[-1]
        self.messages[-1] = (subject, with_value(header, names.BATCH_COMMIT, _COMMIT), body)


@final
class AtomicBatches:
    """The open batches of one stream, the longest silent first."""

    __slots__ = ("_acks", "_room", "open")

    def __init__(self, acks: PubAcks, room: BatchRoom) -> None:
        self._acks = acks
        self._room = room
        self.open: dict[bytes, _Batch] = {}

    def take(
        self,
        admission: Admission,
        decision: Proposal[Record],
        batch_id: bytes,
        subject: bytes,
        header: bytes,
        body: bytes,
    ) -> bytes:
        """Process a message of a batch. Returns the reply. Raises ApiError."""
        if decision.batches is None or batch_id not in decision.batches.atomic:
            decision.note_batches().atomic.add(batch_id)
        self._check_message(admission, batch_id, subject, header, body)
        sequence = _sequence_in(header)
        commit = value_of(header, names.BATCH_COMMIT)
        ends_without = commit == _COMMIT_WITHOUT
        size = sequence - ends_without
        # The batch moves behind all others, because it is the last that got a message.
        batch = self.open.pop(batch_id, None) or self._open_batch(sequence, size)
        batch.last_ns = admission.now_ns
        self.open[batch_id] = batch
        if commit is not None and commit not in (_COMMIT, _COMMIT_WITHOUT):
            self._close(batch_id)
            raise ApiError.of(error_codes.ATOMIC_PUBLISH_INVALID_BATCH_COMMIT)
        header = self._check_level(batch_id, header, decision)
        if sequence != len(batch.messages) + 1 or size == 0:
            self._abandon(batch_id, INCOMPLETE, decision)
            raise ApiError.of(error_codes.ATOMIC_PUBLISH_INCOMPLETE_BATCH)
        if size > self._room.limits.messages_max:
            self._abandon(batch_id, TOO_LARGE, decision)
            raise self._too_large()
        if not ends_without:
            self._append(batch, batch_id, decision, subject, header, body)
        if commit is None:
            return b""
        self._close(batch_id)
        if ends_without:
            batch.mark_committed()
        last = admission.admit_together(batch.messages)
        return self._acks.batch_ack(last, batch_id, len(batch.messages))

    # --- on the way in -------------------------------------------------------------------------

    def _check_message(
        self, admission: Admission, batch_id: bytes, subject: bytes, header: bytes, body: bytes
    ) -> None:
        rules = admission.rules
        check_not_sealed(rules.config)
        admission.check_server()
        rules.check_account_limits(rules.stored_size(subject, header, body))
        check_message_size(rules.config, header, body)
        if not rules.config.allow_atomic:
            raise ApiError.of(error_codes.ATOMIC_PUBLISH_DISABLED)
        if len(batch_id) > ID_BYTES_MAX:
            raise ApiError.of(error_codes.ATOMIC_PUBLISH_INVALID_BATCH_ID)

    def _open_batch(self, sequence: int, size: int) -> _Batch:
        if sequence != 1:
            if size > self._room.limits.messages_max:
                raise self._too_large()
            raise ApiError.of(error_codes.ATOMIC_PUBLISH_INCOMPLETE_BATCH)
        if not self._room.atomic.begin(len(self.open)):
            raise ApiError.of(error_codes.ATOMIC_PUBLISH_TOO_MANY_INFLIGHT)
        return _Batch()

    def _append(
        self,
        batch: _Batch,
        batch_id: bytes,
        decision: Proposal[Record],
        subject: bytes,
        header: bytes,
        body: bytes,
    ) -> None:
        count = len(subject) + len(header) + len(body)
        if not self._room.take_bytes(count):
            self._abandon(batch_id, TOO_LARGE, decision)
            raise ApiError.of(error_codes.ATOMIC_PUBLISH_TOO_MANY_INFLIGHT)
        batch.byte_count += count
        batch.messages.append((subject, header, body))

    def _check_level(self, batch_id: bytes, header: bytes, decision: Proposal[Record]) -> bytes:
        """Refuse a message that requires a higher API level; the header is not stored."""
        level = value_of(header, names.REQUIRED_API_LEVEL)
        if not level:
            return header
        if exceeds_level(level):
            self._abandon(batch_id, UNSUPPORTED, decision)
            raise ApiError.of(error_codes.REQUIRED_API_LEVEL)
        return without(header, names.REQUIRED_API_LEVEL)

    def _too_large(self) -> ApiError:
        size = self._room.limits.messages_max
        return ApiError.of(error_codes.ATOMIC_PUBLISH_TOO_LARGE_BATCH, size=size)

    # --- ends ----------------------------------------------------------------------------------

    def _close(self, batch_id: bytes) -> None:
        self._room.give_bytes_back(self.open.pop(batch_id).byte_count)
        self._room.atomic.end()

    def _abandon(self, batch_id: bytes, reason: str, decision: Proposal[Record]) -> None:
        self._close(batch_id)
        decision.abandoned.append((batch_id, reason))

    def next_end_ns(self) -> int:
        """When the longest silent batch times out; 0 without open batches."""
        for batch in self.open.values():
            return batch.last_ns + self._room.limits.idle_ns_max
        return 0

    def give_up_idle(self, now_ns: int, decision: Proposal[Record]) -> None:
        """Abandon the batches that have timed out."""
        while 0 < self.next_end_ns() <= now_ns:
            self._abandon(next(iter(self.open)), TIMEOUT, decision)

    def drop(self, batch_ids: Iterable[bytes]) -> None:
        """Drop batches, whose messages were refused, if they are open."""
        for batch_id in batch_ids:
            if batch_id in self.open:
                self._close(batch_id)

    def clear(self) -> None:
        """Drop all batches, because the stream ends."""
        for batch_id in [*self.open]:
            self._close(batch_id)


def _sequence_in(header: bytes) -> int:
    """The number of a message in its batch. Raises ApiError."""
    value = value_of(header, names.BATCH_SEQUENCE) or b""
    if value.isdigit():
        if len(value) > _SEQUENCE_DIGITS_MAX:
            value = value.lstrip(b"0") or b"0"
        if len(value) <= _SEQUENCE_DIGITS_MAX and int(value) <= _SEQUENCE_MAX:
            return int(value)
    raise ApiError.of(error_codes.ATOMIC_PUBLISH_MISSING_SEQ)
