"""A consumer: its position in a stream, its deliveries and its timers.

    pulls, interest, acks ─▶ Consumer ─▶ records (durable)  +  Outbox (messages, statuses, events)

Durable state changes by `apply` alone, from records alone. A step of the consumer applies its
records at once, ahead of the log, and hands them out to be committed (`Outbox.records`); until they
are, they can be undone, and the consumer is then what the log says. The effects of a record on the
stream begin when it is committed (`Consumers.apply`). State that ends with a connection or a
process (waiting requests, interest, flow windows, the queue of redeliveries) is here too and never
recorded.

A consumer knows no socket and no timer: its runner hands it steps with the time (`step`), and asks
for the next timer (`next_due_ns`).
"""

from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, final

from headwater.base.ids import base62
from headwater.base.invariants import check
from headwater.base.sliced import Work, at_once
from headwater.go.times import ZERO_TIME_TEXT, format_time
from headwater.jetstream.api.consumer_documents import (
    ConsumerInfo,
    PriorityGroupState,
    SequenceInfo,
)
from headwater.jetstream.config.consumer_config import (
    AckPolicy,
    ConsumerConfig,
    PriorityPolicy,
)
from headwater.jetstream.config.stream_config import Retention
from headwater.jetstream.consumers.acknowledging import Acknowledging
from headwater.jetstream.consumers.delivery import Delivery
from headwater.jetstream.consumers.outbox import (
    ClientPinned,
    ClientUnpinned,
    DeliveriesExceeded,
    Outbox,
    PauseEnded,
)
from headwater.jetstream.consumers.pace import pace_of
from headwater.jetstream.consumers.priority import gate_of
from headwater.jetstream.consumers.pull import (
    PUSH_BASED,
    PullBodies,
    PullQueue,
    PullRefusedError,
)
from headwater.jetstream.consumers.push import FLOW_PREFIX, Push
from headwater.jetstream.consumers.records import (
    Acked,
    ConsumerConfigured,
    ConsumerRecord,
    ConsumerReset,
    Delivered,
    Dropped,
    Exhausted,
    Forgotten,
    Pinned,
    Postponed,
)
from headwater.jetstream.consumers.redelivery import Deadlines
from headwater.jetstream.consumers.state import ConsumerState, StateImage
from headwater.jetstream.consumers.steps import (
    Acks,
    Deliver,
    FlowReply,
    Interest,
    PlainAcks,
    Pull,
    Step,
    Timer,
)
from headwater.store.log.message_log import ALL_SUBJECTS, StoreError

if TYPE_CHECKING:
    from headwater.jetstream.streams.stream import Stream

_HEARTBEAT: Final = (
    b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n"
)
_STALLED: Final = b"Nats-Consumer-Stalled: %b\r\n"

PIN_ID_SIZE: Final = 22
# A pull consumer outlives its inactivity threshold by this, for requests on their way.
INACTIVE_GRACE_NS: Final = 100_000_000


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


