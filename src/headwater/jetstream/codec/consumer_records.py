"""The bodies of consumers' records, in records and in entries of a journal alike.

A body is a msgpack array whose first value is the consumer's name. Ranges are a flat list of first
and last of each. Configurations are the JSON that clients get, as bytes.

    CONSUMER_CREATED     name, created ns, start sequence, lasts until, configuration
    CONSUMER_CONFIGURED  name, configuration, place
    CONSUMER_DELETED     name
    CONSUMER_RESET       name, start sequence
    DELIVERED            name, ns, ranges sent again, ranges sent for the first time
    ACKED                name, ns, ranges, [floor of the consumer, floor of the stream]
    POSTPONED            name, sequences, times from which each counts as sent
    EXHAUSTED            name, ranges
    PINNED               name, ns, id
    DROPPED              name, ranges
    FORGOTTEN            name, ns, sequence

Deliveries come back in their order. The sequences of acknowledged, exhausted and dropped messages
are sets: they come back in ascending order.
"""

from collections.abc import Callable
from typing import Any, Final

from headwater.jetstream.codec.configurations import decode_consumer_config, encode_config
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.sequences import bounds_in_order, bounds_of_set, sequences_of
from headwater.jetstream.codec.values import (
    check_count,
    check_numbers,
    check_type,
    decode_values,
    encode_values,
)
from headwater.jetstream.consumers.records import (
    Acked,
    ConsumerConfigured,
    ConsumerCreated,
    ConsumerDeleted,
    ConsumerRecord,
    ConsumerReset,
    Delivered,
    Dropped,
    Exhausted,
    Forgotten,
    Pinned,
    Postponed,
)

CONSUMER_CREATED: Final = 64
CONSUMER_CONFIGURED: Final = 65
CONSUMER_DELETED: Final = 66
CONSUMER_RESET: Final = 67
DELIVERED: Final = 68
ACKED: Final = 69
POSTPONED: Final = 70
EXHAUSTED: Final = 71
PINNED: Final = 72
# 73 and 76 stand for entries of a journal that are not records.
DROPPED: Final = 74
FORGOTTEN: Final = 75


def decode_consumer_record(kind: int, body: bytes) -> ConsumerRecord:
    """Decode the body of a record. Raises RecordError."""
    decode_body = DECODERS.get(kind)
    if decode_body is None:
        raise RecordError(f"no record of a consumer has the kind {kind}")
    name, *values = decode_values(body)
    check_type(str, [name])
    return decode_body(name, values)


def _encode_created(record: ConsumerCreated) -> bytes:
    numbers = (record.created_ns, record.start_sequence, record.lasts_until)
    return encode_values([record.name, *numbers, encode_config(record.config)])


def _decode_created(name: str, values: list[Any]) -> ConsumerCreated:
    check_count(4, values)
    created_ns, start_sequence, lasts_until, config = values
    check_type(int, (created_ns, start_sequence, lasts_until))
    check_type(bytes, [config])
    config = decode_consumer_config(config)
    return ConsumerCreated(name, config, created_ns, start_sequence, lasts_until)


def _encode_configured(record: ConsumerConfigured) -> bytes:
    return encode_values([record.name, encode_config(record.config), record.place])


def _decode_configured(name: str, values: list[Any]) -> ConsumerConfigured:
    check_count(2, values)
    config, place = values
    check_type(bytes, [config])
    check_type(int, [place])
    return ConsumerConfigured(name, decode_consumer_config(config), place)


def _encode_deleted(record: ConsumerDeleted) -> bytes:
    return encode_values([record.name])


def _decode_deleted(name: str, values: list[Any]) -> ConsumerDeleted:
    check_count(0, values)
    return ConsumerDeleted(name)


def _encode_reset(record: ConsumerReset) -> bytes:
    return encode_values([record.name, record.start_sequence])


def _decode_reset(name: str, values: list[Any]) -> ConsumerReset:
    check_count(1, values)
    check_type(int, values)
    return ConsumerReset(name, values[0])


def _encode_delivered(record: Delivered) -> bytes:
    again, first_time = bounds_in_order(record.again), bounds_in_order(record.sequences)
    return encode_values([record.name, record.now_ns, again, first_time])


