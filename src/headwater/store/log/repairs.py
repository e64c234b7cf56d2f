"""Repair of a replica's damaged messages by the records that other replicas have.

Records of a stream have the same bytes in all of its replicas, apart from the seed of an outdated
segment: a record is taken only if its checksum is sound and it has the sequence, subject, size and
time that the index has. It is written where the damaged one is, which has its length, so a crash
leaves a message that is damaged again or one that is repaired.
"""

from headwater.store.disk.filesystem import NoRoomError
from headwater.store.disk.format import (
    MESSAGE,
    MESSAGE_WITH_EXPIRY,
    FormatError,
    Record,
    check_record,
    reseeded,
)
from headwater.store.errors import DiskFullError, StoreError
from headwater.store.log.batch_records import message_size
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import MessageLog
from headwater.store.log.record_runs import read_runs


def record_of(log: MessageLog, sequence: int) -> bytes | None:
    """The record of a message, for another replica; None if the log does not have the message.

    Raises StoreError for a message that cannot be read.
    """
    if not log.index.has(sequence):
        return None
    (run,) = read_runs(log, sequence, 0)
    return run.data if run.first_sequence == sequence else None


def repair_message(log: FileLog, sequence: int, data: bytes) -> bool:
    """Put a record in the place of that of a damaged message. Returns whether the message was
    there, and damaged.

    Raises FormatError for bytes that are not its record, and StoreError if the disk refuses; the
    message stays damaged then.
    """
    damage = log.losses.damage
    if sequence not in damage or not log.index.has(sequence):
        damage.forget(sequence)
        return False
    log.availability.check_online()
    record = _checked(log, sequence, data)
    index = log.index.segment_of(sequence)
    segment = log.segments.by_first[index.first_sequence]
    if segment.seed != log.record_seed:
        data = reseeded(data, 0, record.length, segment.seed)
    offset = index.offsets[sequence - index.first_sequence]
    try:
        segment.repair(offset, data)
        is_there = segment.read_record(offset) is not None
    except NoRoomError as error:
        raise DiskFullError(f"message {sequence} is not repaired: {error}") from error
    except OSError as error:
        raise StoreError(f"message {sequence} is not repaired: {error}") from error
    if not is_there:
        raise StoreError(f"message {sequence} is not repaired: the disk does not give its record")
    damage.forget(sequence)
    return True


def _checked(log: FileLog, sequence: int, data: bytes) -> Record:
    """The record of a message. Raises FormatError for other bytes."""
    if not check_record(data, 0, len(data), log.record_seed):
        raise FormatError(f"message {sequence}: its record fails its checksum")
    record = Record(data, 0, len(data))
    index = log.index.segment_of(sequence)
    position = sequence - index.first_sequence
    size = message_size(len(record.subject), len(record.header), len(record.payload))
    is_same = (
        record.sequence == sequence
        and record.kind in (MESSAGE, MESSAGE_WITH_EXPIRY)
        and record.subject == log.index.subjects.names[index.subject_ids[position]]
        and record.timestamp_ns == index.timestamps_ns[position]
        and size == index.sizes[position]
    )
    if not is_same:
        raise FormatError(f"message {sequence}: the record is that of another message")
    return record
