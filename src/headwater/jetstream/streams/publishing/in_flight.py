"""Records in flight: appended to a stream's log, and not yet applied because the disk is not done.

The messages of the log that are not visible (`uncommitted`) follow from them. They are counted when
they are first needed and updated record by record from then on.

This module reads the log and never changes it.
"""

from collections import deque
from typing import final

from headwater.jetstream.records import Published, Skipped
from headwater.jetstream.streams.limits import NOTHING_UNCOMMITTED, Uncommitted
from headwater.store.log.message_log import MessageLog


@final
class InFlight:
    """The records in flight of one stream, oldest first."""

    __slots__ = ("_log", "_records", "_shown", "_uncommitted", "messages")

    def __init__(self, log: MessageLog) -> None:
        self._log = log
        self._records: deque[Published | Skipped] = deque()
        # The number of messages in the records, and the visible ones of the oldest record.
        self.messages = 0
        self._shown = 0
        # Computed when first needed.
        self._uncommitted: Uncommitted | None = None

    def __len__(self) -> int:
        return len(self._records)

    @property
    def oldest(self) -> Published | Skipped | None:
        """The record that is applied next."""
        return self._records[0] if self._records else None

    def add(self, record: Published | Skipped) -> None:
        """Add a record that was appended to the log."""
        self._records.append(record)
        self.messages += _message_count(record)
        if self._uncommitted is not None and isinstance(record, Published):
            self._uncommitted.hide(self._log, record.first_sequence, record.batch.subjects)

    def show(self, count: int) -> None:
        """Note that `count` messages of the oldest record are visible now."""
        record = self._records[0]
        if self._uncommitted is not None and isinstance(record, Published):
            first = record.first_sequence + self._shown
            self._uncommitted.show(self._log, first, record.batch.subjects[self._shown : count])
        self._shown = count

    def remove_oldest(self) -> None:
        """Remove the oldest record, which was applied."""
        count = _message_count(self._records[0])
        self.show(count)
        self._records.popleft()
        self._shown = 0
        self.messages -= count
        if not self._records:
            self._uncommitted = None

    def uncommitted(self) -> Uncommitted:
        """The messages that the log has and that are not yet visible."""
        if self.messages == self._shown:
            return NOTHING_UNCOMMITTED
        if self._uncommitted is None:
            self._uncommitted = Uncommitted()
            shown = self._shown
            for record in self._records:
                if isinstance(record, Published):
                    first, subjects = record.first_sequence + shown, record.batch.subjects[shown:]
                    self._uncommitted.hide(self._log, first, subjects)
                shown = 0
        return self._uncommitted


def _message_count(record: Published | Skipped) -> int:
    return len(record.batch.subjects) if isinstance(record, Published) else 0
