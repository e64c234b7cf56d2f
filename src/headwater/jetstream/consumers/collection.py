"""The consumers of a stream: found by name, and by the subjects they are about.

Consumers with the same filter form a group, so that a published subject is matched against filters
and not against consumers. Of each group it is known who waits for the next message: a publish costs
nothing for those who do not.

This is also where records of consumers meet their stream: what an acknowledgement means for the
messages (`headwater.jetstream.consumers.retention`), and how both get into the journal together.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, final

from headwater.base.emptying import Container
from headwater.base.invariants import check
from headwater.base.sliced import Work, at_once
from headwater.jetstream import error_codes
from headwater.jetstream.config.consumer_config import AckPolicy
from headwater.jetstream.config.stream_config import Retention
from headwater.jetstream.consumers import codec
from headwater.jetstream.consumers.machine import Consumer
from headwater.jetstream.consumers.outbox import Event, Outbox
from headwater.jetstream.consumers.records import (
    LONG_RECORDS,
    Acked,
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
from headwater.jetstream.errors import ApiError
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import ALL_SUBJECTS, DiskFullError, OfflineError, StoreError
from headwater.subjects.grammar import is_subset, matches
from headwater.subjects.index import SubscriptionIndex

if TYPE_CHECKING:
    from headwater.jetstream.streams.stream import Stream

# What a log tells of itself that may have cost entries of consumers.
_DOUBTS: Final = frozenset(("ahead", "damaged", "unreadable"))


@final
class _Group:
    """Consumers that are about the same subjects."""

    __slots__ = ("consumers", "hungry")

    def __init__(self) -> None:
        self.consumers: dict[str, Consumer] = {}
        # Those of them that wait for the next message.
        self.hungry: dict[str, Consumer] = {}


@final
class Consumers:
    """All consumers of one stream."""

    def __init__(self, stream: "Stream") -> None:
        self._stream = stream
        self.by_name: dict[str, Consumer] = {}
        self._groups: dict[bytes, _Group] = {}
        self._index: SubscriptionIndex[_Group] = SubscriptionIndex()
        self._hungry_count = 0
        self._counts = InterestCounts()
        # Entries of records that are not in the journal yet.
        self._unwritten: list[tuple[int, bytes]] = []
        # Whether there was no room for some of them: what the journal says of consumers is not
        # complete, so nothing is added to it before all of it is written anew.
        self.is_owed = False
        # What happened to consumers because messages left the stream, for whoever tells of it.
        self.events: list[tuple[Consumer, Event]] = []
        # Those that may have room for other messages since, in order.
        self._freed: dict[str, Consumer] = {}
        # Those that have delivered messages which are not done with, by name: with thousands that
        # have not, a message that goes costs nothing for them.
        self._holding: dict[str, Consumer] = {}
        # Those that begin with a message which is still to come, by name.
        self._ahead: dict[str, Consumer] = {}
        # Up to here messages stay whoever needs them: somebody may who could not be read.
        self._kept_until = 0
        # What could not be read when the log was opened.
        self.findings: list[str] = []

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self.by_name.values())

    def __len__(self) -> int:
        return len(self.by_name)

    @property
    def shown(self) -> list[Consumer]:
        """Those that clients are told of, by name: not the server's own."""
        names = sorted(self.by_name)
        return [self.by_name[name] for name in names if not self.by_name[name].config.direct]

    @property
    def direct(self) -> list[Consumer]:
        """Those by which servers read the stream for others, by name."""
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
        """The stream is deleted: forget its consumers, and the stream, which leads back here.

        Nothing is left to be written, told or served, and so nothing asks for the stream again.
        """
        self.by_name.clear()
        self._groups.clear()
        self._index = SubscriptionIndex()
        self._hungry_count = 0
        self._counts.clear()
        self._unwritten.clear()
        self.events.clear()
        self._freed.clear()
        self._holding.clear()
        self._ahead.clear()
        del self._stream

    def abandon(self) -> list[Container]:
        """The stream is deleted: returns containers of consumers that are to be emptied."""
        containers = self._counts.abandon()
        for consumer in self:
            containers += [consumer.lasts, consumer.state.pending]
        return containers

    # --- by subject ----------------------------------------------------------------------------

    def interested(self, subject: bytes) -> int:
        """How many consumers are about a subject."""
        groups = self._index.match(subject).plain
        if len(groups) < 2:
            return len(groups[0].consumers) if groups else 0
        # The filters of a consumer may overlap.
        return len({name for group in groups for name in group.consumers})

    def note_hunger(self, consumer: Consumer) -> None:
        """Whether a consumer waits for messages may have changed."""
        is_hungry = consumer.wants_messages and not consumer.is_gone
        for pattern in consumer.patterns:
            group = self._groups.get(pattern)
            if group is None:
                continue
            if is_hungry != (consumer.name in group.hungry):
                if is_hungry:
                    group.hungry[consumer.name] = consumer
                    self._hungry_count += 1
                else:
                    del group.hungry[consumer.name]
                    self._hungry_count -= 1

    def hungry_for(self, subjects: Iterable[bytes]) -> list[Consumer]:
        """Consumers that wait for messages on any of these subjects."""
        if not self._hungry_count:
            return []
        found: dict[str, Consumer] = {}
        match = self._index.match
        for subject in set(subjects):
            for group in match(subject).plain:
                if group.hungry:
                    found |= group.hungry
        return [*found.values()] if len(found) < 2 else [found[name] for name in sorted(found)]

    def _join(self, consumer: Consumer) -> None:
        for pattern in consumer.patterns:
            group = self._groups.get(pattern)
            if group is None:
                group = self._groups[pattern] = _Group()
                self._index.insert(pattern, None, group)
            group.consumers[consumer.name] = consumer

    def _leave(self, consumer: Consumer) -> None:
        for pattern in consumer.patterns:
            group = self._groups[pattern]
            del group.consumers[consumer.name]
            if group.hungry.pop(consumer.name, None) is not None:
                self._hungry_count -= 1
            if not group.consumers:
                del self._groups[pattern]
                self._index.remove(pattern, None, group)

    # --- records -------------------------------------------------------------------------------

    def write_down(self, record: ConsumerRecord) -> None:
        """Have a record in the journal, with the next write to it."""
        if self._is_kept(record):
            self._unwritten.append(codec.encode(record))

    def _is_kept(self, record: ConsumerRecord) -> bool:
        if isinstance(record, ConsumerCreated):
            return not record.config.mem_storage
        consumer = self.by_name.get(record.name)
        return consumer is not None and not consumer.config.mem_storage

    @property
    def has_unwritten(self) -> bool:
        """Whether anything waits for the next write to the journal."""
        return bool(self._unwritten) or self.is_owed

    def take_unwritten(self) -> list[tuple[int, bytes]]:
        """Entries to be written now; none as long as earlier ones are owed."""
        entries = self._unwritten
        self._unwritten = []
        return [] if self.is_owed else entries

    def flush(self) -> None:
        """Write what waits. Raises StoreError; without room all of it is owed."""
        if self.is_owed:
            self._write_anew()
        elif self._unwritten:
            try:
                self._stream.log.write_entries(self.take_unwritten())
            except DiskFullError:
                self.is_owed = True
                raise

    def _write_anew(self) -> None:
        """Write down all that is remembered, in place of what the journal has. Raises StoreError,
        and it is owed as before."""
        log = self._stream.log
        self._unwritten = []
        if not isinstance(log, FileLog):
            self.is_owed = False
            return
        if log.is_full or log.is_rewriting:
            raise DiskFullError(f"{self._stream.name}: there was no room for entries of consumers")
        # The state that is remembered now counts as written.
        self.is_owed = False
        try:
            log.rewrite_journal_now()
        except OfflineError:
            raise
        except StoreError as error:
            self.is_owed = True
            raise DiskFullError(str(error)) from error

    def apply(self, record: ConsumerRecord) -> list[int]:
        """Change what a consumer remembers; returns the messages that leave the stream for it."""
        if isinstance(record, LONG_RECORDS):
            return at_once(self.applying(record))
        consumer = self._of(record)
        released: Sequence[int] = ()
        if isinstance(record, Acked):
            released = self._known(consumer, record.sequences)
        elif isinstance(record, Delivered) and consumer.config.ack_policy is AckPolicy.NONE:
            released = record.sequences
        consumer.apply(record)
        self._note_holding(consumer)
        return self._released(released)

    def applying(self, record: LongRecord) -> Work[list[int]]:
        """Apply a record that may be about every message of the stream, some at a time."""
        if isinstance(record, ConsumerCreated):
            yield from self._creating(record)
            return []
        consumer = self._of(record)
        if isinstance(record, ConsumerDeleted):
            return (yield from self._deleting(consumer))
        return (yield from self._changing(consumer, record))

    def _of(self, record: ConsumerRecord) -> Consumer:
        consumer = self.by_name.get(record.name)
        check(consumer is not None, "records are about consumers that are there")
        assert consumer is not None
        return consumer

    def _known(self, consumer: Consumer, sequences: Sequence[int]) -> Sequence[int]:
        """Those messages that the consumer still needed, each once."""
        if self._retention is Retention.LIMITS:
            return ()
        pending, redelivered = consumer.state.pending, consumer.state.redelivered
        return sorted({each for each in sequences if each in pending or each in redelivered})

    @property
    def _retention(self) -> Retention:
        return self._stream.config.retention

    def _released(self, sequences: Sequence[int]) -> list[int]:
        """What leaves the stream because a consumer needs it no longer."""
        if not sequences or self._retention is Retention.LIMITS:
            return []
        if self._retention is Retention.WORKQUEUE:
            return [*sequences]
        return self._counts.released(sequences)

    def _creating(self, record: ConsumerCreated) -> Work[None]:
        consumer = Consumer(
            self._stream,
            record.name,
            record.config,
            record.created_ns,
            record.start_sequence,
            record.lasts_until,
        )
        yield from consumer.placing()
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
        self.note_hunger(consumer)
        if not is_counted:
            return []
        yield from self._counts.needing((yield from self._gathering_needs(consumer)))
        return (yield from self._counts.releasing(before))

    def _forget(self, consumer: Consumer) -> None:
        self._leave(consumer)
        del self.by_name[consumer.name]
        self._ahead.pop(consumer.name, None)
        self._freed.pop(consumer.name, None)
        self._holding.pop(consumer.name, None)

    def _note_place(self, consumer: Consumer) -> None:
        """Know of a consumer whether it begins with what is still to come."""
        if consumer.cursor.sequence > self._stream.visible_sequence + 1:
            self._ahead[consumer.name] = consumer
        else:
            self._ahead.pop(consumer.name, None)

    def _note_holding(self, consumer: Consumer) -> None:
        """Know of a consumer whether it has to be told when messages go."""
        if consumer.state.pending or consumer.state.redelivered:
            self._holding[consumer.name] = consumer
        else:
            self._holding.pop(consumer.name, None)

    def _gathering_needs(self, consumer: Consumer) -> Work[list[int]]:
        """Every message of the stream that a consumer has not acknowledged, in order."""
        state, log = consumer.state, self._stream.log
        begin, end = consumer.cursor.sequence, self._stream.visible_sequence + 1
        to_come = yield from log.filter(consumer.patterns).gathering(end, begin)
        has = log.index.has
        sent = {each for each in (*state.pending, *state.redelivered) if has(each)}
        if not sent and not consumer.lasts:
            return to_come
        sent.update(consumer.lasts)
        # It has sent nothing that is to come, but for what it was told to send once more.
        before = [each for each in sent if each < begin]
        if len(before) < len(sent):
            return sorted(sent.union(to_come))
        return [*sorted(before), *to_come]

    def _gathering_all(self) -> Work[list[int]]:
        log, end = self._stream.log, self._stream.visible_sequence + 1
        return (yield from log.filter((ALL_SUBJECTS,)).gathering(end))

    # --- messages come and go ------------------------------------------------------------------

    def published(self, first_sequence: int, subjects: Sequence[bytes]) -> list[int]:
        """Messages became visible; returns those that nobody needs."""
        if self._retention is not Retention.INTEREST:
            return []
        needless = self._counts.published(first_sequence, subjects, self.interested)
        return needless + self._pass_over(first_sequence, subjects) if self._ahead else needless

    def _pass_over(self, first_sequence: int, subjects: Sequence[bytes]) -> list[int]:
        """Who begins later does not need these; returns those that nobody else does."""
        needless: list[int] = []
        for consumer in [*self._ahead.values()]:
            end = consumer.cursor.sequence
            needless += self._counts.released(
                sequence
                for sequence, subject in enumerate(subjects, first_sequence)
                if sequence < end and any(matches(each, subject) for each in consumer.patterns)
            )
            self._note_place(consumer)
        return needless

    def removing(self, sequences: list[int]) -> Work[None]:
        """Messages have left the stream, one by one; the rest of it some at a time."""
        if not self.by_name:
            return
        if self._retention is Retention.INTEREST:
            yield from self._counts.forgetting(sequences)
        for consumer in [*self._holding.values()]:
            out = Outbox()
            self._follow(consumer, consumer.removed(sequences, out))
            self.events += [(consumer, event) for event in out.events]

    def purging(self, pattern: bytes, now_ns: int) -> Work[None]:
        """All messages of some subjects have left the stream, or all before some sequence; the rest
        of it some at a time."""
        if not self.by_name:
            return
        log = self._stream.log
        if self._retention is Retention.INTEREST:
            yield from self._counts.forgetting_missing(log.index.has)
        for consumer in self.by_name.values():
            if pattern == ALL_SUBJECTS:
                self._follow(consumer, consumer.purged(log.first_sequence, now_ns))
            elif all(is_subset(each, pattern) for each in consumer.patterns):
                following = log.next_sequence_of((pattern,), log.first_sequence)
                first = following or log.last_sequence + 1
                self._follow(consumer, consumer.purged(first, now_ns))
            else:
                self._follow(consumer, consumer.purged_partly())

    def _follow(self, consumer: Consumer, record: Dropped | Forgotten | None) -> None:
        """What follows for a consumer from messages that went, of which the journal has to know."""
        if record is not None:
            self.write_down(record)
            consumer.apply(record)
            self._note_holding(consumer)
            self._freed[consumer.name] = consumer

    def take_freed(self) -> list[Consumer]:
        """Consumers that may have room for other messages because some went."""
        if not self._freed:
            return []
        freed, self._freed = self._freed, {}
        return [*freed.values()]

    def reconfiguring(self, before: Retention) -> Work[list[int]]:
        """The stream has another configuration; returns the messages that nobody needs."""
        if self._retention is not Retention.INTEREST or before is self._retention:
            return []
        return (yield from self._counting_anew())

    def _counting_anew(self) -> Work[list[int]]:
        """Count who needs each message; returns those that nobody needs."""
        self._counts.clear()
        for consumer in self:
            yield from self._counts.needing((yield from self._gathering_needs(consumer)))
        return (yield from self._counts.gathering_unneeded((yield from self._gathering_all())))

    # --- coming back ---------------------------------------------------------------------------

    def adopt(self, entries: Iterable[tuple[int, bytes]]) -> None:
        """Take over consumers of a backup, as the journal tells of them, before `recover`."""
        for kind, body in entries:
            self._recover_entry(kind, body)

    def recover(self) -> list[int]:
        """Read back what the journal tells of consumers; returns what should not be there any more.

        That is what nobody needs any more of those who were brought back.
        """
        for entry in self._stream.log.entries:
            if entry.kind not in codec.CONSUMER_KINDS:
                continue
            try:
                self._recover_entry(entry.kind, entry.body)
            except StoreError as error:
                self.findings.append(str(error))
        for consumer in self:
            consumer.recovered()
            self._note_place(consumer)
            self._note_holding(consumer)
        if self._retention is not Retention.INTEREST:
            # From a work queue a message goes together with the entry of its acknowledgement.
            return []
        unneeded = at_once(self._counting_anew())
        if self._is_doubtful:
            self._kept_until = self._stream.log.last_sequence
            self._unwritten.append(codec.encode_kept(self._kept_until))
        if not self.by_name:
            return []
        return [sequence for sequence in unneeded if sequence > self._kept_until]

    @property
    def _is_doubtful(self) -> bool:
        """Whether there may be others that need something."""
        log = self._stream.log
        found = log.findings.reported if isinstance(log, FileLog) else []
        return bool(self.findings) or any(finding.kind in _DOUBTS for finding in found)

    def _recover_entry(self, kind: int, body: bytes) -> None:
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
                # That it was deleted before can not be read any more.
                self._forget(consumer)
            at_once(self._creating(record))
        elif consumer is None:
            return
        elif isinstance(record, ConsumerDeleted):
            self._forget(consumer)
        elif isinstance(record, ConsumerConfigured):
            self._leave(consumer)
            consumer.apply(record)
            self._join(consumer)
        else:
            consumer.apply(record)

    def snapshot(self) -> list[tuple[int, bytes]]:
        """Everything that the journal has to say of consumers, as short as it can be said."""
        entries = [codec.encode_kept(self._kept_until)] if self._kept_until else []
        for consumer in self:
            if consumer.config.mem_storage:
                continue
            created = ConsumerCreated(
                consumer.name,
                consumer.config,
                consumer.created_ns,
                consumer.state.delivered_stream + 1,
                consumer.state.lasts_until,
            )
            entries.append(codec.encode(created))
            entries.append(codec.encode_state(consumer.name, consumer.state))
        return entries

    def dump(self) -> list[object]:
        """Everything durable of all consumers, by name."""
        return [(name, self.by_name[name].dump()) for name in sorted(self.by_name)]
