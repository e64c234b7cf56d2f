"""Bytes for every record, by one versioned layout.

    record     0  kind       u8
               1  version    u8   of the body's layout
               2  body            by kind and version, to the end

    kinds      1 PUBLISHED   2 SKIPPED   3 REMOVED   4 PURGED   5 CONFIGURED
               6 COPIED
               32 STREAM_CREATED   33 STREAM_DELETED
               64 CONSUMER_CREATED   65 CONSUMER_CONFIGURED   66 CONSUMER_DELETED
               67 CONSUMER_RESET   68 DELIVERED   69 ACKED   70 POSTPONED   71 EXHAUSTED
               72 PINNED   74 DROPPED   75 FORGOTTEN

The bodies are drawn in `stream_records`, `stream_set_records` and `consumer_records`. A record has
no length and, apart from its messages, no checksum: it stands in an entry that has both. An entry
of a journal has the kind of a consumer's record plus 256, and the same body.

No record has kind 0 or version 0, so a run of zeros is not a record. A kind or version that is not
listed is refused by its number: a newer program wrote it, and the log must not go on without it.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, Final, TypeAlias, final

from headwater.jetstream.codec import consumer_records, stream_records, stream_set_records
from headwater.jetstream.codec.errors import NewerRecordError, RecordError
from headwater.jetstream.records import (
    Configured,
    Copied,
    Published,
    Purged,
    Record,
    Removed,
    Skipped,
    StreamCreated,
    StreamDeleted,
    StreamSetRecord,
)

AnyRecord: TypeAlias = Record | StreamSetRecord

VERSION: Final = 1
ENVELOPE_BYTES: Final = 2

_ENVELOPE: Final = Struct("<BB")
_PUBLISHED_ENVELOPE: Final = _ENVELOPE.pack(stream_records.PUBLISHED, VERSION)
_LENGTHS_ENVELOPE: Final = _ENVELOPE.pack(stream_records.PUBLISHED, stream_records.WITH_LENGTHS)

_ENCODERS: Final[dict[type, tuple[int, Callable[[Any], bytes]]]] = {
    **consumer_records.ENCODERS,
    Skipped: (stream_records.SKIPPED, stream_records.encode_skipped),
    Removed: (stream_records.REMOVED, stream_records.encode_removed),
    Purged: (stream_records.PURGED, stream_records.encode_purged),
    Configured: (stream_records.CONFIGURED, stream_records.encode_configured),
    Copied: (stream_records.COPIED, stream_records.encode_copied),
    StreamCreated: (stream_set_records.STREAM_CREATED, stream_set_records.encode_stream_created),
    StreamDeleted: (stream_set_records.STREAM_DELETED, stream_set_records.encode_stream_deleted),
}

_DECODERS: Final[dict[int, Callable[[bytes], AnyRecord]]] = {
    stream_records.SKIPPED: stream_records.decode_skipped,
    stream_records.REMOVED: stream_records.decode_removed,
    stream_records.PURGED: stream_records.decode_purged,
    stream_records.CONFIGURED: stream_records.decode_configured,
    stream_records.COPIED: stream_records.decode_copied,
    stream_set_records.STREAM_CREATED: stream_set_records.decode_stream_created,
    stream_set_records.STREAM_DELETED: stream_set_records.decode_stream_deleted,
}


@final
class RecordCodec:
    """Encodes and decodes the records of one stream, or of the set of streams."""

    __slots__ = ("_has_replicas", "_seed")

    def __init__(self, seed: int = 0, has_replicas: bool = False) -> None:
        """`seed` begins the checksums of messages, as in the segments of the stream.

        For replicas, records of many messages have the lengths of these and one checksum.
        """
        self._seed = seed
        self._has_replicas = has_replicas

    def encode(self, record: AnyRecord) -> bytes:
        """The bytes of a record. Those of messages are kept in the record."""
        if isinstance(record, Published):
            encoded = record.encoded
            if encoded is None or encoded.seed != self._seed:
                is_many = len(record.batch.subjects) >= stream_records.LENGTHS_MIN
                with_lengths = self._has_replicas and is_many
                envelope = _LENGTHS_ENVELOPE if with_lengths else _PUBLISHED_ENVELOPE
                encoded = stream_records.encode_published(
                    envelope, record, self._seed, with_lengths
                )
                record.encoded = encoded
            return encoded.data
        kind, encode_body = _ENCODERS[type(record)]
        return _ENVELOPE.pack(kind, VERSION) + encode_body(record)

    def decode(self, data: bytes) -> AnyRecord:
        """The record whose bytes these are; one with messages keeps them. Raises RecordError."""
        if len(data) < ENVELOPE_BYTES:
            raise RecordError(f"{len(data)} bytes are no record")
        kind, version = data[0], data[1]
        if not kind or not version:
            raise RecordError(f"there is no record of kind {kind}, version {version}")
        if kind == stream_records.PUBLISHED and version <= stream_records.WITH_LENGTHS:
            with_lengths = version == stream_records.WITH_LENGTHS
            return stream_records.decode_published(data, ENVELOPE_BYTES, self._seed, with_lengths)
        if version != VERSION:
            raise NewerRecordError(kind, version)
        body = data[ENVELOPE_BYTES:]
        if kind in consumer_records.DECODERS:
            return consumer_records.decode_consumer_record(kind, body)
        decode_body = _DECODERS.get(kind)
        if decode_body is None:
            raise NewerRecordError(kind, version)
        return decode_body(body)
