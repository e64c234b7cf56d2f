"""Written records can be read back, and changed ones are refused.

Every kind of bytes on disk is taken three ways: as it is, with each single bit flipped, and torn at
every byte.
"""

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.checksums import crc32
from headwater.store.disk.format import (
    ERASED,
    FOOTER,
    HEADER_BYTES,
    JOURNAL_MAGIC,
    MESSAGE,
    MESSAGE_WITH_EXPIRY,
    RECORD_BYTES,
    SEGMENT_MAGIC,
    SEGMENT_VERSION,
    SKIP,
    TRAILER_BYTES,
    VERSION,
    FileHeader,
    FormatError,
    NewerFormatError,
    Record,
    StreamFile,
    check_record,
    decode_entry,
    decode_records,
    encode_entry,
    encode_erased,
    encode_footer,
    encode_message_with_expiry,
    encode_messages,
    encode_skip,
    following_record,
    footer_offset,
    is_beginning,
    record_length,
)
from tests.kit.format_versions import with_version

IDENTITY = bytes(range(16))
SALT = bytes(range(100, 116))

subjects = st.binary(min_size=1, max_size=20)
headers = st.binary(max_size=20)
payloads = st.binary(max_size=60)
times = st.integers(-(2**63), 2**63 - 1)
sequences = st.integers(1, 2**64 - 100)


def message(sequence: int = 7, payload: bytes = b"payload") -> bytes:
    return encode_messages(sequence, [b"orders.new"], [b"NATS/1.0\r\n\r\n"], [payload], [123])[0]


def flipped(data: bytes) -> Iterator[bytes]:
    """The data with one bit flipped, for each bit in turn."""
    for position in range(len(data)):
        for bit in range(8):
            yield data[:position] + bytes([data[position] ^ 1 << bit]) + data[position + 1 :]


def read_record(data: bytes, offset: int = 0) -> Record | None:
    length = record_length(data, offset)
    return Record(data, offset, length) if check_record(data, offset, length) else None


def take_record(
    data: bytes, offset: int = 0, sequence: int | None = None
) -> tuple[int, bytes, bytes] | None:
    """The one message at `offset`, of the sequence it says it has if none is named."""
    if sequence is None:
        sequence = int.from_bytes(data[offset + 8 : offset + 16], "little")
    times_ns, headers, payloads = decode_records(data, [offset], [sequence], 1000)
    return (times_ns[0], headers[0], payloads[0]) if payloads else None


def values(record: Record) -> tuple[object, ...]:
    return tuple(getattr(record, name) for name in Record.__slots__)


RECORDS = {
    "message": message(),
    "empty message": encode_messages(1, [b"a"], [b""], [b""], [0])[0],
    "message with expiry": encode_message_with_expiry(7, b"a.b", b"h", b"payload", 5, 99),
    "skip": encode_skip(7, 3, 5),
    "erased": encode_erased(7, 5, 48),
    "footer": encode_footer(7, b"the index of a segment", 64)[:-TRAILER_BYTES],
}
kinds = pytest.mark.parametrize("data", RECORDS.values(), ids=RECORDS.keys())


# --- records --------------------------------------------------------------------------------------


@given(sequences, st.lists(st.tuples(subjects, headers, payloads, times), min_size=1, max_size=5))
def test_a_message_has_equal_bytes_alone_and_among_others(
    first: int, messages: list[tuple[bytes, bytes, bytes, int]]
) -> None:
    columns: Any = [[*column] for column in zip(*messages, strict=True)]
    subjects_of, headers_of, payloads_of, times_of = columns
    together, lengths = encode_messages(
        first, subjects_of, headers_of, payloads_of, times_of, seed=5, before=b"before"
    )
    alone = [
        encode_messages(first + number, [subject], [header], [payload], [time_ns], seed=5)
        for number, (subject, header, payload, time_ns) in enumerate(messages)
    ]
    assert together == b"before" + b"".join(data for data, _ in alone)
    assert lengths == [length for _, (length,) in alone]
    data, _ = alone[0]
    subject, header, payload, time_ns = messages[0]
    one = encode_messages(first, [subject], [header], [payload], [time_ns], 5, b"before")
    assert one == (b"before" + data, [len(data)])


