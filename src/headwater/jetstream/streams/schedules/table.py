"""The due times of a stream's schedules: one schedule per subject, that of its last message.

The table follows from the stored messages alone, so it is equal on every replica. The set of
schedules that have fired and wait for their copy to be stored is kept beside it: only the server
that publishes the copies knows it, and a new leader starts with an empty one.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Final, final

_SEQUENCE_BITS: Final = 64
_SEQUENCE_MASK: Final = (1 << _SEQUENCE_BITS) - 1
# The heap also holds outdated times; it is rebuilt when most of it is outdated.
_STALE_MIN: Final = 64


@final
class ScheduleTable:
    """Due times by subject and sequence."""

    __slots__ = ("_due_ns", "_in_flight", "_sequences", "_subjects", "heap")

    def __init__(self) -> None:
        self._sequences: dict[bytes, int] = {}
        self._subjects: dict[int, bytes] = {}
        self._due_ns: dict[int, int] = {}
        # Times and sequences, packed, some of them outdated; empty if no schedule is due ever.
        self.heap: list[int] = []
        self._in_flight: set[int] = set()

    def __len__(self) -> int:
        return len(self._sequences)

    def sequence_of(self, subject: bytes) -> int | None:
        """The message with the schedule of a subject, if there is one."""
        return self._sequences.get(subject)

    def put(self, subject: bytes, sequence: int, due_ns: int) -> None:
        """Add a stored schedule, which replaces the previous one on its subject."""
        self.remove_subject(subject)
        self._sequences[subject] = sequence
        self._subjects[sequence] = subject
        self._set_due(sequence, due_ns)

    def move(self, subject: bytes, due_ns: int) -> None:
        """Set the next time of a schedule, from its stored copy."""
        sequence = self._sequences.get(subject)
        if sequence is not None:
            self._in_flight.discard(sequence)
            self._set_due(sequence, due_ns)

    def remove_subject(self, subject: bytes) -> None:
        """Drop the schedule of a subject whose last message is not a schedule any more."""
        sequence = self._sequences.get(subject)
        if sequence is not None:
            self.remove(sequence)

    def remove(self, sequence: int) -> None:
        """Drop the schedule of a removed message."""
        subject = self._subjects.pop(sequence, None)
        if subject is not None:
            del self._sequences[subject]
            del self._due_ns[sequence]
            self._in_flight.discard(sequence)

    def next_due_ns(self) -> int | None:
        """The earliest time of a schedule that is not in flight."""
        self._drop_stale()
        return self.heap[0] >> _SEQUENCE_BITS if self.heap else None

    def take_due(self, now_ns: int) -> list[tuple[int, bytes, int]]:
        """The sequence, subject and time of all due schedules, by sequence; they are in flight now.

        A schedule in flight is not due again until its copy is stored (`move`) or `land` is called.
        """
        taken = []
        self._drop_stale()
        while self.heap and self.heap[0] >> _SEQUENCE_BITS <= now_ns:
            entry = heappop(self.heap)
            sequence = entry & _SEQUENCE_MASK
            self._in_flight.add(sequence)
            taken.append((sequence, self._subjects[sequence], entry >> _SEQUENCE_BITS))
            self._drop_stale()
        taken.sort()
        return taken

    def land(self, sequences: Iterable[int]) -> None:
        """Make schedules due again whose copies will never be stored."""
        for sequence in sequences:
            if sequence in self._in_flight:
                self._in_flight.discard(sequence)
                heappush(self.heap, self._due_ns[sequence] << _SEQUENCE_BITS | sequence)

    def entries(self) -> list[tuple[bytes, int, int]]:
        """Subject, sequence and due time of every schedule, by sequence."""
        return [
            (self._subjects[sequence], sequence, due_ns)
            for sequence, due_ns in sorted(self._due_ns.items())
        ]

    def _set_due(self, sequence: int, due_ns: int) -> None:
        self._due_ns[sequence] = due_ns
        heappush(self.heap, due_ns << _SEQUENCE_BITS | sequence)
        if len(self.heap) > 2 * len(self._due_ns) + _STALE_MIN:
            self.heap = [
                each << _SEQUENCE_BITS | number
                for number, each in self._due_ns.items()
                if number not in self._in_flight
            ]
            heapify(self.heap)

    def _drop_stale(self) -> None:
        while self.heap:
            sequence = self.heap[0] & _SEQUENCE_MASK
            is_current = self._due_ns.get(sequence) == self.heap[0] >> _SEQUENCE_BITS
            if is_current and sequence not in self._in_flight:
                return
            heappop(self.heap)
