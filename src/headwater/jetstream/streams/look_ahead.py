"""The look-ahead: records that are proposed to a stream and not yet committed.

Everything that is decided rests on them: the next sequence, the message ids, and the messages as
they will be. The log, its index and the dedupe window do not have them, so that `retreat` forgets
the newest ones and touches nothing else.

Most streams publish without conditions and have nothing in flight between two turns. So a record
that is proposed is only queued. Ids and bytes are counted when they are first asked for, and the
messages as they will be (`Foreseen`) are computed for turns that check messages one by one. From
then on both are updated record by record, and dropped when nothing is in flight.
"""

from collections import deque
from itertools import islice
from typing import Final, TypeAlias, final

from headwater.base.invariants import check
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.records import Configured, Published, Purged, Removed, Skipped
from headwater.jetstream.streams.dedupe import DedupeWindow, id_in, ids_in
from headwater.jetstream.streams.foreseeable import InFlight, is_foreseeable
from headwater.jetstream.streams.foreseen import Foreseen, removes_messages
from headwater.jetstream.streams.limits import OVERHEAD_BYTES_MAX, size_rule
from headwater.jetstream.streams.log_messages import LogMessages
from headwater.store.log.message_log import ALL_SUBJECTS, MessageLog

# The limits of messages and bytes in flight: further publishes wait. Recovery relies on the first.
IN_FLIGHT_MESSAGES_MAX: Final = 16_384
IN_FLIGHT_BYTES_MAX: Final = 128 * 1024 * 1024

# The records that a look-ahead holds; records of consumers do not change messages before they are
# committed.
Ahead: TypeAlias = Published | Skipped | Removed | Purged | Configured

# Records that assign sequences.
_MESSAGE_RECORDS: Final = (Published, Skipped)

# The sequence and the timestamp of the message with an id.
_Id: TypeAlias = tuple[int, int]


@final
class _Counted:
    """The bytes of a record, and its ids with the entries that they replaced."""

    __slots__ = ("byte_count", "ids")

    def __init__(self, byte_count: int, ids: list[tuple[bytes, _Id | None]]) -> None:
        self.byte_count = byte_count
        self.ids = ids


