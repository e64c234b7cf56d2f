"""The view of readers on a stream's log: everything up to the watermark, and nothing above it.

The log gets messages once they are as durable as they must be. The messages of one record become
visible one after the other, so that no read returns one before its effects on others are due.

A view reads and changes nothing; the stream moves the watermark and sets the configuration.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from headwater.base.sliced import Work
from headwater.go.times import ZERO_TIME_NS, format_time
from headwater.jetstream.api.documents import StreamState
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.store.index.sorted_page import sorted_page
from headwater.store.log.message_log import ALL_SUBJECTS, MessageBatch, MessageLog, StoredMessage

# The number of subjects that one step counts.
COUNTED_AT_A_TIME: Final = 1024
DUMP_BYTES_MAX: Final = 1 << 62


class StreamView:
    """The visible part of a log, and the configuration of its stream."""

    def __init__(self, log: MessageLog, config: StreamConfig) -> None:
        self.log = log
        self.name = config.name
        self.name_bytes = config.name.encode()
        self.config = config
        # Everything up to this sequence is visible.
        self.visible_sequence = log.last_sequence
        # The last sequence that is not taken back, if that is not the visible one: streams that
        # copy this one get messages up to it.
        self.kept_sequence: int | None = None
        # The state that clients see while a long change is under way.
        self._state_before: StreamState | None = None
        # Whether an empty stream shows its first sequence before it had a message.
        self.tells_first_sequence = config.first_seq > 0

    # --- messages ------------------------------------------------------------------------------

    def message(self, sequence: int) -> StoredMessage | None:
        """The message of a sequence, if it exists and is visible."""
        return self.log.get(sequence) if 0 < sequence <= self.visible_sequence else None

    def next_message(self, pattern: bytes, sequence: int) -> StoredMessage | None:
        """The first message at or after a sequence on a matching subject."""
        return self.message(self.log.next_sequence_of((pattern,), sequence))

    def messages_from(
        self, pattern: bytes, sequence: int, end: int, count_max: int, bytes_max: int
    ) -> MessageBatch:
        """Messages on matching subjects from a sequence to another; an empty batch at the end."""
        log, end = self.log, min(end, self.visible_sequence)
        if pattern == ALL_SUBJECTS and sequence <= end:
            found = log.read(sequence, min(count_max, end - sequence + 1), bytes_max)
            found.cut_behind(end)
            return found
        while wanted := log.filter((pattern,)).sequences_between(sequence, end + 1, count_max):
            found = log.read_at(wanted, bytes_max)
            if len(found):
                return found
            # None of these messages can be read.
            sequence = wanted[-1] + 1
        return MessageBatch()

    def last_message(self, pattern: bytes) -> StoredMessage | None:
        """The last message on a matching subject."""
        return self.message(self.log.last_sequence_of((pattern,), self.visible_sequence))

    # --- sequences and counts ------------------------------------------------------------------

    def few_last_of_each(
        self, patterns: list[bytes], up_to: int, count_max: int
    ) -> list[int] | None:
        """The last message of each matching subject, at or before a sequence, in order.

        None if there are more than `count_max`.
        """
        up_to = min(up_to, self.visible_sequence)
        return self.log.few_last_of_each(patterns, up_to, count_max)

    def sequence_at(self, time_ns: int) -> int:
        """The sequence of the first message stored at or after a time, else that after the last."""
        found = self.log.first_sequence_at(time_ns)
        return found if 0 < found <= self.visible_sequence else self.visible_sequence + 1

    def count_from(self, pattern: bytes, sequence: int) -> int:
        """The number of messages on matching subjects at or after a sequence."""
        log, visible = self.log, self.visible_sequence
        count = log.pending((pattern,), sequence)
        if visible < log.last_sequence:
            count -= log.pending((pattern,), max(sequence, visible + 1))
        return count

    def counting_subjects(
        self, pattern: bytes, offset: int, count_max: int
    ) -> Work[tuple[int, list[dict[str, int]]]]:
        """Count the visible subjects that match, and the messages of those on one page.

        Returns the number of subjects, and the counts of the page's subjects in order, in parts.
        The stream must not change meanwhile.
        """
        names = yield from self.log.gathering_names(pattern)
        extent = self.log.subject_extent
        page = yield from sorted_page(names, offset, count_max)
        parts: list[dict[str, int]] = []
        for begin in range(0, len(page), COUNTED_AT_A_TIME):
            counts: dict[str, int] = {}
            for name in page[begin : begin + COUNTED_AT_A_TIME]:
                counts[name.decode(errors="replace")] = extent(name)[2]
            parts.append(counts)
            yield 2 * COUNTED_AT_A_TIME
        return len(names), parts

    # --- the whole -----------------------------------------------------------------------------

    def state(self) -> StreamState:
        """The state that clients see, without details."""
        if self._state_before is not None:
            return msgspec.structs.replace(self._state_before)
        return self._current_state()

    @contextmanager
    def told_as_it_is(self) -> Iterator[None]:
        """Show clients the state of this moment until the block ends."""
        if self._state_before is not None:
            yield
            return
        self._state_before = self._current_state()
        try:
            yield
        finally:
            self._state_before = None

    def _current_state(self) -> StreamState:
        log = self.log
        messages = log.messages
        last = self.visible_sequence
        first = log.first_sequence if messages else last + 1
        return StreamState(
            messages=messages,
            bytes=log.byte_count,
            first_seq=first if last or self.tells_first_sequence else 0,
            first_ts=format_time(log.index.timestamp_of(first) if messages else ZERO_TIME_NS),
            last_seq=last,
            last_ts=format_time(self.last_ns()),
            num_subjects=log.subject_count,
            num_deleted=max(last - first + 1 - messages, 0) if messages else 0,
        )

    def last_ns(self) -> int:
        """When the last sequence was assigned."""
        segment = self.log.index.segment_of(self.visible_sequence)
        position = self.visible_sequence - segment.first_sequence
        if 0 <= position < len(segment.timestamps_ns):
            return segment.timestamps_ns[position] or ZERO_TIME_NS
        return ZERO_TIME_NS

    def dump_messages(self) -> dict[str, object]:
        """All messages of the log, visible or not, independent of how they came about. Raises
        StoreError for one that cannot be read."""
        log = self.log
        found = log.read(1, log.messages + 1, DUMP_BYTES_MAX) if log.messages else None
        if found is not None and (behind := log.index.next_message(found.sequences[-1] + 1)):
            # A message that is damaged here is in no dump that lacks it.
            log.get(behind)
        messages = [] if found is None else [log.get(sequence) for sequence in found.sequences]
        return {
            "first_sequence": log.first_sequence,
            "last_sequence": log.last_sequence,
            "byte_count": log.byte_count,
            "subjects": log.subject_counts(),
            "messages": messages,
            "expiries": sorted(pair for pair in log.expiries.pending() if log.index.has(pair[0])),
        }
