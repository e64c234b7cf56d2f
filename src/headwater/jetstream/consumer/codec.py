"""Records of consumers as entries of their stream's journal.

A body is a msgpack array whose first value is the consumer's name. Sequences are a flat list of
first and last of each range. Configurations are the JSON that clients get. What can not be read
raises StoreError and is for whoever opens the log to report; it costs the entry and not the stream.

    CREATED     name, created ns, start sequence, lasts until, config
    CONFIGURED  name, config
    DELETED     name
    RESET       name, start sequence
    DELIVERED   name, ns, ranges sent again, ranges sent for the first time
    ACKED       name, ns, ranges, [floor of the consumer, floor of the stream]
    POSTPONED   name, sequences, when each counts as sent
    EXHAUSTED   name, ranges
    PINNED      name, ns, id
    STATE       name, all of the state at once: what is said first when a journal is written anew
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from headwater.base.errors import OperatingError
from headwater.jetstream.consumer.config import ConsumerConfig
from headwater.jetstream.consumer.records import (
    Acked,
    ConsumerConfigured,
    ConsumerCreated,
    ConsumerDeleted,
    ConsumerRecord,
    ConsumerReset,
    Delivered,
    Exhausted,
    Pinned,
    Postponed,
)
from headwater.jetstream.consumer.state import ConsumerState
from headwater.jetstream.go_json import read, write
from headwater.store.journal import as_ranges
from headwater.store.message_log import StoreError

CREATED: Final = 320
CONFIGURED: Final = 321
DELETED: Final = 322
RESET: Final = 323
DELIVERED: Final = 324
ACKED: Final = 325
POSTPONED: Final = 326
EXHAUSTED: Final = 327
PINNED: Final = 328
STATE: Final = 329
CONSUMER_KINDS: Final = range(CREATED, STATE + 1)

# More messages than this are not delivered in one record: a damaged range must not fill the memory.
RANGE_MAX: Final = 1 << 24

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Any]).decode


def encode(record: ConsumerRecord) -> tuple[int, bytes]:
    """The kind and body of a record's entry."""
    name = record.name
    if isinstance(record, Acked):
        floor = [] if record.floor is None else [*record.floor]
        return ACKED, _encode([name, record.now_ns, _ranges(record.sequences), *floor])
    if isinstance(record, Delivered):
        again, first_time = _ranges(record.again), _ranges(record.sequences)
        return DELIVERED, _encode([name, record.now_ns, again, first_time])
    if isinstance(record, Postponed):
        return POSTPONED, _encode([name, [*record.sequences], [*record.sent_ns]])
    if isinstance(record, Exhausted):
        return EXHAUSTED, _encode([name, _ranges(record.sequences)])
    if isinstance(record, Pinned):
        return PINNED, _encode([name, record.now_ns, record.pin_id])
    if isinstance(record, ConsumerReset):
        return RESET, _encode([name, record.start_sequence])
    if isinstance(record, ConsumerDeleted):
        return DELETED, _encode([name])
    if isinstance(record, ConsumerConfigured):
        return CONFIGURED, _encode([name, write(record.config)])
    values = [record.created_ns, record.start_sequence, record.lasts_until, write(record.config)]
    return CREATED, _encode([name, *values])


def decode(kind: int, body: bytes) -> ConsumerRecord:
    """The record of an entry, of any kind but STATE. Raises StoreError."""
    try:
        return _decoded(kind, *_decode(body))
    except (msgspec.MsgspecError, OperatingError, TypeError, ValueError, IndexError) as error:
        raise StoreError(f"an entry of a consumer can not be read: {error}") from error


