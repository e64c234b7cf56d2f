"""The log of one stream as everything above the store sees it, on disk or in memory.

Sequences are given out once, in order, and never again. Messages go in batches, as parallel lists.
Questions to the index are answered here, alike for both kinds of log; how messages are stored is up
to each kind (`headwater.store.log.file_log`, `headwater.store.log.memory_log`).
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from typing import Final, NamedTuple, TypeAlias, final

from headwater.base.columns import MessageColumns, Numbers, StoredColumns
from headwater.base.emptying import Container
from headwater.base.invariants import InvariantViolation
from headwater.base.sliced import Work, at_once
from headwater.store.disk.format import SUBJECT_BYTES_MAX, Entry
from headwater.store.errors import DiskFullError, OfflineError, StoreError
from headwater.store.index.expiry import COUNT_MAX, ExpiryQueue
from headwater.store.index.filter_cursor import FilterCursor
from headwater.store.index.log_index import NO_SEQUENCE, LogIndex
from headwater.store.index.ranges import RangeSet
from headwater.store.index.subject_filter import SubjectFilter
from headwater.store.index.walks import gathering_last_per_subject
from headwater.store.upkeep.log_sync import LogSync
from headwater.subjects.grammar import has_wildcard

__all__ = [
    "ALL_SUBJECTS",
    "COUNTED_AT_ONCE_MAX",
    "DELETION_COST",
    "FILTERS_KEPT_MAX",
    "LOOKED_AT_ONCE_MAX",
    "NAMED_AT_A_TIME",
    "PURGED_AT_A_TIME",
    "Batch",
    "DiskFullError",
    "EncodedMessages",
    "MessageBatch",
    "MessageLog",
    "OfflineError",
    "Passed",
    "StoreError",
    "StoredMessage",
    "Upcoming",
]

ALL_SUBJECTS: Final = b">"
# Filters are kept for callers that ask again by the same patterns; each may take a byte for every
# subject.
FILTERS_KEPT_MAX: Final = 32
# Up to this many subjects are compared with a pattern at once, which takes some milliseconds; more
# are compared some at a time.
LOOKED_AT_ONCE_MAX: Final = 32_768
# Messages of a log with more than this are counted some at a time.
COUNTED_AT_ONCE_MAX: Final = 65_536
# Names of subjects that are gathered in one step.
NAMED_AT_A_TIME: Final = 4096
# Messages that are found or deleted in one step.
PURGED_AT_A_TIME: Final = 1024
# Units of work to delete a message from the index.
DELETION_COST: Final = 4


@final
class StoredMessage:
    """A message as it was stored."""

    __slots__ = ("header", "payload", "sequence", "subject", "timestamp_ns")

    def __init__(
        self, sequence: int, subject: bytes, header: bytes, payload: bytes, timestamp_ns: int
    ) -> None:
        self.sequence = sequence
        self.subject = subject
        self.header = header
        self.payload = payload
        self.timestamp_ns = timestamp_ns

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoredMessage) and self._values() == other._values()

    def __repr__(self) -> str:
        return f"StoredMessage{self._values()}"

    def _values(self) -> tuple[int, bytes, bytes, bytes, int]:
        return self.sequence, self.subject, self.header, self.payload, self.timestamp_ns


@final
class MessageBatch(StoredColumns):
    """Messages that were read."""

    __slots__ = ()

    def __iter__(self) -> Iterator[StoredMessage]:
        return map(
            StoredMessage,
            self.sequences,
            self.subjects,
            self.headers,
            self.payloads,
            self.timestamps_ns,
        )

    def cut_behind(self, sequence: int) -> None:
        """Leave out the messages after a sequence."""
        self.cut(bisect_right(self.sequences, sequence))


class Batch(MessageColumns):
    """Messages to append, as parallel lists; a message without headers has empty ones.

    `expiries_ns` is empty, or has the time at which each message expires; 0 for never.
    """

    __slots__ = ("expiries_ns", "headers", "timestamps_ns")

    COLUMNS = ("subjects", "headers", "payloads", "timestamps_ns", "expiries_ns")

    def __init__(
        self,
        subjects: list[bytes],
        headers: list[bytes],
        payloads: list[bytes],
        timestamps_ns: Numbers,
        expiries_ns: list[int] | None = None,
    ) -> None:
        self.subjects = subjects
        self.headers = headers
        self.payloads = payloads
        self.timestamps_ns: Numbers = timestamps_ns
        self.expiries_ns = expiries_ns or []
        count = len(subjects)
        if (
            not count
            or not count == len(headers) == len(payloads) == len(timestamps_ns)
            or (expiries_ns and len(expiries_ns) != count)
            or (len(subjects[0]) if count == 1 else max(map(len, subjects))) > SUBJECT_BYTES_MAX
        ):
            raise InvariantViolation(
                "a batch has messages, lists of one length, and subjects that fit their records"
            )


@final
class EncodedMessages:
    """The records of a batch as a segment holds them, whichever segment that will be.

    They are `data[begin:]`, with these lengths. The first has `first_sequence`, and the checksums
    begin with `seed`: only a log of that seed can take the bytes over.
    """

    __slots__ = ("begin", "data", "first_sequence", "lengths", "seed")

    def __init__(
        self, first_sequence: int, data: bytes, begin: int, lengths: Numbers, seed: int
    ) -> None:
        self.first_sequence = first_sequence
        self.data = data
        self.begin = begin
        self.lengths = lengths
        self.seed = seed


class Passed(NamedTuple):
    """Sequences that are given out without messages. `header` is that of a message which takes one
    of them and is not stored."""

    first_sequence: int
    sequences: int
    timestamp_ns: int
    header: bytes = b""


# Sequences that are about to be given out.
Upcoming: TypeAlias = EncodedMessages | Passed


class MessageLog(ABC):
    """The log of one stream, on disk or in memory."""

    def __init__(self, index: LogIndex, record_seed: int) -> None:
        """`record_seed` is the number that the checksums of the stream's records begin with."""
        self.index = index
        self.record_seed = record_seed
        self.expiries = ExpiryQueue()
        # Ranges of sequences whose messages were stored and cannot be read any more.
        self.lost = RangeSet()
        # The callers' entries in the journal when the log was opened, in order.
        self.entries: list[Entry] = []
        # The sequences behind the checkpoint, when the log was opened, that messages took which
        # were not stored, each with header and time.
        self.passed: dict[int, tuple[bytes, int]] = {}
        # Entries of the write-ahead file that are to be applied again after a crash, in order: the
        # index of each, the last sequence that it follows, and its bytes.
        self.entries_to_apply: list[tuple[int, int, bytes]] = []
        self._applied_entry = 0
        # Returns the entries of the caller that are still true; None if all of them may be.
        self.caller_entries: Callable[[], list[tuple[int, bytes]]] | None = None
        # Whether the caller is in the midst of a change: the journal may speak of all of it or of
        # nothing, so it is not rewritten meanwhile.
        self.is_held = False
        # Whether the sequences are those of another stream, which has them after a crash.
        self.is_copy = False
        # Filters by patterns; those used last are at the end.
        self._filters: dict[tuple[bytes, ...], SubjectFilter] = {}

    # --- state ---------------------------------------------------------------------------------

    @property
    def is_replica(self) -> bool:
        """Whether the files of the log are a cache of the log of a consensus group."""
        return False

    @property
    def applied_entry(self) -> int:
        """The index of the last entry whose effects, and those of all before it, the log has."""
        return self._applied_entry

    @applied_entry.setter
    def applied_entry(self, index: int) -> None:
        self._applied_entry = index

    @property
    def first_sequence(self) -> int:
        """The sequence of the first message; one past the last sequence if there is no message."""
        return self.index.first_sequence

    @property
    def last_sequence(self) -> int:
        """The last sequence given out."""
        return self.index.last_sequence

    @property
    def messages(self) -> int:
        """The number of messages."""
        return self.index.messages

    @property
    def byte_count(self) -> int:
        """The bytes of all messages, as nats-server counts them for this kind of storage."""
        return self.index.byte_count

    @property
    def subject_count(self) -> int:
        """The number of subjects that have messages."""
        return len(self.index.subjects)

    @property
    def deleted_count(self) -> int:
        """The number of sequences from the first message to the last sequence without a message."""
        if not self.messages:
            return 0
        return self.last_sequence - self.first_sequence + 1 - self.messages

    def note_lost(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Note ranges of sequences, first and last, whose messages cannot be read anywhere. Raises
        StoreError."""
        for first, last in ranges:
            self.lost.add(first, last)

    # --- what each kind does -------------------------------------------------------------------

    @abstractmethod
    def append(self, batch: Batch) -> int:
        """Store messages; returns the sequence of the first. All of them, or none and an error."""

    @abstractmethod
    def append_encoded(self, batch: Batch, encoded: EncodedMessages) -> None:
        """Store messages whose records were encoded for this log and the next sequence: all of
        them, or none and an error."""

    @abstractmethod
    def write_together(self, parts: Iterable[Upcoming]) -> None:
        """Write what the next calls of `append`, `append_encoded` and `skip` store, in that order:
        all of it, or none and an error. These calls then need no room and no disk."""

    @abstractmethod
    def skip(
        self, count: int, timestamp_ns: int, header: bytes = b"", with_queue: bool = False
    ) -> None:
        """Give out sequences without messages.

        `header` is that of a message which takes the sequence and is not stored; a log that is
        opened again tells it. With the queue of the journal it is one change: a crash leaves both
        or neither.
        """

    @abstractmethod
    def get(self, sequence: int) -> StoredMessage | None:
        """The message of a sequence; None if it is gone or cannot be read."""

    @abstractmethod
    def read(self, sequence: int, count_max: int, bytes_max: int) -> MessageBatch:
        """Messages from `sequence` on, in order, at least one if there is one.

        `bytes_max` bounds headers and payloads together.
        """

    @abstractmethod
    def read_at(self, sequences: Sequence[int], bytes_max: int) -> MessageBatch:
        """The messages of these ascending sequences, in order, at least one if there is one.

        Messages that are gone or cannot be read are left out. `bytes_max` bounds headers and
        payloads together.
        """

    @abstractmethod
    def write_entries(self, entries: Sequence[tuple[int, bytes]]) -> None:
        """Write entries of the caller to the journal, kind and body each: all or none.

        Kinds are from CALLER_KINDS of `headwater.store.disk.journal` on.
        """

    @abstractmethod
    def queue_journal(self) -> None:
        """From now on keep entries of the journal in memory until `write_journal`."""

    @property
    def has_queued_journal(self) -> bool:
        """Whether entries of the journal wait for `write_journal`."""
        return False

    @abstractmethod
    def write_journal(self) -> None:
        """Write the entries of the journal that are queued, for a log that has one. Raises
        StoreError; on a disk without room the entries stay queued."""

    @abstractmethod
    def delete(
        self,
        sequences: Sequence[int],
        erase: bool = False,
        entries: Sequence[tuple[int, bytes]] = (),
    ) -> int:
        """Remove messages; `erase` also overwrites what they held. Returns how many there were.

        `entries` are journalled as by `write_entries`, also if there is nothing to remove. A crash
        leaves the messages and no entries, or the entries and no messages.
        """

    @abstractmethod
    def deleting(
        self, sequences: list[int], entries: Sequence[tuple[int, bytes]] = ()
    ) -> Work[None]:
        """Remove messages, some at a time; `sequences` are in ascending order.

        Nobody may write to the log meanwhile, and who reads sees some of them gone. A crash leaves
        all of the messages and no entries, or the entries and none of the messages.
        """

    @property
    def is_synced(self) -> bool:
        """Whether everything is as durable as it can be."""
        return True

    @property
    def has_entries(self) -> bool:
        """Whether the log is durable by the entries that its caller adds."""
        return False

    @property
    @abstractmethod
    def offline(self) -> str:
        """The reason why the log cannot be written to; empty if it can."""

    @property
    def is_full(self) -> bool:
        """Whether messages are refused because the disk has no room; this ends when it has."""
        return False

    @property
    def is_writable(self) -> bool:
        """Whether messages are accepted: the log is not offline, and the disk has room."""
        return not self.offline

    @property
    def journalled_sequence(self) -> int:
        """The last sequence whose consequences were journalled when the log was opened, or are in
        its checkpoint; 0 in memory, where nothing is left of an earlier life."""
        return 0

    @abstractmethod
    def sync(self) -> None:
        """Return when everything written so far is on the disk, for a log that has one. Raises
        StoreError."""

    @abstractmethod
    def begin_sync(self) -> LogSync | None:
        """Work for `LogSync.run`, which may run on another thread, and then for `finish_sync`; None
        if there is no disk to wait for. Raises StoreError."""

    @abstractmethod
    def finish_sync(self, done: LogSync) -> None:
        """Count as durable what a sync has brought to the disk. Raises StoreError."""

    def skipped_positions(self, count: int) -> int:
        """The number of positions of the index that a skip of `count` sequences takes."""
        return count

    @abstractmethod
    def set_body(self, body: bytes) -> None:
        """Replace the bytes that the caller keeps beside the messages, as durably as those."""

    @abstractmethod
    def close(self) -> None:
        """Release everything; a log on disk is complete there afterwards."""

    def abandon(self) -> list[Container]:
        """Forget all messages, before a log is closed and removed.

        Returns containers that nobody needs any more, and that may be so large that they are to be
        emptied some at a time.
        """
        containers = [*self.index.abandon(), *self.expiries.abandon()]
        self._filters.clear()
        return containers

    # --- looking up ----------------------------------------------------------------------------

    def filter(self, patterns: Sequence[bytes]) -> SubjectFilter:
        """The filter of the messages that match one of the patterns, for callers that ask again."""
        key = tuple(patterns)
        found = self._filters.pop(key, None) or SubjectFilter(self.index, key)
        self._keep_filter(key, found)
        return found

    def _keep_filter(self, key: tuple[bytes, ...], found: SubjectFilter) -> None:
        self._filters.pop(key, None)
        if len(self._filters) == FILTERS_KEPT_MAX:
            del self._filters[next(iter(self._filters))]
        self._filters[key] = found

    def _filter_once(self, patterns: Sequence[bytes]) -> SubjectFilter:
        """The filter for a question that is not asked again soon: it drives no other filter out."""
        key = tuple(patterns)
        return self._filters.get(key) or SubjectFilter(self.index, key)

    def cursor(self, patterns: Sequence[bytes], sequence: int) -> FilterCursor:
        """A cursor of one reader among the messages that match one of the patterns."""
        return FilterCursor(self.index, self.filter(patterns), sequence)

    @property
    def has_many_subjects(self) -> bool:
        """Whether to compare all subjects with a pattern may take long."""
        return len(self.index.subjects.names) > LOOKED_AT_ONCE_MAX

    def needs_preparing(self, patterns: Sequence[bytes]) -> bool:
        """Whether so many subjects have to be compared with patterns that this takes long."""
        return self._unprepared(patterns) is not None

    def preparing(self, patterns: Sequence[bytes]) -> Work[None]:
        """Find the subjects that match, some at a time; lookups by these patterns are cheap then.

        Subjects may come and go meanwhile.
        """
        found = self._unprepared(patterns)
        if found is not None:
            yield from found.finding_subjects()
            self._keep_filter(tuple(patterns), found)

    def _unprepared(self, patterns: Sequence[bytes]) -> SubjectFilter | None:
        """A filter that still has to find its subjects; None if that takes no time to speak of."""
        key = tuple(patterns)
        if key in self._filters:
            return None
        found = SubjectFilter(self.index, key, looks_bit_by_bit=True)
        is_long = not found.is_everything and found.looked_at > LOOKED_AT_ONCE_MAX
        return found if is_long else None

    def counting(self, patterns: Sequence[bytes], sequence: int) -> Work[None]:
        """Find out how many messages at or after a sequence match, some at a time; the log must not
        change meanwhile."""
        yield from self.preparing(patterns)
        if self.messages > COUNTED_AT_ONCE_MAX:
            yield from self.filter(patterns).counting(sequence)

    def gathering_last_per_subject(
        self, patterns: Sequence[bytes], up_to: int, count_max: int = COUNT_MAX
    ) -> Work[list[int]]:
        """The last message of each matching subject, at or before `up_to`, in order; the first so
        many, some at a time. The log must not change meanwhile."""
        yield from self.preparing(patterns)
        found = self._filter_once(patterns)
        found.refresh()
        return (yield from gathering_last_per_subject(self.index, found, up_to, count_max))

    def gathering_names(self, pattern: bytes) -> Work[list[bytes]]:
        """The names of the subjects that match and have messages, in no order, some at a time."""
        yield from self.preparing((pattern,))
        subjects = self.index.subjects
        names, counts = subjects.names, subjects.counts
        ids = self._filter_once((pattern,)).ids_now()
        found: list[bytes] = []
        for begin in range(0, len(ids), NAMED_AT_A_TIME):
            some = ids[begin : begin + NAMED_AT_A_TIME]
            there = compress(some, map(counts.__getitem__, some))
            found += map(names.__getitem__, there)
            yield 1 + len(some) // 4
        return found

    def next_sequence_of(self, patterns: Sequence[bytes], sequence: int) -> int:
        """The first message at or after `sequence` on a matching subject; 0 without one."""
        if len(patterns) == 1 and not has_wildcard(patterns[0]):
            sid = self.index.subjects.ids.get(patterns[0])
            return NO_SEQUENCE if sid is None else self.index.next_of_subject(sid, sequence)
        return self.filter(patterns).next(sequence)

    def last_sequence_of(self, patterns: Sequence[bytes], up_to: int | None = None) -> int:
        """The last message on a matching subject, at or before `up_to`; 0 without one."""
        limit = self.last_sequence if up_to is None else up_to
        if len(patterns) == 1 and not has_wildcard(patterns[0]):
            sid = self.index.subjects.ids.get(patterns[0])
            return NO_SEQUENCE if sid is None else self.index.last_of_subject(sid, limit)
        return self._filter_once(patterns).last(limit)

    def last_of_each(self, patterns: Sequence[bytes], up_to: int | None = None) -> list[int]:
        """The last message of each matching subject, at or before `up_to`, in order."""
        limit = self.last_sequence if up_to is None else up_to
        return self._filter_once(patterns).last_of_each(limit)

    def few_last_of_each(
        self, patterns: Sequence[bytes], up_to: int, count_max: int
    ) -> list[int] | None:
        """The last message of each matching subject, if they are at most `count_max`; else None."""
        found = self._filter_once(patterns)
        if found.has_more_subjects(up_to, count_max):
            return None
        return found.last_of_each(up_to)

    def pending(
        self, patterns: Sequence[bytes], sequence: int, last_per_subject: bool = False
    ) -> int:
        """The number of messages on matching subjects at or after `sequence`.

        With `last_per_subject`, the number of matching subjects whose last message is there.
        """
        found = self.filter(patterns)
        return found.pending_subjects(sequence) if last_per_subject else found.pending(sequence)

    def first_sequence_at(self, timestamp_ns: int) -> int:
        """The first message stored at or after a time; 0 without one."""
        return self.index.first_at(timestamp_ns)

    def subject_counts(self, pattern: bytes = ALL_SUBJECTS) -> dict[bytes, int]:
        """The number of messages of each matching subject."""
        subjects = self.index.subjects
        names, counts = subjects.names, subjects.counts
        found = self._filter_once((pattern,)).ids()
        return {names[sid]: counts[sid] for sid in sorted(found) if counts[sid]}

    def subject_extent(self, subject: bytes) -> tuple[int, int, int]:
        """First and last sequence of one subject and its count; zeros if it has no message."""
        return self.index.subjects.extent(subject)

    def size_of(self, sequence: int) -> int:
        """The bytes that a message counts; it must be there."""
        segment = self.index.segment_of(sequence)
        return segment.sizes[sequence - segment.first_sequence]

    def subject_of(self, sequence: int) -> bytes:
        """The subject of a message, which must be there."""
        segment = self.index.segment_of(sequence)
        sid = segment.subject_ids[sequence - segment.first_sequence]
        return self.index.subjects.names[sid]

    # --- what is to go -------------------------------------------------------------------------

    def purge(
        self,
        pattern: bytes = ALL_SUBJECTS,
        before: int = 0,
        keep: int = 0,
        entries: Sequence[tuple[int, bytes]] = (),
    ) -> int:
        """Remove messages on matching subjects; returns how many.

        `before` spares those from that sequence on, `keep` the last so many. `entries` are
        journalled together with that, as by `delete`.
        """
        return self.delete(self.purgeable(pattern, before, keep), entries=entries)

    def purgeable(self, pattern: bytes, before: int, keep: int) -> list[int]:
        """The messages that a purge removes, in order."""
        return at_once(self.gathering_purgeable(pattern, before, keep))

    def gathering_purgeable(self, pattern: bytes, before: int, keep: int) -> Work[list[int]]:
        """Find messages that a purge removes, some at a time; the log must not change meanwhile."""
        end = before or self.last_sequence + 1
        yield from self.preparing((pattern,))
        found = yield from self._filter_once((pattern,)).gathering(end)
        return found[: max(len(found) - keep, 0)]

    def due_by_age(self, stored_before_ns: int, count_max: int = COUNT_MAX) -> list[int]:
        """Messages stored before a time, oldest first, up to so many; reads no further."""
        return self.index.stored_before(stored_before_ns, count_max)

    def due_by_expiry(self, now_ns: int, count_max: int = COUNT_MAX) -> list[int]:
        """Messages that have expired; returned again until they are deleted."""
        due = [pair for pair in self.expiries.due(now_ns, count_max) if self.index.has(pair[0])]
        self.expiries.extend(due)
        return [sequence for sequence, _ in due]

    def note_expiries(self, first_sequence: int, expiries_ns: list[int]) -> None:
        """Remember when the messages of a batch expire."""
        for sequence, expiry_ns in enumerate(expiries_ns, first_sequence):
            if expiry_ns:
                self.expiries.add(sequence, expiry_ns)
