"""Recovery of a stream: the state that follows from a log that was just opened.

Message ids, schedules and the effects of limits and roll-ups are stored nowhere else: they follow
from the messages. Only the ids of removed messages are in the journal, and those of messages that
were not stored. A crash may also have left half an atomic batch.

A batch is written at once, but a crash can cut it anywhere. Its messages carry their number in the
batch, and the last one a commit mark. So a batch was cut if the log ends with the beginning of one:
messages numbered from one, stored at the same moment, without a commit mark.

On doubt a message is kept. A message after which others were deleted is not the end of a log. A
copy that a schedule has published has the numbers of its original, and is recognized by its
scheduler header.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from headwater.base.sliced import at_once
from headwater.jetstream import header_names as names
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.log_entries import decode_entry
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.records import Configured, Record
from headwater.jetstream.streams import removed_ids
from headwater.jetstream.streams.dedupe import DedupeWindow, id_in
from headwater.jetstream.streams.effects import Purge, may_roll_up, purges_of
from headwater.jetstream.streams.file import StreamBody
from headwater.jetstream.streams.limits import has_limits
from headwater.jetstream.streams.look_ahead import IN_FLIGHT_MESSAGES_MAX
from headwater.jetstream.streams.publishing.batch_limits import (
    ATOMIC_PER_STREAM_MAX,
    BatchLimits,
)
from headwater.jetstream.streams.removal import Removals
from headwater.jetstream.streams.schedules.scheduling import Scheduling
from headwater.store.errors import DamagedMessageError, OfflineError
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import ALL_SUBJECTS, MessageBatch, MessageLog
from headwater.store.recovery.cuts import cut_unfinished
from headwater.store.recovery.redo import apply_entries
from headwater.wire.headers import value_of

# The limits of one read while a log is scanned.
READ_MESSAGES_MAX: Final = 1000
READ_BYTES_MAX: Final = 4 * 1024 * 1024


def config_of(body: StreamBody, log: FileLog) -> StreamConfig:
    """The configuration by which a log was left: a change of it may still be to be applied."""
    if log.is_replica:
        # The redo point before the change is on the disk when the stream file is replaced, so a
        # replica is found there exactly if the change is to be applied again.
        is_next = body.since_entry > 0 and log.applied_entry == body.since_entry - 1
        return body.before if is_next and body.before is not None else body.config
    if body.before is not None and log.entries_to_apply:
        _, _, data = log.entries_to_apply[0]
        with suppress(RecordError):
            for record in decode_entry(RecordCodec(log.record_seed), data):
                if isinstance(record, Configured) and record.config == body.config:
                    return body.before
    return body.config


def redo_entries(log: MessageLog, redo: Callable[[Sequence[Record]], None]) -> None:
    """Have the entries of the write-ahead file applied that the files of the stream lack, in order.

    An entry that cannot be read takes the log offline, and is kept with all behind it. Raises
    StoreError.
    """
    if not isinstance(log, FileLog):
        return
    codec = RecordCodec(log.record_seed)

    def apply(index: int, _follows: int, data: bytes) -> None:
        try:
            records = decode_entry(codec, data)
        except RecordError as error:
            log.go_offline(f"entry {index} of the write-ahead file: {error}")
            raise OfflineError(log.offline) from error
        redo(records)

    with suppress(OfflineError):
        apply_entries(log, apply)


def remove_unfinished_batch(log: MessageLog) -> None:
    """Remove half a batch, even if batches are disabled by now."""
    unfinished = unfinished_batch(log)
    if not unfinished:
        return
    for sequence in unfinished:
        log.passed.pop(sequence, None)
    if isinstance(log, FileLog) and unfinished[0] == log.last_sequence and not log.has_entries:
        # No client was told of its sequences.
        cut_unfinished(log, unfinished[-1] - 1)
        return
    log.delete(unfinished)
    # Before anything is stored behind it: in the middle of a log nobody looks for it.
    log.sync()


def let_go(log: MessageLog, config: StreamConfig, removals: Removals, limits: BatchLimits) -> None:
    """Remove messages that limits and roll-ups should have removed before the crash."""
    if may_roll_up(config):
        for found in _batches_from(log, first_unsure(log, limits)):
            for position, sequence in enumerate(found.sequences):
                control = names.read_control_headers(found.headers[position])
                subject = found.subjects[position]
                purges = purges_of(control, subject, sequence, config)
                if sequence <= log.journalled_sequence:
                    # The journal has its removals, and consumers have moved on since, unless a
                    # loss of power has cost them.
                    purges = [each for each in purges if _is_left(log, each)]
                at_once(removals.rolling_up(purges))
    if has_limits(config):
        at_once(removals.keeping_limits())


def _is_left(log: MessageLog, purge: Purge) -> bool:
    """Whether messages are left that a roll-up removes."""
    subject, before = purge
    return bool(log.purgeable(ALL_SUBJECTS if subject is None else subject, before, 0))


def first_unsure(log: MessageLog, limits: BatchLimits) -> int:
    """The first message whose roll-up may not have been applied.

    The journal has the removals of a roll-up in the order of the messages, and a checkpoint
    includes all removals before it. So only messages that were in flight at that time, or came
    after it, have to be read.
    """
    # One turn may begin just below the limit, and bring as much again, and all open batches.
    open_messages_max = limits.messages_max * (limits.per_stream_max or ATOMIC_PER_STREAM_MAX)
    in_flight_max = 2 * IN_FLIGHT_MESSAGES_MAX + open_messages_max
    return max(log.journalled_sequence + 1 - in_flight_max, log.first_sequence)


def find_ids(log: MessageLog, dedupe: DedupeWindow, now_ns: int) -> None:
    """Fill the dedupe window from the messages and from the journal's ids of removed ones."""
    window_ns = dedupe.window_ns
    found = {
        sequence: (message_id, timestamp_ns)
        for entry in log.entries
        if entry.kind == removed_ids.REMOVED_IDS
        for message_id, sequence, timestamp_ns in removed_ids.decode(entry.body)
        if now_ns - timestamp_ns < window_ns
    }
    for sequence, (header, timestamp_ns) in log.passed.items():
        # The entry of the journal came after the record, and may be missing.
        message_id = id_in(header)
        if message_id and now_ns - timestamp_ns < window_ns:
            found[sequence] = message_id, timestamp_ns
    first = log.first_sequence_at(now_ns - window_ns) if window_ns > 0 else 0
    for batch in _batches_from(log, first):
        for position, header in enumerate(batch.headers):
            message_id = id_in(header)
            if message_id:
                found[batch.sequences[position]] = message_id, batch.timestamps_ns[position]
    for sequence in sorted(found):
        message_id, timestamp_ns = found[sequence]
        dedupe.add(message_id, sequence, timestamp_ns)
    last = None
    with suppress(DamagedMessageError):
        # Otherwise the replica is filled again.
        last = log.get(log.last_sequence)
    if last is not None:
        dedupe.last_id = id_in(last.header)
    elif log.last_sequence in found:
        dedupe.last_id = found[log.last_sequence][0]


