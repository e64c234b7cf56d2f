"""Recovery of a stream: the state that follows from a log that was just opened.

Message ids, schedules and the effects of limits and roll-ups are stored nowhere else: they follow
from the messages. Only the ids of removed messages are in the journal. A crash may also have left
half an atomic batch.

A batch is written at once, but a crash can cut it anywhere. Its messages carry their number in the
batch, and the last one a commit mark. So a batch was cut if the log ends with the beginning of one:
messages numbered from one, stored at the same moment, without a commit mark.

On doubt a message is kept. A message after which others were deleted is not the end of a log. A
copy that a schedule has published has the numbers of its original, and is recognized by its
scheduler header.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from headwater.base.sliced import at_once
from headwater.jetstream import header_names as names
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.log_entries import decode_entry
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.consumers.records import CONSUMER_RECORDS
from headwater.jetstream.records import Configured
from headwater.jetstream.streams import removed_ids
from headwater.jetstream.streams.dedupe import id_in
from headwater.jetstream.streams.effects import purges_of
from headwater.jetstream.streams.file import StreamBody
from headwater.jetstream.streams.limits import has_limits
from headwater.jetstream.streams.look_ahead import IN_FLIGHT_MESSAGES_MAX
from headwater.jetstream.streams.publishing.batch_limits import ATOMIC_PER_STREAM_MAX
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import MessageBatch, MessageLog, StoredMessage, StoreError
from headwater.wire.headers import value_of

if TYPE_CHECKING:
    from headwater.jetstream.streams.stream import Stream

# The limits of one read while a log is scanned.
READ_MESSAGES_MAX: Final = 1000
READ_BYTES_MAX: Final = 4 * 1024 * 1024


def recover_stream(stream: "Stream", now_ns: int, with_ids: bool) -> None:
    """Restore all state that is not stored by itself."""
    log, config = stream.log, stream.config
    # The files of a log with entries to apply are in the state between two entries.
    is_exact = bool(log.entries_to_apply)
    # A log that cannot be written is opened for reads all the same, and removes nothing.
    with suppress(StoreError):
        if not is_exact:
            _remove_unfinished_batch(log)
    stream.visible_sequence = log.last_sequence
    if with_ids:
        # Ids are found before messages are removed, because an id outlives its message.
        _find_ids(stream, now_ns)
    consumed = stream.consumers.recover()
    with suppress(StoreError):
        if not is_exact:
            let_go(stream)
            if consumed:
                stream.remove(consumed)
    if config.allow_msg_schedules:
        _find_schedules(stream, now_ns)
    if isinstance(log, FileLog) and is_exact:
        redo_entries(stream, log)


def config_of(body: StreamBody, log: FileLog) -> StreamConfig:
    """The configuration by which a log was left: a change of it may still be to be applied."""
    if body.before is not None and log.entries_to_apply:
        _, _, data = log.entries_to_apply[0]
        with suppress(RecordError):
            for record in decode_entry(RecordCodec(log.record_seed), data):
                if isinstance(record, Configured) and record.config == body.config:
                    return body.before
    return body.config


def redo_entries(stream: "Stream", log: FileLog) -> None:
    """Apply the entries of the write-ahead file that the files of the stream lack, in order.

    An entry that cannot be read takes the log offline, and is kept with all behind it. Raises
    StoreError.
    """
    codec = RecordCodec(log.record_seed)
    for index, follows, data in log.entries_to_apply:
        try:
            records = decode_entry(codec, data)
        except RecordError as error:
            log.go_offline(f"entry {index} of the write-ahead file: {error}")
            return
        if follows > log.last_sequence:
            log.go_offline(f"entry {index} of the write-ahead file follows a message that is lost")
            return
        if follows == log.last_sequence:
            for record in records:
                if not isinstance(record, CONSUMER_RECORDS) or stream.consumers.is_kept(record):
                    stream.append(record)
                    stream.apply(record)
            stream.consumers.flush()
        # Otherwise the files were not cut back, and have the messages of the entry.
        log.applied_entry = index


def _remove_unfinished_batch(log: MessageLog) -> None:
    """Remove half a batch, even if batches are disabled by now."""
    unfinished = unfinished_batch(log)
    if unfinished:
        log.delete(unfinished)
        # Before anything is stored behind it: in the middle of a log nobody looks for it.
        log.sync()


def let_go(stream: "Stream") -> None:
    """Remove messages that limits and roll-ups should have removed before the crash."""
    log, config = stream.log, stream.config
    if stream.may_roll_up:
        for found in _batches_from(log, first_unsure(stream)):
            for position, sequence in enumerate(found.sequences):
                control = names.read_control_headers(found.headers[position])
                subject = found.subjects[position]
                at_once(stream.carrying_out(purges_of(control, subject, sequence, config)))
    if has_limits(config):
        at_once(stream.keeping_limits())


def first_unsure(stream: "Stream") -> int:
    """The first message whose roll-up may not have been applied.

    The journal has the removals of a roll-up in the order of the messages, and a checkpoint
    includes all removals before it. So only messages that were in flight at that time, or came
    after it, have to be read.
    """
    log, limits = stream.log, stream.host.server.batch_room.limits
    # One turn may begin just below the limit, and bring as much again, and all open batches.
    open_messages_max = limits.messages_max * (limits.per_stream_max or ATOMIC_PER_STREAM_MAX)
    in_flight_max = 2 * IN_FLIGHT_MESSAGES_MAX + open_messages_max
    return max(log.journalled_sequence + 1 - in_flight_max, log.first_sequence)


def _find_ids(stream: "Stream", now_ns: int) -> None:
    """Fill the dedupe window from the messages and from the journal's ids of removed ones."""
    log, window_ns = stream.log, stream.config.duplicate_window
    found = {
        sequence: (message_id, timestamp_ns)
        for entry in log.entries
        if entry.kind == removed_ids.REMOVED_IDS
        for message_id, sequence, timestamp_ns in removed_ids.decode(entry.body)
        if now_ns - timestamp_ns < window_ns
    }
    first = log.first_sequence_at(now_ns - window_ns) if window_ns > 0 else 0
    for batch in _batches_from(log, first):
        for position, header in enumerate(batch.headers):
            message_id = id_in(header)
            if message_id:
                found[batch.sequences[position]] = message_id, batch.timestamps_ns[position]
    for sequence in sorted(found):
        message_id, timestamp_ns = found[sequence]
        stream.dedupe.add(message_id, sequence, timestamp_ns)
    last = log.get(log.last_sequence)
    if last is not None:
        stream.last_id = id_in(last.header)
    elif log.last_sequence in found:
        stream.last_id = found[log.last_sequence][0]


