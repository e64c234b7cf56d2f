"""A batch of messages as the records of a segment, and back."""

from typing import Final

from headwater.store.format import (
    EXPIRY_BYTES,
    RECORD_BYTES,
    encode_message_with_expiry,
    encode_messages,
    take_record,
)
from headwater.store.message_log import Batch, MessageBatch
from headwater.store.segment_index import SegmentIndex

# What nats-server counts for a message on disk besides its bytes, and for having headers.
MESSAGE_OVERHEAD_BYTES: Final = 30
HEADER_OVERHEAD_BYTES: Final = 4
# By how much what a message without headers counts differs from the length of its record.
_COUNTED_BESIDES_RECORD: Final = MESSAGE_OVERHEAD_BYTES - RECORD_BYTES


def message_size(subject: int, header: int, payload: int) -> int:
    """What a message on disk counts in a stream's bytes."""
    size = MESSAGE_OVERHEAD_BYTES + subject + payload
    return size + HEADER_OVERHEAD_BYTES + header if header else size


def message_sizes(batch: Batch, lengths: list[int]) -> list[int]:
    """What the messages of a batch count; `lengths` are those of their records."""
    if not any(batch.headers) and not any(batch.expiries_ns):
        return [length + _COUNTED_BESIDES_RECORD for length in lengths]
    return [
        message_size(len(subject), len(header), len(payload))
        for subject, header, payload in zip(
            batch.subjects, batch.headers, batch.payloads, strict=True
        )
    ]


def records_size(batch: Batch) -> int:
    """How many bytes the records of a batch take at most."""
    fixed = RECORD_BYTES + EXPIRY_BYTES if batch.expiries_ns else RECORD_BYTES
    columns = (batch.subjects, batch.headers, batch.payloads)
    return fixed * len(batch.subjects) + sum(sum(map(len, column)) for column in columns)


def encode_batch(first: int, batch: Batch, seed: int) -> tuple[bytes, list[int]]:
    """The records of a batch whose first message has sequence `first`, and the length of each."""
    if not any(batch.expiries_ns):
        return encode_messages(
            first, batch.subjects, batch.headers, batch.payloads, batch.timestamps_ns, seed
        )
    parts: list[bytes] = []
    for position, expiry_ns in enumerate(batch.expiries_ns):
        subject, header = batch.subjects[position], batch.headers[position]
        payload, timestamp_ns = batch.payloads[position], batch.timestamps_ns[position]
        if expiry_ns:
            parts.append(
                encode_message_with_expiry(
                    first + position, subject, header, payload, timestamp_ns, expiry_ns, seed
                )
            )
        else:
            data, _ = encode_messages(
                first + position, [subject], [header], [payload], [timestamp_ns], seed
            )
            parts.append(data)
    return b"".join(parts), [len(part) for part in parts]


def take_messages(
    batch: MessageBatch,
    index: SegmentIndex,
    names: list[bytes],
    seed: int,
    sequence: int,
    begin: int,
    data: bytes,
    count_max: int,
    bytes_max: int,
) -> int:
    """Add messages from `sequence` on that lie whole in `data`, from offset `begin` of a segment.

    `names` are all subjects by id, `seed` is the segment's. Returns what is left of `bytes_max`;
    below zero when it is used up.
    """
    count = len(batch)
    start = sequence - index.first_sequence
    end = start + count_max - count
    add_sequence, add_subject = batch.sequences.append, batch.subjects.append
    add_header, add_payload = batch.headers.append, batch.payloads.append
    add_timestamp = batch.timestamps_ns.append
    for wanted, offset, sid in zip(
        range(sequence, sequence + end - start),
        index.offsets[start:end],
        index.subject_ids[start:end],
        strict=False,
    ):
        if not offset:
            continue
        parts = take_record(data, offset - begin, seed)
        if parts is None or parts[0] != wanted:
            return bytes_max
        found, timestamp_ns, header, payload = parts
        bytes_max -= len(header) + len(payload)
        if bytes_max < 0 and count:
            return bytes_max
        add_sequence(found)
        add_subject(names[sid])
        add_header(header)
        add_payload(payload)
        add_timestamp(timestamp_ns)
        count += 1
    return bytes_max
