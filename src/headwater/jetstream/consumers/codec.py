"""Entries of consumers in the journal of their stream.

The entry of a record has the record's body, and the record's kind above the first kind of callers
(`headwater.jetstream.codec.consumer_records` draws the bodies). Two kinds of entries are not
records:

    STATE       name, the whole state: written when a journal is rewritten
    KEPT        no name, sequence: messages up to it are kept, needed or not

A body that cannot be decoded raises StoreError: the code that opens the log reports it, and the
entry is lost but not the stream.
"""

from typing import Any, Final

from headwater.jetstream.codec import consumer_records
from headwater.jetstream.codec.consumer_records import ENCODERS, decode_consumer_record
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.values import (
    check_count,
    check_numbers,
    check_type,
    decode_values,
    encode_values,
)
from headwater.jetstream.consumers.records import ConsumerRecord
from headwater.jetstream.consumers.state import ConsumerState
from headwater.store.disk.journal import CALLER_KINDS
from headwater.store.log.message_log import StoreError

CREATED: Final = CALLER_KINDS + consumer_records.CONSUMER_CREATED
CONFIGURED: Final = CALLER_KINDS + consumer_records.CONSUMER_CONFIGURED
DELETED: Final = CALLER_KINDS + consumer_records.CONSUMER_DELETED
RESET: Final = CALLER_KINDS + consumer_records.CONSUMER_RESET
DELIVERED: Final = CALLER_KINDS + consumer_records.DELIVERED
ACKED: Final = CALLER_KINDS + consumer_records.ACKED
POSTPONED: Final = CALLER_KINDS + consumer_records.POSTPONED
EXHAUSTED: Final = CALLER_KINDS + consumer_records.EXHAUSTED
PINNED: Final = CALLER_KINDS + consumer_records.PINNED
STATE: Final = CALLER_KINDS + 73
DROPPED: Final = CALLER_KINDS + consumer_records.DROPPED
FORGOTTEN: Final = CALLER_KINDS + consumer_records.FORGOTTEN
KEPT: Final = CALLER_KINDS + 76
CONSUMER_KINDS: Final = range(CREATED, KEPT + 1)


def encode(record: ConsumerRecord) -> tuple[int, bytes]:
    """The kind and body of a record's entry."""
    kind, encode_body = ENCODERS[type(record)]
    return CALLER_KINDS + kind, encode_body(record)


def decode(kind: int, body: bytes) -> ConsumerRecord:
    """Decode the entry of a record. Raises StoreError."""
    try:
        return decode_consumer_record(kind - CALLER_KINDS, body)
    except RecordError as error:
        raise StoreError(f"an entry of a consumer cannot be read: {error}") from error


def encode_state(name: str, state: ConsumerState) -> tuple[int, bytes]:
    """The whole state of a consumer, as one entry."""
    pending = [
        value
        for sequence in sorted(state.pending)
        for value in (sequence, state.pending[sequence], state.sent_ns[sequence])
    ]
    redelivered = [value for pair in sorted(state.redelivered.items()) for value in pair]
    delivered = [state.delivered_consumer, state.delivered_stream]
    floor = [state.floor_consumer, state.floor_stream]
    places = [state.lasts_until, state.passed_stream]
    pin = [state.pin_id, state.pinned_ns]
    return STATE, encode_values([name, delivered, floor, pending, redelivered, *places, *pin])


def decode_state(body: bytes) -> tuple[str, list[Any]]:
    """The name of a consumer, and the values for `restore_state`. Raises StoreError."""
    try:
        name, *values = decode_values(body)
        check_count(8, values)
        *lists, lasts_until, passed_stream, pin_id, pinned_ns = values
        check_type(str, [name, pin_id])
        check_type(int, [lasts_until, passed_stream, pinned_ns])
        check_numbers(lists)
        delivered, floor, pending, redelivered = lists
        if len(delivered) != 2 or len(floor) != 2 or len(pending) % 3 or len(redelivered) % 2:
            raise RecordError("its lists are of other lengths")
        if any(number <= 0 for number in (*pending[::3], *pending[1::3])):
            raise RecordError("a sequence is not positive")
    except RecordError as error:
        raise StoreError(f"the state of a consumer cannot be read: {error}") from error
    return name, values


def restore_state(state: ConsumerState, values: list[Any]) -> None:
    """Set the state to the values that `decode_state` returned."""
    delivered, floor, pending, redelivered, lasts_until, passed_stream, pin_id, pinned_ns = values
    state.restore(
        (delivered[0], delivered[1]),
        (floor[0], floor[1]),
        [*zip(pending[::3], pending[1::3], pending[2::3], strict=True)],
        [*zip(redelivered[::2], redelivered[1::2], strict=True)],
    )
    state.lasts_until, state.passed_stream = lasts_until, passed_stream
    state.pin_id, state.pinned_ns = pin_id, pinned_ns


def encode_kept(sequence: int) -> tuple[int, bytes]:
    """The entry that keeps all messages up to a sequence, because their consumers are unknown."""
    return KEPT, encode_values(["", sequence])


def decode_kept(body: bytes) -> int:
    """The sequence of a KEPT entry. Raises StoreError."""
    try:
        values = decode_values(body)
        check_count(2, values)
        check_type(int, values[1:])
    except RecordError as error:
        raise StoreError(f"an entry of consumers cannot be read: {error}") from error
    sequence: int = values[1]
    return sequence
