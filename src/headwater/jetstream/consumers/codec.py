"""Records of consumers as entries of their stream's journal.

A body is a msgpack array whose first value is the consumer's name. Ranges are a flat list of first
and last of each, in order. Configurations are the JSON that clients get. A body that cannot be
decoded raises StoreError: the code that opens the log reports it, and the entry is lost but not the
stream.

    CREATED     name, created ns, start sequence, lasts until, config
    CONFIGURED  name, config, place
    DELETED     name
    RESET       name, start sequence
    DELIVERED   name, ns, ranges sent again, ranges sent for the first time
    ACKED       name, ns, ranges, [floor of the consumer, floor of the stream]
    POSTPONED   name, sequences, when each counts as sent
    EXHAUSTED   name, ranges
    PINNED      name, ns, id
    STATE       name, the whole state: written when a journal is rewritten
    DROPPED     name, ranges
    FORGOTTEN   name, ns, sequence
    KEPT        no name, sequence: messages up to it are kept, needed or not
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from headwater.base.errors import OperatingError, PeerError
from headwater.go.json import ANY_NUMBER_OF_VALUES, read, write
from headwater.jetstream.config.consumer_config import ConsumerConfig
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
from headwater.jetstream.consumers.state import ConsumerState
from headwater.store.disk.journal import as_ranges
from headwater.store.log.message_log import StoreError

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
DROPPED: Final = 330
FORGOTTEN: Final = 331
KEPT: Final = 332
CONSUMER_KINDS: Final = range(CREATED, KEPT + 1)

# The limit of messages in a record: a damaged range must not exhaust the memory.
RANGE_MAX: Final = 1 << 24

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Any]).decode

# The errors that a decoder raises for a malformed body.
_UNREADABLE: Final = (
    msgspec.MsgspecError,
    OperatingError,
    PeerError,
    TypeError,
    ValueError,
    IndexError,
    RecursionError,
)


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
    if isinstance(record, Dropped):
        return DROPPED, _encode([name, _ranges(record.sequences)])
    if isinstance(record, Forgotten):
        return FORGOTTEN, _encode([name, record.now_ns, record.before])
    if isinstance(record, Pinned):
        return PINNED, _encode([name, record.now_ns, record.pin_id])
    if isinstance(record, ConsumerReset):
        return RESET, _encode([name, record.start_sequence])
    if isinstance(record, ConsumerDeleted):
        return DELETED, _encode([name])
    if isinstance(record, ConsumerConfigured):
        return CONFIGURED, _encode([name, write(record.config), record.place])
    values = [record.created_ns, record.start_sequence, record.lasts_until, write(record.config)]
    return CREATED, _encode([name, *values])


def decode(kind: int, body: bytes) -> ConsumerRecord:
    """Decode an entry of any kind but STATE. Raises StoreError."""
    try:
        return _decoded(kind, *_decode(body))
    except _UNREADABLE as error:
        raise StoreError(f"an entry of a consumer cannot be read: {error}") from error


def _decoded(kind: int, name: str, *values: Any) -> ConsumerRecord:
    _check(str, [name])
    if kind == ACKED:
        now_ns, ranges, *floor = values
        _check(int, [now_ns, *floor])
        if not floor:
            return Acked(name, _sequences(ranges), now_ns)
        consumer_floor, stream_floor = floor
        return Acked(name, _sequences(ranges), now_ns, (consumer_floor, stream_floor))
    if kind == DELIVERED:
        now_ns, again, first_time = values
        _check(int, [now_ns])
        return Delivered(name, _sequences(again), _sequences(first_time), now_ns)
    if kind == POSTPONED:
        sequences, sent_ns = values
        _check_numbers([sequences, sent_ns])
        if len(sequences) != len(sent_ns):
            raise ValueError("its lists are of other lengths")
        return Postponed(name, sequences, sent_ns)
    if kind == EXHAUSTED:
        (ranges,) = values
        return Exhausted(name, _sequences(ranges))
    if kind == DROPPED:
        (ranges,) = values
        return Dropped(name, _sequences(ranges))
    if kind == FORGOTTEN:
        now_ns, before = values
        _check(int, [now_ns, before])
        return Forgotten(name, before, now_ns)
    if kind == PINNED:
        now_ns, pin_id = values
        _check(int, [now_ns])
        _check(str, [pin_id])
        return Pinned(name, pin_id, now_ns)
    if kind == RESET:
        (start_sequence,) = values
        _check(int, [start_sequence])
        return ConsumerReset(name, start_sequence)
    if kind == DELETED and not values:
        return ConsumerDeleted(name)
    if kind == CONFIGURED:
        config, place = values
        _check(int, [place])
        return ConsumerConfigured(name, _config(config), place)
    if kind != CREATED:
        raise ValueError(f"no record has the kind {kind}")
    created_ns, start_sequence, lasts_until, config = values
    _check(int, [created_ns, start_sequence, lasts_until])
    return ConsumerCreated(name, _config(config), created_ns, start_sequence, lasts_until)


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
    return STATE, _encode([name, delivered, floor, pending, redelivered, *places, *pin])


def decode_state(body: bytes) -> tuple[str, list[Any]]:
    """The name of a consumer, and the values for `restore_state`. Raises StoreError."""
    try:
        name, *values = _decode(body)
        *lists, lasts_until, passed_stream, pin_id, pinned_ns = values
        delivered, floor, pending, redelivered = lists
        _check(str, [name, pin_id])
        _check(int, [lasts_until, passed_stream, pinned_ns])
        _check_numbers(lists)
        if len(delivered) != 2 or len(floor) != 2 or len(pending) % 3 or len(redelivered) % 2:
            raise ValueError("its lists are of other lengths")
        if any(number <= 0 for number in (*pending[::3], *pending[1::3])):
            raise ValueError("a sequence is not positive")
    except _UNREADABLE as error:
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
    return KEPT, _encode(["", sequence])


def decode_kept(body: bytes) -> int:
    """The sequence of a KEPT entry. Raises StoreError."""
    try:
        _, sequence = _decode(body)
        _check(int, [sequence])
    except _UNREADABLE as error:
        raise StoreError(f"an entry of consumers cannot be read: {error}") from error
    found: int = sequence
    return found


def _config(document: Any) -> ConsumerConfig:
    _check(bytes, [document])
    return read(document, ConsumerConfig, strict=False, values_max=ANY_NUMBER_OF_VALUES)


def _ranges(sequences: Sequence[int]) -> list[int]:
    if not sequences:
        return []
    # The sequences may be in the order of their acknowledgements.
    return [bound for pair in as_ranges(sorted({*sequences})) for bound in pair]


def _sequences(ranges: Any) -> Sequence[int]:
    _check_numbers([ranges])
    pairs = [*zip(ranges[::2], ranges[1::2], strict=True)]
    if any(not 0 < first <= last for first, last in pairs):
        raise ValueError("a range of sequences is not ascending")
    if sum(last - first + 1 for first, last in pairs) > RANGE_MAX:
        raise ValueError("there are more sequences than a record has")
    if len(pairs) == 1:
        return range(pairs[0][0], pairs[0][1] + 1)
    return [sequence for first, last in pairs for sequence in range(first, last + 1)]


def _check_numbers(lists: list[Any]) -> None:
    _check(list, lists)
    for numbers in lists:
        _check(int, numbers)


def _check(kind: type, values: Iterable[object]) -> None:
    if not all(type(value) is kind for value in values):
        raise TypeError(f"a value is no {kind.__name__}")
