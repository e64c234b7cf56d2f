"""Consumers at work: joined to the broker, the clock, and the journal of their stream.

    pull, ack, interest, publish, timer ─▶ Step ─▶ Consumer ─▶ Proposal ─▶ StreamRunner

Every step of a consumer takes the same way: the consumer takes it, and proposes its records and its
effects, which the runner of the stream carries out. A consumer sends a bounded part of what it has
per turn, and only as fast as its receivers read.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol, final

from headwater.base.sliced import Work
from headwater.jetstream.consumers.acks import AckAddress
from headwater.jetstream.consumers.changes_ahead import Hold, hold_of
from headwater.jetstream.consumers.machine import Consumer
from headwater.jetstream.consumers.records import ConsumerDeleted, LongRecord
from headwater.jetstream.consumers.steps import (
    DELIVER,
    TIMER,
    UNPINNED,
    Acks,
    FlowReply,
    Interest,
    PlainAcks,
    Step,
    Timer,
)
from headwater.jetstream.proposal import ConsumerClosed, Proposal
from headwater.jetstream.records import Record
from headwater.jetstream.streams.stream import Stream
from headwater.runtime.environment import Scheduler
from headwater.server.core.accounts import Account
from headwater.server.core.broker import Broker
from headwater.server.core.client import Client
from headwater.server.core.holding import Waiting
from headwater.server.core.out_buffers import UNREAD_LOOK_S
from headwater.server.streams.due_times import DueTimes
from headwater.server.streams.requests import Request, refuse_nothing
from headwater.store.log.message_log import DiskFullError, OfflineError, StoreError

# Acknowledgements without a waiting client are written to the journal after at most this time.
JOURNAL_S_MAX: Final = 0.005
# The timer is set at least this far ahead.
TIMER_S_MIN: Final = 0.001
# A turn serves at most this many consumers whose timers have fired, so that clients are read in
# between.
DUE_MAX: Final = 64
# This many acknowledgements, and bytes of them, may wait while their stream is being changed: as
# many as clients send in a tenth of a second. A client that sends more waits for the change.
HELD_MAX: Final = 65_536
HELD_BYTES_MAX: Final = 8 * 1024 * 1024


class StreamQueue(Protocol):
    """The runner of the stream, as far as the runner of its consumers has to know it."""

    def request(self, request: Request) -> None:
        """Decide a request after all steps that came before it."""
        ...

    def propose(self, proposal: Proposal[Record]) -> None:
        """Put records into the log, and carry out the effects when they are committed."""
        ...

    def propose_step(self, proposal: Proposal[Record]) -> None:
        """Put the records of a step into the log, and carry out its effects: those that need not
        wait at once, the others when the records are committed."""
        ...


@final
class ConsumerRunner:
    """The consumers of one stream at work."""

    __slots__ = (
        "_account",
        "_asked",
        "_broker",
        "_changing",
        "_failed",
        "_going_on",
        "_held",
        "_held_by",
        "_held_interest",
        "_held_sends",
        "_held_waiting",
        "_is_flush_held",
        "_is_flush_planned",
        "_now_ns",
        "_queue",
        "_refusals",
        "_scheduler",
        "_stream",
        "_timers",
        "is_held",
    )

    def __init__(
        self,
        account: Account,
        stream: Stream,
        broker: Broker,
        scheduler: Scheduler,
        timers: DueTimes[Consumer],
        now_ns: Callable[[], int],
        queue: StreamQueue,
        failed: Callable[[str], object],
    ) -> None:
        self._account = account
        self._stream = stream
        self._broker = broker
        self._scheduler = scheduler
        self._timers = timers
        self._now_ns = now_ns
        self._queue = queue
        self._failed = failed
        # Consumers that have more to send: in the next turn, or when their receivers have read.
        self._going_on: set[Consumer] = set()
        # Empty: the refusals of the next pull.
        self._refusals: Proposal[Record] = Proposal(is_awaited=False)
        # Consumers that clients have asked for messages in this turn.
        self._asked: dict[Consumer, None] = {}
        self._is_flush_planned = False
        # Whether the stream is being changed. Steps wait meanwhile, with the time of their arrival,
        # and so may a write to the journal.
        self.is_held = False
        self._held: list[tuple[Consumer, Step, int]] = []
        self._is_flush_held = False
        # The consumer of which a change is in flight, and the steps of it that wait for the change.
        self._changing: Consumer | None = None
        self._held_by = Hold.NONE
        # Likewise consumers that have messages to send, and consumers whose subscribers came or
        # went: each once, however often clients ask for it.
        self._held_sends: dict[Consumer, None] = {}
        self._held_interest: dict[Consumer, None] = {}
        self._held_waiting = Waiting(broker.holding, HELD_MAX, HELD_BYTES_MAX)

    def find(self, name: str) -> Consumer | None:
        """The consumer of a name, if it is there."""
        return self._stream.consumers.by_name.get(name)

    # --- while the stream is being changed -----------------------------------------------------

    def hold(self) -> None:
        """Let no consumer work until `release`: clients must not see half of a change."""
        self.is_held = True

    def hold_for(self, change: LongRecord) -> None:
        """Hold the steps of a consumer that must not come behind its change in the log, until
        `end_change`."""
        self._changing = self.find(change.name)
        before = None if self._changing is None else self._changing.config
        self._held_by = hold_of(change, before)
        if self._held_by is Hold.NONE:
            self._changing = None

    def end_change(self) -> None:
        """Take the steps that have waited for the change of a consumer."""
        self._changing = None
        if not self.is_held:
            self.release()

    def holds(self, consumer: Consumer) -> bool:
        """Whether the steps of a consumer wait."""
        return self.is_held or consumer is self._changing

    def note_held(self, count: int, size: int, sources: Iterable[Client]) -> None:
        """Count acknowledgements that wait for the change, and the clients that have sent them."""
        self._held_waiting.add(size, sources, count)

    def release(self) -> None:
        """Take the steps that have waited, in order, and then let consumers send messages.

        Those of a consumer of which a change is in flight go on waiting.
        """
        self.is_held = False
        held, self._held = self._held, []
        for consumer, step, now_ns in held:
            if isinstance(step, Timer):
                self.run_due(consumer, self._now_ns())
            else:
                self._take_step(consumer, step, now_ns)
        if self._is_flush_held:
            self._is_flush_held = False
            self._plan_flush()
        if not self._held:
            self._held_waiting.release()
        interest, self._held_interest = self._held_interest, {}
        for consumer in interest:
            self._interest_changed(consumer)
        sends, self._held_sends = self._held_sends, {}
        for consumer in sends:
            self.deliver(consumer)

    # --- events of consumers -------------------------------------------------------------------

    def start(self) -> None:
        """Start all consumers that were recovered."""
        for consumer in self._stream.consumers:
            self.begin(consumer)

    def begin(self, consumer: Consumer) -> None:
        """Start a consumer that was created or recovered."""
        now_ns = self._now_ns()
        consumer.start(now_ns)
        if consumer.push is not None:
            self._watch(consumer)
            consumer.push.set_active(self._is_bound(consumer), now_ns)
            # The client that has created it gets the reply first.
            self._go_on(consumer)
        self._plan_timer(consumer)

    def close(self, name: str) -> Consumer | None:
        """End a consumer that was deleted, and return it."""
        consumer = self._stream.consumers.closed.pop(name, None)
        if consumer is not None:
            self.end(consumer)
            self._plan_flush()
        return consumer

    def follow_change(self, consumer: Consumer, old_subject: bytes) -> None:
        """Have a consumer work by another configuration; it pushed to `old_subject` before."""
        push, now_ns = consumer.push, self._now_ns()
        consumer.start(now_ns)
        if push is None:
            self._take_step(consumer, DELIVER, now_ns)
        else:
            if push.subject != old_subject:
                self._account.unwatch(old_subject, consumer)
                self._watch(consumer)
            self._take_step(consumer, Interest(self._is_bound(consumer)), now_ns)

    def end(self, consumer: Consumer, is_deleted: bool = True) -> None:
        """End a consumer that is deleted, or whose server stops, and answer its waiting pulls."""
        out: Proposal[Record] = Proposal(is_awaited=False)
        consumer.end(is_deleted, out)
        if consumer.push is not None:
            self._account.unwatch(consumer.push.subject, consumer)
        self._plan_timer(consumer)
        self._going_on.discard(consumer)
        self._queue.propose_step(out)

    def end_all(self, is_deleted: bool) -> None:
        """End all consumers, because the stream is deleted or the server stops."""
        consumers = self._stream.consumers
        for consumer in [*consumers, *consumers.closed.values()]:
            self.end(consumer, is_deleted)
        consumers.closed.clear()

    def rest_all(self) -> None:
        """Have all consumers cease to work, because another server leads the stream."""
        now_ns = self._now_ns()
        out: Proposal[Record] = Proposal(is_awaited=False)
        for consumer in self._stream.consumers:
            consumer.rest(now_ns, out)
            if consumer.push is not None:
                self._account.unwatch(consumer.push.subject, consumer)
            self._timers.cancel(consumer)
        self._going_on.clear()
        self._asked.clear()
        self._held.clear()
        self._held_sends.clear()
        self._held_interest.clear()
        self._stream.consumers.forget_news()
        self._queue.propose_step(out)

    def break_cycles(self) -> None:
        """Drop the references to the runner of a deleted stream."""
        self._held_waiting.release()
        del self._queue

    def pull(self, consumer: Consumer, reply: bytes, body: bytes) -> None:
        """Add a pull of a client. The pulls of a turn are served together at its end."""
        out = self._refusals
        if consumer.let_wait(reply, body, self._now_ns(), out):
            if not self._asked:
                self._broker.turn.call_when_decided(self._serve_asked)
            self._asked[consumer] = None
        if out.at_once:
            self._refusals = Proposal(is_awaited=False)
            self._propose(consumer, out)

    def _serve_asked(self) -> None:
        asked = self._asked
        self._asked = {}
        for consumer in asked:
            if not consumer.is_gone:
                self.deliver(consumer)

    def take_acks(
        self,
        consumer: Consumer,
        addresses: list[AckAddress],
        replies: list[bytes | None],
        payloads: list[bytes],
    ) -> None:
        """Process acknowledgements of clients."""
        step, now_ns = Acks(addresses, replies, payloads), self._now_ns()
        if not self.holds(consumer) and consumer.acks.may_take_long:
            work = partial(self._acking_ahead, consumer, step, now_ns)
            self._queue.request(Request(work, refuse_nothing))
        else:
            self._take_step(consumer, step, now_ns)

    def _acking_ahead(self, consumer: Consumer, step: Acks, now_ns: int) -> Work[None]:
        """Acknowledge most messages of a long step some at a time, while the stream is held.

        The rest of the step comes before all that has waited for the change.
        """
        if consumer.is_gone:
            return
        out: Proposal[Record] = Proposal()
        for units in consumer.acks.acking_ahead(step.addresses, step.payloads, now_ns, out):
            # The step goes on with `out`, and no record may join a proposal that is in the log.
            records, out.records = out.records, []
            self._queue.propose(Proposal(records))
            yield units
        if not self.holds(consumer):
            self._take_step(consumer, step, now_ns)
        else:
            self._held.insert(0, (consumer, step, now_ns))

    def take_plain_acks(
        self, consumer: Consumer, sequences: list[int], replies: list[bytes | None]
    ) -> None:
        """Process plain acknowledgements, for a consumer that need not look at each of them."""
        self._take_step(consumer, PlainAcks(sequences, replies), self._now_ns())

    def confirm_flow(self, consumer: Consumer, subject: bytes, header: bytes) -> None:
        """Process a flow-control reply of a client."""
        self._take_step(consumer, FlowReply(subject, header), self._now_ns())

    def unpin(self, name: str) -> None:
        """Have a priority group, whose client was unpinned, pin another one."""
        consumer = self.find(name)
        if consumer is not None:
            self._take_step(consumer, UNPINNED, self._now_ns())

    def serve(self, name: str) -> None:
        """Let a consumer send the messages that it begins again with."""
        consumer = self.find(name)
        if consumer is not None:
            self.deliver(consumer)

    def published(self, subjects: Iterable[bytes]) -> None:
        """Deliver messages that became visible to the consumers that wait for them."""
        for consumer in self._stream.consumers.waiting_for(subjects):
            self.deliver(consumer)

    def messages_kept(self) -> None:
        """Deliver messages that are not taken back any more to servers that copy the stream."""
        for consumer in self._stream.consumers.direct:
            self.deliver(consumer)

    def deliver(self, consumer: Consumer) -> None:
        """Let a consumer send its messages."""
        if self.is_held or (consumer is self._changing and self._held_by is Hold.ALL):
            self._held_sends[consumer] = None
        elif not consumer.is_gone:
            self._take_now(consumer, DELIVER, self._now_ns())

    def run_due(self, consumer: Consumer, now_ns: int) -> None:
        """Let a consumer do the work whose time has come."""
        if consumer.is_gone:
            return
        if self.is_held or consumer is self._changing:
            self._held.append((consumer, TIMER, now_ns))
            return
        out: Proposal[Record] = Proposal(is_awaited=False)
        if consumer.is_abandoned(now_ns, out):
            self._propose(consumer, out)
            decide = partial(self._deciding_removal, consumer)
            self._queue.request(Request(decide, refuse_nothing, self._may_remove))
            return
        self._take_step(consumer, TIMER, now_ns)

    def _plan_timer(self, consumer: Consumer) -> None:
        """Plan the next timer of a consumer; one that is too early fires and is planned again."""
        timers = self._timers
        if consumer.is_gone:
            timers.cancel(consumer)
            return
        due_ns = consumer.next_due_ns()
        if due_ns:
            planned = timers.planned.get(consumer)
            if planned is None or due_ns < planned[0]:
                timers.plan(consumer, due_ns, self.run_due)

    def _may_remove(self) -> bool:
        """Whether the removal of a consumer can be decided while entries are in flight."""
        return not self._stream.consumers.changes

    def _deciding_removal(self, consumer: Consumer) -> Work[Proposal[Record] | None]:
        """Decide to remove a consumer that no client uses."""
        yield 0
        if consumer.is_gone:
            return None
        return Proposal([ConsumerDeleted(consumer.name)], (ConsumerClosed(consumer.name),))

    # --- interest ------------------------------------------------------------------------------

    def _watch(self, consumer: Consumer) -> None:
        push = consumer.push
        assert push is not None
        self._account.watch(push.subject, consumer, lambda: self._interest_changed(consumer))

    def _interest_changed(self, consumer: Consumer) -> None:
        if self.is_held or consumer is self._changing:
            self._held_interest[consumer] = None
            return
        if consumer.is_gone:
            return
        push = consumer.push
        is_bound = self._is_bound(consumer)
        if push is not None and is_bound != push.is_active:
            self._take_step(consumer, Interest(is_bound), self._now_ns())

    def _is_bound(self, consumer: Consumer) -> bool:
        """Whether a client is subscribed to exactly the subject that messages are pushed to."""
        push = consumer.push
        assert push is not None
        remote = self._account.remote
        if remote is not None and remote.has_subscription(push.subject, push.group or None):
            return True
        route = self._account.index.match(push.subject)
        if push.group:
            return any(
                sub.subject == push.subject and sub.queue == push.group
                for group in route.groups
                for sub in group
            )
        return any(sub.subject == push.subject for sub in route.plain)

    # --- steps ---------------------------------------------------------------------------------

    def _take_step(self, consumer: Consumer, step: Step, now_ns: int) -> None:
        """Let a consumer take a step, now or after the change of the stream, and carry it out."""
        if consumer.is_gone:
            return
        if self.is_held or consumer is self._changing:
            self._held.append((consumer, step, now_ns))
        else:
            self._take_now(consumer, step, now_ns)

    def _take_now(self, consumer: Consumer, step: Step, now_ns: int) -> None:
        remote = self._account.remote
        may_be_unread = self._broker.crowds.may_be_unread or (
            remote is not None and remote.may_be_behind
        )
        if may_be_unread and consumer.wants_messages and self._is_unread(consumer):
            self._go_on(consumer)
        proposal = consumer.step(step, now_ns)
        if proposal.failure is not None:
            self._failed(str(proposal.failure))
        self._propose(consumer, proposal)

    def _propose(self, consumer: Consumer, proposal: Proposal[Record]) -> None:
        """Propose the records and effects of a step, and plan the work that follows from it."""
        self._queue.propose_step(proposal)
        consumers = self._stream.consumers
        if proposal.records and not self._is_flush_planned and consumers.has_unwritten:
            self._plan_flush()
        if not consumer.is_gone:
            consumers.note_waiting(consumer)
            self._plan_timer(consumer)

    # --- sending -------------------------------------------------------------------------------

    def go_on(self, name: str) -> None:
        """Have a consumer send the messages that it has left for the next turn."""
        consumer = self.find(name)
        if consumer is not None:
            self._go_on(consumer)

    def _go_on(self, consumer: Consumer) -> None:
        """Have a consumer send more messages in the next turn, and none before."""
        if consumer not in self._going_on:
            self._going_on.add(consumer)
            consumer.delivery.is_held = True
            self._scheduler.call_soon(lambda: self._send_more(consumer))

    def _send_more(self, consumer: Consumer) -> None:
        if consumer.is_gone or consumer not in self._going_on:
            return
        if self._is_unread(consumer):
            self._scheduler.call_later(UNREAD_LOOK_S, lambda: self._send_more(consumer))
            return
        self._going_on.discard(consumer)
        consumer.delivery.is_held = False
        self.deliver(consumer)

    def _is_unread(self, consumer: Consumer) -> bool:
        """Whether a receiver has too many unread bytes to be sent more for now."""
        is_unread, account = self._broker.is_unread, self._account
        return any(is_unread(account, subject) for subject in consumer.receivers())

    # --- the journal ---------------------------------------------------------------------------

    def flush_soon(self) -> None:
        """Have entries that the stream itself has added written to the journal."""
        if not self._is_flush_planned and self._stream.consumers.has_unwritten:
            self._plan_flush()

    def _plan_flush(self) -> None:
        if not self._is_flush_planned:
            self._is_flush_planned = True
            self._scheduler.call_later(JOURNAL_S_MAX, self._flush)

    def _flush(self) -> None:
        self._is_flush_planned = False
        if not self.is_held:
            self.flush()
        else:
            # The deletion of a consumer is written together with the removal of its messages.
            self._is_flush_held = True

    def flush(self) -> StoreError | None:
        """Write the waiting records of consumers, and removals of messages, to the journal.

        Returns the error if some could not be written; on a full disk they wait for room.
        """
        consumers, log = self._stream.consumers, self._stream.log
        if log.offline:
            # The log accepts no writes any more, and waiting records would only pile up.
            is_lost = bool(consumers.take_unwritten()) or log.has_queued_journal
            return OfflineError(log.offline) if is_lost else None
        try:
            consumers.flush()
        except StoreError as error:
            if not isinstance(error, DiskFullError):
                # A full disk is reported once, and not for every record.
                self._failed(str(error))
            return error
        return None

    def write_removals(self) -> StoreError | None:
        """Write the removals that records have caused to the journal, before anybody is told.

        Returns the error if they could not be written; on a full disk they wait for room.
        """
        log = self._stream.log
        if not log.has_queued_journal:
            return None
        try:
            log.write_journal()
        except StoreError as error:
            if not isinstance(error, DiskFullError):
                self._failed(str(error))
            return error
        return None