def _decoded(kind: int, name: str, *values: Any) -> ConsumerRecord:
    _check(str, [name])
    if kind == ACKED:
        now_ns, ranges, *floor = values
        _check(int, [now_ns, *floor])
        return Acked(name, _sequences(ranges), now_ns, (floor[0], floor[1]) if floor else None)
    if kind == DELIVERED:
        now_ns, again, first_time = values
        _check(int, [now_ns])
        return Delivered(name, _sequences(again), _sequences(first_time), now_ns)
    if kind == POSTPONED:
        sequences, sent_ns = values
        _check(int, [*sequences, *sent_ns])
        return Postponed(name, sequences, sent_ns)
    if kind == EXHAUSTED:
        (ranges,) = values
        return Exhausted(name, _sequences(ranges))
    if kind == PINNED:
        now_ns, pin_id = values
        _check(int, [now_ns])
        _check(str, [pin_id])
        return Pinned(name, pin_id, now_ns)
    if kind == RESET:
        (start_sequence,) = values
        _check(int, [start_sequence])
        return ConsumerReset(name, start_sequence)
    if kind == DELETED:
        return ConsumerDeleted(name)
    if kind == CONFIGURED:
        (config,) = values
        return ConsumerConfigured(name, _config(config))
    if kind != CREATED:
        raise ValueError(f"kind {kind} is not known")
    created_ns, start_sequence, lasts_until, config = values
    _check(int, [created_ns, start_sequence, lasts_until])
    return ConsumerCreated(name, _config(config), created_ns, start_sequence, lasts_until)


def encode_state(name: str, state: ConsumerState) -> tuple[int, bytes]:
    """Everything that a consumer remembers, in one entry."""
    pending = [
        value
        for sequence in sorted(state.pending)
        for value in (sequence, state.pending[sequence], state.sent_ns[sequence])
    ]
    redelivered = [value for pair in sorted(state.redelivered.items()) for value in pair]
    delivered = [state.delivered_consumer, state.delivered_stream]
    floor = [state.floor_consumer, state.floor_stream]
    pin = [state.pin_id, state.pinned_ns]
    return STATE, _encode([name, delivered, floor, pending, redelivered, state.lasts_until, *pin])


def decode_state(body: bytes) -> tuple[str, list[Any]]:
    """A consumer's name, and what `restore_state` needs. Raises StoreError."""
    try:
        name, delivered, floor, pending, redelivered, lasts_until, pin_id, pinned_ns = _decode(body)
        _check(str, [name, pin_id])
        _check(int, [*delivered, *floor, *pending, *redelivered, lasts_until, pinned_ns])
        if len(delivered) != 2 or len(floor) != 2 or len(pending) % 3 or len(redelivered) % 2:
            raise ValueError("its lists are of other lengths")
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise StoreError(f"the state of a consumer can not be read: {error}") from error
    return name, [delivered, floor, pending, redelivered, lasts_until, pin_id, pinned_ns]


def restore_state(state: ConsumerState, values: list[Any]) -> None:
    """Take over what `decode_state` found."""
    delivered, floor, pending, redelivered, lasts_until, pin_id, pinned_ns = values
    state.restore(
        (delivered[0], delivered[1]),
        (floor[0], floor[1]),
        [*zip(pending[::3], pending[1::3], pending[2::3], strict=True)],
        [*zip(redelivered[::2], redelivered[1::2], strict=True)],
    )
    state.lasts_until = lasts_until
    state.pin_id, state.pinned_ns = pin_id, pinned_ns


def _config(document: Any) -> ConsumerConfig:
    _check(bytes, [document])
    return read(document, ConsumerConfig, strict=False)


def _ranges(sequences: Sequence[int]) -> list[int]:
    if not sequences:
        return []
    return [bound for pair in as_ranges([*sequences]) for bound in pair]


def _sequences(ranges: Any) -> Sequence[int]:
    _check(list, [ranges])
    _check(int, ranges)
    pairs = [*zip(ranges[::2], ranges[1::2], strict=True)]
    if any(not 0 < first <= last < first + RANGE_MAX for first, last in pairs):
        raise ValueError("a range of sequences is none")
    if len(pairs) == 1:
        return range(pairs[0][0], pairs[0][1] + 1)
    return [sequence for first, last in pairs for sequence in range(first, last + 1)]


def _check(kind: type, values: Iterable[object]) -> None:
    if not all(type(value) is kind for value in values):
        raise TypeError(f"a value is no {kind.__name__}")
