"""A batch of messages as the records of a segment, and back.

Records may stand behind their lengths, under one checksum of all of them:

    messages   0  count        u32  of the lengths: 1 if all records have the same one
       (8 +)   4  lengths      u32 each
                  checksum     u32  over all bytes before and behind it, begun with the seed
                  records

By the lengths the records are read together (`headwater.store.disk.record_heads`), and no message
is decoded before somebody asks for it.
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import compress
from operator import add
from struct import Struct
from typing import Final, final

from headwater.base.checksums import crc32
from headwater.base.columns import Numbers
from headwater.store.disk.format import (
    EXPIRY_BYTES,
    RECORD_BYTES,
    FormatError,
    decode_messages,
    decode_records,
    encode_message_with_expiry,
    encode_messages,
)
from headwater.store.disk.record_heads import RecordHeads
from headwater.store.disk.segment import READ_BYTES
from headwater.store.index.segment_index import SegmentIndex
from headwater.store.log.message_log import Batch, EncodedMessages, MessageBatch

# The bytes that nats-server counts for a message on disk besides its own, and for headers.
MESSAGE_OVERHEAD_BYTES: Final = 30
HEADER_OVERHEAD_BYTES: Final = 4
# The difference between the count of a message without headers and the length of its record.
_COUNTED_BESIDES_RECORD: Final = MESSAGE_OVERHEAD_BYTES - RECORD_BYTES
# The most bytes by which a record is longer than the count of its message.
_RECORD_BESIDES_COUNTED: Final = RECORD_BYTES + EXPIRY_BYTES - MESSAGE_OVERHEAD_BYTES

# A gap between two messages up to this size is read with them: another read would take longer.
GAP_BYTES_MAX: Final = 64 * 1024

_COUNT: Final = Struct("<I")
_SUM: Final = Struct("<I")
_LENGTH_BYTES: Final = 4


def message_size(subject: int, header: int, payload: int) -> int:
    """The bytes that a message on disk counts in the stream's total."""
    size = MESSAGE_OVERHEAD_BYTES + subject + payload
    return size + HEADER_OVERHEAD_BYTES + header if header else size


def message_sizes(batch: Batch, lengths: Numbers) -> Numbers:
    """The bytes that each message of a batch counts; `lengths` are those of their records."""
    if isinstance(batch, ReceivedBatch):
        return batch.heads.sizes(MESSAGE_OVERHEAD_BYTES, HEADER_OVERHEAD_BYTES)
    if not batch.expiries_ns or not any(batch.expiries_ns):
        if len(lengths) == 1:
            besides = HEADER_OVERHEAD_BYTES if batch.headers[0] else 0
            return [lengths[0] + _COUNTED_BESIDES_RECORD + besides]
        sizes = [length + _COUNTED_BESIDES_RECORD for length in lengths]
        if any(batch.headers):
            sizes = [
                size + HEADER_OVERHEAD_BYTES if header else size
                for size, header in zip(sizes, batch.headers, strict=True)
            ]
        return sizes
    return [
        message_size(len(subject), len(header), len(payload))
        for subject, header, payload in zip(
            batch.subjects, batch.headers, batch.payloads, strict=True
        )
    ]


