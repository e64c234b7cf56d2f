"""An entry has the records of one proposal, whole and in order, or is refused."""

import pytest

from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.log_entries import decode_entry, encode_entry
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.consumers.records import Acked
from headwater.jetstream.records import Published, Purged, Record, Removed, StreamDeleted
from headwater.store.log.message_log import Batch

CODEC = RecordCodec(seed=7)
RECORDS: list[Record] = [
    Published(4, Batch([b"s", b"t"], [b"", b""], [b"one", b"two"], [1, 2])),
    Removed([1, 3]),
    Acked("c", [2], 5),
    Purged(b">", 9),
]


def test_records_come_back_in_order() -> None:
    data = encode_entry(CODEC, RECORDS)
    found = decode_entry(CODEC, data)
    assert [type(record) for record in found] == [type(record) for record in RECORDS]
    assert encode_entry(CODEC, found) == data


def test_an_entry_without_records_is_empty() -> None:
    assert decode_entry(CODEC, encode_entry(CODEC, [])) == []


def test_an_entry_that_is_cut_anywhere_but_between_records_is_refused() -> None:
    data = encode_entry(CODEC, RECORDS)
    whole = {len(encode_entry(CODEC, RECORDS[:count])) for count in range(len(RECORDS) + 1)}
    for size in set(range(len(data))) - whole:
        with pytest.raises(RecordError):
            decode_entry(CODEC, data[:size])


def test_a_record_of_the_set_of_streams_is_no_part_of_a_streams_log() -> None:
    record = CODEC.encode(StreamDeleted("A", "S", bytes(16)))
    with pytest.raises(RecordError, match="set of streams"):
        decode_entry(CODEC, len(record).to_bytes(4, "little") + record)
