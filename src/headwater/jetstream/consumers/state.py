"""The durable state of a consumer: deliveries and outstanding acknowledgements.

It changes by records alone (`Consumer.apply`). Sequences come in pairs: the consumer's own counts
deliveries, the stream's identifies the message. While a message is pending it keeps the consumer
sequence of its first delivery.

The state of a message is plain ints in dicts, which the garbage collector does not traverse.

A record that is applied before it is committed can be undone: the state keeps the values that the
record replaces (`image`) and puts them back (`undo`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, repeat, takewhile
from typing import NamedTuple, final

from headwater.jetstream.config.consumer_config import AckPolicy


class StateImage(NamedTuple):
    """The values that a record is about to replace.

    `messages` has the stream sequence of each message that the record touches, and its values in
    `pending`, `sent_ns` and `redelivered`; None for a value that is not there.
    """

    delivered: tuple[int, int]
    floor: tuple[int, int]
    times_ns: tuple[int, int]
    pin: tuple[str, int]
    messages: list[tuple[int, int | None, int | None, int | None]]


@final
class ConsumerState:
    """The positions of delivery and acknowledgement, and the messages between the two."""

    __slots__ = (
        "_acks",
        "_order",
        "acked_ns",
        "delivered_consumer",
        "delivered_ns",
        "delivered_stream",
        "floor_consumer",
        "floor_stream",
        "lasts_until",
        "passed_stream",
        "pending",
        "pin_id",
        "pinned_ns",
        "redelivered",
        "sent_ns",
    )

    def __init__(self, acks: AckPolicy, start_sequence: int, lasts_until: int = 0) -> None:
        self._acks = acks
        # Up to this sequence only the last message of each subject is delivered; 0 for all.
        self.lasts_until = lasts_until
        self.pin_id = ""
        self.pinned_ns = 0
        self.begin(start_sequence)

    def begin(self, start_sequence: int) -> None:
        """Forget all deliveries; the next message is the one at `start_sequence` or after it."""
        self.delivered_consumer = 0
        self.delivered_stream = start_sequence - 1
        self.floor_consumer = 0
        self.floor_stream = start_sequence - 1
        # The consumer does not search up to this sequence again: it was searched with another
        # filter, or without a match.
        self.passed_stream = 0
        # Times of the last delivery and the last acknowledgement; 0 after a restart.
        self.delivered_ns = 0
        self.acked_ns = 0
        # The consumer sequence of each message that is not acknowledged, by stream sequence.
        self.pending: dict[int, int] = {}
        # The time of sending from which the redelivery is computed, by stream sequence.
        self.sent_ns: dict[int, int] = {}
        # The number of deliveries of a message beyond the first, by stream sequence.
        self.redelivered: dict[int, int] = {}
        # Messages in the order of their first delivery. Some may not be pending any more.
        self._order: deque[int] = deque()

    def deliver(self, again: Sequence[int], sequences: Sequence[int], now_ns: int) -> None:
        """Count messages that were sent; those of `again` were sent before the others."""
        self.delivered_ns = now_ns
        for sequence in again:
            self.delivered_consumer += 1
            if sequence not in self.pending:
                continue
            self.redelivered[sequence] = self.redelivered.get(sequence, 0) + 1
            self.sent_ns[sequence] = now_ns
        if sequences and sequences[0] <= self.delivered_stream:
            # A journal repeats sequences only where damaged entries between them are missing.
            sequences = [each for each in sequences if each > self.delivered_stream]
        if not sequences:
            return
        first = self.delivered_consumer + 1
        self.delivered_consumer += len(sequences)
        self.delivered_stream = sequences[-1]
        if self._acks is AckPolicy.NONE:
            self.floor_consumer = self.delivered_consumer
            self.floor_stream = self.delivered_stream
            return
        self.pending.update(zip(sequences, range(first, first + len(sequences)), strict=True))
        self.sent_ns.update(zip(sequences, repeat(now_ns)))
        self._order.extend(sequences)

    def acknowledge(self, sequences: Sequence[int]) -> None:
        """Remove messages that need no delivery, pending or given up."""
        pending, sent_ns, redelivered = self.pending, self.sent_ns, self.redelivered
        order = self._order
        # The first message that is pending; the order may begin with others.
        while order and order[0] not in pending:
            order.popleft()
        for sequence in sequences:
            if pending.pop(sequence, 0):
                del sent_ns[sequence]
        if redelivered:
            for sequence in sequences:
                redelivered.pop(sequence, None)
        if order and order[0] not in pending:
            self._raise_floor()

    def acknowledge_up_to(self, consumer_sequence: int, stream_sequence: int) -> None:
        """Remove all messages up to one, and raise the floor to it."""
        self._forget_up_to(stream_sequence)
        self.floor_consumer = max(self.floor_consumer, consumer_sequence)
        self.floor_stream = max(self.floor_stream, stream_sequence)

    def _forget_up_to(self, stream_sequence: int) -> int:
        """Remove the messages up to one.

        Returns the consumer sequence of the last of them that was pending; 0 if none was.
        """
        last = 0
        for sequence in self.pending_up_to(stream_sequence):
            last = self.pending.pop(sequence)
            del self.sent_ns[sequence]
        for sequence in [each for each in self.redelivered if each <= stream_sequence]:
            del self.redelivered[sequence]
        self._drop_order()
        return last

    def unsettled_up_to(self, stream_sequence: int) -> list[int]:
        """Messages up to a sequence that are pending or were given up, in order."""
        given_up = [each for each in self.redelivered if each <= stream_sequence]
        return sorted({*self.pending_up_to(stream_sequence), *given_up})

    def pending_up_to(self, stream_sequence: int, count_max: int | None = None) -> list[int]:
        """The messages up to a sequence that are not acknowledged, in order; the first so many."""
        pending = self.pending
        up_to = takewhile(stream_sequence.__ge__, self._order)
        return [*islice(filter(pending.__contains__, up_to), count_max)]

    def missing(self, has: Callable[[int], bool]) -> list[int]:
        """Messages that are pending or were given up and no longer exist, in order."""
        known = {*self.pending, *self.redelivered}
        return sorted(sequence for sequence in known if not has(sequence))

    def give_up(self, sequences: Sequence[int]) -> None:
        """Stop the delivery of messages, but remember that they were redelivered.

        The floor stays below them until another message is acknowledged.
        """
        for sequence in sequences:
            if self.pending.pop(sequence, 0):
                del self.sent_ns[sequence]
            self.redelivered[sequence] = self.redelivered.get(sequence, 0)

    def forget_before(self, stream_sequence: int) -> None:
        """Remove all messages before a sequence, as after a purge, and raise the floor."""
        self.delivered_stream = max(self.delivered_stream, stream_sequence - 1)
        last = self._forget_up_to(stream_sequence - 1)
        self.floor_consumer = max(self.floor_consumer, last)
        self.floor_stream = max(self.floor_stream, stream_sequence - 1)
        if not self.pending:
            self._raise_floor()

    def cut(self, last_sequence: int) -> None:
        """Forget all sequences after the end of the stream, which the stream lost."""
        for sequence in [each for each in self.pending if each > last_sequence]:
            del self.pending[sequence]
            del self.sent_ns[sequence]
        for sequence in [each for each in self.redelivered if each > last_sequence]:
            del self.redelivered[sequence]
        self._order = deque(each for each in self._order if each <= last_sequence)
        self.delivered_stream = min(self.delivered_stream, last_sequence)
        self.passed_stream = min(self.passed_stream, last_sequence)
        self.floor_stream = min(self.floor_stream, last_sequence)
        if not self.pending:
            self.floor_consumer = self.delivered_consumer

    @property
    def oldest_pending(self) -> int:
        """The first message of the stream that is not acknowledged; 0 if all are."""
        self._drop_order()
        return self._order[0] if self._order else 0

    def _raise_floor(self) -> None:
        """Move the floor up to just below the first message that is not acknowledged."""
        consumer_sequence, stream_sequence = self.delivered_consumer, self.delivered_stream
        oldest = self.oldest_pending
        if oldest:
            consumer_sequence, stream_sequence = self.pending[oldest] - 1, oldest - 1
        # An acknowledgement of all messages up to one may have raised it higher.
        self.floor_consumer = max(self.floor_consumer, consumer_sequence)
        self.floor_stream = max(self.floor_stream, stream_sequence)

    def _drop_order(self) -> None:
        """Remove the leading entries of the order whose messages are not pending."""
        order, pending = self._order, self.pending
        if not pending:
            order.clear()
        while order and order[0] not in pending:
            order.popleft()

    def image(self, sequences: Iterable[int]) -> StateImage:
        """The values that a record about these messages may replace."""
        pending, sent_ns, redelivered = self.pending.get, self.sent_ns.get, self.redelivered.get
        return StateImage(
            (self.delivered_consumer, self.delivered_stream),
            (self.floor_consumer, self.floor_stream),
            (self.delivered_ns, self.acked_ns),
            (self.pin_id, self.pinned_ns),
            [(each, pending(each), sent_ns(each), redelivered(each)) for each in sequences],
        )

    def undo(self, image: StateImage) -> None:
        """Put the values of an image back, which is the youngest; `sort_pending` comes last."""
        self.delivered_consumer, self.delivered_stream = image.delivered
        self.floor_consumer, self.floor_stream = image.floor
        self.delivered_ns, self.acked_ns = image.times_ns
        self.pin_id, self.pinned_ns = image.pin
        for sequence, consumer_sequence, sent_ns, times in image.messages:
            _put_back(self.pending, sequence, consumer_sequence)
            _put_back(self.sent_ns, sequence, sent_ns)
            _put_back(self.redelivered, sequence, times)

    def sort_pending(self) -> None:
        """Compute the order of the pending messages, after records were undone."""
        # Messages are delivered for the first time in the order of the stream.
        self._order = deque(sorted(self.pending))

    def dump(self) -> dict[str, object]:
        """All durable values, in a form that does not depend on how the state came about."""
        return {
            "delivered": (self.delivered_consumer, self.delivered_stream),
            "floor": (self.floor_consumer, self.floor_stream),
            "pending": sorted(self.pending.items()),
            "sent_ns": sorted(self.sent_ns.items()),
            "redelivered": sorted(self.redelivered.items()),
            "lasts_until": self.lasts_until,
            "passed": self.passed_stream,
            "pin": (self.pin_id, self.pinned_ns),
        }

    def restore(
        self,
        delivered: tuple[int, int],
        floor: tuple[int, int],
        pending: Sequence[tuple[int, int, int]],
        redelivered: Sequence[tuple[int, int]],
    ) -> None:
        """Set the values of a restored consumer.

        `pending` has the stream sequence, the consumer sequence and the time of sending of each
        message.
        """
        self.delivered_consumer, self.delivered_stream = delivered
        self.floor_consumer, self.floor_stream = floor
        self.pending = {sequence: consumer for sequence, consumer, _ in pending}
        self.sent_ns = {sequence: sent_ns for sequence, _, sent_ns in pending}
        self.redelivered = dict(redelivered)
        self.sort_pending()


def _put_back(values: dict[int, int], sequence: int, value: int | None) -> None:
    if value is None:
        values.pop(sequence, None)
    else:
        values[sequence] = value