def _find_schedules(stream: "Stream", now_ns: int) -> None:
    for found in _batches_from(stream.log, stream.log.first_sequence):
        for position, sequence in enumerate(found.sequences):
            stream.scheduling.note(
                sequence,
                found.subjects[position],
                found.headers[position],
                found.timestamps_ns[position],
            )
    stream.scheduling.skip_missed(stream.log, now_ns)


def _batches_from(log: MessageLog, sequence: int) -> Iterator[MessageBatch]:
    """All messages from a sequence on, some at a time; no messages if the sequence is 0."""
    while sequence:
        found = log.read(sequence, READ_MESSAGES_MAX, READ_BYTES_MAX)
        if not len(found):
            return
        yield found
        sequence = log.index.next_message(found.sequences[-1] + 1)


# --- half a batch ---------------------------------------------------------------------------------


def unfinished_batch(log: MessageLog) -> list[int]:
    """The messages of a batch that a crash has cut off; usually none."""
    last = log.index.last_message(log.last_sequence)
    if not last or not _is_end(log, last):
        return []
    message = log.get(last)
    if message is None or value_of(message.header, names.BATCH_COMMIT):
        return []
    batch_id, moment_ns = value_of(message.header, names.BATCH_ID), message.timestamp_ns
    found: list[int] = []
    while message is not None and _number_in(message) > 0:
        is_of_batch = value_of(message.header, names.BATCH_ID) == batch_id
        if not is_of_batch or message.timestamp_ns != moment_ns:
            return []
        found.append(message.sequence)
        if _number_in(message) == 1:
            is_copy = len(found) == 1 and value_of(message.header, names.SCHEDULER)
            return [] if is_copy else found
        before = log.get(message.sequence - 1)
        if before is None or _number_in(before) != _number_in(message) - 1:
            return []
        message = before
    return []


def _is_end(log: MessageLog, sequence: int) -> bool:
    """Whether nothing follows a message, or only lost messages."""
    following = sequence + 1
    return following > log.last_sequence or following in log.lost


def _number_in(message: StoredMessage) -> int:
    """The number of a message in its batch; 0 if it is not part of one."""
    if not message.header or not value_of(message.header, names.BATCH_ID):
        return 0
    value = value_of(message.header, names.BATCH_SEQUENCE) or b""
    return int(value) if value.isdigit() and len(value) < len(str(1 << 64)) else 0
