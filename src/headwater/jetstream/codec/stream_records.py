"""The bodies of a stream's records. All integers little-endian.

    PUBLISHED   0  flags         u8   1: some headers replace other messages
       (5 +)    1  count         u32  of messages
                5  [lengths           of the records, and one checksum: version 2 alone
                                      (`headwater.store.log.batch_records`)]
                   messages           records of a segment, of consecutive sequences
                                      (`headwater.store.disk.format`)

    SKIPPED     0  sequence      u64
      (24 +)    8  timestamp     i64  ns since 1970
               16  subject size  u32
               20  header size   u32
               24  subject | header block

    REMOVED     0  flags         u8   1: the messages' bytes are erased
                                      2: no replica can read them, they are lost
       (5 +)    1  count         u32  of ranges
                5  ranges             u64 first, u64 last of each, in the order of removal

    PURGED      0  before        u64  0 for no limit
      (28 +)    8  keep          u64
               16  now           i64  ns since 1970
               24  pattern size  u32
               28  pattern

    CONFIGURED  0  now           i64  ns since 1970
       (8 +)    8  configuration      the JSON that the file of the stream has

    COPIED      0  sequence      u64  of the source
      (24 +)    8  last          u64  the sequence of the stream from which on the record holds
               16  source size   u32
               20  identity size u32
               24  source | identity

The messages of a record are encoded once, as their segment will hold them: their checksums begin
with the seed of the stream, and `Published.encoded` keeps the bytes for the log. Sizes and counts
are compared with the bytes that are there before any memory is taken for them.

A record of a replicated stream that has many messages is of version 2. Its replicas check one
checksum, write the bytes as they are, and extend their index by the columns that they gather from
the records by the lengths; no message is decoded. Few messages are decoded sooner than columns are
made, and a stream without replicas has nobody who would use them: their records are of version 1.
"""

from struct import Struct
from typing import Final

from headwater.base.invariants import check
from headwater.jetstream.codec.configurations import decode_stream_config, encode_config
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.sequences import bounds_in_order, sequences_of
from headwater.jetstream.codec.values import flag_of, sized_parts, unpacked
from headwater.jetstream.records import (
    Configured,
    Copied,
    Published,
    Purged,
    Removed,
    Skipped,
)
from headwater.store.disk.format import FormatError
from headwater.store.log.batch_records import (
    decode_batch,
    decode_with_lengths,
    encode_behind,
    encode_with_lengths,
)
from headwater.store.log.message_log import EncodedMessages

PUBLISHED: Final = 1
SKIPPED: Final = 2
REMOVED: Final = 3
PURGED: Final = 4
CONFIGURED: Final = 5
COPIED: Final = 6

# The limit of sequences in a removal, far above the number of messages that expire in one turn.
REMOVED_MAX: Final = 1 << 18

# The version of records with lengths, and the number of messages from which on they are worth it.
WITH_LENGTHS: Final = 2
LENGTHS_MIN: Final = 16

_PUBLISHED: Final = Struct("<BI")
_SKIPPED: Final = Struct("<QqII")
_REMOVED: Final = Struct("<BI")
_ERASED: Final = 1
_LOST: Final = 2
_RANGE: Final = Struct("<QQ")
_PURGED: Final = Struct("<QQqI")
_CONFIGURED: Final = Struct("<q")
_COPIED: Final = Struct("<QQII")


def encode_published(
    envelope: bytes, record: Published, seed: int, with_lengths: bool = False
) -> EncodedMessages:
    """The whole record behind its envelope; `seed` is the one of the stream's segments."""
    batch = record.batch
    fixed = envelope + _PUBLISHED.pack(record.rolls_up, len(batch.subjects))
    encode = encode_with_lengths if with_lengths else encode_behind
    return encode(record.first_sequence, batch, seed, fixed)


