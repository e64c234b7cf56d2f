"""A stream: a log of messages, the records that change it, and the rules of removal.

    publishes ─▶ decide ─▶ records ─▶ append (the look-ahead has them) ─▶ apply (the log has them)

`decide` reads and changes nothing durable. `append` queues records in the look-ahead, where the
next `decide` takes them into account. `apply` is called once they are as durable as the stream's
level asks for: it writes them to the log, moves the watermark and removes messages by limits and
roll-ups. Durable state changes by `apply` alone, from records alone: two replicas that are given
the same records have the same dump.

A stream knows no socket, timer or client; replies and messages to send are returned as values.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, final

from headwater.base.emptying import Container
from headwater.base.invariants import check
from headwater.base.sliced import Work, at_once
from headwater.go.json import write
from headwater.jetstream.api.documents import StreamState
from headwater.jetstream.config.stream_config import Retention, StreamConfig
from headwater.jetstream.consumers.collection import Consumers
from headwater.jetstream.consumers.records import (
    CONSUMER_RECORDS,
    LONG_RECORDS,
    STEP_RECORDS,
    LongRecord,
)
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.provenance import index_names_of, mirror_name_of
from headwater.jetstream.records import (
    Configured,
    Copied,
    Published,
    Purged,
    Record,
    Removed,
    Skipped,
)
from headwater.jetstream.streams import recovery, removed_ids
from headwater.jetstream.streams.dedupe import DedupeWindow, id_in
from headwater.jetstream.streams.digests import Digests
from headwater.jetstream.streams.effects import BeyondLimits, Shown, effects_of, may_roll_up
from headwater.jetstream.streams.file import encode_body
from headwater.jetstream.streams.host import Host
from headwater.jetstream.streams.limits import (
    has_limits,
    has_to_go_singly,
    narrows_subject_limit,
)
from headwater.jetstream.streams.log_messages import LogMessages
from headwater.jetstream.streams.look_ahead import LookAhead
from headwater.jetstream.streams.origin_positions import OriginPositions
from headwater.jetstream.streams.publishing.publishing import Publishing
from headwater.jetstream.streams.removal import Removals
from headwater.jetstream.streams.schedules.due import DueWork
from headwater.jetstream.streams.schedules.scheduling import Scheduling
from headwater.jetstream.streams.view import StreamView
from headwater.store.disk.journal import as_ranges
from headwater.store.log.batch_records import encode_behind
from headwater.store.log.message_log import (
    ALL_SUBJECTS,
    DiskFullError,
    EncodedMessages,
    MessageLog,
    OfflineError,
    Passed,
    StoreError,
    Upcoming,
)

SEQUENCE_MAX: Final = (1 << 64) - 1

# Records that assign sequences, and those that the look-ahead does not hold.
_MESSAGE_RECORDS: Final = (Published, Skipped)
_BESIDE_MESSAGES: Final = (Copied, *CONSUMER_RECORDS)


@final
class Stream(StreamView):
    """One stream of one account."""

    def __init__(self, config: StreamConfig, log: MessageLog, created_ns: int, host: Host) -> None:
        super().__init__(log, config)
        self.created_ns = created_ns
        self.host = host
        self.dedupe = DedupeWindow(config.duplicate_window)
        self._messages = LogMessages(log)
        # Records that are proposed and not yet applied.
        self.look_ahead = LookAhead(log, self.dedupe, config)
        self.scheduling = Scheduling(host.server.find_zone)
        self.consumers = Consumers(self, host)
        # The positions of the sources of the stream.
        self.positions = OriginPositions(log, self.consumers.add_entry)
        self.consumers.other_entries = self.positions.entries
        self.publishing = Publishing(
            config, log, self.look_ahead, host, self.consumers.have_interest
        )
        self.removals = Removals(self, self.dedupe, self.scheduling, self.consumers)
        self.due = DueWork(self, self.dedupe, self.scheduling, self.publishing)
        # Of a replica: formed as its entries are applied.
        self.digests: Digests | None = None
        self._configure(config)
        log.caller_entries = self._entries_to_keep
        log.queue_journal()

    def _configure(self, config: StreamConfig) -> None:
        self.config = config
        # The origin of a mirror among the positions.
        self._mirrored = mirror_name_of(config)
        # Whether a message that becomes visible has no other effect.
        self._only_shows = not (
            has_limits(config)
            or may_roll_up(config)
            or config.allow_msg_schedules
            or config.retention is Retention.INTEREST
        )

    @property
    def complete_sequence(self) -> int:
        """The sequence up to which readers see all there is: that of the origin for a mirror, with
        the messages that its filter leaves out."""
        if not self._mirrored:
            return self.visible_sequence
        return max(self.visible_sequence, self.positions.of(self._mirrored).sequence)

    def abandon(self) -> list[Container]:
        """Drop all messages of a deleted stream, before its log is closed.

        Returns the containers that may be large enough to be emptied some at a time.
        """
        of_consumers = self.consumers.abandon()
        return [*of_consumers, *self.dedupe.abandon(), *self.log.abandon()]

    def detach(self) -> list[Container]:
        """Leave the log, with its messages, to another stream that will be made of it.

        Returns the containers that may be large enough to be emptied some at a time.
        """
        self.log.caller_entries = None
        return [*self.consumers.abandon(), *self.dedupe.abandon()]

    def break_cycles(self) -> None:
        """Drop all references back to a deleted stream, after its log was closed.

        The last holder of the stream then frees it with its ids and subjects, without a garbage
        collection. The stream still has its name and configuration, and refuses requests and
        messages.
        """
        self.log.caller_entries = None
        self.consumers.break_cycles()
        del self.due, self.removals

    # --- timed work ----------------------------------------------------------------------------

    def decide_due(self, now_ns: int) -> Proposal[Record]:
        """Decide about everything that is due at `now_ns`."""
        return self.due.decide(self.look_ahead.stream_time(now_ns))

    @property
    def only_lets_go(self) -> bool:
        """Whether due work stores nothing, so that it only frees space."""
        config = self.config
        return config.subject_delete_marker_ttl <= 0 and not config.allow_msg_schedules

    # --- records -------------------------------------------------------------------------------

    @property
    def needs_commit(self) -> bool:
        """Whether publishes have to wait: messages may leave because of an entry in flight, and it
        is not foreseen which."""
        ahead = self.look_ahead
        if ahead.needs_commit:
            return True
        if ahead.config.retention is not Retention.INTEREST:
            return False
        consumers = self.consumers
        return consumers.changes.may_remove or (consumers.begin_later and len(ahead) > 0)

    @property
    def may_consume(self) -> bool:
        """Whether messages may leave by acknowledgements in flight: until these are committed, the
        messages are still there."""
        if self.look_ahead.config.retention is Retention.LIMITS:
            return False
        return any(consumer.machine.ahead for consumer in self.consumers)

    def will_have(self, sequence: int) -> bool:
        """Whether the stream has a message when all that is in flight is applied."""
        if not 0 < sequence < self.look_ahead.next_sequence:
            return False
        if not self.look_ahead.foreseen().has(sequence):
            return False
        return sequence > self.visible_sequence or self.message(sequence) is not None

    def append(self, record: Record) -> None:
        """Queue a record that was decided, so that later decisions take it into account."""
        if isinstance(record, Published):
            self.look_ahead.propose(record)
        elif isinstance(record, LONG_RECORDS):
            self.consumers.changes.propose(record, self.look_ahead.next_sequence)
        elif not isinstance(record, _BESIDE_MESSAGES):
            self.look_ahead.propose(record)
            if isinstance(record, Configured):
                self.publishing.configure(record.config)

    def is_queued(self, record: Record) -> bool:
        """Whether a record is the next to be applied, and nothing of it is."""
        return self.look_ahead.oldest is record

    def retreat(
        self, records: Sequence[Record], proposals: Sequence[Proposal[Record]] = ()
    ) -> None:
        """Forget the newest records that were queued, because they will never be applied, and what
        their proposals have changed in open batches, oldest first."""
        for proposal in reversed(proposals):
            if (changes := proposal.batches) is not None:
                self.publishing.retreat(changes)
        self.consumers.retreat(records)
        self.positions.retreat()
        count = sum(not isinstance(record, _BESIDE_MESSAGES) for record in records)
        for record in self.look_ahead.retreat(count):
            if self.config.allow_msg_schedules and isinstance(record, _MESSAGE_RECORDS):
                self.scheduling.give_back_copies(
                    [record.header] if isinstance(record, Skipped) else record.batch.headers
                )
            elif isinstance(record, Configured):
                self.publishing.configure(self.look_ahead.config)

    def apply(self, record: Record) -> None:
        """Store a record once it is as durable as it must be, with all its effects.

        Raises StoreError: without any change if the look-ahead still has the record, otherwise
        after its messages are stored.
        """
        if isinstance(record, STEP_RECORDS):
            consumed = self.consumers.apply(record)
            if consumed:
                self._remove_consumed(consumed)
        elif not self.show_plain([record]):
            at_once(self.applying(record))

    def show_plain(self, records: Sequence[Record]) -> bool:
        """Apply records if they only make messages visible. Returns whether it did.

        Most records have no other effect, and dividing the work into steps would cost more than the
        work.
        """
        if not self._only_shows:
            return False
        for record in records:
            if not isinstance(record, Published | Copied):
                return False
        for record in records:
            if isinstance(record, Copied):
                self.positions.apply(record)
                continue
            assert isinstance(record, Published)
            self._store(record)
            self.visible_sequence = record.last_sequence
            self.look_ahead.commit_oldest()
        self.host.update_usage(self)
        return True

    def store(self, records: Sequence[Record]) -> None:
        """Write the messages of an entry in one write, before its first record is applied.

        Sequences behind those that a purge or a long skip gives out are left to their own records.
        Raises StoreError without any change.
        """
        self.log.write_together(self._upcoming(records))

    def _upcoming(self, records: Sequence[Record]) -> Iterator[Upcoming]:
        """The sequences that records give out, as the log is to hold them."""
        next_sequence = self.log.index.next_sequence
        for record in records:
            if isinstance(record, Published):
                if record.first_sequence != next_sequence:
                    return
                yield self._encoded(record)
                next_sequence = record.last_sequence + 1
            elif isinstance(record, Skipped):
                count = record.first_sequence - next_sequence + 1
                if count < 1 or not self.log.skipped_positions(count):
                    return
                yield Passed(next_sequence, count, record.timestamp_ns, record.header)
                next_sequence = record.first_sequence + 1
            elif isinstance(record, Purged) and record.before > next_sequence:
                return

    def _encoded(self, record: Published) -> EncodedMessages:
        """The records of messages as the log will hold them."""
        encoded, seed = record.encoded, self.log.record_seed
        if encoded is None or encoded.seed != seed:
            encoded = encode_behind(record.first_sequence, record.batch, seed, b"")
        return encoded

    def show_unqueued(self, record: Record) -> bool:
        """Apply a record that was not queued if it only makes messages visible.

        This is what `append` and `show_plain` do, in one step; no other record may be queued.
        Returns whether it did. Raises StoreError without any change.
        """
        if not self._only_shows or not isinstance(record, Published):
            return False
        self._store_messages(record)
        self.visible_sequence = record.first_sequence + len(record.batch.subjects) - 1
        self.host.update_usage(self)
        return True

    def applying(self, record: Record) -> Work[int]:
        """Apply a record, some messages at a time. Returns the number of messages that left.

        Until the end no one may read or change the log; clients see the state as it was before.
        """
        before = self.log.messages
        try:
            yield from self._applying(record)
        finally:
            self.host.update_usage(self)
        return before - self.log.messages

    def _applying(self, record: Record) -> Work[None]:
        if isinstance(record, _MESSAGE_RECORDS):
            if self._comes_stepwise(record):
                # Clients do not see messages that the log has and that come later than others.
                with self.told_as_it_is():
                    yield from self._showing(record, is_stepwise=True)
            else:
                yield from self._showing(record)
        elif isinstance(record, LONG_RECORDS):
            try:
                with self.told_as_it_is():
                    yield from self._changing_consumers(record)
            finally:
                self.consumers.changes.note_applied(record)
        elif isinstance(record, CONSUMER_RECORDS):
            self._remove_consumed(self.consumers.apply(record))
        elif isinstance(record, Copied):
            self.positions.apply(record)
        else:
            check(self.look_ahead.oldest is record, "records are applied in the order of the log")
            is_refused = False
            try:
                yield from self._changing(record)
            except DiskFullError:
                # Before anything was changed.
                is_refused = True
                raise
            except StoreError:
                self.look_ahead.log_changed()
                raise
            finally:
                if not is_refused:
                    self.look_ahead.commit_oldest()
        self._show_assigned()

    def _changing_consumers(self, record: LongRecord) -> Work[None]:
        consumed = yield from self.consumers.applying(record)
        if consumed:
            self.look_ahead.log_changed()
            yield from self.removals.removing(consumed)

    def _remove_consumed(self, sequences: list[int]) -> None:
        if sequences:
            self.look_ahead.log_changed()
            try:
                self.removals.remove(sequences)
            finally:
                self.host.update_usage(self)
        self._show_assigned()

    def _showing(self, record: Published | Skipped, is_stepwise: bool = False) -> Work[None]:
        """Store messages and make them visible, up to each one that removes others, which go."""
        self._store(record)
        if is_stepwise and isinstance(record, Published):
            self._messages.hide(record.first_sequence, record.batch.subjects)
        try:
            for effect in effects_of(record, self._messages, self.config):
                if isinstance(effect, BeyondLimits):
                    yield from self.removals.removing(effect.sequences)
                elif isinstance(effect, Shown):
                    self._show_some(record, effect.begin, effect.end)
                else:
                    if self.config.allow_msg_schedules and isinstance(record, Published):
                        self._note_schedules(record, effect.begin, effect.end)
                    yield from self.removals.rolling_up(effect.purges)
        finally:
            # The message becomes visible even if the log has failed before the removals.
            self.visible_sequence = record.last_sequence
            self.look_ahead.commit_oldest()
            if is_stepwise:
                self._messages.show_all()

    def _comes_stepwise(self, record: Published | Skipped) -> bool:
        """Whether some messages of a record take effect before others come."""
        if isinstance(record, Skipped) or len(record.batch.subjects) == 1:
            return False
        return record.rolls_up or has_to_go_singly(self.config)

    def _store(self, record: Published | Skipped) -> None:
        """Write the messages of a record to the log. Raises StoreError without any change."""
        check(self.look_ahead.oldest is record, "records are applied in the order of the log")
        if isinstance(record, Published):
            self._store_messages(record)
            return
        next_sequence = self.log.index.next_sequence
        if record.subject and record.first_sequence != next_sequence:
            self._refuse_misplaced()
        count = record.first_sequence - next_sequence + 1
        check(count > 0, "a record gives out sequences that are free")
        self.log.skip(count, record.timestamp_ns, record.header)
        if last_id := id_in(record.header):
            # Until the journal has it, it is found in the header that the message has left.
            entry = (last_id, record.first_sequence, record.timestamp_ns)
            self.log.write_entries([removed_ids.encode([entry])])
        if self.positions.waiting is not None:
            self.positions.stored()
        self.dedupe.note_messages([record.header], record.first_sequence, [record.timestamp_ns])

    def _store_messages(self, record: Published) -> None:
        """Write messages to the log. Raises StoreError without any change."""
        log = self.log
        if record.first_sequence != log.index.next_sequence:
            self._refuse_misplaced()
        # The write-ahead file has the bytes of an entry already.
        encoded = record.encoded
        if encoded is None or encoded.seed != log.record_seed:
            log.append(record.batch)
        else:
            log.append_encoded(record.batch, encoded)
        if self.positions.waiting is not None:
            self.positions.stored()
        batch = record.batch
        if any(batch.headers):
            self.dedupe.note_messages(batch.headers, record.first_sequence, batch.timestamps_ns)
        else:
            self.dedupe.last_id = b""

    def _refuse_misplaced(self) -> None:
        """Refuse a record that does not follow the log. Raises OfflineError.

        Messages that waited in memory have left a log whose disk failed while the record was
        decided: a read of the log writes them.
        """
        check(bool(self.log.offline), "the messages of a record follow those of the log")
        raise OfflineError(self.log.offline)

    def _show_assigned(self) -> None:
        # A purge may have assigned sequences.
        self.visible_sequence = self.log.last_sequence

    def _changing(self, record: Removed | Purged | Configured) -> Work[None]:
        """Apply a record that has no message."""
        if isinstance(record, Removed):
            lost = self.log.index.present(sorted(record.sequences)) if record.is_lost else []
            yield from self.removals.removing(record.sequences, record.erase)
            if lost:
                self.log.note_lost(as_ranges(lost))
            return
        with self.told_as_it_is():
            if isinstance(record, Purged):
                yield from self._purging_as_asked(record)
            else:
                self._write_config(record.config)
                yield from self._reconfiguring(record.config, record.now_ns)

    def _write_config(self, config: StreamConfig) -> None:
        """Replace the configuration in the stream file, which also keeps the one in use for a log
        that a crash cuts back."""
        log, since_entry = self.log, 0
        before = self.config if log.has_entries else None
        if log.is_replica:
            since_entry = log.applied_entry + 1
        log.set_body(encode_body(config, self.created_ns, before=before, since_entry=since_entry))

    def _show_some(self, record: Published | Skipped, begin: int, end: int) -> None:
        """Make the messages from `begin` to `end` visible."""
        assert isinstance(record, Published)
        first = record.first_sequence
        if self._messages.hidden:
            self._messages.show(end - begin)
        self.visible_sequence = first + end - 1
        if self.config.retention is Retention.INTEREST:
            # Before the limits: a message that no consumer needs must not push out another.
            needless = self.consumers.published(first + begin, record.batch.subjects[begin:end])
            if needless:
                self.look_ahead.log_changed()
                self.removals.remove(needless)

    def _note_schedules(self, record: Published, begin: int, end: int) -> None:
        batch, first = record.batch, record.first_sequence
        self.scheduling.note_all(
            range(first + begin, first + end),
            batch.subjects[begin:end],
            batch.headers[begin:end],
            batch.timestamps_ns[begin:end],
        )

    def _entries_to_keep(self) -> list[tuple[int, bytes]]:
        """The journal entries that a rewritten journal has to keep."""
        # Entries that are part of the snapshot must not be written again after it.
        self.consumers.flush()
        has = self.log.index.has
        gone = [sequence for sequence in self.dedupe.sequences() if not has(sequence)]
        return [
            *self.consumers.snapshot(),
            *self.positions.entries(),
            *self.removals.ids_of(gone),
        ]

    def _purging_as_asked(self, record: Purged) -> Work[None]:
        """Purge messages. A purge of the whole stream up to a later sequence makes it the next."""
        missing = record.before - 1 - self.log.last_sequence
        skips = missing > 0 and record.pattern == ALL_SUBJECTS
        if skips and self.log.is_full:
            raise DiskFullError(f"{self.name}: no room is left to skip sequences")
        yield from self.removals.purging(record.pattern, record.before, record.keep, record.now_ns)
        if record.pattern == ALL_SUBJECTS and not record.keep and record.before != 1:
            # As in nats-server, any other purge leaves a stream that never had a message alone.
            self.tells_first_sequence = True
        if skips:
            self.log.skip(missing, max(self.last_ns(), 0), with_queue=True)

    def _reconfiguring(self, config: StreamConfig, now_ns: int) -> Work[None]:
        """Use another configuration, which the caller has checked; its limits apply at once."""
        before = self.config
        self._configure(config)
        self.due.reconfigured()
        if before.duplicate_window != config.duplicate_window:
            yield from self.dedupe.setting_window(config.duplicate_window, now_ns)
        if (before.sources, before.mirror) != (config.sources, config.mirror):
            sources = index_names_of(config)
            self.positions.keep_only([*sources, mirror_name_of(config)])
            yield from self.positions.finding_missing(sources)
        narrows = narrows_subject_limit(config, before)
        yield from self.removals.keeping_limits(with_subjects=narrows)
        needless = yield from self.consumers.reconfiguring(before.retention)
        if needless:
            yield from self.removals.removing(needless)

    # --- recovery ------------------------------------------------------------------------------

    def recover(self, now_ns: int, with_ids: bool = True) -> None:
        """Restore, from a log that was just opened, all state that is not stored by itself.

        Without ids, earlier publishes do not count as duplicates.
        """
        log = self.log
        # The files of a log with entries to apply are in the state between two entries, and so are
        # those of a replica: its group decides alone.
        is_exact = log.is_replica or bool(log.entries_to_apply)
        # A log that cannot be written is opened for reads all the same, and removes nothing.
        with suppress(StoreError):
            if not is_exact:
                recovery.remove_unfinished_batch(log)
        self.visible_sequence = log.last_sequence
        if with_ids:
            # Ids are found before messages are removed, because an id outlives its message. Those
            # of replicas end by the times of messages, and not by the clocks of servers.
            _, last_ns = log.index.end()
            recovery.find_ids(log, self.dedupe, last_ns if log.is_replica else now_ns)
        log.passed.clear()
        self.positions.recover(index_names_of(self.config), is_exact, mirror_name_of(self.config))
        consumed = self.consumers.recover()
        with suppress(StoreError):
            if not is_exact:
                limits = self.host.server.batch_room.limits
                recovery.let_go(log, self.config, self.removals, limits)
                if consumed:
                    self.removals.remove(consumed)
                log.write_journal()
        if self.config.allow_msg_schedules:
            recovery.find_schedules(log, self.scheduling)
            if not log.is_replica:
                # A leader alone decides that copies were missed.
                self.scheduling.skip_missed(log, now_ns)
        if is_exact:
            # The entries were committed later than they were proposed.
            self.consumers.commit_later()
            recovery.redo_entries(log, self._redo)

    def _redo(self, records: Sequence[Record]) -> None:
        """Apply the records of an entry again; consumers that lived in memory alone are gone."""
        for record in records:
            if not isinstance(record, CONSUMER_RECORDS) or self.consumers.is_kept(record):
                self.append(record)
                self.apply(record)
        self.consumers.flush()

    # --- description ---------------------------------------------------------------------------

    def _current_state(self) -> StreamState:
        state = super()._current_state()
        state.consumer_count = len(self.consumers.shown)
        return state

    def dump(self, now_ns: int) -> dict[str, object]:
        """The durable state, independent of how it came about: replicas compare it."""
        return {
            "config": write(self.config),
            "created_ns": self.created_ns,
            **self.dump_messages(),
            "ids": [*self.dedupe.entries(now_ns)],
            "last_id": self.dedupe.last_id,
            "schedules": self.scheduling.entries(),
            "consumers": self.consumers.dump(),
            "positions": self.positions.dump(),
        }
