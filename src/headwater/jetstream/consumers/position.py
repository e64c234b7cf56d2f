"""The position of a consumer: which messages of its stream it has not delivered yet.

A consumer passes the messages that match its filter in order, by a cursor. Delivery of the last
message of each subject has a first phase, in which those messages are listed; the cursor stands
behind them meanwhile.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import final

from headwater.base.sliced import Work
from headwater.jetstream.config.consumer_config import ConsumerConfig
from headwater.jetstream.consumers.state import ConsumerState
from headwater.jetstream.streams.view import StreamView
from headwater.store.log.message_log import ALL_SUBJECTS, MessageBatch


@final
class Position:
    """The position of one consumer in the view of its stream."""

    __slots__ = (
        "_last_per_subject_checked",
        "_stream",
        "cursor",
        "has_filter",
        "is_copying",
        "last_per_subject",
        "patterns",
    )

    def __init__(self, stream: StreamView, config: ConsumerConfig, start: int) -> None:
        self._stream = stream
        # Whether another stream copies what is delivered: it gets nothing that is taken back.
        self.is_copying = config.direct
        self.filter_by(config)
        # In the first phase of last-per-subject delivery: the messages still to be delivered.
        self.last_per_subject: deque[int] = deque()
        self._last_per_subject_checked = 0
        self.cursor = stream.log.cursor(self.patterns, start)

    def filter_by(self, config: ConsumerConfig) -> None:
        """Use the filter of a configuration; `placing` follows if it is another one."""
        self.has_filter = bool(config.patterns)
        self.patterns = config.patterns or (ALL_SUBJECTS,)

    def placing(self, state: ConsumerState) -> Work[None]:
        """Find the position that follows from the state, some messages at a time.

        The stream must not change meanwhile. A new consumer has no position before this.
        """
        log = self._stream.log
        next_sequence = max(state.delivered_stream, state.passed_stream) + 1
        self.last_per_subject = deque()
        if next_sequence <= state.lasts_until:
            found = yield from log.gathering_last_per_subject(self.patterns, state.lasts_until)
            self.last_per_subject.extend(found[bisect_left(found, next_sequence) :])
            next_sequence = state.lasts_until + 1
        self.cursor = log.cursor(self.patterns, next_sequence)
        # All messages in `last_per_subject` exist at this moment.
        self._last_per_subject_checked = self._removed_count()

    def move_behind(self, sequences: Sequence[int], lasts_until: int) -> None:
        """Move behind messages that were sent for the first time."""
        last, last_per_subject = sequences[-1], self.last_per_subject
        if last <= lasts_until:
            while last_per_subject and last_per_subject[0] <= last:
                last_per_subject.popleft()
        elif last >= self.cursor.sequence:
            self.cursor.move(last + 1)

    def go_back(self, sequence: int, last_per_subject: Sequence[int]) -> None:
        """Go back to an earlier sequence, and to messages of the first phase."""
        if self.cursor.sequence != sequence:
            self.cursor.move(sequence)
        if last_per_subject:
            self.last_per_subject.extendleft(reversed(last_per_subject))
            # Some of these messages may have been removed meanwhile.
            self._last_per_subject_checked = -1

    # --- messages ------------------------------------------------------------------------------

    @property
    def _end(self) -> int:
        """The sequence behind the last one that is delivered now."""
        stream = self._stream
        if self.is_copying and stream.kept_sequence is not None:
            return min(stream.kept_sequence, stream.visible_sequence) + 1
        return stream.visible_sequence + 1

    def read(self, count: int, bytes_max: int) -> MessageBatch:
        """The next messages; an empty batch at the visible end."""
        stream = self._stream
        last_per_subject = self.last_per_subject
        while last_per_subject:
            wanted = [last_per_subject[place] for place in range(min(count, len(last_per_subject)))]
            found = stream.log.read_at(wanted, bytes_max)
            if len(found):
                return found
            # None of these messages exists any more.
            for _ in wanted:
                last_per_subject.popleft()
        end = self._end
        begin = self.cursor.sequence
        if begin >= end:
            return MessageBatch()
        if not self.has_filter and end >= stream.log.index.next_sequence:
            # At the end of a stream a large pull finds one message, which is read more quickly.
            return stream.log.read(begin, min(count, end - begin), bytes_max)
        while wanted := self.cursor.next_sequences(end, count):
            found = stream.log.read_at(wanted, bytes_max)
            if len(found):
                return found
            # None of these messages can be read.
            self.cursor.move(wanted[-1] + 1)
        return MessageBatch()

    def arrive_at_end(self) -> None:
        """Move to the visible end, past messages that do not match."""
        end = self._end
        if not self.last_per_subject and self.cursor.sequence < end:
            self.cursor.move(end)

    # --- counts --------------------------------------------------------------------------------

    def pending_count(self) -> int:
        """The number of visible messages that were never delivered."""
        count = self.cursor.pending() - self._uncommitted_count()
        return count + self._last_per_subject_left() if self.last_per_subject else count

    def _last_per_subject_left(self) -> int:
        """The number of last-per-subject messages that still exist and were not delivered."""
        removed = self._removed_count()
        if removed != self._last_per_subject_checked:
            self._last_per_subject_checked = removed
            has = self._stream.log.index.has
            self.last_per_subject = deque(
                sequence for sequence in self.last_per_subject if has(sequence)
            )
        return len(self.last_per_subject)

    def _removed_count(self) -> int:
        """The number of sequences that have no message any more."""
        log = self._stream.log
        return log.last_sequence - log.messages

    def _uncommitted_count(self) -> int:
        """The number of matching messages behind the position that are not visible yet."""
        stream = self._stream
        visible, end = stream.visible_sequence, stream.log.index.next_sequence
        if visible + 1 >= end:
            return 0
        begin = max(visible + 1, self.cursor.sequence)
        return stream.log.filter(self.patterns).count(begin, end)
