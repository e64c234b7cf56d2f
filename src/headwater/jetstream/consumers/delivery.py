"""Delivery: which messages are sent next, and to which receivers.

Redeliveries go first, then new messages, as far as `max_ack_pending` and the receivers allow.
Nothing leaves its queue before there is a receiver: a message that was read and could not be sent
is simply read again.

Messages to one receiver take the short way, as lists from the log to the receiver; messages that
have to be counted or shared among receivers are sent one by one.
"""

from collections.abc import Sequence
from typing import Final, final

from headwater.jetstream.config.consumer_config import ConsumerConfig, PriorityPolicy
from headwater.jetstream.consumers.effects import (
    REMOVED_REASON,
    DeliveriesExceeded,
    Messages,
    Terminated,
)
from headwater.jetstream.consumers.pace import Pace, pace_of
from headwater.jetstream.consumers.pull import PullQueue
from headwater.jetstream.consumers.push import Push
from headwater.jetstream.consumers.records import Acked, Delivered, Exhausted
from headwater.jetstream.consumers.replies import Replies
from headwater.jetstream.consumers.state_machine import StateMachine
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record
from headwater.jetstream.streams.view import StreamView
from headwater.store.errors import DamagedMessageError
from headwater.store.log.message_log import MessageBatch, StoredMessage
from headwater.wire.headers import with_lines

# The limits of one consumer in a turn, so that other consumers are served too.
TURN_MESSAGES_MAX: Final = 1024
TURN_BYTES_MAX: Final = 1024 * 1024
# A message of a replica that cannot be read is looked at again after this time: by then its record
# has come from another server, if one has it.
DAMAGE_LOOK_NS: Final = 100_000_000

_HEARTBEAT: Final = (
    b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n"
)
_STALLED: Final = b"Nats-Consumer-Stalled: %b\r\n"
_PIN_LINE: Final = b"Nats-Pin-Id: %b\r\n"
_SIZE_LINE: Final = b"Nats-Msg-Size: %d\r\n"