@given(sequences, st.lists(st.tuples(subjects, headers, payloads, times), min_size=1, max_size=5))
def test_messages_come_back_as_they_went(
    first: int, messages: list[tuple[bytes, bytes, bytes, int]]
) -> None:
    data, lengths = encode_messages(
        first,
        [message[0] for message in messages],
        [message[1] for message in messages],
        [message[2] for message in messages],
        [message[3] for message in messages],
    )
    assert sum(lengths) == len(data)
    offset = 0
    for number, (subject, header, payload, time_ns) in enumerate(messages):
        record = read_record(data, offset)
        assert record is not None
        assert (record.sequence, record.timestamp_ns) == (first + number, time_ns)
        assert (record.subject, record.header, record.payload) == (subject, header, payload)
        assert (record.kind, record.expiry_ns) == (MESSAGE, 0)
        assert record.length == lengths[number]
        assert take_record(data, offset, first + number) == (time_ns, header, payload)
        offset += record.length


@given(sequences, subjects, headers, payloads, times, times)
def test_a_message_with_expiry_comes_back(
    sequence: int, subject: bytes, header: bytes, payload: bytes, time_ns: int, expiry_ns: int
) -> None:
    data = encode_message_with_expiry(sequence, subject, header, payload, time_ns, expiry_ns)
    record = read_record(data)
    assert record is not None
    assert record.kind == MESSAGE_WITH_EXPIRY
    assert (record.sequence, record.timestamp_ns) == (sequence, time_ns)
    assert (record.subject, record.header, record.payload) == (subject, header, payload)
    assert record.expiry_ns == expiry_ns
    assert take_record(data, 0, sequence) == (time_ns, header, payload)


@given(sequences, st.integers(1, 2**64 - 1))
def test_skipped_sequences_come_back(sequence: int, count: int) -> None:
    record = read_record(encode_skip(sequence, count, 5))
    assert record is not None
    assert (record.kind, record.sequence, record.sequence_count) == (SKIP, sequence, count)


def test_an_erased_record_is_as_long_as_the_message_and_holds_nothing_of_it() -> None:
    before = message(payload=b"secret")
    after = encode_erased(7, 123, len(before))
    record = read_record(after)
    assert record is not None
    assert len(after) == len(before)
    assert (record.kind, record.sequence) == (ERASED, 7)
    assert b"secret" not in after
    assert b"orders" not in after


def test_an_erased_record_can_be_as_short_as_a_record_can_be() -> None:
    assert read_record(encode_erased(7, 5, RECORD_BYTES)) is not None


def test_a_footer_is_found_by_the_trailer_behind_it() -> None:
    data = bytes(HEADER_BYTES) + message()
    data += encode_footer(7, b"index", len(data))
    offset = footer_offset(data[-TRAILER_BYTES:])
    record = read_record(data, offset)
    assert record is not None
    assert (record.kind, record.sequence, record.payload) == (FOOTER, 7, b"index")


@pytest.mark.parametrize("size", [0, 7, 9])
def test_a_trailer_has_its_size(size: int) -> None:
    assert footer_offset(encode_footer(7, b"index", 64)[-size:] if size else b"") == 0


@kinds
def test_a_record_with_any_bit_flipped_is_refused(data: bytes) -> None:
    for damaged in flipped(data):
        assert read_record(damaged) is None
        assert take_record(damaged, 0) is None


@kinds
def test_a_record_torn_at_any_byte_is_refused(data: bytes) -> None:
    for size in range(len(data)):
        assert read_record(data[:size]) is None
        assert take_record(data[:size], 0) is None


@kinds
def test_what_follows_a_record_is_no_part_of_it(data: bytes) -> None:
    alone, followed = read_record(data), read_record(data + b"more")
    assert alone is not None
    assert followed is not None
    assert values(alone) == values(followed)


@kinds
def test_only_messages_are_taken_as_messages(data: bytes) -> None:
    record = read_record(data)
    assert record is not None
    is_message = record.kind in (MESSAGE, MESSAGE_WITH_EXPIRY)
    assert (take_record(data, 0) is not None) == is_message


