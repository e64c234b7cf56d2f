"""A stream: a log of messages, the rules of what may come in, and what has to go.

    publishes ─▶ decide ─▶ records ─▶ append (the log has them) ─▶ apply (they are visible)

`decide` looks and changes nothing durable. `append` puts records into the log, and makes known to
the next `decide` what they hold. `apply` is called once they are as durable as the stream's level
asks for: it moves the watermark and lets go of what limits and roll-ups say. Readers see nothing
above the watermark. Durable state changes by these two alone, from records alone: a replica that is
given the same records has the same dump.

A stream knows no socket, timer or client; replies and messages to send are returned as values.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Final, Protocol, final

from headwater.base.entropy import Entropy
from headwater.base.invariants import check
from headwater.base.quoting import quote_bytes
from headwater.jetstream import header_names as names
from headwater.jetstream.admission import Admission
from headwater.jetstream.api.documents import ErrorDocument, Refusal, StreamState
from headwater.jetstream.batch_limits import BatchRoom
from headwater.jetstream.batch_publish import AtomicBatches
from headwater.jetstream.config import Retention, Storage, StreamConfig
from headwater.jetstream.decision import Decision, Incoming
from headwater.jetstream.dedupe import DedupeWindow
from headwater.jetstream.due import DueWork
from headwater.jetstream.errors import ApiError
from headwater.jetstream.fast_batch import SUFFIX as FAST_SUFFIX
from headwater.jetstream.fast_batch import FastBatches, is_fast
from headwater.jetstream.forecast import Forecast, Purge
from headwater.jetstream.go_json import write
from headwater.jetstream.limits import (
    NOTHING_UNSEEN,
    Unseen,
    beyond_limits,
    has_limits,
    has_to_go_singly,
)
from headwater.jetstream.publish_checks import (
    DuplicateError,
    may_roll_up,
    purges_of,
    refuses_when_full,
)
from headwater.jetstream.records import (
    Configured,
    Passed,
    Published,
    Purged,
    Record,
    Removed,
)
from headwater.jetstream.recovery import unfinished_batch
from headwater.jetstream.republish import Republisher
from headwater.jetstream.schedule import ScheduleRules, ZoneFinder
from headwater.jetstream.scheduling import Scheduling
from headwater.jetstream.stream_file import encode_body
from headwater.jetstream.times import ZERO_TIME_NS, format_time
from headwater.store.message_log import (
    ALL_SUBJECTS,
    Batch,
    MessageBatch,
    MessageLog,
    StoredMessage,
    StoreError,
)
from headwater.subjects.transform import SubjectTransform
from headwater.wire.headers import value_of, without_status

# What nats-server counts for a message besides its bytes, by kind of storage.
_FILE_OVERHEAD_BYTES: Final = 30
_FILE_HEADER_OVERHEAD_BYTES: Final = 4
_MEMORY_OVERHEAD_BYTES: Final = 16

# Larger ones are looked at, whether a record can hold them.
LARGE_PAYLOAD_BYTES: Final = 16 * 1024 * 1024

# In an ack, with nats-server's blank.
_DUPLICATE: Final = b',"duplicate": true'

# How much is read at a time while a log is looked through.
READ_MESSAGES_MAX: Final = 1000
READ_BYTES_MAX: Final = 4 * 1024 * 1024
DUMP_BYTES_MAX: Final = 1 << 62
SEQUENCE_MAX: Final = (1 << 64) - 1
# More messages than this are not in flight when a server stops; the last so many of a stream are
# looked at for roll-ups that were not carried out.
RECOVERED_ROLL_UPS_MAX: Final = 16_384


class Host(Protocol):
    """What a stream has to know of the server and the account it lives in."""

    @property
    def max_payload(self) -> int: ...

    @property
    def domain(self) -> str: ...

    @property
    def entropy(self) -> Entropy: ...

    @property
    def find_zone(self) -> ZoneFinder: ...

    @property
    def batch_room(self) -> BatchRoom: ...

    def check_server_room(self, storage: Storage) -> None:
        """Raises ApiError if the server has no room left for this kind of storage."""
        ...

    def check_account_room(self, storage: Storage, size: int) -> None:
        """Raises ApiError if the account may not store `size` more bytes."""
        ...


@final
class Stream:
    """One stream of one account."""

    def __init__(self, config: StreamConfig, log: MessageLog, created_ns: int, host: Host) -> None:
        self.name = config.name
        self.name_bytes = config.name.encode()
        self.log = log
        self.created_ns = created_ns
        self._host = host
        self.dedupe = DedupeWindow(config.duplicate_window)
        # The message id of the last message, empty if it had none.
        self.last_id = b""
        # Whether the first sequence of an empty stream is told before it had a message.
        self.tells_first_sequence = config.first_seq > 0
        # Everything up to here is visible.
        self.visible_sequence = log.last_sequence
        # Records the log has and that are not yet visible, oldest first.
        self._in_flight: deque[Published | Passed] = deque()
        self.atomic_batches = AtomicBatches(self, host.batch_room)
        self.fast_batches = FastBatches(self, host.batch_room)
        self.scheduling = Scheduling(host.find_zone)
        self.due = DueWork(self)
        self._configure(config)

    def _configure(self, config: StreamConfig) -> None:
        self.config = config
        transform = config.subject_transform
        self._transform = (
            None
            if transform is None
            else SubjectTransform.parse(transform.src.encode(), transform.dest.encode())
        )
        self.republisher = Republisher.of(config)
        subjects = tuple(subject.encode() for subject in config.subjects)
        self.schedule_rules = ScheduleRules(
            config.allow_msg_schedules, config.allow_msg_ttl, subjects
        )
        self.refuses_when_full = refuses_when_full(config)
        # Whether messages go because others come.
        self.may_roll_up = may_roll_up(config)
        self._lets_go = has_limits(config) or self.refuses_when_full or self.may_roll_up
        # Whether a message may depend on what is in others.
        self.looks_at_contents = config.allow_msg_counter or config.allow_msg_schedules
        domain = self._host.domain
        said = f'"domain":"{domain}",' if domain else ""
        self._ack_begins = f'{{"stream":"{self.name}",{said}"seq":'.encode()
        # Whether a message without headers can come in without a look at it.
        self._takes_plain = not (
            config.sealed
            or config.allow_msg_counter
            or config.retention is Retention.INTEREST
            or self._transform is not None
            or self.republisher is not None
            or self.refuses_when_full
        )

    def retire(self) -> None:
        """The stream ends: nobody will go on with its batches."""
        self.atomic_batches.clear()
        self.fast_batches.clear()

    # --- publishing ----------------------------------------------------------------------------

    def decide(self, incoming: Incoming, now_ns: int) -> Decision:
        """What becomes of publishes: records for those that come in, replies for all that asked."""
        decision = Decision()
        if self._takes_plain and max(incoming.header_sizes) < 0 and self._has_room(incoming):
            self._take_all(incoming, now_ns, decision)
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

    def _has_room(self, incoming: Incoming) -> bool:
        """Whether no publish needs a look: sizes are all right, and none is of a fast batch."""
        payloads = incoming.payloads
        if FAST_SUFFIX in b" ".join(filter(None, incoming.replies)):
            return False
        largest, limit = max(map(len, payloads)), self.config.max_msg_size
        if 0 <= limit < largest or largest > LARGE_PAYLOAD_BYTES:
            return False
        size = sum(map(len, payloads)) + sum(map(len, incoming.subjects))
        try:
            self.check_server_limits()
            self.check_account_limits(size + len(payloads) * _FILE_OVERHEAD_BYTES)
        except ApiError:
            return False
        return True

    def _take_all(self, incoming: Incoming, now_ns: int, decision: Decision) -> None:
        """Publishes none of which needs a look."""
        count = len(incoming.subjects)
        first = self.log.last_sequence + 1
        batch = Batch(incoming.subjects, [b""] * count, incoming.payloads, [now_ns] * count)
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
        decision: Decision,
        subject: bytes,
        reply: bytes | None,
        header: bytes,
        body: bytes,
    ) -> None:
        """One publish; what it is answered, if it is."""
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
            decision.reply(reply, answer)

    def _ack(self, sequence: int, body: bytes) -> bytes:
        if self.config.allow_msg_counter:
            # The body is {"val":"n"}; the ack repeats what is between the braces.
            return b"%b%d,%b}" % (self._ack_begins, sequence, body[1:-1])
        return b"%b%d}" % (self._ack_begins, sequence)

    def batch_ack(
        self, sequence: int, batch_id: bytes, count: int, is_duplicate: bool = False
    ) -> bytes:
        """The answer to the commit of a batch."""
        said = _DUPLICATE if is_duplicate else b""
        name = quote_bytes(batch_id).encode()
        return b'%b%d%b,"batch":%b,"count":%d}' % (self._ack_begins, sequence, said, name, count)

    def refusal(self, error: ApiError) -> bytes:
        """The answer to a publish that may not come in."""
        return write(Refusal(ErrorDocument.of(error), self.name, 0))

    def refuse(self, incoming: Incoming, error: ApiError) -> Decision:
        """The same answer to all of some publishes: the log can not take them."""
        decision = Decision()
        if not self.config.no_ack:
            answer = self.refusal(error)
            for reply in incoming.replies:
                if reply is not None:
                    decision.reply(reply, answer)
        return decision

    # --- what a message meets on its way in ----------------------------------------------------

    @property
    def max_payload(self) -> int:
        """What the server takes in one message."""
        return self._host.max_payload

    def transformed(self, subject: bytes) -> bytes:
        """The subject a message is stored under."""
        if self._transform is None:
            return subject
        return self._transform.apply(subject, self._host.entropy) or subject

    @property
    def find_zone(self) -> ZoneFinder:
        """What the machine knows of time zones."""
        return self._host.find_zone

    def has_interest(self, subject: bytes) -> bool:
        """Whether a message is kept at all: an interest stream keeps what a consumer waits for."""
        return self.config.retention is not Retention.INTEREST

    def check_server_limits(self) -> None:
        """Raises ApiError if the server is full."""
        self._host.check_server_room(self.config.storage)

    def server_refusal(self) -> ApiError | None:
        """Why the server takes nothing, if it does not."""
        try:
            self.check_server_limits()
        except ApiError as error:
            return error
        return None

    def check_account_limits(self, size: int) -> None:
        """Raises ApiError if the account would be beyond its limits with `size` more bytes."""
        self._host.check_account_room(self.config.storage, size)

    def stored_size(self, subject: bytes, header: bytes, body: bytes) -> int:
        """What a message will count."""
        size = len(subject) + len(header) + len(body)
        if self.config.storage is Storage.MEMORY:
            return size + _MEMORY_OVERHEAD_BYTES
        size += _FILE_OVERHEAD_BYTES
        return size + _FILE_HEADER_OVERHEAD_BYTES if header else size

    def republished(
        self, subject: bytes, header: bytes, body: bytes, sequence: int, last: int, now_ns: int
    ) -> tuple[bytes, bytes, bytes] | None:
        """A message as it is republished, if it is."""
        if self.republisher is None:
            return None
        dice = self._host.entropy
        return self.republisher.message(subject, header, body, sequence, last, now_ns, dice)

    # --- what is due ---------------------------------------------------------------------------

    def decide_due(self, now_ns: int) -> Decision:
        """What has to be done because time has passed."""
        return self.due.decide(now_ns)

    def next_due_ns(self) -> int:
        """When there may be something to do; 0 if never."""
        return self.due.next_ns()

    # --- records -------------------------------------------------------------------------------

    def append(self, record: Record) -> None:
        """Put the messages of a record into the log. Raises StoreError, and nothing has changed.

        Records without messages are written down when they are applied: what they change is what
        is visible then.
        """
        if isinstance(record, Published):
            check(record.first_sequence == self.log.last_sequence + 1, "records follow the log")
            self.log.append(record.batch)
            self._note_ids(record)
            self._in_flight.append(record)
        elif isinstance(record, Passed):
            check(record.first_sequence == self.log.last_sequence + 1, "records follow the log")
            self.log.skip(1, record.timestamp_ns)
            self.last_id = _id_in(record.header)
            if self.last_id:
                self.dedupe.add(self.last_id, record.first_sequence, record.timestamp_ns)
            self._in_flight.append(record)

    def apply(self, record: Record) -> None:
        """A record is as durable as it must be: it becomes visible, with all that follows."""
        if isinstance(record, Removed):
            self._remove(record.sequences, record.erase)
        elif isinstance(record, Purged):
            self._purge_as_asked(record)
        elif isinstance(record, Configured):
            self.log.set_body(encode_body(record.config, self.created_ns))
            self._take_over(record.config, record.now_ns)
        else:
            check(self._in_flight[0] is record, "records are applied in the order of the log")
            try:
                if isinstance(record, Published):
                    self._show(record)
                else:
                    self._carry_out(self._purges_of_passed(record))
            finally:
                # Visible also where the disk did not let go of what should have gone.
                self.visible_sequence = record.last_sequence
                self._in_flight.popleft()
        if not self._in_flight:
            # A purge may have given out sequences.
            self.visible_sequence = self.log.last_sequence

    def _show(self, record: Published) -> None:
        """Make messages visible, up to each that takes the place of others, which then go."""
        count = len(record.batch.subjects)
        roll_ups = dict(self._roll_ups_in(record))
        ends = [*range(1, count + 1)] if has_to_go_singly(self.config) else [*roll_ups, count]
        is_limited, is_parted = has_limits(self.config), len(ends) > 1
        unseen = self._unseen(is_first_seen=not is_parted) if is_limited else NOTHING_UNSEEN
        begin = 0
        for end in ends:
            if is_limited and is_parted:
                subjects = record.batch.subjects[begin:end]
                unseen.show(self.log, record.first_sequence + begin, subjects)
            self._show_some(record, begin, end, unseen)
            self._carry_out(roll_ups.pop(end, []))
            begin = end

    def _show_some(self, record: Published, begin: int, end: int, unseen: Unseen) -> None:
        """Make the messages from `begin` to `end` visible; limits hold with them."""
        first, batch = record.first_sequence, record.batch
        self.visible_sequence = first + end - 1
        gone = beyond_limits(self.log, self.config, batch.subjects[begin:end], unseen)
        if gone:
            self._remove(gone)
        if self.config.allow_msg_schedules:
            for position in range(begin, end):
                self.scheduling.note(
                    first + position,
                    batch.subjects[position],
                    batch.headers[position],
                    batch.timestamps_ns[position],
                )

    def _roll_ups_in(self, record: Published) -> Iterator[tuple[int, list[Purge]]]:
        """Positions behind messages that take the place of others, and of which."""
        if not record.rolls_up:
            return
        for position, header in enumerate(record.batch.headers):
            if header:
                control = names.read_control_headers(header)
                sequence = record.first_sequence + position
                subject = record.batch.subjects[position]
                purges = purges_of(control, subject, sequence, self.config)
                if purges:
                    yield position + 1, purges

    def _purges_of_passed(self, record: Passed) -> list[Purge]:
        control = names.read_control_headers(record.header)
        return purges_of(control, record.subject, record.last_sequence + 1, self.config)

    def _carry_out(self, purges: list[Purge]) -> None:
        for subject, before in purges:
            self._purge(ALL_SUBJECTS if subject is None else subject, before)

    def _remove(self, sequences: list[int], erase: bool = False) -> None:
        self.log.delete(sequences, erase)
        self.scheduling.forget(sequences)

    def _purge(self, pattern: bytes, before: int, keep: int = 0) -> None:
        self.log.purge(pattern, before, keep)
        self.scheduling.forget_purged(self.log, pattern)

    def _purge_as_asked(self, record: Purged) -> None:
        """Let messages go; a purge of all that names a later sequence makes that the next one."""
        before = record.before
        if self._in_flight:
            # What is on its way in is not there yet.
            before = min(before or SEQUENCE_MAX, self.visible_sequence + 1)
        self._purge(record.pattern, before, record.keep)
        self.tells_first_sequence = True
        missing = record.before - 1 - self.log.last_sequence
        if missing > 0 and record.pattern == ALL_SUBJECTS:
            self.log.skip(missing, max(self._last_ns(), 0))

    def forecast(self) -> Forecast | None:
        """What will be there when all that the log has is applied; None if nothing ever goes."""
        if not self._lets_go:
            return None
        forecast = Forecast(self.log, self.config)
        published = [record for record in self._in_flight if isinstance(record, Published)]
        for record in published:
            forecast.hide(record.first_sequence, record.batch.subjects)
        for each in self._in_flight:
            if isinstance(each, Passed):
                forecast.purge(self._purges_of_passed(each))
                continue
            roll_ups = dict(self._roll_ups_in(each))
            for position, subject in enumerate(each.batch.subjects):
                sequence = each.first_sequence + position
                forecast.add(sequence, subject, self.log.size_of(sequence))
                forecast.purge(roll_ups.get(position + 1, []))
        return forecast

    def _note_ids(self, record: Published) -> None:
        batch = record.batch
        self.last_id = _id_in(batch.headers[-1])
        for position, header in enumerate(batch.headers):
            message_id = _id_in(header)
            if message_id:
                sequence = record.first_sequence + position
                self.dedupe.add(message_id, sequence, batch.timestamps_ns[position])

    def _unseen(self, is_first_seen: bool = False) -> Unseen:
        """What the log has and nobody sees; `is_first_seen` leaves out the oldest record."""
        if len(self._in_flight) <= is_first_seen:
            return NOTHING_UNSEEN
        unseen = Unseen()
        for record in islice(self._in_flight, is_first_seen, None):
            if isinstance(record, Published):
                unseen.hide(self.log, record.first_sequence, record.batch.subjects)
        return unseen

    def _take_over(self, config: StreamConfig, now_ns: int) -> None:
        """Go on with a configuration that was checked; its limits hold at once."""
        before = self.config
        self._configure(config)
        self.due.reconfigured()
        if before.duplicate_window != config.duplicate_window:
            self.dedupe.set_window(config.duplicate_window, now_ns)
        subjects: list[bytes] = []
        limit = config.max_msgs_per_subject
        if limit > 0 and not 0 < before.max_msgs_per_subject <= limit:
            subjects = [*self.log.subject_counts()]
        gone = beyond_limits(self.log, config, subjects, self._unseen())
        if gone:
            self._remove(gone)
        if config.retention is Retention.INTEREST and before.retention is not config.retention:
            # There are no consumers yet, so nobody is interested in what is there.
            self._purge(ALL_SUBJECTS, self.visible_sequence + 1)

    # --- coming back ---------------------------------------------------------------------------

    def recover(self, now_ns: int, with_ids: bool = True) -> None:
        """Find again, in a log that was just opened, what is not written down anywhere else.

        Without ids, what was published before does not count as a duplicate.
        """
        if self.config.allow_atomic:
            unfinished = unfinished_batch(self.log)
            if unfinished:
                self.log.delete(unfinished)
        self.visible_sequence = self.log.last_sequence
        # Of a log that can not be written nothing goes; it can be read all the same.
        with suppress(StoreError):
            self._recover_limits()
        if with_ids:
            self._recover_ids(now_ns)
        if self.config.allow_msg_schedules:
            for found in self._batches_from(self.log.first_sequence):
                for position, sequence in enumerate(found.sequences):
                    self.scheduling.note(
                        sequence,
                        found.subjects[position],
                        found.headers[position],
                        found.timestamps_ns[position],
                    )
            self.scheduling.skip_missed(self.log, now_ns)

    def _recover_limits(self) -> None:
        """Let go of what a crash kept: messages may be stored and what follows from them not."""
        if self.may_roll_up:
            first = max(self.log.last_sequence - RECOVERED_ROLL_UPS_MAX, self.log.first_sequence)
            for found in self._batches_from(first):
                for position, sequence in enumerate(found.sequences):
                    control = names.read_control_headers(found.headers[position])
                    subject = found.subjects[position]
                    self._carry_out(purges_of(control, subject, sequence, self.config))
        if has_limits(self.config):
            subjects = self.log.subject_counts() if self.config.max_msgs_per_subject > 0 else ()
            gone = beyond_limits(self.log, self.config, subjects, NOTHING_UNSEEN)
            if gone:
                self._remove(gone)

    def _recover_ids(self, now_ns: int) -> None:
        """Ids of messages that are still there count again, within the window."""
        last = self.log.get(self.log.last_sequence)
        if last is not None:
            self.last_id = _id_in(last.header)
        if self.config.duplicate_window <= 0 or not self.log.messages:
            return
        first = self.log.first_sequence_at(now_ns - self.config.duplicate_window)
        for found in self._batches_from(first):
            for position, header in enumerate(found.headers):
                message_id = _id_in(header)
                if message_id:
                    timestamp_ns = found.timestamps_ns[position]
                    self.dedupe.add(message_id, found.sequences[position], timestamp_ns)

    def _batches_from(self, sequence: int) -> Iterator[MessageBatch]:
        """All messages from one on, some at a time; none if the sequence is 0."""
        while sequence:
            found = self.log.read(sequence, READ_MESSAGES_MAX, READ_BYTES_MAX)
            if not len(found):
                return
            yield found
            sequence = self.log.index.next_message(found.sequences[-1] + 1)

    # --- looking -------------------------------------------------------------------------------

    def message(self, sequence: int) -> StoredMessage | None:
        """The message of a sequence, if it is there to be seen."""
        return self.log.get(sequence) if 0 < sequence <= self.visible_sequence else None

    def next_message(self, pattern: bytes, sequence: int) -> StoredMessage | None:
        """The first message at or after a sequence on a matching subject."""
        return self.message(self.log.next_sequence_of((pattern,), sequence))

    def last_message(self, pattern: bytes) -> StoredMessage | None:
        """The last message on a matching subject."""
        return self.message(self.log.last_sequence_of((pattern,), self.visible_sequence))

    def last_of_each(self, patterns: list[bytes], up_to: int) -> list[int]:
        """The last message of each matching subject, at or before a sequence, in order."""
        return self.log.last_of_each(patterns, min(up_to, self.visible_sequence))

    def sequence_at(self, time_ns: int) -> int:
        """Of the first message stored at or after a time; one past the last if there is none."""
        found = self.log.first_sequence_at(time_ns)
        return found if 0 < found <= self.visible_sequence else self.visible_sequence + 1

    def count_from(self, pattern: bytes, sequence: int) -> int:
        """How many messages at or after a sequence are on matching subjects."""
        log, visible = self.log, self.visible_sequence
        count = log.pending((pattern,), sequence)
        if visible < log.last_sequence:
            count -= log.pending((pattern,), max(sequence, visible + 1))
        return count

    def subject_counts(self, pattern: bytes) -> dict[bytes, int]:
        """How many messages there are to be seen on each matching subject."""
        counts = self.log.subject_counts(pattern)
        for subject, count in self._unseen().by_subject.items():
            if subject in counts:
                counts[subject] -= count
        return {subject: count for subject, count in counts.items() if count > 0}

    def state(self) -> StreamState:
        """What is there to be seen, without details."""
        log = self.log
        unseen = self._unseen()
        messages = log.messages - unseen.messages
        last = self.visible_sequence
        first = log.first_sequence if messages else last + 1
        return StreamState(
            messages=messages,
            bytes=log.byte_count - unseen.byte_count,
            first_seq=first if last or self.tells_first_sequence else 0,
            first_ts=format_time(log.index.timestamp_of(first) if messages else ZERO_TIME_NS),
            last_seq=last,
            last_ts=format_time(self._last_ns()),
            num_subjects=log.subject_count - unseen.subjects,
            num_deleted=max(last - first + 1 - messages, 0) if messages else 0,
        )

    def _last_ns(self) -> int:
        """When the last sequence was given out."""
        segment = self.log.index.segment_of(self.visible_sequence)
        position = self.visible_sequence - segment.first_sequence
        if 0 <= position < len(segment.timestamps_ns):
            return segment.timestamps_ns[position] or ZERO_TIME_NS
        return ZERO_TIME_NS

    def dump(self, now_ns: int) -> dict[str, object]:
        """Everything durable, in one form whatever way it came about: replicas compare it."""
        log = self.log
        found = log.read(1, log.messages + 1, DUMP_BYTES_MAX) if log.messages else None
        messages = [] if found is None else [log.get(sequence) for sequence in found.sequences]
        return {
            "config": write(self.config),
            "created_ns": self.created_ns,
            "first_sequence": log.first_sequence,
            "last_sequence": log.last_sequence,
            "byte_count": log.byte_count,
            "subjects": log.subject_counts(),
            "messages": messages,
            "expiries": sorted(pair for pair in log.expiries.pending() if log.index.has(pair[0])),
            "ids": [*self.dedupe.entries(now_ns)],
            "last_id": self.last_id,
            "schedules": self.scheduling.entries(),
        }


def _id_in(header: bytes) -> bytes:
    """The message id in a header; empty if there is none."""
    return value_of(header, names.MSG_ID) or b"" if header else b""
