"""Delivery: which messages are sent next, and to which receivers.

Redeliveries go first, then new messages, as far as `max_ack_pending` and the receivers allow.
Nothing leaves its queue before there is a receiver: a message that was read and could not be sent
is simply read again.

Messages to one receiver take the short way, as lists from the log to the receiver; messages that
have to be counted or shared among receivers are sent one by one.
"""

from typing import TYPE_CHECKING, Final, final

from headwater.jetstream.consumers.outbox import (
    REMOVED_REASON,
    DeliveriesExceeded,
    Messages,
    Outbox,
    Terminated,
)
from headwater.jetstream.consumers.push import Push
from headwater.jetstream.consumers.records import Acked, Delivered, Exhausted
from headwater.store.log.message_log import MessageBatch, StoredMessage
from headwater.wire.headers import with_lines

if TYPE_CHECKING:
    from headwater.jetstream.consumers.machine import Consumer

# The limits of one consumer in a turn, so that other consumers are served too.
TURN_MESSAGES_MAX: Final = 1024
TURN_BYTES_MAX: Final = 1024 * 1024

_PIN_LINE: Final = b"Nats-Pin-Id: %b\r\n"
_SIZE_LINE: Final = b"Nats-Msg-Size: %d\r\n"


@final
class Delivery:
    """The sending side of one consumer."""

    __slots__ = ("_consumer", "is_held", "is_stalled", "pending", "unacknowledged")

    def __init__(self, consumer: "Consumer") -> None:
        self._consumer = consumer
        # Whether delivery is held until the consumer's runner releases it.
        self.is_held = False
        # Whether delivery stopped because too many messages are not acknowledged.
        self.is_stalled = False
        # The load while a message is being sent, for the gate of a priority group.
        self.pending = 0
        self.unacknowledged = 0

    def run(self, now_ns: int, out: Outbox) -> bool:
        """Send the messages that can be sent, to receivers that wait for some.

        Returns whether more may be left.
        """
        consumer = self._consumer
        self.is_stalled = False
        more = False
        if self.is_held:
            return False
        if not consumer.is_paused(now_ns) and now_ns >= consumer.held_until_ns:
            consumer.held_until_ns = 0
            if consumer.ready and self._send_again(now_ns, out) == TURN_MESSAGES_MAX:
                more = True
            elif not consumer.ready:
                more = self._send_new(now_ns, out)
        pulls = consumer.pulls
        is_waited_for = more or self.is_stalled or consumer.held_until_ns
        if pulls is not None and pulls.hurried and not is_waited_for:
            pulls.look_through(now_ns, True, out, consumer.heartbeat())
        return more

    # --- redeliveries --------------------------------------------------------------------------

    def _send_again(self, now_ns: int, out: Outbox) -> int:
        """Send messages of the queue of redeliveries. Returns their number."""
        consumer = self._consumer
        count = 0
        while consumer.ready and count < TURN_MESSAGES_MAX:
            sequences = consumer.first_ready(TURN_MESSAGES_MAX - count)
            again, is_through = self._send_some_again(sequences, now_ns, out)
            if again:
                consumer.record(Delivered(consumer.name, again, (), now_ns), out)
            count += len(again)
            if not is_through:
                break
        return count

    def _send_some_again(
        self, sequences: list[int], now_ns: int, out: Outbox
    ) -> tuple[list[int], bool]:
        """Send messages of the queue of redeliveries.

        Returns those that were sent, and False if a message had no receiver.
        """
        consumer = self._consumer
        again: list[int] = []
        for sequence in sequences:
            if not self._has_receiver():
                return again, False
            deliveries = consumer.deliveries_of(sequence)
            if 0 < consumer.config.max_deliver <= deliveries:
                out.events.append(DeliveriesExceeded(sequence, deliveries))
                consumer.record(Exhausted(consumer.name, [sequence]), out)
                continue
            message = consumer.stream.message(sequence)
            if message is None:
                pending = consumer.state.pending[sequence]
                out.events.append(Terminated(pending, sequence, deliveries, REMOVED_REASON))
                consumer.record(Acked(consumer.name, [sequence], now_ns), out)
                continue
            if not self._send_one(message, deliveries + 1, len(again), now_ns, out):
                return again, False
            again.append(sequence)
        return again, True

    def _has_receiver(self) -> bool:
        consumer = self._consumer
        if consumer.pulls is not None:
            return bool(consumer.pulls.waiting)
        return consumer.push is not None and consumer.push.is_open

    # --- new messages --------------------------------------------------------------------------

    def _send_new(self, now_ns: int, out: Outbox) -> bool:
        """Send messages for the first time. Returns whether there are more."""
        consumer = self._consumer
        count = self._wanted()
        limit = consumer.config.max_ack_pending
        if limit > 0:
            room = limit - len(consumer.state.pending)
            if room <= 0:
                self.is_stalled = True
                return False
            count = min(count, room)
        if count <= 0:
            return False
        found = self._read(min(count, TURN_MESSAGES_MAX))
        count = len(found.sequences)
        if not count:
            self._arrive_at_end()
            return False
        pending = consumer.pending_count()
        sent = self._send_all(found, pending, now_ns, out)
        if sent:
            consumer.record(Delivered(consumer.name, (), found.sequences[:sent], now_ns), out)
        if sent < count:
            return False
        if pending == sent:
            if self._wanted() > 0:
                # Without a waiting request the consumer searches no further.
                self._arrive_at_end()
            return False
        if 0 < limit <= len(consumer.state.pending):
            self.is_stalled = self._wanted() > 0
            return False
        return self._wanted() > 0

    def _wanted(self) -> int:
        """The number of messages that receivers would take now."""
        consumer = self._consumer
        if consumer.pulls is not None:
            return consumer.pulls.wanted
        return TURN_MESSAGES_MAX if consumer.push is not None and consumer.push.is_open else 0

    def _read(self, count: int) -> MessageBatch:
        consumer = self._consumer
        stream = consumer.stream
        last_per_subject = consumer.last_per_subject
        while last_per_subject:
            wanted = [last_per_subject[place] for place in range(min(count, len(last_per_subject)))]
            found = stream.log.read_at(wanted, TURN_BYTES_MAX)
            if len(found):
                return found
            # None of these messages exists any more.
            for _ in wanted:
                last_per_subject.popleft()
        end = stream.visible_sequence + 1
        begin = consumer.cursor.sequence
        if begin >= end:
            return MessageBatch()
        if not consumer.has_filter and end >= stream.log.index.next_sequence:
            return stream.log.read(begin, count, TURN_BYTES_MAX)
        while wanted := consumer.cursor.next_sequences(end, count):
            found = stream.log.read_at(wanted, TURN_BYTES_MAX)
            if len(found):
                return found
            # None of these messages can be read.
            consumer.cursor.move(wanted[-1] + 1)
        return MessageBatch()

    def _arrive_at_end(self) -> None:
        """Move the position to the visible end, past messages that do not match."""
        consumer = self._consumer
        end = consumer.stream.visible_sequence + 1
        if not consumer.last_per_subject and consumer.cursor.sequence < end:
            consumer.cursor.move(end)

    def _send_all(self, found: MessageBatch, pending: int, now_ns: int, out: Outbox) -> int:
        """Send as many of the messages as possible. Returns their number."""
        consumer = self._consumer
        config = consumer.config
        if consumer.pace is None and not config.headers_only:
            if consumer.pulls is not None:
                receivers = consumer.pulls.share(len(found.sequences), now_ns, out)
                if receivers:
                    self._send_lists(receivers, found, pending, out)
                    return len(receivers)
            elif consumer.push is not None:
                return self._push_all(consumer.push, found, pending, now_ns, out)
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
        self, receivers: list[bytes], found: MessageBatch, pending: int, out: Outbox
    ) -> None:
        """Send one message to each receiver; a receiver may stand in the list several times."""
        count = len(receivers)
        replies = self._replies(found, count, pending)
        if receivers.count(receivers[0]) == count:
            out.sends.append(_part(receivers[0], found, replies, 0, count))
            return
        out.sends += [
            Messages(to, [subject], [reply], [header], [payload])
            for to, subject, reply, header, payload in zip(
                receivers, found.subjects, replies, found.headers, found.payloads, strict=False
            )
        ]

    def _push_all(
        self, push: Push, found: MessageBatch, pending: int, now_ns: int, out: Outbox
    ) -> int:
        """Push as many messages as the flow window admits. Returns their number."""
        replies = self._replies(found, len(found), pending)
        flow = push.flow
        if flow is None:
            out.sends.append(_part(push.subject, found, replies, 0, len(found)))
            push.sent(0, now_ns, out)
            return len(found)
        own = len(push.subject)
        sizes = [
            own + len(reply) + len(header) + len(payload)
            for reply, header, payload in zip(replies, found.headers, found.payloads, strict=True)
        ]
        begin = 0
        while begin < len(sizes) and push.is_open:
            end = begin + flow.sent_all(sizes[begin:])
            out.sends.append(_part(push.subject, found, replies, begin, end))
            push.sent_now(now_ns)
            if flow.is_due:
                push.ask(out)
            begin = end
        return begin

    def _replies(self, found: MessageBatch, count: int, pending: int) -> list[bytes]:
        """The reply subjects, by which receivers acknowledge, of the first `count` messages."""
        consumer = self._consumer
        first = consumer.state.delivered_consumer + 1
        return [
            b"%b1.%d.%d.%d.%d" % (prefix, sequence, number, stored_ns, left)
            for prefix, sequence, number, stored_ns, left in zip(
                [consumer.reply_prefix] * count,
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
        out: Outbox,
        pending: int = -1,
    ) -> bool:
        """Send one message to the next receiver. Returns whether there was one.

        `sent_before` is the number of messages of this turn that are not recorded yet.
        """
        consumer = self._consumer
        header, payload = message.header, message.payload
        if consumer.config.headers_only:
            header = with_lines(header, _SIZE_LINE % len(payload))
            payload = b""
        reply = b"%b%d.%d.%d.%d.%d" % (
            consumer.reply_prefix,
            deliveries,
            message.sequence,
            consumer.state.delivered_consumer + sent_before + 1,
            message.timestamp_ns,
            consumer.pending_count() if pending < 0 else pending,
        )
        size = len(message.subject) + len(reply) + len(header) + len(payload)
        pace = consumer.pace
        if pace is not None:
            earliest_ns = pace.earliest_ns(message.sequence, message.timestamp_ns, size, now_ns)
            if earliest_ns > now_ns:
                consumer.held_until_ns = earliest_ns
                return False
        if consumer.pulls is not None:
            is_new = pending >= 0
            self.pending = pending + 1 if is_new else consumer.pending_count() + 1
            self.unacknowledged = len(consumer.state.pending) + (sent_before if is_new else 0)
            request = consumer.pulls.next(size, now_ns, out)
            if request is None:
                return False
            if consumer.is_pinning:
                header = with_lines(header, _PIN_LINE % consumer.pin_id.encode())
            out.sends.append(
                Messages(request.reply, [message.subject], [reply], [header], [payload])
            )
            consumer.pulls.served(request, 1, now_ns, out)
        else:
            push = consumer.push
            if push is None or not push.is_open:
                return False
            out.sends.append(
                Messages(push.subject, [message.subject], [reply], [header], [payload])
            )
            push.sent(size - len(message.subject) + len(push.subject), now_ns, out)
        if pace is not None:
            pace.sent(message.timestamp_ns, size, now_ns)
        return True


def _part(to: bytes, found: MessageBatch, replies: list[bytes], begin: int, end: int) -> Messages:
    """A slice of the messages, for one receiver."""
    if begin == 0 and end == len(found.sequences):
        return Messages(to, found.subjects, replies, found.headers, found.payloads)
    return Messages(
        to,
        found.subjects[begin:end],
        replies[begin:end],
        found.headers[begin:end],
        found.payloads[begin:end],
    )
