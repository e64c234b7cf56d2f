"""The blocks of a snapshot, in the order in which they may come. All integers little-endian.

    BEGIN      1   the stream, and the first sequence that is sent (`SnapshotHeader`)
    MESSAGES   2   u32 count of runs, u32 bytes of each, and their records as segments hold them
    PRESENT    3   u64 first, u64 last, and the ranges between them that have messages, u64 and u64:
                   all other messages from first to last were removed after they had been sent
    IDS        4   message ids, as in the entries of removed ones (`streams.removed_ids`)
    EXPIRIES   5   u64 sequence and i64 time of each, for messages in memory
    SCHEDULES  6   msgpack: subject, sequence and due time of each
    LOST       7   ranges of sequences, u64 and u64
    CONSUMER   8   a consumer (`consumers.images`)
    POSITION  10   the position of a source, as in the body of a COPIED record
    END        9   all other values, and the place in the group's log (`SnapshotEnd`)

MESSAGES, PRESENT and IDS come in any order and number, the others once nothing changes any more.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Any, Final, NamedTuple

from headwater.jetstream.codec.configurations import decode_stream_config, encode_config
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.values import check_count, check_type, decode_values, encode_values
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.snapshots.chunks import Block, SnapshotError
from headwater.jetstream.streams import removed_ids
from headwater.jetstream.streams.removed_ids import IdEntry
from headwater.store.disk.format import FormatError
from headwater.store.log.batch_records import decode_batch
from headwater.store.log.message_log import Batch, EncodedMessages
from headwater.store.log.record_runs import RecordRun

BEGIN: Final = 1
MESSAGES: Final = 2
PRESENT: Final = 3
IDS: Final = 4
EXPIRIES: Final = 5
SCHEDULES: Final = 6
LOST: Final = 7
CONSUMER: Final = 8
END: Final = 9
POSITION: Final = 10

VERSION: Final = 1
INCARNATION_BYTES: Final = 16

# Sequences and times have 64 bits in all files, and another sequence must always be possible.
NUMBER_MAX: Final = (1 << 63) - 1
_SEED_MAX: Final = (1 << 32) - 1

_COUNT: Final = Struct("<I")
_RANGE: Final = Struct("<QQ")
_EXPIRY: Final = Struct("<Qq")
# The bytes of an id besides its own, in the layout of `removed_ids`.
_ID_BYTES: Final = 18
# The bytes of a run in a block, besides its records.
RUN_BYTES: Final = _COUNT.size

Range = tuple[int, int]
Expiry = tuple[int, int]
Schedule = tuple[bytes, int, int]


class Place(NamedTuple):
    """A place in the log of a Raft group: the index of an entry, and its term."""

    entry: int
    term: int


class SnapshotHeader(NamedTuple):
    """The first block. A new log for the snapshot begins at `first_sequence`.

    Messages are sent from `from_sequence` on: one that follows the last sequence of the follower's
    log, or `first_sequence` if the follower has no log. `place` is that of the beginning, and the
    configuration may be another one at the end.
    """

    incarnation: bytes
    place: Place
    first_sequence: int
    from_sequence: int
    record_seed: int
    created_ns: int
    config: StreamConfig

    @property
    def goes_on(self) -> bool:
        """Whether messages before those that are sent are to be kept."""
        return self.from_sequence > self.first_sequence


class SnapshotEnd(NamedTuple):
    """The last block: the values of the stream at `place`, the place of the whole snapshot."""

    place: Place
    config: StreamConfig
    last_sequence: int
    # The time at which the last sequence was assigned; 0 if it is not known.
    last_ns: int
    last_id: bytes
    # The sequence of the oldest message id that counts; 0 without any.
    ids_from: int
    tells_first_sequence: bool
    kept_until: int
    # Totals by which the follower checks its log.
    messages: int
    byte_count: int


def encode_header(header: SnapshotHeader) -> Block:
    """The block of a header."""
    *values, config = header
    return Block(BEGIN, encode_values([VERSION, *values, encode_config(config)]))


def decode_header(block: Block) -> SnapshotHeader:
    """The header of a snapshot. Raises SnapshotError."""
    if block.kind != BEGIN:
        raise SnapshotError(f"a snapshot begins with a block of kind {block.kind}")
    try:
        version, *values = decode_values(block.body)
        if version != VERSION:
            raise RecordError(f"its version {version} is unknown to this program")
        check_count(7, values)
        incarnation, place, *numbers, document = values
        check_type(bytes, (incarnation, document))
        check_type(int, numbers)
        config = decode_stream_config(document)
        first_sequence, from_sequence, record_seed, created_ns = numbers
        if len(incarnation) != INCARNATION_BYTES:
            raise RecordError("its incarnation has another length")
        _check_bounds(1, NUMBER_MAX, (first_sequence, from_sequence))
        _check_bounds(0, _SEED_MAX, (record_seed,))
        found = _place_of(place)
    except RecordError as error:
        raise SnapshotError(f"the header of a snapshot cannot be read: {error}") from error
    return SnapshotHeader(
        incarnation, found, first_sequence, from_sequence, record_seed, created_ns, config
    )


def encode_end(end: SnapshotEnd) -> Block:
    """The block of the end."""
    place, config, *values = end
    return Block(END, encode_values([place, encode_config(config), *values]))


def decode_end(body: bytes) -> SnapshotEnd:
    """The end of a snapshot. Raises SnapshotError."""
    try:
        values = decode_values(body)
        check_count(len(SnapshotEnd._fields), values)
        place, document, last_sequence, last_ns, last_id, ids_from, tells_first, *numbers = values
        check_type(bytes, (document, last_id))
        check_type(int, (last_sequence, last_ns, ids_from, *numbers))
        check_type(bool, (tells_first,))
        _check_bounds(0, NUMBER_MAX, (last_sequence, ids_from, *numbers))
        _check_bounds(-NUMBER_MAX, NUMBER_MAX, (last_ns,))
        config = decode_stream_config(document)
        found = _place_of(place)
    except RecordError as error:
        raise SnapshotError(f"the end of a snapshot cannot be read: {error}") from error
    return SnapshotEnd(
        found, config, last_sequence, last_ns, last_id, ids_from, tells_first, *numbers
    )


def _place_of(value: Any) -> Place:
    check_type(list, (value,))
    check_count(2, value)
    check_type(int, value)
    _check_bounds(0, NUMBER_MAX, value)
    return Place(*value)


def _check_bounds(least: int, most: int, numbers: Iterable[int]) -> None:
    if not all(least <= number <= most for number in numbers):
        raise RecordError("a number is out of range")


# --- messages ------------------------------------------------------------------------------------


def encode_messages(runs: list[RecordRun]) -> Block:
    """The block of runs of messages."""
    sizes = [_COUNT.pack(len(run.data)) for run in runs]
    records = [run.data for run in runs]
    return Block(MESSAGES, b"".join([_COUNT.pack(len(runs)), *sizes, *records]), True)


def decode_messages(body: bytes, seed: int) -> list[tuple[Batch, EncodedMessages]]:
    """The runs of a block, in ascending order. Raises SnapshotError."""
    count = _COUNT.unpack_from(body)[0] if len(body) >= _COUNT.size else 0
    begin = _COUNT.size * (1 + count)
    if not count or begin > len(body):
        raise SnapshotError("a block of messages has no runs")
    sizes = [size for (size,) in _COUNT.iter_unpack(body[_COUNT.size : begin])]
    if begin + sum(sizes) != len(body):
        raise SnapshotError("the runs of messages end before or behind their block")
    runs: list[tuple[Batch, EncodedMessages]] = []
    last = 0
    for size in sizes:
        try:
            batch, encoded = decode_batch(body[begin : begin + size], 0, seed)
        except FormatError as error:
            raise SnapshotError(f"messages of a snapshot: {error}") from error
        if encoded.first_sequence <= last:
            raise SnapshotError(f"message {encoded.first_sequence} follows message {last}")
        last = encoded.first_sequence + len(encoded.lengths) - 1
        if last > NUMBER_MAX:
            raise SnapshotError(f"message {last} is out of range")
        runs.append((batch, encoded))
        begin += size
    return runs


def encode_present(first: int, last: int, ranges: list[Range]) -> Block:
    """The block that says which messages from `first` to `last` are left."""
    bounds = [_RANGE.pack(*each) for each in ((first, last), *ranges)]
    return Block(PRESENT, b"".join(bounds))


def decode_present(body: bytes) -> tuple[int, int, list[Range]]:
    """The first and last sequence, and the ranges that are left. Raises SnapshotError."""
    bounds = _ranges_in(body)
    if not bounds:
        raise SnapshotError("a block of removals has no range")
    (first, last), *ranges = bounds
    before = first - 1
    for begin, end in ranges:
        if begin <= before or end > last:
            raise SnapshotError(f"{begin} to {end} is no range of {before + 1} to {last}")
        before = end
    return first, last, ranges


def encode_lost(ranges: list[Range]) -> Block:
    """The block of sequences whose messages are lost."""
    return Block(LOST, b"".join([_RANGE.pack(*each) for each in ranges]))


def decode_lost(body: bytes) -> list[Range]:
    """The ranges of lost messages. Raises SnapshotError."""
    return _ranges_in(body)


def _ranges_in(body: bytes) -> list[Range]:
    if len(body) % _RANGE.size:
        raise SnapshotError("the last range of a block is incomplete")
    ranges = [(first, last) for first, last in _RANGE.iter_unpack(body)]
    for first, last in ranges:
        if not 0 < first <= last <= NUMBER_MAX:
            raise SnapshotError(f"{first} to {last} is no range of sequences")
    return ranges


# --- ids, expiries, schedules --------------------------------------------------------------------


def encode_ids(entries: list[IdEntry]) -> Block:
    """The block of message ids."""
    _, body = removed_ids.encode(entries)
    return Block(IDS, body)


def decode_ids(body: bytes) -> list[IdEntry]:
    """The ids of a block. Raises SnapshotError."""
    found = removed_ids.decode(body)
    if sum(_ID_BYTES + len(message_id) for message_id, _, _ in found) != len(body):
        raise SnapshotError("the last id of a block is incomplete")
    return found


def encode_expiries(expiries: list[Expiry]) -> Block:
    """The block of the times at which messages expire."""
    return Block(EXPIRIES, b"".join([_EXPIRY.pack(*each) for each in expiries]))


def decode_expiries(body: bytes) -> list[Expiry]:
    """Sequences and times. Raises SnapshotError."""
    if len(body) % _EXPIRY.size:
        raise SnapshotError("the last expiry of a block is incomplete")
    found = [(sequence, time_ns) for sequence, time_ns in _EXPIRY.iter_unpack(body)]
    if any(sequence > NUMBER_MAX or time_ns <= 0 for sequence, time_ns in found):
        raise SnapshotError("a message expires before all times, or has no sequence")
    return found


def encode_schedules(schedules: list[Schedule]) -> Block:
    """The block of schedules."""
    return Block(SCHEDULES, encode_values([value for each in schedules for value in each]))


def decode_schedules(body: bytes) -> list[Schedule]:
    """Subject, sequence and due time of each schedule. Raises SnapshotError."""
    try:
        values = decode_values(body)
        subjects, sequences, times_ns = values[::3], values[1::3], values[2::3]
        check_count(3 * len(times_ns), values)
        check_type(bytes, subjects)
        check_type(int, (*sequences, *times_ns))
        _check_bounds(1, NUMBER_MAX, sequences)
        _check_bounds(0, NUMBER_MAX, times_ns)
    except RecordError as error:
        raise SnapshotError(f"schedules of a snapshot cannot be read: {error}") from error
    return [*zip(subjects, sequences, times_ns, strict=True)]
