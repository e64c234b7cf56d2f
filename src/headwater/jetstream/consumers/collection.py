"""The consumers of a stream, found by name and by subject.

Consumers with the same filter form a group, so that a published subject is matched against filters
and not against consumers. A group knows which of its consumers wait for the next message: a publish
costs nothing for the others.

This is also where records of consumers meet their stream: whether an acknowledgement lets a message
leave the stream (`headwater.jetstream.consumers.retention`), and how both get into the journal
together.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, final

from headwater.base.emptying import Container
from headwater.base.invariants import check
from headwater.base.sliced import Work, at_once
from headwater.jetstream import error_codes
from headwater.jetstream.config.consumer_config import AckPolicy, ConsumerConfig
from headwater.jetstream.config.stream_config import Retention
from headwater.jetstream.consumers import codec, images, losses
from headwater.jetstream.consumers.changes_ahead import ChangesAhead
from headwater.jetstream.consumers.images import ConsumerImage
from headwater.jetstream.consumers.machine import Consumer
from headwater.jetstream.consumers.records import (
    CONSUMER_RECORDS,
    STEP_RECORDS,
    ConsumerConfigured,
    ConsumerCreated,
    ConsumerDeleted,
    ConsumerRecord,
    ConsumerReset,
    Delivered,
    Dropped,
    Forgotten,
    LongRecord,
)
from headwater.jetstream.consumers.retention import InterestCounts
from headwater.jetstream.consumers.state_machine import AT_ONCE, LATER, CommitTime
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import ConsumerEvent, ConsumerServed, Effect
from headwater.jetstream.records import Record
from headwater.jetstream.streams.host import Host
from headwater.jetstream.streams.view import StreamView
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import ALL_SUBJECTS, DiskFullError, StoreError
from headwater.subjects.grammar import is_subset, matches
from headwater.subjects.index import SubscriptionIndex

# This many entries, a few MiB, wait on a full disk before they are replaced by the state.
UNWRITTEN_MAX: Final = 65_536
# Kinds of findings of a log after which entries of consumers may be missing.
_LOSSES: Final = frozenset(("ahead", "damaged", "unreadable"))


@final
class _Group:
    """Consumers with the same filter."""

    __slots__ = ("consumers", "waiting")

    def __init__(self) -> None:
        self.consumers: dict[str, Consumer] = {}
        # Consumers of the group that wait for the next message.
        self.waiting: dict[str, Consumer] = {}


@final
class Consumers:
    """All consumers of one stream."""

    def __init__(self, stream: StreamView, host: Host) -> None:
        self._stream = stream
        self._host = host
        self.by_name: dict[str, Consumer] = {}
        self._groups: dict[bytes, _Group] = {}
        self._index: SubscriptionIndex[_Group] = SubscriptionIndex()
        self._waiting_count = 0
        self._counts = InterestCounts()
        # Changes that are proposed and not applied.
        self.changes = ChangesAhead(self._patterns_of)
        # When records are committed: later than they are proposed, consumers are ahead of the log
        # and may have to undo records.
        self.commit_time: CommitTime = AT_ONCE
        # Encoded records that join the queue of the journal with the next removal, or when the
        # queue is written.
        self._unwritten: list[tuple[int, bytes]] = []
        # Returns the present content of the entries that the stream itself has added.
        self.other_entries: Callable[[], list[tuple[int, bytes]]] = list
        # Events of consumers whose messages left the stream, for the advisories about them.
        self.events: list[ConsumerEvent] = []
        # Consumers that may have messages to deliver since messages left the stream, or since a
        # delivery was undone, in order.
        self.freed: dict[str, Consumer] = {}
        # Consumers with messages that are delivered and not yet acknowledged or given up, by name.
        # The removal of a message costs nothing for the others.
        self._holding: dict[str, Consumer] = {}
        # Consumers that were deleted, by name, until the server has ended them.
        self.closed: dict[str, Consumer] = {}
        # Consumers whose start sequence lies beyond the visible end of the stream, by name.
        self._beyond_end: dict[str, Consumer] = {}
        # Messages up to this sequence are kept, needed or not: a consumer whose entries could not
        # be read may need them.
        self._kept_until = 0
        # Reports on entries that could not be read when the log was opened.
        self.findings: list[str] = []

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self.by_name.values())

    def __len__(self) -> int:
        return len(self.by_name)

    @property
    def shown(self) -> list[Consumer]:
        """The consumers that the API shows, by name: all but the servers' own."""
        names = sorted(self.by_name)
        return [self.by_name[name] for name in names if not self.by_name[name].config.direct]

    @property
    def direct(self) -> list[Consumer]:
        """The consumers by which servers read the stream for other streams, by name."""
        return [
            self.by_name[name] for name in sorted(self.by_name) if self.by_name[name].config.direct
        ]

    def find(self, name: str) -> Consumer:
        """The consumer of a name. Raises ApiError."""
        found = self.by_name.get(name)
        if found is None:
            raise ApiError.of(error_codes.CONSUMER_NOT_FOUND)
        return found

    def break_cycles(self) -> None:
        """Drop all references after the deletion of the stream, including the one to the stream.

        Nothing is left to write, to report or to serve, so no later call needs the stream.
        """
        self.by_name.clear()
        self._groups.clear()
        self._index = SubscriptionIndex()
        self._waiting_count = 0
        self._counts.clear()
        self._unwritten.clear()
        self.events.clear()
        self.freed.clear()
        self._holding.clear()
        self._beyond_end.clear()
        self.closed.clear()
        self.changes = ChangesAhead(lambda _: None)
        del self._stream, self.other_entries

    def abandon(self) -> list[Container]:
        """The containers to empty after the deletion of the stream, each possibly large."""
        containers = self._counts.abandon()
        for consumer in self:
            containers += [consumer.position.last_per_subject, consumer.state.pending]
        return containers

    def commit_later(self) -> None:
        """Expect records to be committed later than they are proposed, from now on."""
        self.commit_time = LATER
        for consumer in self:
            consumer.machine.commit_time = LATER

    # --- by subject ----------------------------------------------------------------------------

    def interested(self, subject: bytes) -> int:
        """The number of consumers with a filter that matches the subject."""
        groups = self._index.match(subject).plain
        if len(groups) < 2:
            return len(groups[0].consumers) if groups else 0
        # Several filters of a consumer may match, which still counts once.
        return len({name for group in groups for name in group.consumers})

    def have_interest(self, subject: bytes) -> bool:
        """Whether a filter matches the subject, of a consumer that is there or in flight."""
        return self.interested(subject) > 0 or self.changes.have_interest(subject)

    @property
    def begin_later(self) -> bool:
        """Whether a consumer begins beyond the visible end of the stream, so that a message with
        interest may leave as soon as it is stored."""
        return bool(self._beyond_end)

    def note_waiting(self, consumer: Consumer) -> None:
        """Update whether a consumer waits for messages."""
        is_waiting = consumer.wants_messages and not consumer.is_gone
        if is_waiting == consumer.is_noted_waiting:
            return
        consumer.is_noted_waiting = is_waiting
        for pattern in consumer.position.patterns:
            group = self._groups.get(pattern)
            if group is None:
                continue
            if is_waiting != (consumer.name in group.waiting):
                if is_waiting:
                    group.waiting[consumer.name] = consumer
                    self._waiting_count += 1
                else:
                    del group.waiting[consumer.name]
                    self._waiting_count -= 1

    def waiting_for(self, subjects: Iterable[bytes]) -> list[Consumer]:
        """Consumers that wait for messages on any of these subjects."""
        if not self._waiting_count:
            return []
        found: dict[str, Consumer] = {}
        match = self._index.match
        for subject in set(subjects):
            for group in match(subject).plain:
                if group.waiting:
                    found |= group.waiting
        return [*found.values()] if len(found) < 2 else [found[name] for name in sorted(found)]

    def _patterns_of(self, name: str) -> tuple[bytes, ...] | None:
        consumer = self.by_name.get(name)
        return None if consumer is None else consumer.position.patterns

    def _join(self, consumer: Consumer) -> None:
        for pattern in consumer.position.patterns:
            group = self._groups.get(pattern)
            if group is None:
                group = self._groups[pattern] = _Group()
                self._index.insert(pattern, None, group)
            group.consumers[consumer.name] = consumer

    def _leave(self, consumer: Consumer) -> None:
        consumer.is_noted_waiting = False
        for pattern in consumer.position.patterns:
            group = self._groups[pattern]
            del group.consumers[consumer.name]
            if group.waiting.pop(consumer.name, None) is not None:
                self._waiting_count -= 1
            if not group.consumers:
                del self._groups[pattern]
                self._index.remove(pattern, None, group)

    # --- records -------------------------------------------------------------------------------

    def write_down(self, record: ConsumerRecord) -> None:
        """Add a record to the next write to the journal, if it outlives the process."""
        if self.is_kept(record):
            self._unwritten.append(codec.encode(record))

    def is_kept(self, record: ConsumerRecord) -> bool:
        """Whether a record outlives the process: its consumer is there, and does."""
        if isinstance(record, ConsumerCreated):
            return self._outlives(record.config)
        consumer = self.by_name.get(record.name)
        return consumer is not None and self._outlives(consumer.config)

    def _outlives(self, config: ConsumerConfig) -> bool:
        """Whether a consumer outlives the process.

        One in memory does so in a replica: it lives as long as any replica of the stream runs, and
        the files of a replica lack nothing that the entries behind them rest on.
        """
        return not config.mem_storage or self._stream.log.is_replica

    def join_group(self) -> None:
        """Write down consumers in memory too, because the log becomes a replica. Raises
        StoreError."""
        for consumer in self:
            if consumer.config.mem_storage:
                self._unwritten += _entries_of(consumer)
        self.flush()

    @property
    def has_unwritten(self) -> bool:
        """Whether entries wait for the next write to the journal."""
        return bool(self._unwritten) or self._stream.log.has_queued_journal

    def add_entry(self, entry: tuple[int, bytes]) -> None:
        """Have an entry of the stream itself written with those of consumers, in order."""
        self._unwritten.append(entry)

    def take_unwritten(self) -> list[tuple[int, bytes]]:
        """Remove and return the entries that join the queue of the journal now."""
        entries = self._unwritten
        self._unwritten = []
        return entries

    def queue_unwritten(self) -> None:
        """Have the entries join the queue of the journal: they follow from what is queued."""
        if self._unwritten:
            self._stream.log.write_entries(self.take_unwritten())

    def flush(self) -> None:
        """Write all waiting entries to the journal. Raises StoreError; without room they wait."""
        log = self._stream.log
        if self._unwritten and not log.is_full:
            log.write_entries(self.take_unwritten())
        # On a full disk, removals may still find room in the reserve.
        log.write_journal()
        if self._unwritten:
            if len(self._unwritten) > UNWRITTEN_MAX + 2 * len(self.by_name):
                self._shorten_unwritten()
            raise DiskFullError(f"{self._stream.name}: no room is left for entries of consumers")

    def _shorten_unwritten(self) -> None:
        """Replace the waiting entries by fewer ones, which say the same: a disk may stay full."""
        deleted = [entry for entry in self._unwritten if entry[0] == codec.DELETED]
        self._unwritten = [*dict.fromkeys(deleted), *self.snapshot(), *self.other_entries()]

    def apply(self, record: ConsumerRecord) -> list[int]:
        """Apply a record that is committed. Returns the messages that leave the stream.

        A consumer has applied the records of its own steps ahead. All other records, as of a
        replica, are applied to it now.
        """
        if not isinstance(record, STEP_RECORDS):
            return at_once(self.applying(record))
        consumer = self.by_name.get(record.name)
        if consumer is None:
            # The record was in flight when the deletion of its consumer was committed.
            return []
        if self._outlives(consumer.config):
            self._unwritten.append(codec.encode(record))
        ahead = consumer.machine.ahead
        if ahead and ahead[0][0] is record:
            _, released, _ = ahead.popleft()
        elif ahead:
            with _at_commit(consumer):
                released = consumer.machine.apply(record)
        else:
            released = consumer.machine.apply(record)
        if isinstance(record, Delivered):
            gone = self.commit_time.missing(self._stream.log, record.sequences)
            if gone:
                self._drop_missing(consumer, gone)
        self._note_holding(consumer)
        return self._released(released) if released else []

    def _drop_missing(self, consumer: Consumer, gone: list[int]) -> None:
        """Drop messages that left the stream before the record of their delivery was committed."""
        has = self._stream.log.index.has
        if consumer.config.ack_policy is not AckPolicy.NONE:
            with _at_commit(consumer):
                record, _ = losses.after_removal(consumer.name, consumer.state, gone, has)
                self._record_removal(consumer, record)

    def retreat(self, records: Iterable[Record]) -> None:
        """Undo records that will not be committed: the last ones that were proposed.

        Records that no consumer is ahead with have no effect, and need not be undone. Messages
        whose delivery is undone are to be delivered, also to a client that waits already.
        """
        records = [*records]
        self.changes.retreat(records)
        by_name: defaultdict[str, list[ConsumerRecord]] = defaultdict(list)
        for record in records:
            if isinstance(record, CONSUMER_RECORDS):
                by_name[record.name].append(record)
        for name, forgotten in by_name.items():
            consumer = self.by_name.get(name)
            if consumer is not None:
                consumer.machine.forget_ahead(forgotten)
                self._note_holding(consumer)
                self.freed[name] = consumer

    def applying(self, record: LongRecord) -> Work[list[int]]:
        """Apply a record that may visit every message of the stream, some messages at a time."""
        self.write_down(record)
        if isinstance(record, ConsumerCreated):
            yield from self._creating(record)
            return []
        consumer = self._consumer_of(record)
        with _at_commit(consumer):
            if isinstance(record, ConsumerDeleted):
                return (yield from self._deleting(consumer))
            return (yield from self._changing(consumer, record))

    def _consumer_of(self, record: ConsumerRecord) -> Consumer:
        consumer = self.by_name.get(record.name)
        check(consumer is not None, "records are about consumers that are there")
        assert consumer is not None
        return consumer

    @property
    def _retention(self) -> Retention:
        return self._stream.config.retention

    def _released(self, sequences: Sequence[int]) -> list[int]:
        """Those of the messages that leave the stream after this consumer has released them."""
        if not sequences or self._retention is Retention.LIMITS:
            return []
        if self._retention is Retention.INTEREST:
            sequences = self._counts.released(sequences)
        return self.commit_time.present(self._stream.log, sequences)

    def _creating(self, record: ConsumerCreated) -> Work[None]:
        consumer = Consumer(self._stream, self._host, record, self.commit_time)
        yield from consumer.position.placing(consumer.state)
        if self._retention is Retention.INTEREST:
            yield from self._counts.needing((yield from self._gathering_needs(consumer)))
        self.by_name[record.name] = consumer
        self._join(consumer)
        self._note_place(consumer)

    def _deleting(self, consumer: Consumer) -> Work[list[int]]:
        is_counted = self._retention is Retention.INTEREST
        is_last = len(self.by_name) == 1
        needed: list[int] = []
        if is_counted and not is_last:
            needed = yield from self._gathering_needs(consumer)
        self._forget(consumer)
        consumer.is_gone = True
        self.closed[consumer.name] = consumer
        if not is_counted:
            return []
        if not is_last:
            return (yield from self._counts.releasing(needed))
        yield from self._counts.clearing()
        return (yield from self._gathering_all())

    def _changing(
        self, consumer: Consumer, record: ConsumerConfigured | ConsumerReset
    ) -> Work[list[int]]:
        is_counted = self._retention is Retention.INTEREST
        before: list[int] = []
        if is_counted:
            before = yield from self._gathering_needs(consumer)
        self._leave(consumer)
        yield from consumer.applying(record)
        self._join(consumer)
        self._note_place(consumer)
        self._note_holding(consumer)
        self.note_waiting(consumer)
        if not is_counted:
            return []
        yield from self._counts.needing((yield from self._gathering_needs(consumer)))
        return (yield from self._counts.releasing(before))

    def _forget(self, consumer: Consumer) -> None:
        self._leave(consumer)
        del self.by_name[consumer.name]
        self._beyond_end.pop(consumer.name, None)
        self.freed.pop(consumer.name, None)
        self._holding.pop(consumer.name, None)

    def _note_place(self, consumer: Consumer) -> None:
        """Note whether a consumer begins beyond the visible end of the stream."""
        if consumer.position.cursor.sequence > self._stream.visible_sequence + 1:
            self._beyond_end[consumer.name] = consumer
        else:
            self._beyond_end.pop(consumer.name, None)

    def _note_holding(self, consumer: Consumer) -> None:
        """Note whether removed messages may concern a consumer."""
        if consumer.state.pending or consumer.state.redelivered or consumer.machine.ahead:
            self._holding[consumer.name] = consumer
        else:
            self._holding.pop(consumer.name, None)

    def _gathering_needs(self, consumer: Consumer) -> Work[list[int]]:
        """Every message of the stream that a consumer has not acknowledged, in order."""
        state, log = consumer.state, self._stream.log
        begin, end = consumer.position.cursor.sequence, self._stream.visible_sequence + 1
        to_come = yield from log.filter(consumer.position.patterns).gathering(end, begin)
        has = log.index.has
        sent = {each for each in (*state.pending, *state.redelivered) if has(each)}
        if not sent and not consumer.position.last_per_subject:
            return to_come
        sent.update(consumer.position.last_per_subject)
        # Usually all sent messages are before `begin`, and two sorted parts follow each other.
        before = [each for each in sent if each < begin]
        if len(before) < len(sent):
            return sorted(sent.union(to_come))
        return [*sorted(before), *to_come]

    def _gathering_all(self) -> Work[list[int]]:
        log, end = self._stream.log, self._stream.visible_sequence + 1
        return (yield from log.filter((ALL_SUBJECTS,)).gathering(end))

    # --- messages come and go ------------------------------------------------------------------

    def published(self, first_sequence: int, subjects: Sequence[bytes]) -> list[int]:
        """Count the interest in messages that became visible. Returns those without any."""
        if self._retention is not Retention.INTEREST:
            return []
        needless = self._counts.published(first_sequence, subjects, self.interested)
        if self._beyond_end:
            needless += self._release_earlier(first_sequence, subjects)
        return needless

    def _release_earlier(self, first_sequence: int, subjects: Sequence[bytes]) -> list[int]:
        """Release messages for consumers that begin later. Returns those that no other needs."""
        needless: list[int] = []
        for consumer in [*self._beyond_end.values()]:
            end = consumer.position.cursor.sequence
            needless += self._counts.released(
                sequence
                for sequence, subject in enumerate(subjects, first_sequence)
                if sequence < end
                and any(matches(each, subject) for each in consumer.position.patterns)
            )
            self._note_place(consumer)
        return needless

    def removing(self, sequences: list[int]) -> Work[None]:
        """Follow the removal of single messages, some messages at a time."""
        if not self.by_name:
            return
        if self._retention is Retention.INTEREST:
            yield from self._counts.forgetting(sequences)
        for consumer in [*self._holding.values()]:
            if not consumer.machine.is_undoable:
                self._follow_removal(consumer, sequences)
            elif consumer.machine.knows_any(sequences):
                with _at_commit(consumer):
                    self._follow_removal(consumer, sequences)

    def _follow_removal(self, consumer: Consumer, sequences: list[int]) -> None:
        has = self._stream.log.index.has
        record, events = losses.after_removal(consumer.name, consumer.state, sequences, has)
        if record is not None:
            self._record_removal(consumer, record)
            self.events += [ConsumerEvent(consumer.name, event) for event in events]

    def purging(self, pattern: bytes, now_ns: int) -> Work[None]:
        """Follow a purge of some subjects or of the messages before a sequence.

        The work is done some messages at a time.
        """
        if not self.by_name:
            return
        log = self._stream.log
        if self._retention is Retention.INTEREST:
            yield from self._counts.forgetting_missing(log.index.has)
        for consumer in self.by_name.values():
            with _at_commit(consumer):
                self._record_removal(consumer, self._after_purge(consumer, pattern, now_ns))

    def _after_purge(
        self, consumer: Consumer, pattern: bytes, now_ns: int
    ) -> Dropped | Forgotten | None:
        name, state, log = consumer.name, consumer.state, self._stream.log
        has, first_sequence = log.index.has, log.first_sequence
        if pattern != ALL_SUBJECTS:
            if not all(is_subset(each, pattern) for each in consumer.position.patterns):
                return losses.after_partial_purge(name, state, has)
            following = log.next_sequence_of((pattern,), first_sequence)
            first_sequence = following or log.last_sequence + 1
        return losses.after_purge(name, state, first_sequence, now_ns, has)

    def _record_removal(self, consumer: Consumer, record: Dropped | Forgotten | None) -> None:
        """Apply the record that follows from removed messages, and write it to the journal."""
        if record is not None:
            self.write_down(record)
            consumer.machine.apply(record)
            self._note_holding(consumer)
            self.freed[consumer.name] = consumer

    def take_news(self) -> list[Effect]:
        """Remove and return the events, and the consumers that may have room for other messages."""
        events, self.events = self.events, []
        freed, self.freed = self.freed, {}
        return [*events, *map(ConsumerServed, freed)]

    def forget_news(self) -> None:
        """Forget events, consumers with room and deleted consumers: no client is told of them."""
        self.events.clear()
        self.freed.clear()
        self.closed.clear()

    def reconfiguring(self, before: Retention) -> Work[list[int]]:
        """Follow a new configuration of the stream. Returns the messages that no consumer needs."""
        if self._retention is not Retention.INTEREST or before is self._retention:
            return []
        return (yield from self._counting_needs())

    def _counting_needs(self) -> Work[list[int]]:
        """Count the consumers that need each message. Returns the messages that none needs."""
        self._counts.clear()
        for consumer in self:
            with _at_commit(consumer):
                yield from self._counts.needing((yield from self._gathering_needs(consumer)))
        return (yield from self._counts.gathering_unneeded((yield from self._gathering_all())))

    # --- recovery ------------------------------------------------------------------------------

    def adopt(self, entries: Iterable[tuple[int, bytes]]) -> None:
        """Apply the entries of consumers from a backup; `recover` comes after it."""
        for kind, body in entries:
            self._recover_entry(kind, body, lambda _: True)

    def recover(self) -> list[int]:
        """Restore the consumers from the journal. Returns messages that none of them needs."""
        for entry in self._stream.log.entries:
            if entry.kind not in codec.CONSUMER_KINDS:
                continue
            try:
                # One in memory was written down while the log was a replica.
                self._recover_entry(entry.kind, entry.body, self._outlives)
            except StoreError as error:
                self.findings.append(str(error))
        for consumer in self:
            consumer.machine.recovered()
            self._note_place(consumer)
            self._note_holding(consumer)
        if self._retention is not Retention.INTEREST:
            # A work queue removes a message with the same write as the entry of its
            # acknowledgement.
            return []
        unneeded = at_once(self._counting_needs())
        if self._is_doubtful:
            self._kept_until = self._stream.log.last_sequence
            self._unwritten.append(codec.encode_kept(self._kept_until))
        if not self.by_name:
            return []
        return [sequence for sequence in unneeded if sequence > self._kept_until]

    @property
    def _is_doubtful(self) -> bool:
        """Whether consumers may be missing that need messages."""
        log = self._stream.log
        found = log.findings.reported if isinstance(log, FileLog) else []
        return bool(self.findings) or any(finding.kind in _LOSSES for finding in found)

    def _recover_entry(
        self, kind: int, body: bytes, is_there: Callable[[ConsumerConfig], bool]
    ) -> None:
        """Apply an entry again; `is_there` says whether a consumer that was created still is."""
        if kind == codec.KEPT:
            self._kept_until = codec.decode_kept(body)
            return
        if kind == codec.STATE:
            name, values = codec.decode_state(body)
            consumer = self.by_name.get(name)
            if consumer is not None:
                codec.restore_state(consumer.state, values)
            return
        record = codec.decode(kind, body)
        consumer = self.by_name.get(record.name)
        if isinstance(record, ConsumerCreated):
            if consumer is not None:
                # The entry of its deletion was lost.
                self._forget(consumer)
            if is_there(record.config):
                at_once(self._creating(record))
        elif consumer is None:
            return
        elif isinstance(record, ConsumerDeleted):
            self._forget(consumer)
        elif isinstance(record, ConsumerConfigured):
            self._leave(consumer)
            at_once(consumer.applying(record))
            self._join(consumer)
        elif isinstance(record, ConsumerReset):
            at_once(consumer.applying(record))
        else:
            consumer.machine.apply(record)

    def snapshot(self) -> list[tuple[int, bytes]]:
        """All consumers as the shortest sequence of entries that restores them.

        Records that are not committed are not part of them.
        """
        entries = [codec.encode_kept(self._kept_until)] if self._kept_until else []
        for consumer in self:
            if self._outlives(consumer.config):
                entries += _entries_of(consumer)
        return entries

    def encode_images(self) -> tuple[int, list[bytes]]:
        """All consumers for another replica, also those in memory, as `restoring` takes them, and
        the sequence up to which messages are kept.

        Records that are not committed are not part of them.
        """
        found: list[bytes] = []
        for consumer in self:
            with _at_commit(consumer):
                found.append(images.encode_image(consumer))
        return self._kept_until, found

    def restoring(self, kept_until: int, found: Iterable[ConsumerImage]) -> Work[None]:
        """Create the consumers that another replica has, in a stream without consumers."""
        self._kept_until = kept_until
        for image in found:
            consumer = Consumer(self._stream, self._host, image.created, self.commit_time)
            yield from images.restoring(consumer, image)
            self.by_name[consumer.name] = consumer
            self._join(consumer)
            self._note_place(consumer)
            self._note_holding(consumer)
        if self._retention is Retention.INTEREST:
            # Messages that no consumer needs leave the stream by records alone.
            yield from self._counting_needs()

    def dump(self) -> list[object]:
        """The committed state of all consumers, by name."""
        dumps: list[object] = []
        for name in sorted(self.by_name):
            consumer = self.by_name[name]
            with _at_commit(consumer):
                dumps.append((name, consumer.dump()))
        return dumps


def _entries_of(consumer: Consumer) -> list[tuple[int, bytes]]:
    """A consumer as the shortest sequence of entries that restores it."""
    with _at_commit(consumer):
        created = ConsumerCreated(
            consumer.name,
            consumer.config,
            consumer.created_ns,
            consumer.state.delivered_stream + 1,
            consumer.state.lasts_until,
        )
        return [codec.encode(created), codec.encode_state(consumer.name, consumer.state)]


@contextmanager
def _at_commit(consumer: Consumer) -> Iterator[None]:
    """Undo the records of a consumer that are not committed, until the end of the block.

    A change of the stream that is committed before them comes before them, as in the log.
    """
    if not consumer.machine.is_undoable:
        yield
        return
    consumer.machine.take_back()
    try:
        yield
    finally:
        consumer.machine.apply_again()