@final
class LookAhead:
    """The records in flight of one stream, oldest first."""

    __slots__ = (
        "_begins",
        "_byte_count",
        "_config",
        "_counted",
        "_dedupe",
        "_foreseen",
        "_foreseen_records",
        "_ids",
        "_in_force",
        "_log",
        "_messages",
        "_records",
        "_removes",
        "_size",
        "_unforeseen",
        "_updates",
        "messages",
    )

    def __init__(self, log: MessageLog, dedupe: DedupeWindow, config: StreamConfig) -> None:
        self._log = log
        self._messages = LogMessages(log)
        self._dedupe = dedupe
        # The storage of a stream never changes.
        self._size = size_rule(config.storage)
        self._records: deque[Ahead] = deque()
        # The number of messages in the records, and the records whose effects are not foreseen.
        self.messages = 0
        self._unforeseen: list[Ahead] = []
        # The configuration of the stream without the records in flight, and those that set another
        # one.
        self._in_force = config
        self._updates: list[Configured] = []
        # The sequence of the first message behind each of them.
        self._begins: list[int] = []
        # The ids and bytes of the oldest records, as far as they are counted.
        self._ids: dict[bytes, _Id] = {}
        self._byte_count = 0
        self._counted: deque[_Counted] = deque()
        # The messages as they will be, and how many of the oldest records they include.
        self._foreseen: Foreseen | None = None
        self._foreseen_records = 0
        self._config = config
        self._removes = removes_messages(config)

    def __len__(self) -> int:
        return len(self._records)

    # --- records -------------------------------------------------------------------------------

    @property
    def oldest(self) -> Ahead | None:
        """The record that is committed next."""
        return self._records[0] if self._records else None

    def propose(self, record: Ahead) -> None:
        """Add a record."""
        if isinstance(record, Published):
            self._records.append(record)
            self.messages += len(record.batch.subjects)
            return
        before = InFlight(len(self._records), self.messages, self.next_sequence - 1)
        if not is_foreseeable(record, before, self._log, self.config):
            self._unforeseen.append(record)
        self._records.append(record)
        if isinstance(record, Configured):
            self._updates.append(record)
            self._begins.append(before.last_sequence + 1)

    def commit_oldest(self) -> None:
        """Drop the oldest record, because the log has its messages and lacks those it removes."""
        record = self._records.popleft()
        if self._counted:
            self._drop_counted(self._counted.popleft(), record)
        if self._foreseen is not None:
            self._commit_foreseen(record)
        if isinstance(record, Published):
            self.messages -= len(record.batch.subjects)
            return
        if self._unforeseen and self._unforeseen[0] is record:
            del self._unforeseen[0]
        if isinstance(record, Configured):
            self._in_force = record.config
            del self._updates[0], self._begins[0]

    def _commit_foreseen(self, record: Ahead) -> None:
        is_included = self._foreseen_records > 0 and record not in self._unforeseen
        if self._foreseen is not None and self._records and is_included:
            self._foreseen.commit_oldest()
            self._foreseen_records -= 1
        else:
            self._forget_foreseen()

    def retreat(self, count: int) -> list[Ahead]:
        """Forget the newest records. Returns them, newest first."""
        check(count <= len(self._records), "only records in flight are forgotten")
        return [self._retreat_one() for _ in range(count)]

    def _retreat_one(self) -> Ahead:
        record = self._records.pop()
        if isinstance(record, Published):
            self.messages -= len(record.batch.subjects)
        elif self._unforeseen and self._unforeseen[-1] is record:
            self._unforeseen.pop()
        if isinstance(record, Configured):
            self._updates.pop()
            self._begins.pop()
        if len(self._counted) > len(self._records):
            self._undo_counted(self._counted.pop())
        if self._foreseen is not None and self._foreseen_records > len(self._records):
            self._foreseen.retreat()
            self._foreseen_records -= 1
            if isinstance(record, Configured):
                self._foreseen.configure(self.config)
        if not self._records:
            self._forget_foreseen()
        return record

    def log_changed(self) -> None:
        """Note that the log has changed otherwise than by the oldest record."""
        # Messages that only come do so over any other messages.
        if self._foreseen is not None and not self._foreseen.only_adds:
            self._forget_foreseen()

    def _forget_foreseen(self) -> None:
        self._foreseen = None
        self._foreseen_records = 0

    # --- what is in flight ---------------------------------------------------------------------

    @property
    def next_sequence(self) -> int:
        """The sequence of the next message."""
        if not self._records:
            return self._log.index.next_sequence
        newest = self._records[-1]
        if isinstance(newest, _MESSAGE_RECORDS):
            return newest.last_sequence + 1
        return self.next_sequence_without(0)

    def next_sequence_without(self, count: int) -> int:
        """The sequence of the next message if the newest records, so many, were not in flight."""
        # A purge of all messages up to a later sequence makes that the next.
        purged = 0
        for record in islice(reversed(self._records), count, None):
            if isinstance(record, _MESSAGE_RECORDS):
                return max(record.last_sequence + 1, purged)
            if isinstance(record, Purged) and record.pattern == ALL_SUBJECTS:
                purged = max(purged, record.before)
        return max(self._log.index.next_sequence, purged)

    @property
    def last_ns(self) -> int:
        """When the last sequence was assigned; 0 if that is not known."""
        if self._records:
            for record in reversed(self._records):
                if isinstance(record, Published):
                    return record.batch.timestamps_ns[-1]
                if isinstance(record, Skipped):
                    return record.timestamp_ns
        return self._log.index.last_timestamp_ns

    def end(self) -> tuple[int, int]:
        """The sequence of the next message, and the time at which the last one was assigned:
        `next_sequence` and `last_ns` in one call, because every publish asks."""
        if self._records:
            return self.next_sequence, self.last_ns
        return self._log.index.end()

    def stream_time(self, now_ns: int) -> int:
        """The time for this stream, which never goes back.

        If the clock is set back, the time stands still until the clock has caught up with the last
        message. Messages are found by time and expire in its order, so their times have to be in
        order. Age, time to live and dedupe window all count from the time of the message, and end
        together.
        """
        return max(now_ns, self.last_ns)

    @property
    def last_id(self) -> bytes:
        """The id of the last message; empty if it had none."""
        if self._records:
            for record in reversed(self._records):
                if isinstance(record, Published):
                    return id_in(record.batch.headers[-1])
                if isinstance(record, Skipped):
                    return id_in(record.header)
        return self._dedupe.last_id

    @property
    def byte_count(self) -> int:
        """The bytes of the messages in flight."""
        if self._records:
            self._count()
        return self._byte_count

    @property
    def is_full(self) -> bool:
        """Whether further publishes have to wait."""
        return self.messages >= IN_FLIGHT_MESSAGES_MAX or self.byte_count >= IN_FLIGHT_BYTES_MAX

    @property
    def needs_commit(self) -> bool:
        """Whether publishes have to wait: the effects of a record in flight are not foreseen."""
        return bool(self._unforeseen)

    @property
    def is_reconfigured(self) -> bool:
        """Whether a record in flight sets another configuration."""
        return bool(self._updates)

    @property
    def config(self) -> StreamConfig:
        """The configuration of the stream after all records."""
        return self._updates[-1].config if self._updates else self._in_force

    # --- ids -----------------------------------------------------------------------------------

    @property
    def keeps_ids(self) -> bool:
        """Whether ids count at all."""
        if self._updates:
            return self._updates[-1].config.duplicate_window > 0
        return self._dedupe.window_ns > 0

    def find_id(self, message_id: bytes, now_ns: int) -> int:
        """The sequence of the message with this id; 0 if no such message is within the window."""
        if self._records:
            self._count()
        if self._updates:
            return self._find_behind_updates(message_id, now_ns)
        found = self._ids.get(message_id)
        if found is None:
            return self._dedupe.find(message_id, now_ns)
        sequence, timestamp_ns = found
        return sequence if now_ns - timestamp_ns < self._dedupe.window_ns else 0

    def _find_behind_updates(self, message_id: bytes, now_ns: int) -> int:
        """Do what `find_id` does, by the window that updates in flight set.

        Ids that are past the window when it is changed do not come back with a longer one.
        """
        found, window_ns = self._ids.get(message_id), self._dedupe.window_ns
        is_stored = found is None
        if found is None:
            found = self._dedupe.entry(message_id)
        if found is None:
            return 0
        sequence, timestamp_ns = found
        for update, begin in zip(self._updates, self._begins, strict=True):
            is_before = is_stored or sequence < begin
            if is_before and update.now_ns - timestamp_ns >= window_ns:
                return 0
            window_ns = update.config.duplicate_window
        return sequence if now_ns - timestamp_ns < window_ns else 0

    def are_new(self, ids: list[bytes]) -> bool:
        """Whether no id stands here twice or is known already; empty ids do not count."""
        if self._records:
            self._count()
        return self._dedupe.are_new(ids) and (
            not self._ids or self._ids.keys().isdisjoint(filter(None, ids))
        )

    def _count(self) -> None:
        """Count the ids and bytes of records that were proposed since the last time."""
        for position in range(len(self._counted) - len(self._records), 0):
            record = self._records[position]
            counted = _Counted(_byte_count(record), [])
            self._byte_count += counted.byte_count
            for message_id, sequence, timestamp_ns in _ids_of(record):
                counted.ids.append((message_id, self._ids.get(message_id)))
                self._ids[message_id] = (sequence, timestamp_ns)
            self._counted.append(counted)

    def _drop_counted(self, counted: _Counted, record: Ahead) -> None:
        """Drop the ids of a committed record, unless later records have them too."""
        self._byte_count -= counted.byte_count
        if isinstance(record, _MESSAGE_RECORDS):
            for message_id, _ in counted.ids:
                found = self._ids.get(message_id)
                if found is not None and found[0] <= record.last_sequence:
                    del self._ids[message_id]

    def _undo_counted(self, counted: _Counted) -> None:
        self._byte_count -= counted.byte_count
        for message_id, before in reversed(counted.ids):
            # The record with the entry before may be committed by now.
            if before is None or before[0] <= self._log.last_sequence:
                self._ids.pop(message_id, None)
            else:
                self._ids[message_id] = before

    # --- messages ------------------------------------------------------------------------------

    def foreseen(self) -> Foreseen:
        """The messages after all records, for a turn to build on.

        The next call undoes what the turn has added.
        """
        config = self.config
        if config is not self._config:
            self._config = config
            self._removes = removes_messages(config)
        if not self._records:
            return Foreseen(self._messages, config, self._removes)
        if self._foreseen is None:
            before = self._in_force
            self._foreseen = Foreseen(self._messages, before, removes_messages(before))
        self._foreseen.go_back(0)
        for position in range(self._foreseen_records - len(self._records), 0):
            record = self._records[position]
            if isinstance(record, Configured):
                self._foreseen.configure(record.config)
            if record in self._unforeseen:
                self._foreseen.pass_by()
            else:
                self._foreseen.follow(record, self._size)
        self._foreseen_records = len(self._records)
        return self._foreseen


def _byte_count(record: Ahead) -> int:
    """The bytes of a record in memory, about as many as its messages count in a log."""
    if not isinstance(record, Published):
        return 0
    batch = record.batch
    sizes = (sum(map(len, column)) for column in (batch.subjects, batch.headers, batch.payloads))
    return sum(sizes) + OVERHEAD_BYTES_MAX * len(batch.subjects)


def _ids_of(record: Ahead) -> list[tuple[bytes, int, int]]:
    """The id, sequence and timestamp of the messages of a record that have an id."""
    if isinstance(record, Skipped):
        message_id = id_in(record.header)
        return [(message_id, record.first_sequence, record.timestamp_ns)] if message_id else []
    if not isinstance(record, Published) or not any(record.batch.headers):
        return []
    ids, times_ns = ids_in(record.batch.headers), record.batch.timestamps_ns
    sequences = range(record.first_sequence, record.last_sequence + 1)
    found = zip(ids, sequences, times_ns, strict=True)
    return [each for each in found if each[0]]
