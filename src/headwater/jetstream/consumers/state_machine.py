"""The state machine of a consumer: the part of it that its records determine.

Durable state changes by `apply` alone, from records alone. The state machine applies the records of
a step at once, ahead of the log, and adds them to the proposal of the step; until they are
committed, they can be undone, and the state machine is then what the log says. The position, the
deadlines and the queue of redeliveries follow from the state, and are undone with it.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeAlias, final

from headwater.base.invariants import check
from headwater.base.sliced import Work, at_once
from headwater.jetstream.config.consumer_config import AckPolicy, ConsumerConfig, PriorityPolicy
from headwater.jetstream.config.stream_config import Retention
from headwater.jetstream.consumers.position import Position
from headwater.jetstream.consumers.records import (
    Acked,
    ConsumerRecord,
    Delivered,
    Dropped,
    Exhausted,
    Forgotten,
    Pinned,
    Postponed,
)
from headwater.jetstream.consumers.redelivery import Deadlines
from headwater.jetstream.consumers.state import ConsumerState, StateImage
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record
from headwater.jetstream.streams.view import StreamView
from headwater.store.log.message_log import MessageLog


class Image(NamedTuple):
    """The values that a record is about to replace, and those that follow from them."""

    state: StateImage
    position: int
    # Messages that the record removes from the first phase of last-per-subject delivery.
    last_per_subject: Sequence[int]
    # Messages that the record removes from the queue of redeliveries.
    ready: list[int]
    pin_ends_ns: int


# A record that is applied and not committed, the messages that the consumer needs no longer because
# of it, and the values that undo it; None in a stream whose records are committed at once.
AheadRecord: TypeAlias = tuple[ConsumerRecord, Sequence[int], Image | None]


class CommitTime(Protocol):
    """The moment at which the records of consumers are committed, and what follows from it."""

    def image_before(self, machine: "StateMachine", record: ConsumerRecord) -> Image | None:
        """The values by which a record can be undone; None if it never will be."""
        ...

    def missing(self, log: MessageLog, sequences: Sequence[int]) -> list[int]:
        """The messages of a delivery that have left the stream before its record is committed."""
        ...

    def present(self, log: MessageLog, sequences: Sequence[int]) -> list[int]:
        """The messages that a consumer has released and that are still in the stream."""
        ...


@final
class _AtOnce:
    """Records are committed when they are proposed: before anything else happens."""

    __slots__ = ()

    def image_before(self, machine: "StateMachine", record: ConsumerRecord) -> None:
        """Keep nothing: the record is never undone."""

    def missing(self, log: MessageLog, sequences: Sequence[int]) -> list[int]:
        """No messages: nothing comes between a delivery and its record."""
        return []

    def present(self, log: MessageLog, sequences: Sequence[int]) -> list[int]:
        """All messages: nothing comes between an acknowledgement and its record."""
        return [*sequences]


@final
class _Later:
    """Records are committed later than they are proposed; other records may come in between."""

    __slots__ = ()

    def image_before(self, machine: "StateMachine", record: ConsumerRecord) -> Image:
        """The values that the record is about to replace."""
        return machine.image(record)

    def missing(self, log: MessageLog, sequences: Sequence[int]) -> list[int]:
        """The messages that another record has removed in the meantime."""
        has = log.index.has
        return [each for each in sequences if not has(each)]

    def present(self, log: MessageLog, sequences: Sequence[int]) -> list[int]:
        """The messages that no other record has removed in the meantime."""
        has = log.index.has
        return [each for each in sequences if has(each)]


AT_ONCE: Final = _AtOnce()
LATER: Final = _Later()


@final
class StateMachine:
    """The state of one consumer, and the records that change it."""

    __slots__ = (
        "_is_taken_back",
        "_stream",
        "ahead",
        "commit_time",
        "config",
        "deadlines",
        "name",
        "pin_ends_ns",
        "position",
        "ready",
        "state",
    )

    def __init__(
        self,
        stream: StreamView,
        name: str,
        config: ConsumerConfig,
        start: int,
        lasts_until: int,
        commit_time: CommitTime,
    ) -> None:
        self._stream = stream
        self.name = name
        self.config = config
        self.state = ConsumerState(config.ack_policy, start, lasts_until)
        self.position = Position(stream, config, start)
        self.deadlines = Deadlines(config, self.state)
        # Pending messages to be sent again, in order, as soon as a receiver is there.
        self.ready: OrderedDict[int, None] = OrderedDict()
        # When the pinned client will have been silent for too long.
        self.pin_ends_ns = 0
        # When records are committed: later than they are proposed, they may have to be undone.
        self.commit_time = commit_time
        # Records that are applied and not committed, in order, unless they were taken back.
        self.ahead: deque[AheadRecord] = deque()
        self._is_taken_back = False

    # --- records of steps ----------------------------------------------------------------------

    def record(self, record: ConsumerRecord, out: Proposal[Record]) -> None:
        """Apply a record of this step ahead, and propose it."""
        image = self.commit_time.image_before(self, record)
        self.ahead.append((record, self.apply(record), image))
        out.records.append(record)

    def apply_ahead(self, record: ConsumerRecord) -> None:
        """Apply a record that is not committed yet, so that it can be undone."""
        image = self.image(record)
        self.ahead.append((record, self.apply(record), image))

    @property
    def is_undoable(self) -> bool:
        """Whether there are records that are not committed and can be undone.

        In a stream that commits at once they are committed before anything else happens.
        """
        if not self.ahead or self._is_taken_back:
            return False
        return self.ahead[0][2] is not None

    def knows_any(self, sequences: Iterable[int]) -> bool:
        """Whether one of the messages is in the state, or was before a record was applied ahead."""
        some = {*sequences}
        if not (some.isdisjoint(self.state.pending) and some.isdisjoint(self.state.redelivered)):
            return True
        images = (image.state for _, _, image in self.ahead if image is not None)
        return any(message[0] in some for image in images for message in image.messages)

    def take_back(self) -> None:
        """Undo all records that are not committed; `apply_again` applies them again."""
        self._is_taken_back = True
        self._undo(len(self.ahead))

    def apply_again(self) -> None:
        """Apply the records again that `take_back` undid, after the state was changed."""
        records = [record for record, _, _ in self.ahead]
        self.ahead.clear()
        self._is_taken_back = False
        for record in records:
            self.apply_ahead(record)

    def forget_ahead(self, records: Sequence[ConsumerRecord]) -> None:
        """Undo those of the records that are the last ones ahead: they will not be committed."""
        ahead, count = self.ahead, 0
        for record in reversed(records):
            if count < len(ahead) and ahead[-1 - count][0] is record:
                count += 1
        self._undo(count)
        for _ in range(count):
            ahead.pop()

    def _undo(self, count: int) -> None:
        for _, _, image in islice(reversed(self.ahead), count):
            assert image is not None
            self._put_back(image)
        self.state.sort_pending()

    def image(self, record: ConsumerRecord) -> Image:
        """The values by which a record can be undone, before it is applied."""
        state = self.state
        last_per_subject: Sequence[int] = ()
        sequences: Iterable[int] = ()
        if isinstance(record, Delivered):
            sequences = [*record.again, *record.sequences]
            if self.position.last_per_subject:
                last_per_subject = record.sequences
        elif isinstance(record, Acked) and record.floor is not None:
            sequences = state.unsettled_up_to(record.floor[1])
        elif isinstance(record, Acked | Postponed | Exhausted):
            sequences = record.sequences
        else:
            check(isinstance(record, Pinned), "only records of steps are applied ahead")
        ready = [each for each in sequences if each in self.ready] if self.ready else []
        return Image(
            state.image(sequences),
            self.position.cursor.sequence,
            last_per_subject,
            ready,
            self.pin_ends_ns,
        )

    def _put_back(self, image: Image) -> None:
        """Undo the youngest record."""
        self.state.undo(image.state)
        self.pin_ends_ns = image.pin_ends_ns
        self.position.go_back(image.position, image.last_per_subject)
        pending = self.state.pending
        sequences = [message[0] for message in image.state.messages]
        for sequence in sequences:
            if sequence not in pending:
                self.ready.pop(sequence, None)
        for sequence in reversed(image.ready):
            self.ready[sequence] = None
            self.ready.move_to_end(sequence, last=False)
        # A deadline that has passed meanwhile is due again.
        self.deadlines.sent_again(sequences)

    # --- durable changes -----------------------------------------------------------------------

    def apply(self, record: ConsumerRecord) -> Sequence[int]:
        """Change the durable state. Returns the messages that the consumer needs no longer.

        These may leave the stream when the record is committed.
        """
        state = self.state
        released: Sequence[int] = ()
        if isinstance(record, Delivered):
            state.deliver(record.again, record.sequences, record.now_ns)
            if record.sequences:
                self.position.move_behind(record.sequences, state.lasts_until)
            if self.config.ack_policy is AckPolicy.NONE:
                return record.sequences
            self.deadlines.sent(record.sequences, record.now_ns)
            if record.again:
                self.deadlines.sent_again(record.again)
                self._unready_all(record.again)
        elif isinstance(record, Acked):
            if self._stream.config.retention is not Retention.LIMITS:
                released = self._needed_of(record.sequences)
            state.acked_ns = record.now_ns
            if record.floor is None:
                state.acknowledge(record.sequences)
            else:
                state.acknowledge_up_to(*record.floor)
            self._unready_all(record.sequences)
        elif isinstance(record, Postponed):
            there = [
                (sequence, sent_ns)
                for sequence, sent_ns in zip(record.sequences, record.sent_ns, strict=True)
                if sequence in state.pending
            ]
            state.sent_ns.update(there)
            self.deadlines.sent_again([sequence for sequence, _ in there])
        elif isinstance(record, Exhausted):
            state.give_up(record.sequences)
            self._unready_all(record.sequences)
        elif isinstance(record, Dropped):
            state.acknowledge(record.sequences)
            self._unready_all(record.sequences)
        elif isinstance(record, Forgotten):
            self._forget_before(record)
        elif isinstance(record, Pinned):
            state.pin_id, state.pinned_ns = record.pin_id, record.now_ns if record.pin_id else 0
        else:
            check(False, "records that may visit every message are applied in slices")
        return released

    def _needed_of(self, sequences: Sequence[int]) -> Sequence[int]:
        """Those of the messages that the consumer still needs, each once."""
        pending, redelivered = self.state.pending, self.state.redelivered
        return sorted({each for each in sequences if each in pending or each in redelivered})

    def _forget_before(self, record: Forgotten) -> None:
        state = self.state
        if state.pending:
            state.acked_ns = record.now_ns
        state.forget_before(record.before)
        if self.position.cursor.sequence < record.before:
            self.position.cursor.move(record.before)
        self._unready_all([each for each in self.ready if each not in state.pending])

    # --- the whole state -----------------------------------------------------------------------

    def resetting(self, start_sequence: int) -> Work[None]:
        """Begin again at a sequence, as if nothing had been delivered."""
        self.state.lasts_until = 0
        self.state.begin(start_sequence)
        self.ready.clear()
        self.deadlines.recover()
        yield from self.position.placing(self.state)

    def reconfiguring(self, config: ConsumerConfig, place: int) -> Work[None]:
        """Use another configuration, which the caller has checked.

        `place` is the position at the time of the request, for another filter.
        """
        before, state = self.config, self.state
        self.config = config
        self.position.filter_by(config)
        if before.patterns != config.patterns:
            state.passed_stream = max(state.passed_stream, place - 1)
            yield from self.position.placing(state)
        if config.priority_policy is not PriorityPolicy.PINNED_CLIENT:
            state.pin_id, state.pinned_ns, self.pin_ends_ns = "", 0, 0
        if (before.ack_wait, before.backoff) != (config.ack_wait, config.backoff):
            self.deadlines.configure(config)
        if before.deliver_subject != config.deliver_subject:
            self.make_ready(sorted(state.pending))

    def recovered(self) -> None:
        """Compute everything that follows from the state, after the state was restored."""
        log, state = self._stream.log, self.state
        if state.delivered_consumer and state.delivered_stream > log.last_sequence:
            # A consumer without deliveries may well begin beyond the end of the stream.
            state.cut(log.last_sequence)
        gone = state.missing(log.index.has)
        if gone:
            state.acknowledge(gone)
        self.ready.clear()
        # The times of the last activity are not shown over a restart.
        state.delivered_ns = state.acked_ns = 0
        self.deadlines.recover()
        at_once(self.position.placing(self.state))

    # --- redelivery ----------------------------------------------------------------------------

    def deliveries_of(self, sequence: int) -> int:
        """The number of deliveries of a message so far."""
        return self.state.redelivered.get(sequence, 0) + 1

    def make_ready(self, sequences: Iterable[int]) -> None:
        """Queue messages to be sent again as soon as possible."""
        for sequence in sequences:
            self.ready.setdefault(sequence)

    def first_ready(self, count_max: int) -> list[int]:
        """The first messages in the queue of redeliveries; a record of their delivery removes
        them."""
        return [*islice(self.ready, count_max)]

    def unready(self, sequence: int) -> None:
        """Remove a message from the queue of redeliveries."""
        self.ready.pop(sequence, None)

    def _unready_all(self, sequences: Iterable[int]) -> None:
        if not self.ready:
            return
        if not self.state.pending:
            self.ready.clear()
        else:
            for sequence in sequences:
                self.ready.pop(sequence, None)
