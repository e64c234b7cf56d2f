"""Redelivery deadlines: when messages without an acknowledgement are sent again.

There is no timer per message. Messages that are sent together and wait equally long share one entry
of a queue: they fall due together, and entries added later fall due later. Only messages that their
receiver postponed are kept one by one, in a heap. An acknowledgement removes nothing from either:
an entry stands for those of its messages whose time of sending is still the entry's own.
"""

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple, final

from headwater.jetstream.config.consumer_config import ConsumerConfig
from headwater.jetstream.consumers.state import ConsumerState

NEVER: Final = 0


class _Sent(NamedTuple):
    """Messages that were sent together."""

    due_ns: int
    sent_ns: int
    sequences: Sequence[int]


@final
class Deadlines:
    """The deadlines of one consumer's messages."""

    __slots__ = ("_by_wait", "_postponed", "_state", "_waits_ns")

    def __init__(self, config: ConsumerConfig, state: ConsumerState) -> None:
        self._state = state
        self._by_wait: dict[int, deque[_Sent]] = {}
        # Deadline, sequence, and the time of sending it was given.
        self._postponed: list[tuple[int, int, int]] = []
        self.configure(config)

    def configure(self, config: ConsumerConfig) -> None:
        """Use the waits of another configuration, also for messages that were sent before."""
        self._waits_ns = config.backoff or (config.ack_wait,)
        self.recover()

    def recover(self) -> None:
        """Compute the deadlines of all pending messages from the state."""
        self._by_wait.clear()
        self._postponed.clear()
        if self._waits_ns[0] > 0:
            for sequence, sent_ns in self._state.sent_ns.items():
                heappush(self._postponed, (sent_ns + self.wait_of(sequence), sequence, sent_ns))

    def wait_of(self, sequence: int) -> int:
        """The ack wait of a message, which depends on the number of its deliveries."""
        times = self._state.redelivered.get(sequence, 0)
        return self._waits_ns[min(times, len(self._waits_ns) - 1)]

    def _due_ns(self, sequence: int) -> int:
        return self._state.sent_ns[sequence] + self.wait_of(sequence)

    def sent(self, sequences: Sequence[int], sent_ns: int) -> None:
        """Start the wait of messages that were sent for the first time."""
        wait_ns = self._waits_ns[0]
        if wait_ns <= 0 or not sequences:
            return
        queue = self._by_wait.setdefault(wait_ns, deque())
        floor = self._state.floor_stream
        while queue and queue[0].sequences[-1] <= floor:
            # All messages of the entry are acknowledged.
            queue.popleft()
        if sequences[-1] - sequences[0] == len(sequences) - 1:
            # A range takes as little memory as one number.
            sequences = range(sequences[0], sequences[-1] + 1)
        queue.append(_Sent(sent_ns + wait_ns, sent_ns, sequences))

    def sent_again(self, sequences: Sequence[int]) -> None:
        """Start the wait of messages again, from the time of sending that the state has now."""
        if self._waits_ns[0] <= 0:
            return
        for sequence in sequences:
            sent_ns = self._state.sent_ns.get(sequence)
            if sent_ns is not None:
                heappush(self._postponed, (sent_ns + self.wait_of(sequence), sequence, sent_ns))

    def next_due_ns(self) -> int:
        """The earliest deadline; NEVER if no message is pending."""
        if not self._state.pending:
            self._by_wait.clear()
            self._postponed.clear()
            return NEVER
        due_ns = self._postponed[0][0] if self._postponed else NEVER
        for queue in self._by_wait.values():
            if queue and (not due_ns or queue[0].due_ns < due_ns):
                due_ns = queue[0].due_ns
        return due_ns

    def due(self, now_ns: int) -> list[int]:
        """Remove and return the messages whose deadline has passed, in order.

        A message is not returned again until it has been sent again.
        """
        found: list[int] = []
        sent_ns_of = self._state.sent_ns.get
        for queue in self._by_wait.values():
            while queue and queue[0].due_ns <= now_ns:
                entry = queue.popleft()
                sent_ns = entry.sent_ns
                found += [each for each in entry.sequences if sent_ns_of(each) == sent_ns]
        postponed = self._postponed
        while postponed and postponed[0][0] <= now_ns:
            _, sequence, sent_ns = heappop(postponed)
            if sent_ns_of(sequence) == sent_ns:
                found.append(sequence)
        # A message that was sent again at the same moment may have a longer wait.
        return sorted(each for each in set(found) if self._due_ns(each) <= now_ns)
