"""Fast batches: messages that are stored as they come, with one acknowledgement for many.

The reply subject of a message has its role in a batch:

    <inbox>.<batch>.<flow>.<gap mode>.<sequence>.<operation>.$FI

The reply to the first message has the flow: the number of messages until the next reply. A batch
that is alone on its stream gets the flow that its publisher asked for; others begin with one and
become faster. The gap mode `ok` allows gaps in the sequence, and errors of single messages; with
`fail` a gap or an error ends the batch, which is then acknowledged up to there. The last reply
acknowledges the whole batch.

An open batch is volatile: when it is dropped, its messages stay stored. An accepted message counts
as stored, because no reply is sent before it is; if it never will be, the batch goes back to the
state before it (`restore`).
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias, final

from headwater.go.json import write
from headwater.jetstream import error_codes
from headwater.jetstream import header_names as names
from headwater.jetstream.api.documents import ErrorDocument
from headwater.jetstream.config.api_level import exceeds_level
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record
from headwater.jetstream.streams.publishing.admission import Admission
from headwater.jetstream.streams.publishing.batch_changes import FastBatchState
from headwater.jetstream.streams.publishing.batch_limits import BatchRoom
from headwater.jetstream.streams.publishing.checks import (
    DuplicateError,
    check_message_size,
    check_not_sealed,
)
from headwater.jetstream.streams.publishing.pub_acks import PubAcks
from headwater.wire.headers import value_of, without

# Replies to a message.
Reply: TypeAlias = Callable[[bytes], None]

SUFFIX: Final = b".$FI"
ID_BYTES_MAX: Final = 64
# Messages per reply: the default, the most a publisher may ask for, and the most a stream gives.
FLOW_DEFAULT: Final = 10
FLOW_ASKED_MAX: Final = 65_535
FLOW_GIVEN_MAX: Final = 500
_SEQUENCE_MAX: Final = (1 << 64) - 1
_INT64_MAX: Final = (1 << 63) - 1
# The parts of a reply subject: prefix, id, flow, gap mode, sequence and operation.
_TOKENS: Final = 6
_GAP_MODES: Final = {b"ok": True, b"fail": False}


class Operation(IntEnum):
    """The effect of a message on its batch."""

    START = 0
    APPEND = 1
    COMMIT = 2
    # A commit whose own message is not stored.
    COMMIT_WITHOUT = 3
    PING = 4


class Member(NamedTuple):
    """The parts of a reply subject."""

    batch_id: bytes
    flow: int
    allows_gaps: bool
    sequence: int
    operation: Operation

    @property
    def commits(self) -> bool:
        """Whether the message ends the batch."""
        return self.operation in (Operation.COMMIT, Operation.COMMIT_WITHOUT)


def is_fast(reply: bytes) -> bool:
    """Whether a publish belongs to a fast batch, well-formed or not."""
    return reply.endswith(SUFFIX) and len(reply) > len(SUFFIX)


def none_is_fast(replies: list[bytes | None]) -> bool:
    """Whether certainly no publish belongs to a fast batch, by one search for all."""
    return SUFFIX not in b" ".join(filter(None, replies))


def read_member(reply: bytes) -> Member | None:
    """Parse a reply subject; None if it is malformed."""
    tokens = reply[: -len(SUFFIX)].rsplit(b".", _TOKENS - 1)
    if len(tokens) != _TOKENS:
        return None
    _, batch_id, flow, gap_mode, sequence_text, operation_text = tokens
    sequence = _number(sequence_text)
    if not 0 < sequence < _SEQUENCE_MAX or gap_mode not in _GAP_MODES:
        return None
    try:
        operation = Operation(_number(operation_text))
    except ValueError:
        return None
    is_first = sequence == 1
    if (operation is Operation.START and not is_first) or (
        operation in (Operation.APPEND, Operation.COMMIT_WITHOUT) and is_first
    ):
        return None
    asked = _number(flow)
    asked = min(asked, FLOW_ASKED_MAX) if 0 < asked <= _INT64_MAX else FLOW_DEFAULT
    return Member(batch_id, asked, _GAP_MODES[gap_mode], sequence, operation)


def _number(text: bytes) -> int:
    """A number of up to 64 bits; -1 if the text is not one."""
    if not text.isdigit() or len(text.lstrip(b"0")) > len(str(_SEQUENCE_MAX)):
        return -1
    number = int(text)
    return number if number <= _SEQUENCE_MAX else -1


@final
class _Batch:
    """An open batch: its progress, and the interval of its replies."""

    __slots__ = (
        "ack_every",
        "ack_every_max",
        "allows_gaps",
        "answered",
        "last_ns",
        "received",
        "stored",
        "stored_as",
    )

    def __init__(self, allows_gaps: bool, ack_every_max: int, is_alone: bool) -> None:
        self.allows_gaps = allows_gaps
        self.ack_every_max = ack_every_max
        self.ack_every = min(FLOW_GIVEN_MAX, ack_every_max) if is_alone else 1
        # Sequences of the batch: the highest received, stored and acknowledged.
        self.received = 0
        self.stored = 0
        self.answered = 0
        # The stream sequence of the last stored message.
        self.stored_as = 0
        self.last_ns = 0

    @classmethod
    def of(cls, state: FastBatchState) -> "_Batch":
        """A batch in a state that it was in before."""
        batch = cls(state.allows_gaps, state.ack_every_max, is_alone=False)
        batch.ack_every = state.ack_every
        batch.received, batch.stored = state.received, state.stored
        batch.answered, batch.stored_as = state.answered, state.stored_as
        batch.last_ns = state.last_ns
        return batch

    @property
    def state(self) -> FastBatchState:
        """The state of the batch now."""
        return FastBatchState(
            self.allows_gaps,
            self.ack_every_max,
            self.ack_every,
            self.received,
            self.stored,
            self.answered,
            self.stored_as,
            self.last_ns,
        )

    def answers_if_due(self, batches: int) -> bool:
        """Whether a reply is due, which then counts as sent.

        A reply also sets the interval of the next ones: all batches of a stream share its flow, and
        each approaches its share by doubling or halving.
        """
        if self.stored < self.answered + self.ack_every:
            return False
        behind = self.stored - self.answered
        self.answered += behind - behind % self.ack_every
        share = min(max(FLOW_GIVEN_MAX // batches, 1), self.ack_every_max)
        if self.ack_every < share:
            self.ack_every = min(self.ack_every * 2, share)
        elif self.ack_every > share:
            self.ack_every = max(self.ack_every // 2, share)
        return True


@final
class FastBatches:
    """The open fast batches of one stream, the longest silent first."""

    __slots__ = ("_acks", "_room", "open")

    def __init__(self, acks: PubAcks, room: BatchRoom) -> None:
        self._acks = acks
        self._room = room
        self.open: dict[bytes, _Batch] = {}

    def take(
        self,
        admission: Admission,
        decision: Proposal[Record],
        reply: bytes,
        subject: bytes,
        header: bytes,
        body: bytes,
    ) -> None:
        """Process a message of a batch, and reply to it."""

        def reply_with(payload: bytes) -> None:
            decision.reply(reply, payload, admission.draft.next_sequence - 1)

        member = read_member(reply)
        batches = decision.batches
        if member is not None and (batches is None or member.batch_id not in batches.fast):
            before = self.open.get(member.batch_id)
            decision.note_batches().fast[member.batch_id] = before and before.state
        try:
            member, batch, header = self._find(member, admission, subject, header, body)
        except ApiError as error:
            if not admission.rules.config.no_ack:
                reply_with(self._acks.refusal(error))
            return
        if member.operation is Operation.PING:
            self._ping(member, batch, reply_with)
            return
        if not self._is_in_order(member, batch, reply_with):
            return
        if member.operation is Operation.COMMIT_WITHOUT:
            batch.received -= 1
            self._commit(member, batch, reply_with)
            return
        if member.sequence == 1 and not member.commits and not admission.rules.config.no_ack:
            reply_with(_flow_ack(0, batch.ack_every))
        try:
            batch.stored_as = admission.admit_in_batch(subject, header, body)
        except DuplicateError as duplicate:
            self._count_duplicate(duplicate, member, batch, reply_with)
        except ApiError as error:
            self._fail(error, member, batch, reply_with)
        else:
            batch.stored = batch.received
            if member.commits:
                self._commit(member, batch, reply_with)
            elif batch.answers_if_due(len(self.open)):
                reply_with(_flow_ack(batch.answered, batch.ack_every))

    # --- finding the batch ---------------------------------------------------------------------

    def _find(
        self,
        member: Member | None,
        admission: Admission,
        subject: bytes,
        header: bytes,
        body: bytes,
    ) -> tuple[Member, _Batch, bytes]:
        """The parsed reply subject, the batch, and the header to store. Raises ApiError."""
        rules = admission.rules
        check_not_sealed(rules.config)
        admission.check_server()
        rules.check_account_limits(rules.stored_size(subject, header, body))
        check_message_size(rules.config, header, body)
        if not rules.config.allow_batched:
            raise ApiError.of(error_codes.BATCH_PUBLISH_DISABLED)
        if member is None:
            raise ApiError.of(error_codes.BATCH_PUBLISH_INVALID_PATTERN)
        if len(member.batch_id) > ID_BYTES_MAX:
            raise ApiError.of(error_codes.BATCH_PUBLISH_INVALID_BATCH_ID)
        # The batch moves behind all others, because it is the last that got a message.
        batch = self.open.pop(member.batch_id, None)
        if batch is None:
            batch = self._open_batch(member)
        batch.last_ns = admission.now_ns
        self.open[member.batch_id] = batch
        level = value_of(header, names.REQUIRED_API_LEVEL) if header else None
        if not level:
            return member, batch, header
        if exceeds_level(level):
            self._close(member)
            raise ApiError.of(error_codes.REQUIRED_API_LEVEL)
        return member, batch, without(header, names.REQUIRED_API_LEVEL)

    def _open_batch(self, member: Member) -> _Batch:
        if member.sequence != 1:
            raise ApiError.of(error_codes.BATCH_PUBLISH_UNKNOWN_BATCH_ID)
        if not self._room.fast.begin(len(self.open)):
            raise ApiError.of(error_codes.BATCH_PUBLISH_TOO_MANY_INFLIGHT)
        return _Batch(member.allows_gaps, member.flow, is_alone=not self.open)

    def _close(self, member: Member) -> None:
        del self.open[member.batch_id]
        self._room.fast.end()

    # --- sequences -----------------------------------------------------------------------------

    def _ping(self, member: Member, batch: _Batch, reply_with: Reply) -> None:
        """Report the progress of the batch; a ping beyond the last message shows a gap."""
        if member.sequence > batch.received:
            reply_with(_gap(batch.received + 1, member.sequence + 1))
            if not batch.allows_gaps:
                self._commit(member, batch, reply_with)
                return
            batch.received = batch.stored = member.sequence
            batch.answers_if_due(len(self.open))
        reply_with(_flow_ack(batch.answered, batch.ack_every))

    def _is_in_order(self, member: Member, batch: _Batch, reply_with: Reply) -> bool:
        """Count a message. Returns whether the batch is still open."""
        expected = batch.received + 1
        if member.sequence != expected:
            reply_with(_gap(expected, member.sequence))
            if not batch.allows_gaps or member.sequence < expected:
                self._commit(member, batch, reply_with)
                return False
        batch.received = member.sequence
        return True

    # --- ends ----------------------------------------------------------------------------------

    def _count_duplicate(
        self,
        duplicate: DuplicateError,
        member: Member,
        batch: _Batch,
        reply_with: Reply,
    ) -> None:
        """Count a duplicate in its batch as if it were stored again."""
        batch.stored = member.sequence
        if batch.answers_if_due(len(self.open)):
            reply_with(_flow_ack(batch.answered, batch.ack_every))
        if not member.commits:
            return
        if batch.received == 1 and not member.allows_gaps:
            self._close(member)
            sequence = duplicate.sequence
            reply_with(self._acks.batch_ack(sequence, member.batch_id, 1, is_duplicate=True))
            return
        self._commit(member, batch, reply_with)

    def _fail(self, error: ApiError, member: Member, batch: _Batch, reply_with: Reply) -> None:
        """Report a refused message; without gaps allowed, the batch ends before it."""
        if batch.received == 1 and not member.allows_gaps:
            self._close(member)
            reply_with(self._acks.refusal(error))
            return
        document = write(ErrorDocument.of(error))
        reply_with(b'{"type":"err","seq":%d,"error":%b}' % (member.sequence, document))
        if member.commits or not member.allows_gaps:
            batch.received -= 1
            self._commit(member, batch, reply_with)

    def _commit(self, member: Member, batch: _Batch, reply_with: Reply) -> None:
        self._close(member)
        reply_with(self._acks.batch_ack(batch.stored_as, member.batch_id, batch.received))

    # --- time ----------------------------------------------------------------------------------

    def next_end_ns(self) -> int:
        """When the longest silent batch times out; 0 without open batches."""
        for batch in self.open.values():
            return batch.last_ns + self._room.limits.idle_ns_max
        return 0

    def give_up_idle(self, now_ns: int) -> None:
        """Drop the batches that have timed out."""
        while 0 < self.next_end_ns() <= now_ns:
            del self.open[next(iter(self.open))]
            self._room.fast.end()

    def restore(self, states: Mapping[bytes, FastBatchState | None]) -> None:
        """Put batches back into earlier states, None for a batch that was not open."""
        for batch_id, state in states.items():
            if self.open.pop(batch_id, None) is not None:
                self._room.fast.end()
            if state is not None:
                self.open[batch_id] = _Batch.of(state)
                self._room.fast.reopen()
        self.open = dict(sorted(self.open.items(), key=lambda item: item[1].last_ns))

    def clear(self) -> None:
        """Drop all batches, because the stream ends."""
        self._room.fast.end(len(self.open))
        self.open.clear()


def _flow_ack(sequence: int, ack_every: int) -> bytes:
    return b'{"type":"ack","seq":%d,"msgs":%d}' % (sequence, ack_every)


def _gap(expected: int, sequence: int) -> bytes:
    return b'{"type":"gap","last_seq":%d,"seq":%d}' % (expected, sequence)