def test_a_message_of_another_sequence_is_not_taken() -> None:
    assert take_record(message(7), 0, 7) is not None
    assert take_record(message(7), 0, 8) is None


@given(
    st.lists(st.tuples(headers, payloads, st.booleans()), min_size=1, max_size=8),
    st.integers(0, 2000),
    st.integers(0, 2000),
    st.integers(0, 600),
)
def test_many_messages_are_taken_as_they_are_one_by_one(
    messages: list[tuple[bytes, bytes, bool]], flipped_at: int, cut_at: int, bytes_max: int
) -> None:
    parts = [
        encode_message_with_expiry(number, b"a", header, payload, number, 99, seed=5)
        if has_expiry
        else encode_messages(number, [b"a"], [header], [payload], [number], seed=5)[0]
        for number, (header, payload, has_expiry) in enumerate(messages, 1)
    ]
    offsets = [*accumulate(map(len, parts[:-1]), initial=0)]
    data = b"".join(parts)
    if flipped_at < len(data):
        data = data[:flipped_at] + bytes([data[flipped_at] ^ 1]) + data[flipped_at + 1 :]
    data = data[: max(cut_at, len(parts[0]))]

    expected, left = [], bytes_max
    for offset in offsets:
        length = record_length(data, offset)
        if left < 0 or not length or not check_record(data, offset, length, seed=5):
            break
        record = Record(data, offset, length)
        left -= len(record.header) + len(record.payload)
        expected.append((record.timestamp_ns, record.header, record.payload))
    sequences = range(1, len(messages) + 1)
    assert [*zip(*decode_records(data, offsets, sequences, bytes_max, 5), strict=True)] == expected


@pytest.mark.parametrize("size", [8, 31, 32, 33, 100, 4096])
def test_zeros_are_no_record(size: int) -> None:
    # Length and checksum of nothing are both zero.
    assert read_record(bytes(size)) is None
    assert take_record(bytes(size), 0) is None
    assert decode_entry(bytes(size), 0) is None


def test_a_record_whose_length_and_checksum_were_zeroed_is_refused() -> None:
    damaged = bytes(8) + message()[8:]
    assert read_record(damaged) is None
    assert take_record(damaged, 0) is None


@given(st.binary(max_size=200), st.integers(0, 64))
def test_noise_is_no_record(data: bytes, offset: int) -> None:
    assert read_record(data, offset) is None
    assert take_record(data, offset) is None
    assert decode_entry(data, offset) is None


@kinds
def test_sizes_that_do_not_fit_the_record_are_refused(data: bytes) -> None:
    # No field may point outside, even if the checksum is right.
    body = bytearray(data[8:])
    body[20:24] = (len(data)).to_bytes(4, "little")
    crc = crc32(bytes(body), len(data)).to_bytes(4, "little")
    assert read_record(data[:4] + crc + body) is None


# --- unfinished records ---------------------------------------------------------------------------


@kinds
def test_a_record_cut_short_is_the_beginning_of_one(data: bytes) -> None:
    next_sequence = 8 if data == RECORDS["footer"] else int.from_bytes(data[8:16], "little")
    for size in range(len(data)):
        assert is_beginning(b"before" + data[:size], 6, next_sequence), size


@kinds
def test_a_whole_record_that_was_damaged_is_not_the_beginning_of_one(data: bytes) -> None:
    next_sequence = 8 if data == RECORDS["footer"] else int.from_bytes(data[8:16], "little")
    for damaged in flipped(data):
        assert not is_beginning(damaged, 0, next_sequence)


def test_zeros_are_not_the_beginning_of_a_record() -> None:
    assert not is_beginning(bytes(100), 0, 1)


# --- the next sound record after damage -----------------------------------------------------------


def test_the_record_after_a_damaged_one_is_found_whichever_bit_is_flipped() -> None:
    damaged, sound = message(7), message(8)
    for before in flipped(damaged):
        assert following_record(before + sound + message(9), 0, 7) == len(damaged)


def test_a_record_is_found_behind_zeros_noise_and_torn_records() -> None:
    sound = message(900)
    for before in (bytes(5000), bytes(range(1, 256)) * 20, message(7)[:-1], b"x"):
        assert following_record(before + sound, 0, 7) == len(before)


