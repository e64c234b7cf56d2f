"""Expiries of messages: finds those that are due without looking at the others.

A heap of plain integers (time in the high bits, sequence in the low), so that a million of them are
nothing to the garbage collector. Messages that were deleted meanwhile stay in it until their time;
the caller, who knows what is still there, ignores them.
"""

from heapq import heapify, heappop, heappush
from typing import Final, final

from headwater.base.emptying import Container

_SEQUENCE_BITS: Final = 64
_SEQUENCE_MASK: Final = (1 << _SEQUENCE_BITS) - 1
# Pushing one onto the heap takes as long as looking at so many when the heap is built again.
PUSHING_COST: Final = 8
# No limit.
COUNT_MAX: Final = 1 << 62


@final
class ExpiryQueue:
    """Expiry times by sequence."""

    __slots__ = ("heap",)

    def __init__(self) -> None:
        # Times and sequences, packed; empty if no message expires.
        self.heap: list[int] = []

    def __len__(self) -> int:
        return len(self.heap)

    def add(self, sequence: int, expiry_ns: int) -> None:
        """Add a message that expires at `expiry_ns`."""
        heappush(self.heap, expiry_ns << _SEQUENCE_BITS | sequence)

    def extend(self, pairs: list[tuple[int, int]]) -> None:
        """Add many messages at once: sequence and time."""
        items = [expiry_ns << _SEQUENCE_BITS | sequence for sequence, expiry_ns in pairs]
        if len(items) * PUSHING_COST < len(self.heap):
            for item in items:
                heappush(self.heap, item)
            return
        self.heap += items
        heapify(self.heap)

    def next_ns(self) -> int:
        """The time at which the next message is due; 0 if no message expires."""
        return self.heap[0] >> _SEQUENCE_BITS if self.heap else 0

    def due(self, now_ns: int, count_max: int = COUNT_MAX) -> list[tuple[int, int]]:
        """Take out the messages that have expired, oldest first, with their times."""
        found: list[tuple[int, int]] = []
        while self.heap and self.heap[0] >> _SEQUENCE_BITS <= now_ns and len(found) < count_max:
            item = heappop(self.heap)
            found.append((item & _SEQUENCE_MASK, item >> _SEQUENCE_BITS))
        return found

    def cut(self, last_sequence: int) -> None:
        """Forget the sequences after one: they will be given to other messages."""
        self.heap = [item for item in self.heap if item & _SEQUENCE_MASK <= last_sequence]
        heapify(self.heap)

    def abandon(self) -> list[Container]:
        """Forget all expiries; returns the container to be emptied."""
        heap, self.heap = self.heap, []
        return [heap]

    def pending(self) -> list[tuple[int, int]]:
        """All pending expiries: sequence and time, in no order."""
        return [(item & _SEQUENCE_MASK, item >> _SEQUENCE_BITS) for item in self.heap]

    def items(self) -> list[int]:
        """All pending expiries as packed numbers, for `sequence_in` and `time_in` to unpack."""
        return self.heap[:]


def sequence_in(item: int) -> int:
    """The sequence in a packed expiry."""
    return item & _SEQUENCE_MASK


def time_in(item: int) -> int:
    """The time in a packed expiry."""
    return item >> _SEQUENCE_BITS