@final
class Delivery:
    """The sending side of one consumer."""

    __slots__ = (
        "_machine",
        "_pace",
        "_pulls",
        "_push",
        "_reply_prefix",
        "_stream",
        "held_until_ns",
        "is_held",
        "is_pinning",
        "is_stalled",
        "paused_until_ns",
        "pending",
        "unacknowledged",
    )

    def __init__(
        self,
        machine: StateMachine,
        stream: StreamView,
        pulls: PullQueue | None,
        push: Push | None,
    ) -> None:
        self._machine = machine
        self._stream = stream
        self._pulls = pulls
        self._push = push
        self._pace: Pace | None = None
        prefix = f"$JS.ACK.{stream.name}.{machine.name}."
        self._reply_prefix = prefix.encode(errors="surrogateescape")
        # Whether messages carry the id of the pinned client.
        self.is_pinning = False
        # Until when the consumer is paused, and until when the pace lets no message go.
        self.paused_until_ns = 0
        self.held_until_ns = 0
        # Whether delivery is held until the consumer's runner releases it.
        self.is_held = False
        # Whether delivery stopped because too many messages are not acknowledged.
        self.is_stalled = False
        # The load while a message is being sent, for the gate of a priority group.
        self.pending = 0
        self.unacknowledged = 0

    def configure(self, config: ConsumerConfig, burst_bytes: int) -> None:
        """Use another configuration; a pace lets `burst_bytes` go at once."""
        self.is_pinning = config.priority_policy is PriorityPolicy.PINNED_CLIENT
        self.paused_until_ns = config.pause_until_ns or 0
        self._pace = pace_of(config, burst_bytes, self._stream.visible_sequence)

    def run(self, now_ns: int, out: Proposal[Record]) -> bool:
        """Send the messages that can be sent, to receivers that wait for some.

        Returns whether more may be left.
        """
        machine = self._machine
        self.is_stalled = False
        more = False
        if self.is_held:
            return False
        if now_ns >= self.paused_until_ns and now_ns >= self.held_until_ns:
            self.held_until_ns = 0
            try:
                if machine.ready and self._send_again(now_ns, out) == TURN_MESSAGES_MAX:
                    more = True
                elif not machine.ready:
                    more = self._send_new(now_ns, out)
            except DamagedMessageError:
                # No message is passed over because one replica cannot read it.
                self.held_until_ns = now_ns + DAMAGE_LOOK_NS
        pulls = self._pulls
        is_waited_for = more or self.is_stalled or self.held_until_ns
        if pulls is not None and pulls.hurried and not is_waited_for:
            pulls.look_through(now_ns, True, out, self.heartbeat())
        return more

    def heartbeat(self) -> bytes:
        """The idle heartbeat, a status with the last sequences."""
        position, state = self._machine.position, self._machine.state
        last_stream = max(position.cursor.sequence - 1, 0)
        if position.last_per_subject:
            last_stream = state.delivered_stream
        header = _HEARTBEAT % (state.delivered_consumer, last_stream)
        flow = None if self._push is None else self._push.flow
        if flow is not None and flow.asked:
            header += _STALLED % flow.asked
        return header + b"\r\n"

    # --- redeliveries --------------------------------------------------------------------------

    def _send_again(self, now_ns: int, out: Proposal[Record]) -> int:
        """Send messages of the queue of redeliveries. Returns their number."""
        machine = self._machine
        count = 0
        while machine.ready and count < TURN_MESSAGES_MAX:
            sequences = machine.first_ready(TURN_MESSAGES_MAX - count)
            again, is_through = self._send_some_again(sequences, now_ns, out)
            if again:
                machine.record(Delivered(machine.name, again, (), now_ns), out)
            count += len(again)
            if not is_through:
                break
        return count

    def _send_some_again(
        self, sequences: list[int], now_ns: int, out: Proposal[Record]
    ) -> tuple[list[int], bool]:
        """Send messages of the queue of redeliveries.

        Returns those that were sent, and False if a message had no receiver.
        """
        machine = self._machine
        again: list[int] = []
        for sequence in sequences:
            if not self._has_receiver():
                return again, False
            deliveries = machine.deliveries_of(sequence)
            if 0 < machine.config.max_deliver <= deliveries:
                out.tell(machine.name, DeliveriesExceeded(sequence, deliveries))
                machine.record(Exhausted(machine.name, [sequence]), out)
                continue
            try:
                message = self._stream.message(sequence)
            except DamagedMessageError:
                if not again:
                    raise
                # Those before it count as delivered first.
                return again, True
            if message is None:
                pending = machine.state.pending[sequence]
                event = Terminated(pending, sequence, deliveries, REMOVED_REASON)
                out.tell(machine.name, event)
                machine.record(Acked(machine.name, [sequence], now_ns), out)
                continue
            if not self._send_one(message, deliveries + 1, len(again), now_ns, out):
                return again, False
            again.append(sequence)
        return again, True

    def _has_receiver(self) -> bool:
        if self._pulls is not None:
            return bool(self._pulls.waiting)
        return self._push is not None and self._push.is_open

    # --- new messages --------------------------------------------------------------------------

    def _send_new(self, now_ns: int, out: Proposal[Record]) -> bool:
        """Send messages for the first time. Returns whether there are more."""
        machine = self._machine
        count = self._wanted()
        limit = machine.config.max_ack_pending
        if limit > 0:
            room = limit - len(machine.state.pending)
            if room <= 0:
                self.is_stalled = True
                return False
            count = min(count, room)
        if count <= 0:
            return False
        found = machine.position.read(min(count, TURN_MESSAGES_MAX), TURN_BYTES_MAX)
        count = len(found.sequences)
        if not count:
            machine.position.arrive_at_end()
            return False
        pending = machine.position.pending_count()
        sent = self._send_all(found, pending, now_ns, out)
        if sent:
            machine.record(Delivered(machine.name, (), found.sequences[:sent], now_ns), out)
        if sent < count:
            return False
        if pending == sent:
            if self._wanted() > 0:
                # Without a waiting request the consumer searches no further.
                machine.position.arrive_at_end()
            return False
        if 0 < limit <= len(machine.state.pending):
            self.is_stalled = self._wanted() > 0
            return False
        return self._wanted() > 0

    def _wanted(self) -> int:
        """The number of messages that receivers would take now."""
        if self._pulls is not None:
            return self._pulls.wanted
        return TURN_MESSAGES_MAX if self._push is not None and self._push.is_open else 0

    def _send_all(
        self, found: MessageBatch, pending: int, now_ns: int, out: Proposal[Record]
    ) -> int:
        """Send as many of the messages as possible. Returns their number."""
        machine = self._machine
        config = machine.config
        if self._pace is None and not config.headers_only:
            if self._pulls is not None:
                receivers = self._pulls.share(len(found.sequences), now_ns, out)
                if receivers:
                    self._send_lists(receivers, found, pending, out)
                    return len(receivers)
            elif self._push is not None:
                return self._push_all(self._push, found, pending, now_ns, out)
        for position, sequence in enumerate(found.sequences):
            message = StoredMessage(
                sequence,
                found.subjects[position],
                found.headers[position],
                found.payloads[position],
                found.timestamps_ns[position],
            )
            if not self._send_one(message, 1, position, now_ns, out, pending - position - 1):
                return position
        return len(found)

    def _send_lists(
        self, receivers: list[bytes], found: MessageBatch, pending: int, out: Proposal[Record]
    ) -> None:
        """Send one message to each receiver; a receiver may stand in the list several times."""
        count = len(receivers)
        replies = self._replies(found, count, pending)
        if receivers.count(receivers[0]) == count:
            out.at_once.append(_part(receivers[0], found, replies, 0, count))
            return
        out.at_once += [
            Messages(to, [subject], [reply], [header], [payload])
            for to, subject, reply, header, payload in zip(
                receivers, found.subjects, replies, found.headers, found.payloads, strict=False
            )
        ]

    def _push_all(
        self, push: Push, found: MessageBatch, pending: int, now_ns: int, out: Proposal[Record]
    ) -> int:
        """Push as many messages as the flow window admits. Returns their number."""
        replies: Sequence[bytes] = self._pushed_replies(found, pending)
        flow = push.flow
        if flow is None:
            out.at_once.append(_part(push.subject, found, replies, 0, len(found)))
            push.sent(0, now_ns, out)
            return len(found)
        own = len(push.subject)
        if isinstance(replies, Replies):
            # The subjects of a batch have about one length.
            own += len(replies[0])
            lengths = zip(map(len, found.headers), map(len, found.payloads), strict=True)
            sizes = [own + header + payload for header, payload in lengths]
        else:
            sizes = [
                own + len(reply) + len(header) + len(payload)
                for reply, header, payload in zip(
                    replies, found.headers, found.payloads, strict=True
                )
            ]
        begin = 0
        while begin < len(sizes) and push.is_open:
            end = begin + flow.sent_all(sizes[begin:])
            out.at_once.append(_part(push.subject, found, replies, begin, end))
            push.sent_now(now_ns)
            if flow.is_due:
                push.ask(now_ns, out)
            begin = end
        return begin

    def _pushed_replies(self, found: MessageBatch, pending: int) -> Sequence[bytes]:
        """The reply subjects of messages that are pushed; a server that copies needs no bytes."""
        machine = self._machine
        if not machine.config.sourcing:
            return self._replies(found, len(found), pending)
        number = machine.state.delivered_consumer + 1
        return Replies(
            self._reply_prefix, found.sequences, found.timestamps_ns, number, pending - 1
        )

    def _replies(self, found: MessageBatch, count: int, pending: int) -> list[bytes]:
        """The reply subjects, by which receivers acknowledge, of the first `count` messages."""
        machine = self._machine
        first = machine.state.delivered_consumer + 1
        if count == 1:
            place = found.sequences[0], first, found.timestamps_ns[0], pending - 1
            return [b"%b1.%d.%d.%d.%d" % (self._reply_prefix, *place)]
        return [
            b"%b1.%d.%d.%d.%d" % (prefix, sequence, number, stored_ns, left)
            for prefix, sequence, number, stored_ns, left in zip(
                [self._reply_prefix] * count,
                found.sequences,
                range(first, first + count),
                found.timestamps_ns,
                range(pending - 1, pending - 1 - count, -1),
                strict=False,
            )
        ]

    def _send_one(
        self,
        message: StoredMessage,
        deliveries: int,
        sent_before: int,
        now_ns: int,
        out: Proposal[Record],
        pending: int = -1,
    ) -> bool:
        """Send one message to the next receiver. Returns whether there was one.

        `sent_before` is the number of messages of this turn that are not recorded yet.
        """
        machine = self._machine
        header, payload = message.header, message.payload
        if machine.config.headers_only:
            header = with_lines(header, _SIZE_LINE % len(payload))
            payload = b""
        reply = b"%b%d.%d.%d.%d.%d" % (
            self._reply_prefix,
            deliveries,
            message.sequence,
            machine.state.delivered_consumer + sent_before + 1,
            message.timestamp_ns,
            machine.position.pending_count() if pending < 0 else pending,
        )
        size = len(message.subject) + len(reply) + len(header) + len(payload)
        pace = self._pace
        if pace is not None:
            earliest_ns = pace.earliest_ns(message.sequence, message.timestamp_ns, size, now_ns)
            if earliest_ns > now_ns:
                self.held_until_ns = earliest_ns
                return False
        if self._pulls is not None:
            is_new = pending >= 0
            self.pending = pending + 1 if is_new else machine.position.pending_count() + 1
            self.unacknowledged = len(machine.state.pending) + (sent_before if is_new else 0)
            request = self._pulls.next(size, now_ns, out)
            if request is None:
                return False
            if self.is_pinning:
                header = with_lines(header, _PIN_LINE % machine.state.pin_id.encode())
            out.at_once.append(
                Messages(request.reply, [message.subject], [reply], [header], [payload])
            )
            self._pulls.served(request, 1, now_ns, out)
        else:
            push = self._push
            if push is None or not push.is_open:
                return False
            out.at_once.append(
                Messages(push.subject, [message.subject], [reply], [header], [payload])
            )
            push.sent(size - len(message.subject) + len(push.subject), now_ns, out)
        if pace is not None:
            pace.sent(message.timestamp_ns, size, now_ns)
        return True


def _part(
    to: bytes, found: MessageBatch, replies: Sequence[bytes], begin: int, end: int
) -> Messages:
    """A slice of the messages, for one receiver."""
    messages = Messages(to, found.subjects, replies, found.headers, found.payloads)
    return messages if begin == 0 and end == len(found.payloads) else messages.part(begin, end)
