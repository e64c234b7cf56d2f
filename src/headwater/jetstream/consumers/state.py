"""What a consumer remembers: how far it has delivered, and what is not yet acknowledged.

All of it is durable, and changes by records alone (`Consumer.apply`). Sequences come in pairs: the
consumer's own counts deliveries, the stream's says which message it was. A message keeps the
consumer's sequence of its first delivery while it is pending.

Per message there are plain ints in dicts, and nothing that the garbage collector would walk.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice, repeat, takewhile
from typing import final

from headwater.jetstream.config.consumer_config import AckPolicy


@final
class ConsumerState:
    """Delivered, acknowledged, and what is between the two."""

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
        # Up to this sequence only the last message of each subject is delivered; 0 for none.
        self.lasts_until = lasts_until
        self.pin_id = ""
        self.pinned_ns = 0
        self.begin(start_sequence)

    def begin(self, start_sequence: int) -> None:
        """Nothing was delivered yet, and what comes first is at a sequence of the stream."""
        self.delivered_consumer = 0
        self.delivered_stream = start_sequence - 1
        self.floor_consumer = 0
        self.floor_stream = start_sequence - 1
        # Up to here nothing is looked for any more: another filter was in force, or nothing came.
        self.passed_stream = 0
        # When something last was; not kept over a restart.
        self.delivered_ns = 0
        self.acked_ns = 0
        # The consumer's sequence of each message that is not acknowledged, by the stream's.
        self.pending: dict[int, int] = {}
        # When it was sent, as far as its redelivery is concerned.
        self.sent_ns: dict[int, int] = {}
        # How often messages were delivered beyond the first time.
        self.redelivered: dict[int, int] = {}
        # Messages in the order of their first delivery; of those not pending some are still here.
        self._order: deque[int] = deque()

    def deliver(self, again: Sequence[int], sequences: Sequence[int], now_ns: int) -> None:
        """Messages were sent, first those that were before."""
        self.delivered_ns = now_ns
        for sequence in again:
            self.delivered_consumer += 1
            if sequence not in self.pending:
                continue
            self.redelivered[sequence] = self.redelivered.get(sequence, 0) + 1
            self.sent_ns[sequence] = now_ns
        if sequences and sequences[0] <= self.delivered_stream:
            # Only where a damaged journal does not tell what was between.
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
        """Messages are done with, also those that are not pending any more."""
        pending, sent_ns, redelivered = self.pending, self.sent_ns, self.redelivered
        oldest = self.oldest_pending
        for sequence in sequences:
            if pending.pop(sequence, 0):
                del sent_ns[sequence]
        if redelivered:
            for sequence in sequences:
                redelivered.pop(sequence, None)
        if oldest and oldest not in pending:
            self._raise_floor()

    def acknowledge_up_to(self, consumer_sequence: int, stream_sequence: int) -> None:
        """Everything up to a message is done with."""
        self._forget_up_to(stream_sequence)
        self.floor_consumer = max(self.floor_consumer, consumer_sequence)
        self.floor_stream = max(self.floor_stream, stream_sequence)

    def _forget_up_to(self, stream_sequence: int) -> int:
        """Nothing up to a message is pending; returns the consumer's sequence of the last that was.

        That is 0 if none was.
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
        """What is pending or was given up, up to a message, in order."""
        given_up = [each for each in self.redelivered if each <= stream_sequence]
        return sorted({*self.pending_up_to(stream_sequence), *given_up})

    def pending_up_to(self, stream_sequence: int, count_max: int | None = None) -> list[int]:
        """The messages up to a sequence that are not acknowledged, in order; the first so many."""
        pending = self.pending
        up_to = takewhile(stream_sequence.__ge__, self._order)
        return [*islice(filter(pending.__contains__, up_to), count_max)]

    def give_up(self, sequences: Sequence[int]) -> None:
        """Messages are not delivered again; that they were redelivered is remembered.

        The floor stays below them until something is acknowledged.
        """
        for sequence in sequences:
            if self.pending.pop(sequence, 0):
                del self.sent_ns[sequence]
            self.redelivered[sequence] = self.redelivered.get(sequence, 0)

    def forget_before(self, stream_sequence: int) -> None:
        """Everything before a sequence of the stream is gone at once, and so is the floor's past.

        As after a purge: nobody will acknowledge it.
        """
        self.delivered_stream = max(self.delivered_stream, stream_sequence - 1)
        last = self._forget_up_to(stream_sequence - 1)
        self.floor_consumer = max(self.floor_consumer, last)
        self.floor_stream = max(self.floor_stream, stream_sequence - 1)
        if not self.pending:
            self._raise_floor()

    def cut(self, last_sequence: int) -> None:
        """The stream ends at a sequence: what is known of later ones is of another past."""
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
        """The first message of the stream that is not acknowledged; 0 if there is none."""
        self._drop_order()
        return self._order[0] if self._order else 0

    def _raise_floor(self) -> None:
        """Move the floor up to just below what is not acknowledged."""
        consumer_sequence, stream_sequence = self.delivered_consumer, self.delivered_stream
        oldest = self.oldest_pending
        if oldest:
            consumer_sequence, stream_sequence = self.pending[oldest] - 1, oldest - 1
        # An acknowledgement of all up to a message may have said more.
        self.floor_consumer = max(self.floor_consumer, consumer_sequence)
        self.floor_stream = max(self.floor_stream, stream_sequence)

    def _drop_order(self) -> None:
        """Forget the order of what leads it and is not pending."""
        order, pending = self._order, self.pending
        if not pending:
            order.clear()
        while order and order[0] not in pending:
            order.popleft()

    def dump(self) -> dict[str, object]:
        """Everything durable, in one form whatever way it came about."""
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
        """Take over what `dump` said of another; pending as sequence of the stream and of the
        consumer, and when it was sent.
        """
        self.delivered_consumer, self.delivered_stream = delivered
        self.floor_consumer, self.floor_stream = floor
        self.pending = {sequence: consumer for sequence, consumer, _ in pending}
        self.sent_ns = {sequence: sent_ns for sequence, _, sent_ns in pending}
        self.redelivered = dict(redelivered)
        self._order = deque(sorted(self.pending))