@final
class Consumer:
    """One consumer of one stream."""

    def __init__(
        self,
        stream: "Stream",
        name: str,
        config: ConsumerConfig,
        created_ns: int,
        start: int,
        lasts_until: int = 0,
    ) -> None:
        self.stream = stream
        self.name = name
        self.created_ns = created_ns
        self.state = ConsumerState(config.ack_policy, start, lasts_until)
        self.deadlines = Deadlines(config, self.state)
        # Pending messages to be sent again, in order, as soon as a receiver is there.
        self.ready: OrderedDict[int, None] = OrderedDict()
        # Records that are applied and not committed, in order, unless they were taken back.
        self.ahead: deque[AheadRecord] = deque()
        self._is_taken_back = False
        self.delivery = Delivery(self)
        self.acks = Acknowledging(self)
        self.pulls: PullQueue | None = None
        self.push: Push | None = None
        # When the pinned client will have been silent for too long.
        self._pin_ends_ns = 0
        # Until when the pace lets no message go.
        self.held_until_ns = 0
        self._active_ns = 0
        # The end of the configured pause, and of one that was not told yet; 0 without one.
        self._paused_until_ns = 0
        self._pause_ends_ns = 0
        self.is_gone = False
        # Whether the collection knows that the consumer waits for messages.
        self.is_noted_waiting = False
        self._configure(config)
        self.acks.configure()
        # In the first phase of last-per-subject delivery: the messages still to be delivered.
        self.last_per_subject: deque[int] = deque()
        self._last_per_subject_checked = 0
        self.cursor = stream.log.cursor(self.patterns, start)

    def _configure(self, config: ConsumerConfig) -> None:
        self.config = config
        self.has_filter = bool(config.patterns)
        self.patterns = config.patterns or (ALL_SUBJECTS,)
        stream, host = self.stream, self.stream.host
        self.reply_prefix = f"$JS.ACK.{stream.name}.{self.name}.".encode(errors="surrogateescape")
        self._bodies = PullBodies(config)
        if config.is_pull:
            gate = gate_of(config, self, self.delivery)
            if self.pulls is None:
                self.pulls = PullQueue(config.max_waiting, host.has_interest, gate)
            self.pulls.gate = gate
        elif self.push is None:
            prefix = FLOW_PREFIX + f"{stream.name}.{self.name}.".encode(errors="surrogateescape")
            self.push = Push(config, prefix, host.server.entropy)
        else:
            self.push.configure(config)
        # Whether messages carry the id of the pinned client.
        self.is_pinning = config.priority_policy is PriorityPolicy.PINNED_CLIENT
        self._paused_until_ns = self._pause_ends_ns = config.pause_until_ns or 0
        burst = stream.config.max_msg_size
        if burst <= 0:
            burst = host.server.max_payload
        self.pace = pace_of(config, burst, stream.visible_sequence)

    def placing(self) -> Work[None]:
        """Find the position that follows from the state, some messages at a time.

        The stream must not change meanwhile. A new consumer has no position before this.
        """
        state, log = self.state, self.stream.log
        next_sequence = max(state.delivered_stream, state.passed_stream) + 1
        self.last_per_subject = deque()
        if next_sequence <= state.lasts_until:
            found = yield from log.gathering_last_per_subject(self.patterns, state.lasts_until)
            self.last_per_subject.extend(found[bisect_left(found, next_sequence) :])
            next_sequence = state.lasts_until + 1
        self.cursor = log.cursor(self.patterns, next_sequence)
        # All messages in `last_per_subject` exist at this moment.
        self._last_per_subject_checked = self._removed_count()

    def _move_behind(self, sequences: Sequence[int]) -> None:
        """Move the position behind messages that were sent for the first time."""
        last, last_per_subject = sequences[-1], self.last_per_subject
        if last <= self.state.lasts_until:
            while last_per_subject and last_per_subject[0] <= last:
                last_per_subject.popleft()
        elif last >= self.cursor.sequence:
            self.cursor.move(last + 1)

    # --- durable changes -----------------------------------------------------------------------

    def configured(self, config: ConsumerConfig) -> ConsumerConfigured:
        """The record that sets another configuration, which the caller has checked."""
        return ConsumerConfigured(
            self.name, config, 0 if self.last_per_subject else self.cursor.sequence
        )

    def record(self, record: ConsumerRecord, out: Outbox) -> None:
        """Apply a record of this step ahead, and hand it out to be committed."""
        if self.stream.consumers.commits_later:
            self.apply_ahead(record)
        else:
            self.ahead.append((record, self.apply(record), None))
        out.records.append(record)

    def apply_ahead(self, record: ConsumerRecord) -> None:
        """Apply a record that is not committed yet, so that it can be undone."""
        image = self._image(record)
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

    def _image(self, record: ConsumerRecord) -> Image:
        state = self.state
        last_per_subject: Sequence[int] = ()
        sequences: Iterable[int] = ()
        if isinstance(record, Delivered):
            sequences = [*record.again, *record.sequences]
            if self.last_per_subject:
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
            self.cursor.sequence,
            last_per_subject,
            ready,
            self._pin_ends_ns,
        )

    def _put_back(self, image: Image) -> None:
        """Undo the youngest record."""
        self.state.undo(image.state)
        self._pin_ends_ns = image.pin_ends_ns
        if self.cursor.sequence != image.position:
            self.cursor.move(image.position)
        if image.last_per_subject:
            self.last_per_subject.extendleft(reversed(image.last_per_subject))
            # Some of these messages may have been removed meanwhile.
            self._last_per_subject_checked = -1
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

    def applying(self, record: ConsumerReset | ConsumerConfigured) -> Work[None]:
        """Apply a reset or another configuration, some messages at a time."""
        if isinstance(record, ConsumerReset):
            yield from self._resetting(record.start_sequence)
        else:
            yield from self._reconfiguring(record.config, record.place)

    def apply(self, record: ConsumerRecord) -> Sequence[int]:
        """Change the durable state. Returns the messages that the consumer needs no longer.

        These may leave the stream when the record is committed.
        """
        state = self.state
        released: Sequence[int] = ()
        if isinstance(record, Delivered):
            state.deliver(record.again, record.sequences, record.now_ns)
            if record.sequences:
                self._move_behind(record.sequences)
            if self.config.ack_policy is AckPolicy.NONE:
                return record.sequences
            self.deadlines.sent(record.sequences, record.now_ns)
            if record.again:
                self.deadlines.sent_again(record.again)
                self._unready_all(record.again)
        elif isinstance(record, Acked):
            if self.stream.config.retention is not Retention.LIMITS:
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
        elif isinstance(record, ConsumerReset | ConsumerConfigured):
            at_once(self.applying(record))
        return released

    def _needed_of(self, sequences: Sequence[int]) -> Sequence[int]:
        """Those of the messages that the consumer still needs, each once."""
        pending, redelivered = self.state.pending, self.state.redelivered
        return sorted({each for each in sequences if each in pending or each in redelivered})

    def _resetting(self, start_sequence: int) -> Work[None]:
        self.state.lasts_until = 0
        self.state.begin(start_sequence)
        self.ready.clear()
        self.deadlines.recover()
        yield from self.placing()

    def _forget_before(self, record: Forgotten) -> None:
        state = self.state
        if state.pending:
            state.acked_ns = record.now_ns
        state.forget_before(record.before)
        if self.cursor.sequence < record.before:
            self.cursor.move(record.before)
        self._unready_all([each for each in self.ready if each not in state.pending])

    def _reconfiguring(self, config: ConsumerConfig, place: int) -> Work[None]:
        before, state = self.config, self.state
        self._configure(config)
        self.acks.configure()
        if before.patterns != config.patterns:
            state.passed_stream = max(state.passed_stream, place - 1)
            yield from self.placing()
        if not self.is_pinning:
            state.pin_id, state.pinned_ns, self._pin_ends_ns = "", 0, 0
        if (before.ack_wait, before.backoff) != (config.ack_wait, config.backoff):
            self.deadlines.configure(config)
        if before.deliver_subject != config.deliver_subject:
            self.make_ready(sorted(state.pending))

    def recovered(self) -> None:
        """Compute everything that follows from the state, after the state was restored."""
        log, state = self.stream.log, self.state
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
        at_once(self.placing())

    # --- pending messages ----------------------------------------------------------------------

    def pending_count(self) -> int:
        """The number of visible messages that were never delivered."""
        count = self.cursor.pending() - self._uncommitted_count()
        return count + self._last_per_subject_left() if self.last_per_subject else count

    def _last_per_subject_left(self) -> int:
        """The number of last-per-subject messages that still exist and were not delivered."""
        removed = self._removed_count()
        if removed != self._last_per_subject_checked:
            self._last_per_subject_checked = removed
            has = self.stream.log.index.has
            self.last_per_subject = deque(
                sequence for sequence in self.last_per_subject if has(sequence)
            )
        return len(self.last_per_subject)

    def _removed_count(self) -> int:
        """The number of sequences that have no message any more."""
        log = self.stream.log
        return log.last_sequence - log.messages

    def _uncommitted_count(self) -> int:
        """The number of matching messages behind the position that are not visible yet."""
        stream = self.stream
        visible, end = stream.visible_sequence, stream.log.index.next_sequence
        if visible + 1 >= end:
            return 0
        begin = max(visible + 1, self.cursor.sequence)
        return stream.log.filter(self.patterns).count(begin, end)

    def deliveries_of(self, sequence: int) -> int:
        """The number of deliveries of a message so far."""
        return self.state.redelivered.get(sequence, 0) + 1

    # --- redelivery ----------------------------------------------------------------------------

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

    # --- steps ---------------------------------------------------------------------------------

    def step(self, step: Step, now_ns: int) -> Outbox:
        """Take a step. The output has the records to commit, and the messages that come of it."""
        out = Outbox()
        try:
            out.more = self._take_step(step, now_ns, out)
        except StoreError as error:
            # The records made before stand, and the log is offline by now.
            out.failure = str(error)
        if self.is_pinning:
            out.waits = any(isinstance(record, Pinned) for record, _, _ in self.ahead)
        return out

    def _take_step(self, step: Step, now_ns: int, out: Outbox) -> bool:
        if isinstance(step, Deliver):
            return self.deliver(now_ns, out)
        if isinstance(step, PlainAcks):
            return self.acks.take_plain(step.sequences, step.replies, now_ns, out)
        if isinstance(step, Acks):
            return self.acks.take(step.addresses, step.replies, step.payloads, now_ns, out)
        if isinstance(step, Pull):
            return self.pull(step.reply, step.body, now_ns, out)
        if isinstance(step, Timer):
            return self._run_due(now_ns, out)
        if isinstance(step, Interest):
            return self._set_interest(step.is_there, now_ns, out)
        if isinstance(step, FlowReply):
            return self._confirm_flow(step.subject, step.header, now_ns, out)
        return self._follow_unpin(now_ns, out)

    # --- receivers -----------------------------------------------------------------------------

    def pull(self, reply: bytes, body: bytes, now_ns: int, out: Outbox) -> bool:
        """Process a pull request. Returns what `deliver` returns, as do the methods below."""
        return self.let_wait(reply, body, now_ns, out) and self.deliver(now_ns, out)

    def let_wait(self, reply: bytes, body: bytes, now_ns: int, out: Outbox) -> bool:
        """Add a pull request to the queue without delivering. Returns whether the request waits."""
        if self.pulls is None:
            out.status(reply, PUSH_BASED)
            return False
        try:
            request = self._bodies.request(reply, body, now_ns)
            available = 0
            if request.no_wait:
                available = self.pending_count() + len(self.ready)
            self.pulls.add(request, available, now_ns, out)
        except PullRefusedError as refusal:
            if refusal.header:
                out.status(reply, refusal.header)
            return False
        return True

    def _set_interest(self, is_there: bool, now_ns: int, out: Outbox) -> bool:
        """Note whether a subscription matches the deliver subject."""
        if self.push is None:
            return False
        self.push.set_active(is_there, now_ns)
        return self.deliver(now_ns, out)

    def _confirm_flow(self, subject: bytes, header: bytes, now_ns: int, out: Outbox) -> bool:
        """Process the answer to a flow control request, whose header may acknowledge messages."""
        flow = None if self.push is None else self.push.flow
        if flow is None or not flow.confirm(subject):
            return False
        if header and self.config.ack_policy is AckPolicy.FLOW_CONTROL:
            self.acks.confirm(header, now_ns, out)
        return self.deliver(now_ns, out)

    def receivers(self) -> list[bytes]:
        """The subjects that messages are sent to now."""
        if self.pulls is not None:
            return self.pulls.replies()
        return [] if self.push is None else [self.push.subject]

    @property
    def wants_messages(self) -> bool:
        """Whether a receiver waits for the next message."""
        if self.pulls is not None:
            return bool(self.pulls.waiting)
        return self.push is not None and self.push.is_active

    @property
    def is_active(self) -> bool:
        """Whether a client uses the consumer at this moment."""
        return self.wants_messages

    def is_paused(self, now_ns: int) -> bool:
        """Whether the consumer is paused."""
        return now_ns < self._paused_until_ns

    # --- sending -------------------------------------------------------------------------------

    def deliver(self, now_ns: int, out: Outbox) -> bool:
        """Send the messages that can be sent. Returns whether more were left for the next turn."""
        return self.wants_messages and self.delivery.run(now_ns, out)

    def heartbeat(self) -> bytes:
        """The idle heartbeat, a status with the last sequences."""
        last_stream = max(self.cursor.sequence - 1, 0)
        if self.last_per_subject:
            last_stream = self.state.delivered_stream
        header = _HEARTBEAT % (self.state.delivered_consumer, last_stream)
        flow = None if self.push is None else self.push.flow
        if flow is not None and flow.asked:
            header += _STALLED % flow.asked
        return header + b"\r\n"

    # --- time ----------------------------------------------------------------------------------

    def next_due_ns(self) -> int:
        """The time of the earliest timer; 0 without one."""
        due_ns = self.deadlines.next_due_ns()
        pulls, push = self.pulls, self.push
        if pulls is not None:
            time_ns = pulls.due_ns if pulls.waiting else 0
            if time_ns and (not due_ns or time_ns < due_ns):
                due_ns = time_ns
        elif push is not None and push.is_active:
            time_ns = push.heartbeat_at_ns
            if time_ns and (not due_ns or time_ns < due_ns):
                due_ns = time_ns
        pin_ns, pause_ns, held_ns = self._pin_ends_ns, self._pause_ends_ns, self.held_until_ns
        if not (pin_ns or pause_ns or held_ns or self.config.inactive_threshold > 0):
            return due_ns
        if not self.wants_messages:
            held_ns = 0
        # Timers that most consumers do not have.
        times_ns = (due_ns, pin_ns, pause_ns, held_ns, self._inactive_at_ns())
        return min((each for each in times_ns if each), default=0)

    def _run_due(self, now_ns: int, out: Outbox) -> bool:
        """Run the timers that have fired. Returns whether messages were left for the next turn."""
        self._expire_deadlines(now_ns, out)
        if self._pin_ends_ns and now_ns >= self._pin_ends_ns:
            self._unpin("timeout", now_ns, out)
        if self._pause_ends_ns and now_ns >= self._pause_ends_ns:
            self._pause_ends_ns = 0
            out.events.append(PauseEnded())
        push = self.push
        more = self.deliver(now_ns, out)
        pulls = self.pulls
        if pulls is not None and pulls.waiting and 0 < pulls.due_ns <= now_ns:
            # As in nats-server, this also ends requests with no_wait that get no more messages
            # because too many are not acknowledged.
            is_at_end = not (more or self.held_until_ns or self.delivery.is_held)
            pulls.look_through(now_ns, is_at_end, out, self.heartbeat())
        if push is not None and push.heartbeat_ns and now_ns >= push.heartbeat_at_ns:
            if push.is_active:
                out.status(push.subject, self.heartbeat())
                if self._confirms_by_flow() and push.flow is not None and not push.flow.asked:
                    push.ask(out)
            push.heartbeat_at_ns = now_ns + push.heartbeat_ns
        return more

    def _confirms_by_flow(self) -> bool:
        return self.config.ack_policy is AckPolicy.FLOW_CONTROL and bool(self.state.pending)

    def _expire_deadlines(self, now_ns: int, out: Outbox) -> None:
        """Queue messages whose ack wait is over for another delivery, or give them up."""
        due = self.deadlines.due(now_ns)
        limit = self.config.max_deliver
        exhausted = []
        ready = []
        for sequence in due:
            if sequence in self.ready:
                continue
            # As in nats-server, the limit of a message that was redelivered is only noticed when a
            # receiver is there for it.
            deliveries = max(self.state.redelivered.get(sequence, 0), 1)
            if 0 < limit <= deliveries:
                exhausted.append(sequence)
                if deliveries == limit:
                    out.events.append(DeliveriesExceeded(sequence, deliveries))
            else:
                ready.append(sequence)
        if exhausted:
            self.record(Exhausted(self.name, exhausted), out)
        self.make_ready(ready)

    # --- ending --------------------------------------------------------------------------------

    def start(self, now_ns: int) -> None:
        """Start the timers of a new or restored consumer."""
        self.touch(now_ns)
        if self._pause_ends_ns <= now_ns:
            self._pause_ends_ns = 0
        if self.state.pin_id and not self._pin_ends_ns:
            # The consumer was restored, and its pinned client gets the whole timeout again.
            self.keep_pinned(now_ns)

    def touch(self, now_ns: int) -> None:
        """Note that a client uses the consumer."""
        self._active_ns = now_ns

    def _inactive_at_ns(self) -> int:
        """When the consumer is deleted for inactivity; 0 if it is not."""
        threshold_ns = self.config.inactive_threshold
        if threshold_ns <= 0:
            return 0
        if self.push is not None:
            since_ns = self.push.idle_since_ns
            return 0 if self.push.is_active or not since_ns else since_ns + threshold_ns
        check_ns = max(self._active_ns, 0 if self.pulls is None else self.pulls.active_ns)
        return check_ns + threshold_ns + INACTIVE_GRACE_NS

    def is_abandoned(self, now_ns: int, out: Outbox) -> bool:
        """Whether the consumer was inactive for longer than its threshold."""
        at_ns = self._inactive_at_ns()
        if not at_ns or now_ns < at_ns:
            return False
        if self.pulls is not None and self.pulls.waiting:
            self.pulls.look_through(now_ns, False, out, self.heartbeat())
            if self.pulls.waiting:
                self.touch(now_ns)
                return False
        return True

    def end(self, is_deleted: bool, out: Outbox) -> None:
        """Answer all waiting requests, because the consumer is deleted or the server stops."""
        self.is_gone = True
        if self.pulls is not None:
            self.pulls.end_all(is_deleted, out)
        if is_deleted:
            self._break_cycles()

    def _break_cycles(self) -> None:
        """Drop the parts that refer back to the consumer, which is not used any more."""
        if self.pulls is not None:
            self.pulls.gate = None
        del self.delivery, self.acks

    # --- pinning -------------------------------------------------------------------------------

    @property
    def pin_id(self) -> str:
        """The id of the pinned client; empty if no client is pinned."""
        return self.state.pin_id

    def pin(self, group: str, now_ns: int, out: Outbox) -> str:
        """Pin a new client. Returns its id."""
        pin_id = base62(self.stream.host.server.entropy, PIN_ID_SIZE)
        self.record(Pinned(self.name, pin_id, now_ns), out)
        self.keep_pinned(now_ns)
        out.events.append(ClientPinned(group, pin_id))
        return pin_id

    def keep_pinned(self, now_ns: int) -> None:
        """Restart the timeout of the pinned client."""
        self._pin_ends_ns = now_ns + self.config.priority_timeout

    def unpin_unserved(self, out: Outbox) -> None:
        """Unpin the client that was just pinned, because it got no message."""
        self._pin_ends_ns = 0
        self.record(Pinned(self.name, "", 0), out)

    def _follow_unpin(self, now_ns: int, out: Outbox) -> bool:
        """Deliver to another client, after an administrator has unpinned one."""
        self._pin_ends_ns = 0
        out.events.append(ClientUnpinned(self.config.priority_groups[0], "admin"))
        return self.deliver(now_ns, out)

    def _unpin(self, reason: str, now_ns: int, out: Outbox) -> None:
        self._pin_ends_ns = 0
        if self.state.pin_id:
            self.record(Pinned(self.name, "", now_ns), out)
        out.events.append(ClientUnpinned(self.config.priority_groups[0], reason))

    # --- description ---------------------------------------------------------------------------

    def info(self, now_ns: int) -> ConsumerInfo:
        """The document that clients get about the consumer."""
        state, config = self.state, self.config
        remaining_ns = max((config.pause_until_ns or 0) - now_ns, 0)
        groups: tuple[PriorityGroupState, ...] = ()
        if config.priority_groups:
            group = PriorityGroupState(
                group=config.priority_groups[0],
                pinned_client_id=state.pin_id,
                pinned_ts=format_time(state.pinned_ns) if state.pin_id else ZERO_TIME_TEXT,
            )
            groups = (group,)
        return ConsumerInfo(
            stream_name=self.stream.name,
            name=self.name,
            created=format_time(self.created_ns),
            config=config,
            delivered=SequenceInfo(
                consumer_seq=state.delivered_consumer,
                stream_seq=state.delivered_stream,
                last_active=format_time(state.delivered_ns) if state.delivered_ns else "",
            ),
            ack_floor=SequenceInfo(
                consumer_seq=state.floor_consumer,
                stream_seq=state.floor_stream,
                last_active=format_time(state.acked_ns) if state.acked_ns else "",
            ),
            num_ack_pending=len(state.pending),
            num_redelivered=0 if config.max_deliver == 1 else len(state.redelivered),
            num_waiting=0 if self.pulls is None else self.pulls.count_heard(),
            num_pending=self.pending_count(),
            push_bound=self.push is not None and self.push.is_active,
            paused=remaining_ns > 0,
            pause_remaining=remaining_ns,
            ts=format_time(now_ns),
            priority_groups=groups,
        )

    def dump(self) -> dict[str, object]:
        """The durable state."""
        return {"created_ns": self.created_ns, "config": self.config, **self.state.dump()}
