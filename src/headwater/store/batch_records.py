"""A batch of messages as the records of a segment."""

from headwater.store.format import (
    EXPIRY_BYTES,
    RECORD_BYTES,
    encode_message_with_expiry,
    encode_messages,
)
from headwater.store.message_log import Batch


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