def test_records_of_earlier_sequences_are_passed_over() -> None:
    data = b"?" + message(3) + message(8)
    assert following_record(data, 0, 7) == 1 + len(message(3))


def test_there_may_be_no_further_record() -> None:
    assert following_record(message(7)[:-1], 0, 7) == 0
    assert following_record(bytes(1000), 0, 7) == 0
    assert following_record(next(flipped(message(7))), 0, 7) == 0


def test_a_record_inside_the_payload_of_a_damaged_one_is_not_taken_for_one() -> None:
    # A client that publishes the bytes of a record must not be able to put a message into the log.
    outer = message(7, payload=b"begin " + message(8, b"planted") + b" end")
    damaged = outer[:-1] + b"!"
    sound = message(8, b"real")
    assert following_record(damaged + sound, 0, 7) == len(damaged)
    assert following_record(damaged, 0, 7) == 0
    assert following_record(damaged + damaged + sound, 0, 7) == 2 * len(damaged)


# --- journal entries ------------------------------------------------------------------------------


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**16 - 1), st.binary(max_size=50))
def test_entries_come_back(position: int, kind: int, body: bytes) -> None:
    data = encode_entry(position, kind, body)
    entry = decode_entry(b"before" + data + b"behind", 6)
    assert entry is not None
    assert (entry.position, entry.kind, entry.body) == (position, kind, body)
    assert entry.length == len(data)


def test_a_damaged_entry_is_refused() -> None:
    data = encode_entry(7, 300, b"body")
    assert all(decode_entry(damaged, 0) is None for damaged in flipped(data))
    assert all(decode_entry(data[:size], 0) is None for size in range(len(data)))


# --- headers and the stream file ------------------------------------------------------------------

HEADER = FileHeader(SEGMENT_MAGIC, IDENTITY, 2**40 + 5, SALT).encode()
STREAM = StreamFile(IDENTITY, 2**40 + 5, b"the caller's own").encode()

Decoder = Callable[[bytes], object]
decoders: list[tuple[bytes, Decoder]] = [
    (HEADER, lambda data: FileHeader.decode(data, SEGMENT_MAGIC, "file")),
    (STREAM, lambda data: StreamFile.decode(data, "file")),
]
files = pytest.mark.parametrize(("data", "decode"), decoders, ids=["header", "stream file"])


def test_a_header_comes_back() -> None:
    header = FileHeader.decode(HEADER + b"behind", SEGMENT_MAGIC, "file")
    assert len(HEADER) == HEADER_BYTES
    assert (header.magic, header.identity) == (SEGMENT_MAGIC, IDENTITY)
    assert (header.first_sequence, header.salt) == (2**40 + 5, SALT)


def test_a_stream_file_comes_back() -> None:
    stream = StreamFile.decode(STREAM, "file")
    assert (stream.identity, stream.reserved, stream.body) == (
        IDENTITY,
        2**40 + 5,
        b"the caller's own",
    )


@files
def test_a_file_with_any_bit_flipped_is_refused_by_name(data: bytes, decode: Decoder) -> None:
    for damaged in flipped(data):
        with pytest.raises(FormatError, match=r"^file: "):
            decode(damaged)


@files
def test_a_file_torn_at_any_byte_is_refused_by_name(data: bytes, decode: Decoder) -> None:
    for size in range(len(data)):
        with pytest.raises(FormatError, match=r"^file: "):
            decode(data[:size])


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(FormatError, match="not a HWJOURNL file"):
        FileHeader.decode(HEADER, JOURNAL_MAGIC, "file")


def test_a_newer_version_is_told_apart_from_damage() -> None:
    with pytest.raises(NewerFormatError, match=r"version 3 is newer .* use a newer Headwater"):
        FileHeader.decode(with_version(HEADER, SEGMENT_VERSION + 1, 60), SEGMENT_MAGIC, "file")
    with pytest.raises(NewerFormatError, match=r"version 2 is newer .* use a newer Headwater"):
        StreamFile.decode(with_version(STREAM, VERSION + 1, 44), "file")