def encode_batch(
    first: int, batch: Batch, seed: int, before: bytes = b""
) -> tuple[bytes, list[int]]:
    """The records of a batch whose first message has sequence `first`, and the length of each.

    They follow the bytes `before`.
    """
    if not batch.expiries_ns or not any(batch.expiries_ns):
        return encode_messages(
            first, batch.subjects, batch.headers, batch.payloads, batch.timestamps_ns, seed, before
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
    return before + b"".join(parts), [len(part) for part in parts]


def encode_behind(first: int, batch: Batch, seed: int, before: bytes) -> EncodedMessages:
    """The records of a batch whose first message has sequence `first`, behind other bytes."""
    data, lengths = encode_batch(first, batch, seed, before)
    return EncodedMessages(first, data, len(before), lengths, seed)


def encode_with_lengths(first: int, batch: Batch, seed: int, before: bytes) -> EncodedMessages:
    """The records of a batch behind other bytes, their lengths, and one checksum of everything."""
    data, lengths = encode_batch(first, batch, seed)
    given = lengths[:1] if lengths.count(lengths[0]) == len(lengths) else lengths
    head = before + _COUNT.pack(len(given)) + array("I", given).tobytes()
    head += _SUM.pack(crc32(data, crc32(head, seed)))
    return EncodedMessages(first, head + data, len(head), lengths, seed)


def decode_with_lengths(
    data: bytes, begin: int, count: int, seed: int
) -> tuple[Batch, EncodedMessages]:
    """The batch of so many messages whose checksum, lengths and records are `data` from `begin` on.

    Raises FormatError.
    """
    lengths_at = begin + _COUNT.size
    given = int.from_bytes(data[begin:lengths_at], "little")
    sum_at = lengths_at + given * _LENGTH_BYTES
    records_at = sum_at + _SUM.size
    if given not in (1, count) or records_at + count * RECORD_BYTES > len(data):
        raise FormatError(f"{given} lengths and {len(data)} bytes are not {count} messages")
    (checksum,) = _SUM.unpack_from(data, sum_at)
    if checksum != crc32(memoryview(data)[records_at:], crc32(data[:sum_at], seed)):
        raise FormatError("the messages fail their checksum")
    lengths = array("I", data[lengths_at:sum_at])
    heads = RecordHeads(data, records_at, lengths if given == count else lengths * count)
    encoded = EncodedMessages(heads.first_sequence, data, records_at, heads.lengths, seed)
    return ReceivedBatch(heads), encoded


@final
class ReceivedBatch(Batch):
    """Messages of another server, whose payloads stay in their records until somebody asks."""

    __slots__ = ("heads",)

    def __init__(self, heads: RecordHeads) -> None:
        self.heads = heads
        self.subjects = heads.subjects
        self.headers = heads.headers()
        self.timestamps_ns = heads.timestamps_ns
        self.expiries_ns = heads.expiries_ns()

    def __getattr__(self, name: str) -> list[bytes]:
        """Fill the column of payloads when it is asked for the first time."""
        if name != "payloads":
            raise AttributeError(name)
        self.payloads = self.heads.payloads()
        return self.payloads

    def __len__(self) -> int:
        return len(self.subjects)


def decode_batch(data: bytes, begin: int, seed: int) -> tuple[Batch, EncodedMessages]:
    """The batch whose records are `data` from `begin` on, and these. Raises FormatError."""
    first, lengths, subjects, headers, payloads, timestamps_ns, expiries_ns = decode_messages(
        data, begin, seed
    )
    batch = Batch(subjects, headers, payloads, timestamps_ns, expiries_ns)
    return batch, EncodedMessages(first, data, begin, lengths, seed)


@final
class Wanted:
    """Messages of one segment that are wanted, as parallel lists."""

    __slots__ = ("_ends", "_sizes", "ids", "offsets", "sequences")

    def __init__(self, index: SegmentIndex, sequences: Sequence[int]) -> None:
        """`sequences` are ascending and of that segment; those without a message are left out."""
        first = sequences[0] - index.first_sequence
        end = sequences[-1] + 1 - index.first_sequence
        columns = (index.offsets, index.subject_ids, index.sizes)
        if end - first == len(sequences):
            offsets, ids, sizes = (column[first:end].tolist() for column in columns)
        else:
            positions = [sequence - index.first_sequence for sequence in sequences]
            offsets, ids, sizes = ([*map(column.__getitem__, positions)] for column in columns)
        if not index.is_dense:
            sequences, ids, sizes = (
                [*compress(column, offsets)] for column in (sequences, ids, sizes)
            )
            offsets = [*filter(None, offsets)]
        self.sequences = sequences
        self.ids = ids
        self.offsets = offsets
        self._sizes = sizes
        # The latest offsets at which their records may end.
        self._ends = [*map(_RECORD_BESIDES_COUNTED.__add__, map(add, offsets, sizes))]

    def near(self, at: int, bytes_max: int) -> tuple[int, int]:
        """The extent of one read from the message at `at` on: the message before which it ends,
        and its bytes.

        It ends before a large gap between two messages, and before more bytes than are wanted.
        """
        offsets, ends, sizes = self.offsets, self._ends, self._sizes
        begin = offsets[at]
        # Most of the time they lie one after the other.
        stop = max(bisect_right(ends, begin + READ_BYTES, at), at + 1)
        span = ends[stop - 1] - begin
        counted = sum(sizes[at:stop])
        bytes_at_most = counted - (stop - at) * MESSAGE_OVERHEAD_BYTES
        if span - counted <= GAP_BYTES_MAX and bytes_at_most <= bytes_max:
            return stop, span
        for behind in range(at + 1, stop):
            bytes_max -= sizes[behind - 1] - MESSAGE_OVERHEAD_BYTES
            if bytes_max < 0 or offsets[behind] - ends[behind - 1] > GAP_BYTES_MAX:
                return behind, ends[behind - 1] - begin
        return stop, span


def append_messages(
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
    start = sequence - index.first_sequence
    if count_max == 1:
        # A pull of one message: without a slice of the index and of each list.
        times_ns, headers, payloads = decode_records(data, (0,), (sequence,), bytes_max, seed)
        if not payloads:
            return bytes_max
        batch.sequences, batch.subjects = [sequence], [names[index.subject_ids[start]]]
        batch.headers, batch.payloads, batch.timestamps_ns = headers, payloads, times_ns
        return bytes_max - len(headers[0]) - len(payloads[0])
    # No more than fit: the index of a large segment is not copied for a few messages.
    end = start + min(count_max - len(batch.sequences), len(data) // RECORD_BYTES + 1)
    offsets: Sequence[int] = index.offsets[start:end]
    ids: Sequence[int] = index.subject_ids[start:end]
    sequences: Sequence[int] = range(sequence, sequence + len(offsets))
    if not index.is_dense:
        sequences = [*compress(sequences, offsets)]
        ids = [*compress(ids, offsets)]
        offsets = [*filter(None, offsets)]
    return append_messages_at(batch, names, seed, sequences, ids, offsets, begin, data, bytes_max)


def append_messages_at(
    batch: MessageBatch,
    names: list[bytes],
    seed: int,
    sequences: Sequence[int],
    ids: Sequence[int],
    offsets: Sequence[int],
    begin: int,
    data: bytes,
    bytes_max: int,
) -> int:
    """Add the messages of `sequences`, with these subject ids, at these offsets of a segment.

    Up to the first that does not lie whole and sound in `data`; all else as for `append_messages`.
    """
    timestamps_ns, headers, payloads = decode_records(
        data, [offset - begin for offset in offsets], sequences, bytes_max, seed
    )
    bytes_max -= sum(map(len, headers)) + sum(map(len, payloads))
    count = len(payloads)
    if bytes_max < 0 and len(batch.sequences) + count > 1:
        # The last one is too much; a batch has at least one.
        count -= 1
    batch.sequences += sequences[:count]
    batch.subjects += [names[sid] for sid in ids[:count]]
    batch.headers += headers[:count]
    batch.payloads += payloads[:count]
    batch.timestamps_ns += timestamps_ns[:count]
    return bytes_max
