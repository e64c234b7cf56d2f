"""Any record comes back from its bytes, and any other bytes are refused by one error."""

import tracemalloc
from contextlib import suppress
from copy import deepcopy
from typing import Final
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.record_codec import VERSION, AnyRecord, RecordCodec
from headwater.jetstream.codec.stream_records import PUBLISHED, WITH_LENGTHS, encode_published
from headwater.jetstream.records import Published
from headwater.store.disk.format import decode_messages, reseeded
from tests.kit.record_values import EXAMPLES, PUBLISHES, RECORDS, values_of

SEED: Final = 0xC0FFEE
CODEC: Final = RecordCodec(SEED)
_WITH_LENGTHS: Final = bytes((PUBLISHED, WITH_LENGTHS))


def with_lengths(record: Published) -> bytes:
    """The bytes that a record of many messages has for replicas."""
    return encode_published(_WITH_LENGTHS, deepcopy(record), SEED, with_lengths=True).data


ENCODED: Final = [
    *(with_lengths(record) for record in EXAMPLES if isinstance(record, Published)),
    *(CODEC.encode(record) for record in EXAMPLES),
]
KINDS: Final = sorted({data[0] for data in ENCODED})

# A removal of as many messages as fit a record, and the lists of a few values.
_LENGTHS_AT: Final = 11
MEMORY_BYTES_MAX: Final = 16 * 1024 * 1024


def is_refused_or_a_record(data: bytes) -> bool:
    """Whether bytes raise the codec's own error, or are a record that comes back as it was."""
    try:
        found = CODEC.decode(data)
    except RecordError:
        return True
    return values_of(CODEC.decode(CODEC.encode(found))) == values_of(found)


@settings(max_examples=600)
@given(RECORDS)
def test_a_record_comes_back_as_it_was(record: AnyRecord) -> None:
    data = CODEC.encode(record)
    found = CODEC.decode(data)
    assert values_of(found) == values_of(record)
    assert CODEC.encode(found) == data


@settings(max_examples=150)
@given(PUBLISHES)
def test_messages_with_lengths_come_back_as_they_were(record: Published) -> None:
    assert values_of(CODEC.decode(with_lengths(record))) == values_of(record)


def with_right_checksum(data: bytes) -> bytes:
    """A record with lengths whose checksum is that of its bytes, as of a leader with a defect."""
    sum_at = _LENGTHS_AT + 4 * int.from_bytes(data[_LENGTHS_AT - 4 : _LENGTHS_AT], "little")
    head, rest = data[:sum_at], data[sum_at + 4 :]
    return head + crc32(rest, crc32(head, SEED)).to_bytes(4, "little") + rest


def is_refused_or_read_right(data: bytes) -> bool:
    """Whether a record with lengths is refused, or has the messages that its records have if they
    are read one after the other."""
    try:
        found = CODEC.decode(data)
    except RecordError:
        return True
    assert isinstance(found, Published)
    encoded, batch = found.encoded, found.batch
    assert encoded is not None
    at, parts = encoded.begin, []
    for length in encoded.lengths:
        parts.append(reseeded(data, at, length, SEED))
        at += length
    first, lengths, *columns = decode_messages(b"".join(parts), 0, SEED)
    names = ("subjects", "headers", "payloads", "timestamps_ns", "expiries_ns")
    assert [[*getattr(batch, name)] for name in names] == columns
    assert ([*encoded.lengths], found.first_sequence) == (lengths, first)
    return at == len(data)


@settings(max_examples=250)
@given(PUBLISHES, st.data())
def test_lengths_that_contradict_the_records_never_make_a_wrong_index(
    record: Published, data: st.DataObject
) -> None:
    damaged = bytearray(with_lengths(record))
    for _ in range(data.draw(st.integers(1, 3))):
        # Mostly in the lengths and the head of the first record.
        end = data.draw(st.sampled_from([len(damaged), min(len(damaged), _LENGTHS_AT + 60)]))
        place = data.draw(st.integers(2, end - 1))
        damaged[place] = data.draw(
            st.one_of(st.sampled_from([0, 1, 2, 32, 33]), st.integers(0, 255))
        )
    assert is_refused_or_read_right(with_right_checksum(bytes(damaged)))


@settings(max_examples=500)
@given(st.sampled_from(KINDS), st.binary(max_size=80))
def test_any_bytes_for_a_body_do_no_harm(kind: int, body: bytes) -> None:
    assert is_refused_or_a_record(bytes([kind, VERSION]) + body)


@settings(max_examples=300)
@given(st.binary(max_size=80))
def test_any_bytes_do_no_harm(data: bytes) -> None:
    assert is_refused_or_a_record(data)


@settings(max_examples=1000)
@given(st.data())
def test_flipped_bits_do_no_harm(data: st.DataObject) -> None:
    damaged = bytearray(data.draw(st.sampled_from(ENCODED)))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place] ^= data.draw(st.integers(1, 255))
    assert is_refused_or_a_record(bytes(damaged))


@settings(max_examples=300)
@given(st.data())
def test_exchanged_parts_do_no_harm(data: st.DataObject) -> None:
    first, second = data.draw(st.sampled_from(ENCODED)), data.draw(st.sampled_from(ENCODED))
    cut = data.draw(st.integers(0, len(first)))
    assert is_refused_or_a_record(first[:cut] + second[data.draw(st.integers(0, len(second))) :])


@pytest.mark.parametrize("data", ENCODED, ids=[str(data[0]) for data in ENCODED])
def test_no_bytes_take_much_memory(data: bytes) -> None:
    """A size or count that is larger than the record allocates nothing."""
    for place in range(2, min(len(data), 80)):
        for damage in (b"\xff\xff\xff\x7f", b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"):
            damaged = data[:place] + damage + data[place + len(damage) :]
            tracemalloc.start()
            with suppress(RecordError):
                CODEC.decode(damaged)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < MEMORY_BYTES_MAX
