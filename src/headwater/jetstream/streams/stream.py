"""A stream: a log of messages, the rules of admission, and the rules of removal.

    publishes ─▶ decide ─▶ records ─▶ append (the look-ahead has them) ─▶ apply (the log has them)

`decide` reads and changes nothing durable. `append` queues records in the look-ahead, where the
next `decide` takes them into account. `apply` is called once they are as durable as the stream's
level asks for: it writes them to the log, moves the watermark and removes messages by limits and
roll-ups. Durable state changes by `apply` alone, from records alone: two replicas that are given
the same records have the same dump.

A stream knows no socket, timer or client; replies and messages to send are returned as values.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Protocol, final

import msgspec

from headwater.base.emptying import Container
from headwater.base.invariants import check
from headwater.base.sliced import Work, at_once
from headwater.go.json import write
from headwater.go.quoting import quote, quote_bytes
from headwater.jetstream import header_names as names
from headwater.jetstream.api.documents import ErrorDocument, Refusal, StreamState
from headwater.jetstream.config.stream_config import Retention, Storage, StreamConfig
from headwater.jetstream.consumers.collection import Consumers
from headwater.jetstream.consumers.records import CONSUMER_RECORDS, LONG_RECORDS
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import (
    Configured,
    Published,
    Purged,
    Record,
    Removed,
    Skipped,
)
from headwater.jetstream.server_room import ServerRoom
from headwater.jetstream.streams.dedupe import DedupeWindow, id_in, ids_in
from headwater.jetstream.streams.effects import (
    BeyondLimits,
    Purge,
    Shown,
    effects_of,
    may_roll_up,
)
from headwater.jetstream.streams.file import encode_body
from headwater.jetstream.streams.limits import (
    OVERHEAD_BYTES_MAX,
    gathering_beyond_subject_limit,
    gathering_beyond_totals,
    has_limits,
    has_to_go_singly,
    size_rule,
)
from headwater.jetstream.streams.log_messages import LogMessages
from headwater.jetstream.streams.look_ahead import LookAhead
from headwater.jetstream.streams.publishing import checks
from headwater.jetstream.streams.publishing.admission import Admission
from headwater.jetstream.streams.publishing.atomic_batch import AtomicBatches
from headwater.jetstream.streams.publishing.checks import DuplicateError, refuses_when_full
from headwater.jetstream.streams.publishing.fast_batch import SUFFIX as FAST_SUFFIX
from headwater.jetstream.streams.publishing.fast_batch import FastBatches, is_fast
from headwater.jetstream.streams.publishing.incoming import Incoming
from headwater.jetstream.streams.recovery import let_go, recover_stream
from headwater.jetstream.streams.removal import deleting, ids_of, purging
from headwater.jetstream.streams.republish import Republisher
from headwater.jetstream.streams.schedules.due import DueWork
from headwater.jetstream.streams.schedules.schedule import ScheduleRules, ZoneFinder
from headwater.jetstream.streams.schedules.scheduling import Scheduling
from headwater.jetstream.streams.view import StreamView
from headwater.store.disk.format import SUBJECT_BYTES_MAX
from headwater.store.log.message_log import (
    ALL_SUBJECTS,
    Batch,
    DiskFullError,
    MessageLog,
    StoreError,
)
from headwater.subjects.grammar import has_wildcard
from headwater.subjects.transform import SubjectTransform, TransformError
from headwater.wire.headers import value_of, without_status

# Part of an ack, with the blank that nats-server writes.
_DUPLICATE: Final = b',"duplicate": true'

SEQUENCE_MAX: Final = (1 << 64) - 1

# Records that assign sequences.
_MESSAGE_RECORDS: Final = (Published, Skipped)


class Host(Protocol):
    """The account that a stream lives in, as far as the stream has to know it."""

    @property
    def server(self) -> ServerRoom: ...

    def has_interest(self, subject: bytes) -> bool:
        """Whether a subscription matches a subject."""
        ...

    def has_room(self, storage: Storage, size: int) -> bool:
        """Whether neither the server nor the account refuses `size` more bytes."""
        ...

    def check_account_room(self, storage: Storage, size: int) -> None:
        """Raises ApiError if the account may not store `size` more bytes."""
        ...

    def update_usage(self, stream: "Stream") -> None:
        """Count the bytes that a stream stores and reserves now."""
        ...


@final
class Stream(StreamView):
    """One stream of one account."""

    def __init__(self, config: StreamConfig, log: MessageLog, created_ns: int, host: Host) -> None:
        super().__init__(log, tells_first_sequence=config.first_seq > 0)
        self.name = config.name
        self.name_bytes = config.name.encode()
        self.created_ns = created_ns
        self.host = host
        self.dedupe = DedupeWindow(config.duplicate_window)
        # The message id of the last message; empty if it had none.
        self.last_id = b""
        # Messages that could not be removed because the disk was full, and whether limits and
        # roll-ups may have to remove others.
        self._overdue: list[int] = []
        self.is_behind = False
        self._messages = LogMessages(log)
        # Records that are proposed and not yet applied.
        self.look_ahead = LookAhead(log, self.dedupe, config)
        # The size of a message against the limits, as nats-server counts it.
        self.stored_size = size_rule(config.storage)
        self.atomic_batches = AtomicBatches(self, host.server.batch_room)
        self.fast_batches = FastBatches(self, host.server.batch_room)
        self.scheduling = Scheduling(host.server.find_zone)
        self.due = DueWork(self)
        # Sentences for the server's log about rules of the configuration that cannot be applied.
        self.set_aside: list[str] = []
        self._configure(config)
        self.consumers = Consumers(self)
        log.caller_entries = self._entries_to_keep
        # The state that clients see while a long removal is under way.
        self._state_before: StreamState | None = None

    def _configure(self, config: StreamConfig) -> None:
        self.config = config
        self.set_aside = []
        self._transform = self._transform_of(config)
        self.republisher = self._republisher_of(config)
        subjects = tuple(subject.encode() for subject in config.subjects)
        self.schedule_rules = ScheduleRules(
            config.allow_msg_schedules, config.allow_msg_ttl, subjects
        )
        self.refuses_when_full = refuses_when_full(config)
        # Whether a message may remove others by a roll-up.
        self.may_roll_up = may_roll_up(config)
        # Whether a message that becomes visible has no other effect.
        self._only_shows = not (
            has_limits(config)
            or self.may_roll_up
            or config.allow_msg_schedules
            or config.retention is Retention.INTEREST
        )
        domain = self.host.server.domain
        member = b'"domain":%b,' % write(domain) if domain else b""
        self._ack_begins = b'{"stream":%b,%b"seq":' % (write(self.name), member)
        # Whether a message without headers, or with a new id, needs no check of its own.
        self.takes_plain = (
            checks.takes_unseen(config) and self._transform is None and self.republisher is None
        )
        self._plain_bytes_max = checks.plain_bytes_max(config)

    def _transform_of(self, config: StreamConfig) -> SubjectTransform | None:
        transform = config.subject_transform
        if transform is None:
            return None
        try:
            return SubjectTransform.parse(transform.src.encode(), transform.dest.encode())
        except TransformError as error:
            self._set_aside("subject transform", transform.dest, error)
            return None

    def _republisher_of(self, config: StreamConfig) -> Republisher | None:
        republish = config.republish
        if republish is None:
            return None
        try:
            return Republisher.of(config)
        except TransformError as error:
            self._set_aside("republish", republish.dest, error)
            return None

    def _set_aside(self, rule: str, destination: str, error: TransformError) -> None:
        """Only a configuration from an older version can have a rule that cannot be applied."""
        self.set_aside.append(
            f"its {rule} to {quote(destination)} is not carried out ({error.reply}); "
            "update the stream with another one"
        )

    def retire(self) -> None:
        """Drop the open batches of a stream that ends."""
        self.atomic_batches.clear()
        self.fast_batches.clear()

    def abandon(self) -> list[Container]:
        """Drop all messages of a deleted stream, before its log is closed.

        Returns the containers that may be large enough to be emptied some at a time.
        """
        of_consumers = self.consumers.abandon()
        return [*of_consumers, *self.dedupe.abandon(), *self.log.abandon()]

    def break_cycles(self) -> None:
        """Drop all references back to a deleted stream, after its log was closed.

        The last holder of the stream then frees it with its ids and subjects, without a garbage
        collection. The stream still has its name and configuration, and refuses requests and
        messages.
        """
        self.log.caller_entries = None
        self.consumers.break_cycles()
        del self.atomic_batches, self.fast_batches, self.due

    # --- publishing ----------------------------------------------------------------------------

    def decide(self, incoming: Incoming, now_ns: int) -> Proposal:
        """Decide about publishes: records for those accepted, replies for all that asked."""
        now_ns = self._stream_time(now_ns)
        decision = Proposal()
        if self.takes_plain and self._accepts_all(incoming, now_ns, decision):
            return decision
        admission = Admission(self, now_ns)
        for subject, reply, header_size, payload in zip(
            incoming.subjects,
            incoming.replies,
            incoming.header_sizes,
            incoming.payloads,
            strict=True,
        ):
            header = b""
            if header_size >= 0:
                header = without_status(payload[:header_size])
                payload = payload[header_size:]
            if reply is not None and is_fast(reply):
                self.fast_batches.take(admission, decision, reply, subject, header, payload)
            else:
                self._admit(admission, decision, subject, reply, header, payload)
        decision.records = admission.finish()
        decision.republished = admission.republished
        return decision

    def long_lookup(self, incoming: Incoming) -> tuple[int, bytes] | None:
        """The position of the first publish that expects the last sequence of a pattern which is
        not prepared, with the pattern: it would be compared with very many subjects."""
        if max(incoming.header_sizes) <= 0 or not self.log.has_many_subjects:
            return None
        name = names.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT
        for position, payload in enumerate(incoming.payloads):
            if name not in payload:
                # Nearly every publish; a look at its header would cost more.
                continue
            header = payload[: max(incoming.header_sizes[position], 0)]
            pattern = value_of(header, name)
            if pattern and has_wildcard(pattern) and self.log.needs_preparing((pattern,)):
                return position, pattern
        return None

    def _accepts_all(self, incoming: Incoming, now_ns: int, decision: Proposal) -> bool:
        """Accept publishes if none needs a check of its own. Returns whether it did."""
        subjects, payloads = incoming.subjects, incoming.payloads
        if len(payloads) == 1 and incoming.header_sizes[0] < 0:
            return self._accepts_one(subjects, incoming.replies[0], payloads, now_ns, decision)
        if FAST_SUFFIX in b" ".join(filter(None, incoming.replies)):
            return False
        subject_bytes, largest = sum(map(len, subjects)), max(map(len, payloads))
        headers, bodies = incoming.parted()
        if not checks.pass_all(
            self.config, self.look_ahead, subjects, headers, subject_bytes, largest
        ):
            return False
        size = sum(map(len, payloads)) + subject_bytes + len(payloads) * OVERHEAD_BYTES_MAX
        if self.look_ahead.messages:
            size += self.look_ahead.byte_count
        if not self.host.has_room(self.config.storage, size):
            return False
        self._accept_all(incoming, headers, bodies, now_ns, decision)
        return True

    def _accepts_one(
        self,
        subjects: list[bytes],
        reply: bytes | None,
        payloads: list[bytes],
        now_ns: int,
        decision: Proposal,
    ) -> bool:
        """Do what `_accepts_all` does, for one publish without headers: most turns have no more."""
        subject_bytes, body_bytes = len(subjects[0]), len(payloads[0])
        if body_bytes > self._plain_bytes_max or subject_bytes > SUBJECT_BYTES_MAX:
            return False
        if reply is not None and FAST_SUFFIX in reply:
            return False
        ahead = self.look_ahead
        size = body_bytes + subject_bytes + OVERHEAD_BYTES_MAX
        if ahead.messages:
            size += ahead.byte_count
        if not self.host.has_room(self.config.storage, size):
            return False
        sequence = ahead.next_sequence
        batch = Batch(subjects, [b""], payloads, [now_ns])
        decision.records.append(Published(sequence, batch))
        if reply is not None and not self.config.no_ack:
            decision.reply_subjects.append(reply)
            decision.replies.append(b"%b%d}" % (self._ack_begins, sequence))
        return True

    def _accept_all(
        self,
        incoming: Incoming,
        headers: list[bytes],
        bodies: list[bytes],
        now_ns: int,
        decision: Proposal,
    ) -> None:
        """Add the record and the replies of publishes that need no check of their own."""
        count = len(incoming.subjects)
        first = self.look_ahead.next_sequence
        batch = Batch(incoming.subjects, headers, bodies, [now_ns] * count)
        decision.records.append(Published(first, batch))
        if self.config.no_ack:
            return
        begins = self._ack_begins
        decision.reply_subjects = [reply for reply in incoming.replies if reply is not None]
        if len(decision.reply_subjects) == count:
            decision.replies = [b"%b%d}" % (begins, seq) for seq in range(first, first + count)]
        else:
            decision.replies = [
                b"%b%d}" % (begins, sequence)
                for sequence, reply in enumerate(incoming.replies, first)
                if reply is not None
            ]

    def _admit(
        self,
        admission: Admission,
        decision: Proposal,
        subject: bytes,
        reply: bytes | None,
        header: bytes,
        body: bytes,
    ) -> None:
        """Check one publish, and reply if it asked for a reply."""
        try:
            batch_id = value_of(header, names.BATCH_ID) if header else None
            if batch_id:
                answer = self.atomic_batches.take(
                    admission, decision, batch_id, subject, header, body
                )
            else:
                sequence, body = admission.admit(subject, header, body)
                answer = self._ack(sequence, body)
        except ApiError as error:
            answer = self.refusal(error)
        except DuplicateError as duplicate:
            answer = b"%b%d%b}" % (self._ack_begins, duplicate.sequence, _DUPLICATE)
        if reply is not None and not self.config.no_ack:
            decision.reply(reply, answer, admission.draft.next_sequence - 1)

    def _ack(self, sequence: int, body: bytes) -> bytes:
        if self.config.allow_msg_counter:
            # The body is {"val":"n"}; the ack repeats the text between the braces.
            return b"%b%d,%b}" % (self._ack_begins, sequence, body[1:-1])
        return b"%b%d}" % (self._ack_begins, sequence)

    def batch_ack(
        self, sequence: int, batch_id: bytes, count: int, is_duplicate: bool = False
    ) -> bytes:
        """The reply to the commit of a batch."""
        mark = _DUPLICATE if is_duplicate else b""
        name = quote_bytes(batch_id).encode()
        return b'%b%d%b,"batch":%b,"count":%d}' % (self._ack_begins, sequence, mark, name, count)

    def refusal(self, error: ApiError) -> bytes:
        """The reply to a publish that is refused."""
        return write(Refusal(ErrorDocument.of(error), self.name, 0))

    def refuse(self, incoming: Incoming, error: ApiError) -> Proposal:
        """Refuse all publishes with one error, because the log cannot accept them."""
        decision = Proposal()
        if not self.config.no_ack:
            answer = self.refusal(error)
            for reply in incoming.replies:
                if reply is not None:
                    decision.reply(reply, answer)
        return decision

    # --- the steps of admission ----------------------------------------------------------------

    @property
    def max_payload(self) -> int:
        """The largest message that the server accepts."""
        return self.host.server.max_payload

    def transformed(self, subject: bytes) -> bytes:
        """The subject under which a message is stored."""
        if self._transform is None:
            return subject
        return self._transform.apply(subject, self.host.server.entropy) or subject

    @property
    def find_zone(self) -> ZoneFinder:
        """The lookup of time zones on this machine."""
        return self.host.server.find_zone

    def has_interest(self, subject: bytes) -> bool:
        """Whether a message is stored at all: an interest stream needs a matching consumer."""
        if self.config.retention is not Retention.INTEREST:
            return True
        return self.consumers.interested(subject) > 0

    def check_server_limits(self) -> None:
        """Raises ApiError if the server is full."""
        self.host.server.check_storage(self.config.storage)

    def server_refusal(self) -> ApiError | None:
        """The error by which the server refuses every message; None if it accepts them."""
        try:
            self.check_server_limits()
        except ApiError as error:
            return error
        return None

    def check_account_limits(self, size: int) -> None:
        """Raises ApiError if the account would be beyond its limits with `size` more bytes."""
        self.host.check_account_room(self.config.storage, size)

    def republished(
        self, subject: bytes, header: bytes, body: bytes, sequence: int, last: int, now_ns: int
    ) -> tuple[bytes, bytes, bytes] | None:
        """A message as it is republished; None if it is not."""
        if self.republisher is None:
            return None
        entropy = self.host.server.entropy
        return self.republisher.message(subject, header, body, sequence, last, now_ns, entropy)

    # --- timed work ----------------------------------------------------------------------------

    def decide_due(self, now_ns: int) -> Proposal:
        """Decide about everything that is due at `now_ns`."""
        return self.due.decide(self._stream_time(now_ns))

    def let_go(self) -> None:
        """Remove messages whose removal failed on a full disk. Raises StoreError."""
        if self.is_behind:
            overdue, self._overdue = self._overdue, []
            there = self.log.index.present(sorted(set(overdue)))
            try:
                if there:
                    self.remove(there)
                let_go(self)
            finally:
                self.host.update_usage(self)
            self.is_behind = False

    @property
    def only_lets_go(self) -> bool:
        """Whether due work stores nothing, so that it only frees space."""
        config = self.config
        return config.subject_delete_marker_ttl <= 0 and not config.allow_msg_schedules

    def _stream_time(self, now_ns: int) -> int:
        """The time for this stream, which never goes back.

        If the clock is set back, the time stands still until the clock has caught up with the last
        message. Messages are found by time and expire in its order, so their times have to be in
        order. Age, time to live and dedupe window all count from the time of the message, and end
        together.
        """
        return max(now_ns, self.look_ahead.last_ns)

    def next_due_ns(self) -> int:
        """When work may be due; 0 for never."""
        return self.due.next_ns()

    # --- records -------------------------------------------------------------------------------

    def append(self, record: Record) -> None:
        """Queue a record that was decided, so that later decisions take it into account."""
        if isinstance(record, Published) or not isinstance(record, CONSUMER_RECORDS):
            self.look_ahead.propose(record)

    def is_queued(self, record: Record) -> bool:
        """Whether a record is the next to be applied, and nothing of it is."""
        return self.look_ahead.oldest is record

    def retreat(self, records: Sequence[Record]) -> None:
        """Forget the newest records that were queued, because they will never be applied."""
        self.consumers.retreat(records)
        count = sum(not isinstance(record, CONSUMER_RECORDS) for record in records)
        for record in self.look_ahead.retreat(count):
            if self.config.allow_msg_schedules and isinstance(record, Published):
                self.scheduling.give_back_copies(record.batch.headers)

    def apply(self, record: Record) -> None:
        """Store a record once it is as durable as it must be, with all its effects.

        Raises StoreError: without any change if the look-ahead still has the record, otherwise
        after its messages are stored.
        """
        if isinstance(record, CONSUMER_RECORDS) and not isinstance(record, LONG_RECORDS):
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
            if not isinstance(record, Published):
                return False
        for record in records:
            assert isinstance(record, Published)
            self._store(record)
            self.visible_sequence = record.last_sequence
            self.look_ahead.commit_oldest()
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
            with self.told_as_it_is():
                consumed = yield from self.consumers.applying(record)
                if consumed:
                    self.look_ahead.log_changed()
                    yield from self.removing(consumed)
        elif isinstance(record, CONSUMER_RECORDS):
            self._remove_consumed(self.consumers.apply(record))
        else:
            check(self.look_ahead.oldest is record, "records are applied in the order of the log")
            try:
                yield from self._changing(record)
            except StoreError:
                self.look_ahead.log_changed()
                raise
            finally:
                self.look_ahead.commit_oldest()
        self._show_assigned()

    def _remove_consumed(self, sequences: list[int]) -> None:
        if sequences:
            self.look_ahead.log_changed()
            try:
                self.remove(sequences)
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
                    yield from self.removing(effect.sequences)
                elif isinstance(effect, Shown):
                    self._show_some(record, effect.begin, effect.end)
                else:
                    if self.config.allow_msg_schedules:
                        self._note_schedules(record, effect.begin, effect.end)
                    yield from self.carrying_out(effect.purges)
        except DiskFullError:
            self.is_behind = True
            self.look_ahead.log_changed()
            raise
        finally:
            # The message becomes visible even if the disk had no room for the removals.
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
        check(
            self.look_ahead.oldest is record
            and record.first_sequence == self.log.index.next_sequence,
            "records are applied in the order of the log, and follow it",
        )
        if isinstance(record, Published):
            self.log.append(record.batch)
            self._note_ids(record)
            return
        self.log.skip(1, record.timestamp_ns)
        self.last_id = id_in(record.header)
        if self.last_id:
            self.dedupe.add(self.last_id, record.first_sequence, record.timestamp_ns)
            # If the disk has no room for the id, a restart forgets it.
            with suppress(DiskFullError):
                self.log.write_entries(ids_of(self, [record.first_sequence]))

    @contextmanager
    def told_as_it_is(self) -> Iterator[None]:
        """Show clients the current state until the block ends."""
        if self._state_before is not None:
            yield
            return
        self._state_before = self.state()
        try:
            yield
        finally:
            self._state_before = None

    def _show_assigned(self) -> None:
        # A purge may have assigned sequences.
        self.visible_sequence = self.log.last_sequence

    def _changing(self, record: Removed | Purged | Configured) -> Work[None]:
        """Apply a record that has no message."""
        if isinstance(record, Removed):
            # On a full disk the client gets an error, and removals by time are due again.
            yield from deleting(self, record.sequences, record.erase)
            return
        with self.told_as_it_is():
            if isinstance(record, Purged):
                yield from self._purging_as_asked(record)
            else:
                before = self.config if self.log.has_entries else None
                self.log.set_body(encode_body(record.config, self.created_ns, before=before))
                yield from self._reconfiguring(record.config, record.now_ns)

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
                self.remove(needless)

    def _note_schedules(self, record: Published | Skipped, begin: int, end: int) -> None:
        if isinstance(record, Skipped):
            return
        batch = record.batch
        for position in range(begin, end):
            self.scheduling.note(
                record.first_sequence + position,
                batch.subjects[position],
                batch.headers[position],
                batch.timestamps_ns[position],
            )

    def carrying_out(self, purges: list[Purge]) -> Work[None]:
        """Remove the messages that roll-ups replace, some at a time."""
        for subject, before in purges:
            yield from purging(self, ALL_SUBJECTS if subject is None else subject, before, 0, 0)

    def remove(self, sequences: list[int]) -> None:
        """Do what `removing` does, at once. Raises StoreError."""
        at_once(self.removing(sequences))

    def removing(self, sequences: list[int]) -> Work[None]:
        """Remove messages, some at a time; on a full disk, later. Raises StoreError."""
        try:
            yield from deleting(self, sequences)
        except DiskFullError:
            self._overdue += sequences
            self.is_behind = True
            raise

    def _entries_to_keep(self) -> list[tuple[int, bytes]]:
        """The journal entries that a rewritten journal has to keep."""
        # Entries that are part of the snapshot must not be written again after it.
        self.consumers.flush()
        has = self.log.index.has
        gone = [sequence for sequence in self.dedupe.sequences() if not has(sequence)]
        return [*self.consumers.snapshot(), *ids_of(self, gone)]

    def _purging_as_asked(self, record: Purged) -> Work[None]:
        """Purge messages. A purge of the whole stream up to a later sequence makes it the next."""
        yield from purging(self, record.pattern, record.before, record.keep, record.now_ns)
        if record.pattern == ALL_SUBJECTS and not record.keep and record.before != 1:
            # As in nats-server, any other purge leaves a stream that never had a message alone.
            self.tells_first_sequence = True
        missing = record.before - 1 - self.log.last_sequence
        if missing > 0 and record.pattern == ALL_SUBJECTS:
            self.log.skip(missing, max(self.last_ns(), 0))

    def _note_ids(self, record: Published) -> None:
        batch = record.batch
        last = batch.headers[-1]
        self.last_id = id_in(last) if last else b""
        if any(batch.headers):
            self.dedupe.add_all(ids_in(batch.headers), record.first_sequence, batch.timestamps_ns)

    def _reconfiguring(self, config: StreamConfig, now_ns: int) -> Work[None]:
        """Use another configuration, which the caller has checked; its limits apply at once."""
        before = self.config
        self._configure(config)
        self.due.reconfigured()
        if before.duplicate_window != config.duplicate_window:
            yield from self.dedupe.setting_window(config.duplicate_window, now_ns)
        limit = config.max_msgs_per_subject
        was_kept = 0 < before.max_msgs_per_subject <= limit
        yield from self.keeping_limits(with_subjects=not was_kept)
        needless = yield from self.consumers.reconfiguring(before.retention)
        if needless:
            yield from self.removing(needless)

    def keeping_limits(self, with_subjects: bool = True) -> Work[None]:
        """Remove messages beyond the limits, some at a time; limits per subject only on request.

        After a crash the rest is removed when the log is opened again.
        """
        if with_subjects:
            gone = yield from gathering_beyond_subject_limit(self.log, self.config)
            if gone:
                yield from self.removing(gone)
        gone = yield from gathering_beyond_totals(self.log, self.config)
        if gone:
            yield from self.removing(gone)

    # --- recovery ------------------------------------------------------------------------------

    def recover(self, now_ns: int, with_ids: bool = True) -> None:
        """Restore, from a log that was just opened, all state that is not stored by itself.

        Without ids, earlier publishes do not count as duplicates.
        """
        recover_stream(self, now_ns, with_ids)

    def state(self) -> StreamState:
        """The visible state, without details."""
        if self._state_before is not None:
            return msgspec.structs.replace(self._state_before)
        state = super().state()
        state.consumer_count = len(self.consumers.shown)
        return state

    def dump(self, now_ns: int) -> dict[str, object]:
        """The durable state, independent of how it came about: replicas compare it."""
        return {
            "config": write(self.config),
            "created_ns": self.created_ns,
            **self.dump_messages(),
            "ids": [*self.dedupe.entries(now_ns)],
            "last_id": self.last_id,
            "schedules": self.scheduling.entries(),
            "consumers": self.consumers.dump(),
        }