def find_schedules(log: MessageLog, scheduling: Scheduling) -> None:
    """Find the schedules among the messages, each with its next time."""
    for found in _batches_from(log, log.first_sequence):
        scheduling.note_all(found.sequences, found.subjects, found.headers, found.timestamps_ns)


def _batches_from(log: MessageLog, sequence: int) -> Iterator[MessageBatch]:
    """All messages from a sequence on, some at a time; no messages if the sequence is 0."""
    while sequence:
        try:
            found = log.read(sequence, READ_MESSAGES_MAX, READ_BYTES_MAX)
        except DamagedMessageError as error:
            _have_refilled(log, error)
            return
        if not len(found):
            return
        yield found
        sequence = log.index.next_message(found.sequences[-1] + 1)


def _have_refilled(log: MessageLog, error: DamagedMessageError) -> None:
    """Have a replica filled again whose ids or schedules do not follow from its messages: it cannot
    read one of them."""
    assert isinstance(log, FileLog)
    if not log.must_refill:
        log.must_refill = f"message {error.sequence} cannot be read"
        log.findings.add("doubtful", f"{log.must_refill}; the replica is to be filled again")
        log.go_offline(f"the replica is to be filled again: {log.must_refill}")


# --- half a batch ---------------------------------------------------------------------------------


def unfinished_batch(log: MessageLog) -> list[int]:
    """The sequences of a batch that a crash has cut off; usually none."""
    last = max(log.index.last_message(log.last_sequence), max(log.passed, default=0))
    if not last or not _is_end(log, last):
        return []
    found = _header_at(log, last)
    if found is None or value_of(found[0], names.BATCH_COMMIT):
        return []
    batch_id, moment_ns = value_of(found[0], names.BATCH_ID), found[1]
    sequences: list[int] = []
    while found is not None and (number := _number_in(found[0])) > 0:
        header, timestamp_ns = found
        if value_of(header, names.BATCH_ID) != batch_id or timestamp_ns != moment_ns:
            return []
        sequences.append(last)
        if number == 1:
            is_copy = len(sequences) == 1 and value_of(header, names.SCHEDULER)
            return [] if is_copy else sequences
        last -= 1
        found = _header_at(log, last)
        if found is None or _number_in(found[0]) != number - 1:
            return []
    return []


def _header_at(log: MessageLog, sequence: int) -> tuple[bytes, int] | None:
    """The header and the time of the message that took a sequence, stored or not."""
    passed = log.passed.get(sequence)
    if passed is not None:
        return passed
    message = log.get(sequence)
    return None if message is None else (message.header, message.timestamp_ns)


def _is_end(log: MessageLog, sequence: int) -> bool:
    """Whether nothing follows a message, or only lost messages."""
    following = sequence + 1
    return following > log.last_sequence or following in log.lost


def _number_in(header: bytes) -> int:
    """The number of a message in its batch by its header; 0 if it is not part of one."""
    if not header or not value_of(header, names.BATCH_ID):
        return 0
    value = value_of(header, names.BATCH_SEQUENCE) or b""
    return int(value) if value.isdigit() and len(value) < len(str(1 << 64)) else 0
