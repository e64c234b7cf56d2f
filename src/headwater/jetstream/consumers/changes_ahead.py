"""The changes of consumers in flight: the steps that wait for them, and the interest that they take
or give.

A consumer takes steps while its change waits for the disk, and the records of these steps come
behind the change in the log. So a step waits if its records would mean something else there.

A stream with interest retention stores a message if a consumer has interest in its subject. A
publish behind the creation of a consumer in the log has to count that consumer, which is not there
yet. Every other change of interest may remove messages when it is applied: publishes wait for its
commit.
"""

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import final

import msgspec

from headwater.base.invariants import check
from headwater.jetstream.config.consumer_config import ConsumerConfig
from headwater.jetstream.consumers.records import (
    LONG_RECORDS,
    ConsumerConfigured,
    ConsumerCreated,
    ConsumerDeleted,
    LongRecord,
)
from headwater.jetstream.records import Record
from headwater.store.log.message_log import ALL_SUBJECTS
from headwater.subjects.grammar import matches


class Hold(Enum):
    """The steps of a consumer that wait until a change of it is applied."""

    NONE = auto()
    # Deliveries go on as the consumer was. An acknowledgement that is answered must not come to
    # nothing, because the consumer is gone.
    ALL_BUT_DELIVERIES = auto()
    # A delivery would move the consumer past messages that the change has it deliver.
    ALL = auto()


def hold_of(change: LongRecord, before: ConsumerConfig | None) -> Hold:
    """The steps that wait for a change of a consumer with a configuration; None if it is new."""
    if before is None:
        return Hold.NONE
    if isinstance(change, ConsumerDeleted):
        return Hold.ALL_BUT_DELIVERIES
    if not isinstance(change, ConsumerConfigured):
        return Hold.ALL
    # A pause, and what only describes the consumer, changes no record of a step.
    config = msgspec.structs.replace(
        change.config,
        pause_until=before.pause_until,
        metadata=before.metadata,
        description=before.description,
    )
    return Hold.NONE if config == before else Hold.ALL


@final
class ChangesAhead:
    """The changes of the consumers of one stream that are proposed and not applied, oldest first.

    `patterns_of` returns the filters of a consumer that is there, and None without one.
    """

    __slots__ = ("_changes", "_patterns_of", "_removing")

    def __init__(self, patterns_of: Callable[[str], tuple[bytes, ...] | None]) -> None:
        self._patterns_of = patterns_of
        self._changes: deque[LongRecord] = deque()
        # Those of them that may have messages of a stream with interest retention removed.
        self._removing: deque[LongRecord] = deque()

    def __len__(self) -> int:
        return len(self._changes)

    @property
    def may_remove(self) -> bool:
        """Whether messages of a stream with interest retention may leave because of a change."""
        return bool(self._removing)

    def propose(self, record: LongRecord, next_sequence: int) -> None:
        """Add a change; `next_sequence` is that of the next message behind it."""
        self._changes.append(record)
        if self._removes(record, next_sequence):
            self._removing.append(record)

    def _removes(self, record: LongRecord, next_sequence: int) -> bool:
        if isinstance(record, ConsumerCreated):
            # A message before the start of its only consumer leaves as soon as it is stored.
            return record.start_sequence > next_sequence
        if isinstance(record, ConsumerConfigured):
            return self._patterns_of(record.name) != (record.config.patterns or (ALL_SUBJECTS,))
        return True

    def note_applied(self, record: LongRecord) -> None:
        """Drop the oldest change, which the consumers have made."""
        if self._changes and self._changes[0] is record:
            self._changes.popleft()
            if self._removing and self._removing[0] is record:
                self._removing.popleft()

    def retreat(self, records: Iterable[Record]) -> None:
        """Forget the changes among the newest records that were proposed."""
        for record in reversed([each for each in records if isinstance(each, LONG_RECORDS)]):
            check(self._changes.pop() is record, "the newest changes are forgotten")
            if self._removing and self._removing[-1] is record:
                self._removing.pop()

    def have_interest(self, subject: bytes) -> bool:
        """Whether a consumer that is being created has interest in a subject."""
        return any(
            isinstance(record, ConsumerCreated)
            and any(matches(each, subject) for each in record.config.patterns or (ALL_SUBJECTS,))
            for record in self._changes
        )