def _decode_delivered(name: str, values: list[Any]) -> Delivered:
    check_count(3, values)
    now_ns, again, first_time = values
    check_type(int, [now_ns])
    check_numbers((again, first_time))
    return Delivered(name, sequences_of(again), sequences_of(first_time), now_ns)


def _encode_acked(record: Acked) -> bytes:
    bounds = bounds_of_set(record.sequences)
    if record.floor is None:
        return encode_values([record.name, record.now_ns, bounds])
    return encode_values([record.name, record.now_ns, bounds, *record.floor])


def _decode_acked(name: str, values: list[Any]) -> Acked:
    check_count(4 if len(values) > 2 else 2, values)
    now_ns, bounds, *floor = values
    check_type(int, [now_ns, *floor])
    check_numbers([bounds])
    if not floor:
        return Acked(name, sequences_of(bounds), now_ns)
    return Acked(name, sequences_of(bounds), now_ns, (floor[0], floor[1]))


def _encode_postponed(record: Postponed) -> bytes:
    return encode_values([record.name, [*record.sequences], [*record.sent_ns]])


def _decode_postponed(name: str, values: list[Any]) -> Postponed:
    check_count(2, values)
    check_numbers(values)
    sequences, sent_ns = values
    check_count(len(sequences), sent_ns)
    return Postponed(name, sequences, sent_ns)


def _encode_exhausted(record: Exhausted) -> bytes:
    return encode_values([record.name, bounds_of_set(record.sequences)])


def _decode_exhausted(name: str, values: list[Any]) -> Exhausted:
    check_count(1, values)
    check_numbers(values)
    return Exhausted(name, sequences_of(values[0]))


def _encode_dropped(record: Dropped) -> bytes:
    return encode_values([record.name, bounds_of_set(record.sequences)])


def _decode_dropped(name: str, values: list[Any]) -> Dropped:
    check_count(1, values)
    check_numbers(values)
    return Dropped(name, sequences_of(values[0]))


def _encode_forgotten(record: Forgotten) -> bytes:
    return encode_values([record.name, record.now_ns, record.before])


def _decode_forgotten(name: str, values: list[Any]) -> Forgotten:
    check_count(2, values)
    check_type(int, values)
    now_ns, before = values
    return Forgotten(name, before, now_ns)


def _encode_pinned(record: Pinned) -> bytes:
    return encode_values([record.name, record.now_ns, record.pin_id])


def _decode_pinned(name: str, values: list[Any]) -> Pinned:
    check_count(2, values)
    now_ns, pin_id = values
    check_type(int, [now_ns])
    check_type(str, [pin_id])
    return Pinned(name, pin_id, now_ns)


ENCODERS: Final[dict[type, tuple[int, Callable[[Any], bytes]]]] = {
    ConsumerCreated: (CONSUMER_CREATED, _encode_created),
    ConsumerConfigured: (CONSUMER_CONFIGURED, _encode_configured),
    ConsumerDeleted: (CONSUMER_DELETED, _encode_deleted),
    ConsumerReset: (CONSUMER_RESET, _encode_reset),
    Delivered: (DELIVERED, _encode_delivered),
    Acked: (ACKED, _encode_acked),
    Postponed: (POSTPONED, _encode_postponed),
    Exhausted: (EXHAUSTED, _encode_exhausted),
    Pinned: (PINNED, _encode_pinned),
    Dropped: (DROPPED, _encode_dropped),
    Forgotten: (FORGOTTEN, _encode_forgotten),
}

DECODERS: Final[dict[int, Callable[[str, list[Any]], ConsumerRecord]]] = {
    CONSUMER_CREATED: _decode_created,
    CONSUMER_CONFIGURED: _decode_configured,
    CONSUMER_DELETED: _decode_deleted,
    CONSUMER_RESET: _decode_reset,
    DELIVERED: _decode_delivered,
    ACKED: _decode_acked,
    POSTPONED: _decode_postponed,
    EXHAUSTED: _decode_exhausted,
    PINNED: _decode_pinned,
    DROPPED: _decode_dropped,
    FORGOTTEN: _decode_forgotten,
}
