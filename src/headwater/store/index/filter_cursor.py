"""The position of one reader among the messages of a filter, which moves on message by message.

A reader asks two questions all the time: which message is next, and how many are pending. Both are
answered from the answers before: each new message is looked at once, and so is each message that
the position moves over. Only a leap, or a change that the index cannot tell message by message,
makes the cursor count again.
"""

from bisect import bisect_left
from typing import Final, final

from headwater.store.index.log_index import LogIndex
from headwater.store.index.subject_filter import FOLLOWING_COST, SubjectFilter

# Moving by more than this is a leap: counting again may well take less.
STEP_MAX: Final = 16_384

_UNKNOWN: Final = -1


@final
class FilterCursor:
    """A position in a log; its answers are about messages at or after that."""

    __slots__ = (
        "_clear_until",
        "_counted_until",
        "_epoch",
        "_filter",
        "_index",
        "_pending",
        "_removals_seen",
        "_sequence",
        "_taken",
    )

    def __init__(self, index: LogIndex, subject_filter: SubjectFilter, sequence: int) -> None:
        self._index = index
        self._filter = subject_filter
        self._sequence = sequence
        # All messages there were from the place on up to the last of these, where they are few.
        self._taken: list[int] = []
        self._reset()

    @property
    def sequence(self) -> int:
        """The position."""
        return self._sequence

    def move(self, sequence: int) -> None:
        """Go to another position."""
        passed = self._passed(sequence)
        if passed is None and abs(sequence - self._sequence) > STEP_MAX:
            self._pending = _UNKNOWN
        self._catch_up()
        if self._pending != _UNKNOWN:
            if passed is None and sequence > self._sequence:
                self._pending -= self._filter.count(self._sequence, sequence)
            elif passed is None:
                self._pending += self._filter.count(sequence, self._sequence)
            else:
                # Messages that are gone were left out when the cursor caught up.
                self._pending -= sum(map(self._index.has, passed))
        if sequence < self._sequence:
            self._clear_until = sequence
        if sequence < self._sequence or (self._taken and self._taken[-1] < sequence):
            self._taken = []
        self._sequence = sequence

    def _passed(self, sequence: int) -> list[int] | None:
        """The messages from here to another place, if that is known and they are few."""
        taken = self._taken
        if not taken or not self._sequence <= sequence <= taken[-1] + 1:
            return None
        return taken[bisect_left(taken, self._sequence) : bisect_left(taken, sequence)]

    def next(self) -> int:
        """The next message; 0 if it is not stored yet."""
        if self._epoch != self._index.epoch:
            self._reset()
        begin = max(self._sequence, self._clear_until)
        found = self._filter.next(begin)
        self._clear_until = found or max(begin, self._index.next_sequence)
        if found - self._sequence > FOLLOWING_COST and not self._taken:
            self._taken = [found]
        return found

    def next_sequences(self, end: int, count_max: int) -> list[int]:
        """The next messages before `end`, in order, up to so many; the position stays."""
        if self._epoch != self._index.epoch:
            self._reset()
        begin = max(self._sequence, self._clear_until)
        found = self._filter.sequences_between(begin, end, count_max)
        if not found:
            if count_max > 0:
                self._clear_until = max(begin, min(end, self._index.next_sequence))
            return found
        self._clear_until = found[0]
        if len(found) * FOLLOWING_COST < found[-1] - self._sequence:
            # The place will move over them, most likely, and is not to look at all between them.
            self._taken = found[:]
        return found

    def pending(self) -> int:
        """The number of messages from the position on."""
        self._catch_up()
        if self._pending == _UNKNOWN:
            self._pending = self._filter.pending(self._sequence)
            self._counted_until = self._index.next_sequence
            self._removals_seen = self._index.note_removals().next_number
        return self._pending

    def _reset(self) -> None:
        self._epoch = self._index.epoch
        self._pending = _UNKNOWN
        # Messages from the place up to here are in `_pending`.
        self._counted_until = 0
        self._removals_seen = 0
        # From the place up to here nothing matches.
        self._clear_until = self._sequence
        self._taken = []

    def _catch_up(self) -> None:
        """Take what has changed into what is pending, where that is known."""
        index = self._index
        if self._epoch != index.epoch:
            self._reset()
        if self._pending == _UNKNOWN:
            return
        removals = index.removals or index.note_removals()
        if self._removals_seen < removals.next_number:
            gone = removals.since(self._removals_seen)
            self._removals_seen = removals.next_number
            if gone is None:
                self._pending = _UNKNOWN
                return
            first, end = self._sequence, self._counted_until
            matching = self._filter.select(*gone)
            self._pending -= sum(first <= sequence < end for sequence in matching)
        end = index.next_sequence
        if self._counted_until < end:
            self._pending += self._filter.count(max(self._counted_until, self._sequence), end)
            self._counted_until = end