def decode_published(data: bytes, begin: int, seed: int, with_lengths: bool = False) -> Published:
    """Decode a whole record whose body begins at `begin`; it keeps the bytes."""
    flags, count = unpacked(_PUBLISHED, data, begin)
    begin += _PUBLISHED.size
    try:
        if with_lengths:
            batch, encoded = decode_with_lengths(data, begin, count, seed)
        else:
            batch, encoded = decode_batch(data, begin, seed)
    except FormatError as error:
        raise RecordError(str(error)) from error
    if len(encoded.lengths) != count:
        raise RecordError(f"the record has {len(encoded.lengths)} of {count} messages")
    record = Published(encoded.first_sequence, batch, flag_of(flags))
    record.encoded = encoded
    return record


def encode_skipped(record: Skipped) -> bytes:
    """The body of a SKIPPED record."""
    subject, header = record.subject, record.header
    fixed = _SKIPPED.pack(record.first_sequence, record.timestamp_ns, len(subject), len(header))
    return fixed + subject + header


def decode_skipped(body: bytes) -> Skipped:
    """Decode the body of a SKIPPED record."""
    first_sequence, timestamp_ns, subject_size, header_size = unpacked(_SKIPPED, body)
    subject, header = sized_parts(body, _SKIPPED.size, (subject_size, header_size))
    return Skipped(first_sequence, subject, header, timestamp_ns)


def encode_removed(record: Removed) -> bytes:
    """The body of a REMOVED record."""
    check(len(record.sequences) <= REMOVED_MAX, "a removal fits its record")
    bounds = bounds_in_order(record.sequences)
    ranges = zip(bounds[::2], bounds[1::2], strict=True)
    flags = _ERASED * record.erase | _LOST * record.is_lost
    fixed = _REMOVED.pack(flags, len(bounds) // 2)
    return fixed + b"".join([_RANGE.pack(first, last) for first, last in ranges])


def decode_removed(body: bytes) -> Removed:
    """Decode the body of a REMOVED record."""
    flags, count = unpacked(_REMOVED, body)
    (ranges,) = sized_parts(body, _REMOVED.size, (count * _RANGE.size,))
    bounds = [bound for pair in _RANGE.iter_unpack(ranges) for bound in pair]
    if flags & ~(_ERASED | _LOST):
        raise RecordError(f"the record has unknown flags ({flags})")
    sequences = [*sequences_of(bounds, REMOVED_MAX)]
    return Removed(sequences, bool(flags & _ERASED), bool(flags & _LOST))


def encode_purged(record: Purged) -> bytes:
    """The body of a PURGED record."""
    fixed = _PURGED.pack(record.before, record.keep, record.now_ns, len(record.pattern))
    return fixed + record.pattern


def decode_purged(body: bytes) -> Purged:
    """Decode the body of a PURGED record."""
    before, keep, now_ns, pattern_size = unpacked(_PURGED, body)
    (pattern,) = sized_parts(body, _PURGED.size, (pattern_size,))
    return Purged(pattern, before, keep, now_ns)


def encode_configured(record: Configured) -> bytes:
    """The body of a CONFIGURED record."""
    return _CONFIGURED.pack(record.now_ns) + encode_config(record.config)


def decode_configured(body: bytes) -> Configured:
    """Decode the body of a CONFIGURED record."""
    (now_ns,) = unpacked(_CONFIGURED, body)
    return Configured(decode_stream_config(body[_CONFIGURED.size :]), now_ns)


def encode_copied(record: Copied) -> bytes:
    """The body of a COPIED record."""
    source, identity = record.source, record.identity
    fixed = _COPIED.pack(record.sequence, record.last_sequence, len(source), len(identity))
    return fixed + source + identity


def decode_copied(body: bytes) -> Copied:
    """Decode the body of a COPIED record."""
    sequence, last_sequence, source_size, identity_size = unpacked(_COPIED, body)
    source, identity = sized_parts(body, _COPIED.size, (source_size, identity_size))
    return Copied(source, sequence, identity, last_sequence)
