"""Consumers at work: joined to the broker, the clock, and the journal of their stream.

    pull, ack, interest, publish ─▶ Consumer ─▶ Outbox ─▶ broker
                                        └─▶ records ─▶ journal, with the next write

A consumer sends a bounded part of what it has per turn, and only as fast as its receivers read.
"""

from collections.abc import Callable, Iterable
from typing import Final, final

from headwater.base.sliced import Sliced, Work
from headwater.jetstream.advisories import Action
from headwater.jetstream.consumers.acks import AckAddress
from headwater.jetstream.consumers.machine import Consumer
from headwater.jetstream.consumers.outbox import Messages, Outbox
from headwater.jetstream.consumers.records import ConsumerDeleted
from headwater.jetstream.streams.stream import Stream
from headwater.runtime.environment import Scheduler
from headwater.server.core.accounts import Account
from headwater.server.core.broker import Broker
from headwater.server.core.client import Client
from headwater.server.core.holding import Waiting
from headwater.server.core.out_buffers import UNREAD_LOOK_S
from headwater.server.streams.advisories import Advisories
from headwater.server.streams.due_times import DueTimes
from headwater.store.log.message_log import DiskFullError, StoreError

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


@final
class ConsumerRunner:
    """The consumers of one stream at work."""

    __slots__ = (
        "_account",
        "_advisories",
        "_asked",
        "_broker",
        "_change",
        "_failed",
        "_going_on",
        "_held",
        "_held_interest",
        "_held_sends",
        "_held_waiting",
        "_is_flush_planned",
        "_now_ns",
        "_scheduler",
        "_settle",
        "_stream",
        "_timers",
        "_when_sure",
    )

    def __init__(
        self,
        account: Account,
        stream: Stream,
        broker: Broker,
        advisories: Advisories,
        scheduler: Scheduler,
        timers: DueTimes[Consumer],
        now_ns: Callable[[], int],
        when_sure: Callable[[Callable[[], object]], object],
        change: Callable[[Callable[[], object]], object],
        settle: Callable[[], object],
        failed: Callable[[str], object],
    ) -> None:
        self._account = account
        self._stream = stream
        self._broker = broker
        self._advisories = advisories
        self._scheduler = scheduler
        self._timers = timers
        self._now_ns = now_ns
        self._when_sure = when_sure
        # Has the stream make a change in its turn.
        self._change = change
        self._settle = settle
        self._failed = failed
        # Consumers that have more to send: in the next turn, or when their receivers have read.
        self._going_on: set[Consumer] = set()
        # Consumers that clients have asked for messages in this turn.
        self._asked: dict[Consumer, None] = {}
        self._is_flush_planned = False
        # Work of consumers that waits while the stream is being changed; None while it is not.
        self._held: list[Callable[[], object]] | None = None
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
        self._held = []

    @property
    def is_held(self) -> bool:
        """Whether the stream is being changed."""
        return self._held is not None

    def note_held(self, count: int, size: int, sources: Iterable[Client]) -> None:
        """Count acknowledgements that wait for the change, and the clients that have sent them."""
        self._held_waiting.add(size, sources, count)

    def release(self) -> None:
        """Do the work that has waited, in order, and then let consumers send messages."""
        held, self._held = self._held, None
        for work in held or ():
            work()
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

    def changed(self, consumer: Consumer, old_subject: bytes) -> None:
        """Follow a consumer that has another configuration now."""
        push, now_ns = consumer.push, self._now_ns()
        consumer.start(now_ns)
        out = Outbox()
        if push is None:
            self._do(consumer, lambda: consumer.deliver(now_ns, out), out)
            return
        if push.subject != old_subject:
            self._account.unwatch(old_subject, consumer)
            self._watch(consumer)
        self._do(consumer, lambda: consumer.interest(self._is_bound(consumer), now_ns, out), out)

    def end(self, consumer: Consumer, is_deleted: bool = True) -> None:
        """End a consumer that is deleted, or whose server stops, and answer its waiting pulls."""
        out = Outbox()
        consumer.end(is_deleted, out)
        if consumer.push is not None:
            self._account.unwatch(consumer.push.subject, consumer)
        self._plan_timer(consumer)
        self._going_on.discard(consumer)
        self._carry_out(consumer, out)

    def end_all(self, is_deleted: bool) -> None:
        """End all consumers, because the stream is deleted or the server stops."""
        for consumer in [*self._stream.consumers]:
            self.end(consumer, is_deleted)

    def break_cycles(self) -> None:
        """Drop the references to the runner of a deleted stream."""
        self._held_waiting.release()
        del self._when_sure, self._change, self._settle

    def pull(self, consumer: Consumer, reply: bytes, body: bytes) -> None:
        """Add a pull of a client. The pulls of a turn are served together at its end."""
        out = Outbox()
        if consumer.let_wait(reply, body, self._now_ns(), out):
            if not self._asked:
                self._broker.turn.call_when_decided(self._serve_asked)
            self._asked[consumer] = None
        if out.sends:
            self._carry_out(consumer, out)

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
        out, now_ns = Outbox(), self._now_ns()

        def take() -> bool:
            return consumer.acks.take(addresses, replies, payloads, now_ns, out)

        if self._held is None and consumer.acks.may_take_long:
            ahead = consumer.acks.acking_ahead(addresses, payloads, now_ns)
            self._change(lambda: Sliced(self._doing_ahead(consumer, ahead, take, out)))
        else:
            self._do(consumer, take, out)

    def _doing_ahead(
        self, consumer: Consumer, ahead: Work[None], rest: Callable[[], object], out: Outbox
    ) -> Work[None]:
        """Let a consumer do most of its work some at a time, as part of a change of the stream.

        The rest of the work comes before all that has waited for the change.
        """
        if consumer.is_gone:
            return
        try:
            yield from ahead
        except DiskFullError:
            # The consumer goes on with its work as far as that needs no room.
            pass
        except StoreError as error:
            self._failed(str(error))
        if self._held is None:
            self._do(consumer, rest, out)
        else:
            self._held.insert(0, lambda: self._do(consumer, rest, out))

    def take_plain_acks(
        self, consumer: Consumer, sequences: list[int], replies: list[bytes | None]
    ) -> None:
        """Process plain acknowledgements, for a consumer that need not look at each of them."""
        out, now_ns = Outbox(), self._now_ns()
        self._do(
            consumer,
            lambda: consumer.acks.take_plain(sequences, replies, now_ns, out),
            out,
        )

    def confirm_flow(self, consumer: Consumer, subject: bytes, header: bytes) -> None:
        """Process a flow-control reply of a client."""
        out = Outbox()
        self._do(
            consumer,
            lambda: consumer.confirm_flow(subject, header, self._now_ns(), out),
            out,
        )

    def unpin(self, consumer: Consumer) -> None:
        """Have the priority group pin another client."""
        out = Outbox()
        self._do(consumer, lambda: consumer.unpin(self._now_ns(), out), out)

    def published(self, subjects: Iterable[bytes]) -> None:
        """Deliver messages that became visible to the consumers that wait for them."""
        for consumer in self._stream.consumers.waiting_for(subjects):
            self.deliver(consumer)
        self.tell_events()

    def deliver(self, consumer: Consumer) -> None:
        """Let a consumer send its messages."""
        if self._held is not None:
            self._held_sends[consumer] = None
            return
        out = Outbox()
        self._do(consumer, lambda: consumer.deliver(self._now_ns(), out), out)

    def run_due(self, consumer: Consumer, now_ns: int) -> None:
        """Let a consumer do the work whose time has come."""
        if self._held is not None:
            self._held.append(lambda: self.run_due(consumer, self._now_ns()))
            return
        if consumer.is_gone:
            return
        out = Outbox()
        if consumer.is_abandoned(now_ns, out):
            self._carry_out(consumer, out)
            self._change(lambda: Sliced(self.removing(consumer)))
            return
        self._do(consumer, lambda: consumer.run_due(now_ns, out), out)

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

    def removing(self, consumer: Consumer) -> Work[None]:
        """Remove a consumer with its state, in slices, as part of a change of the stream.

        Without room on the disk, the messages that only this consumer kept are removed later.
        """
        if consumer.is_gone:
            return
        record = ConsumerDeleted(consumer.name)
        self._stream.append(record)
        # Before another request has a turn and may delete the stream.
        self.end(consumer)
        try:
            yield from self._stream.applying(record)
        except DiskFullError:
            # The stream removes the messages when there is room.
            pass
        except StoreError as error:
            self._failed(str(error))
        self._settle()
        self._plan_flush()
        self._advisories.consumer_action(self._account, consumer, Action.DELETE)

    # --- interest ------------------------------------------------------------------------------

    def _watch(self, consumer: Consumer) -> None:
        push = consumer.push
        assert push is not None
        self._account.watch(push.subject, consumer, lambda: self._interest_changed(consumer))

    def _interest_changed(self, consumer: Consumer) -> None:
        if self._held is not None:
            self._held_interest[consumer] = None
            return
        if consumer.is_gone:
            return
        push = consumer.push
        is_bound = self._is_bound(consumer)
        if push is not None and is_bound != push.is_active:
            out = Outbox()
            self._do(consumer, lambda: consumer.interest(is_bound, self._now_ns(), out), out)

    def _is_bound(self, consumer: Consumer) -> bool:
        """Whether a client is subscribed to exactly the subject that messages are pushed to."""
        push = consumer.push
        assert push is not None
        route = self._account.index.match(push.subject)
        if push.group:
            return any(
                sub.subject == push.subject and sub.queue == push.group
                for group in route.groups
                for sub in group
            )
        return any(sub.subject == push.subject for sub in route.plain)

    # --- sending -------------------------------------------------------------------------------

    def _do(self, consumer: Consumer, work: Callable[[], object], out: Outbox) -> None:
        """Let a consumer work, and send the messages and events that come of it."""
        if consumer.is_gone:
            return
        if self._held is not None:
            self._held.append(lambda: self._do(consumer, work, out))
            return
        if self._is_unread(consumer):
            self._go_on(consumer)
        more: object = False
        try:
            more = work()
        except DiskFullError:
            # The messages recorded before are sent; the others are sent when there is room.
            pass
        except StoreError as error:
            # The messages recorded before are sent; the log is offline by now.
            self._failed(str(error))
        self._carry_out(consumer, out)
        if more is True:
            self._go_on(consumer)

    def _carry_out(self, consumer: Consumer, out: Outbox) -> None:
        broker, index = self._broker, self._account.index
        for send in out.sends:
            route = index.match(send.to)
            if isinstance(send, Messages):
                broker.send_messages(
                    route, send.subjects, send.replies, send.headers, send.payloads, send.to
                )
            else:
                broker.send(route, send.to, send.reply, b"", send.header)
        if out.answered:
            replies = out.answered
            self._when_sure(
                lambda: broker.send_replies(self._account, replies, [b""] * len(replies))
            )
        for event in out.events:
            self._advisories.consumer_event(self._account, consumer, event)
        self.tell_events()
        consumers = self._stream.consumers
        if not consumer.is_gone:
            consumers.note_waiting(consumer)
            self._plan_timer(consumer)
        if consumers.has_unwritten:
            self._plan_flush()
        self._settle()

    def tell_events(self) -> None:
        """Publish the events of consumers that lost messages, and let consumers send more."""
        consumers = self._stream.consumers
        if consumers.events:
            events, consumers.events = consumers.events, []
            for consumer, event in events:
                self._advisories.consumer_event(self._account, consumer, event)
        for consumer in consumers.take_freed():
            self.deliver(consumer)

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
        return any(
            self._broker.is_unread(self._account.index.match(subject), subject)
            for subject in consumer.receivers()
        )

    # --- the journal ---------------------------------------------------------------------------

    def _plan_flush(self) -> None:
        if not self._is_flush_planned:
            self._is_flush_planned = True
            self._scheduler.call_later(JOURNAL_S_MAX, self._flush)

    def _flush(self) -> None:
        self._is_flush_planned = False
        if self._held is None:
            self.flush()
        else:
            # The deletion of a consumer is written together with the removal of its messages.
            self._held.append(self._plan_flush)

    def flush(self) -> bool:
        """Write the waiting records of consumers. Returns whether all of them were written."""
        consumers = self._stream.consumers
        if self._stream.log.offline:
            # The log accepts no writes any more, and waiting records would only pile up.
            return not (consumers.take_unwritten() or consumers.is_owed)
        try:
            consumers.flush()
        except DiskFullError:
            # A full disk is reported once, and not for every record.
            return False
        except StoreError as error:
            self._failed(str(error))
            return False
        return True
