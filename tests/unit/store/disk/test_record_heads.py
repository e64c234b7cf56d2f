"""The columns of records are those of the records themselves, or an error."""

from array import array

import pytest

from headwater.store.disk.format import (
    ERASED,
    FormatError,
    decode_messages,
    encode_message_with_expiry,
    encode_messages,
    encode_skip,
)
from headwater.store.disk.record_heads import RecordHeads

COUNT = 7
SIZES = [0, 3, 40, 1, 200, 9, 0]


def heads_of(data: bytes, lengths: list[int], begin: int = 0) -> RecordHeads:
    return RecordHeads(data, begin, array("I", lengths))


def records(
    subjects: list[bytes], header: bytes = b"", first: int = 5, sizes: list[int] = SIZES
) -> tuple[bytes, list[int]]:
    count = len(subjects)
    headers = [header if each % 3 == 1 else b"" for each in range(count)]
    payloads = [b"p" * size for size in sizes]
    return encode_messages(first, subjects, headers, payloads, [-each for each in range(count)], 1)


@pytest.mark.parametrize(
    "subjects",
    [
        [b"s.one"] * COUNT,
        [b"s.%d" % each for each in range(COUNT)],
        [b"s" * (each + 1) for each in range(COUNT)],
        [b""] * COUNT,
        [b"long" * 100] * COUNT,
        [b"s.%d" % (each > 5) for each in range(COUNT)],
    ],
    ids=["one", "different", "of different sizes", "empty", "long", "the last is another"],
)
@pytest.mark.parametrize("header", [b"", b"NATS/1.0\r\n\r\n"])
@pytest.mark.parametrize("sizes", [SIZES, [8] * COUNT])
def test_the_columns_are_those_of_the_messages(
    subjects: list[bytes], header: bytes, sizes: list[int]
) -> None:
    data, lengths = records(subjects, header, sizes=sizes)
    found = heads_of(b"before" + data, lengths, 6)
    _, _, names, headers, payloads, timestamps_ns, _ = decode_messages(data, 0, 1)
    assert found.first_sequence == 5
    assert found.subjects == names
    assert found.headers() == headers
    assert found.payloads() == payloads
    assert found.timestamps_ns.tolist() == timestamps_ns
    assert found.expiries_ns() == []
    columns = zip(names, headers, payloads, strict=True)
    sizes = [sum(map(len, each)) + 10 + (4 if each[1] else 0) for each in columns]
    assert found.sizes(10, 4).tolist() == sizes


def test_messages_with_a_time_of_their_own_are_among_the_others() -> None:
    parts = [
        encode_message_with_expiry(5 + each, b"s", b"h" * each, b"p", each, 10**18 - 1, 1)
        if each % 2
        else encode_messages(5 + each, [b"s"], [b""], [b"pp"], [each], 1)[0]
        for each in range(5)
    ]
    found = heads_of(b"".join(parts), [*map(len, parts)])
    assert found.expiring == [1, 3]
    assert found.expiries_ns() == [0, 10**18 - 1, 0, 10**18 - 1, 0]
    assert found.subjects == [b"s"] * 5
    assert found.headers() == [b"", b"h", b"", b"hhh", b""]
    assert found.payloads() == [b"pp", b"p", b"pp", b"p", b"pp"]
    assert found.sizes(0, 0).tolist() == [3, 3, 3, 5, 3]


def test_lengths_that_are_not_those_of_the_records_are_refused() -> None:
    data, lengths = records([b"s"] * COUNT)
    assert heads_of(data, lengths).lengths.tolist() == lengths
    bad = [
        [],
        lengths[:-1],
        [*lengths, 32],
        [lengths[1], lengths[0], *lengths[2:]],
        [lengths[0] + 1, lengths[1] - 1, *lengths[2:]],
        [sum(lengths)],
        [0, lengths[0] + lengths[1], *lengths[2:]],
        [2**32 - 1] * COUNT,
    ]
    for each in bad:
        with pytest.raises(FormatError, match="lengths"):
            heads_of(data, each)


def test_other_sequences_than_the_next_ones_are_refused() -> None:
    one, (length,) = records([b"s"], sizes=[3])
    three, _ = records([b"s"], first=7, sizes=[3])
    with pytest.raises(FormatError, match="other sequences"):
        heads_of(one + three, [length, length])
    with pytest.raises(FormatError, match="other sequences"):
        heads_of(one + one, [length, length])


def test_no_sequence_is_beyond_the_last_one() -> None:
    data, lengths = records([b"s"], first=2**64 - 1, sizes=[3])
    assert heads_of(data, lengths).first_sequence == 2**64 - 1
    wrapped, _ = records([b"s"], first=0, sizes=[3])
    with pytest.raises(FormatError, match="other sequences"):
        heads_of(data + wrapped, lengths * 2)


def test_records_that_are_no_messages_are_refused() -> None:
    one, (length,) = records([b"s"], sizes=[3])
    skipped = encode_skip(6, 3, 1, 1)
    erased = bytearray(records([b"s"], first=6, sizes=[3])[0])
    erased[26] = ERASED
    for other in (skipped, bytes(erased)):
        with pytest.raises(FormatError, match="no message"):
            heads_of(one + other, [length, len(other)])


@pytest.mark.parametrize("place", [24, 25, 28, 29, 31])
@pytest.mark.parametrize("at", [0, 5, 6])
def test_parts_that_end_behind_their_record_are_refused(place: int, at: int) -> None:
    data, lengths = records([b"s"] * COUNT)
    damaged = bytearray(data)
    damaged[sum(lengths[:at]) + place] = 0xFF
    with pytest.raises(FormatError, match="too short"):
        heads_of(bytes(damaged), lengths)


def test_a_record_without_room_for_its_own_time_is_refused() -> None:
    data, lengths = records([b""] * 3, sizes=[0, 0, 0])
    damaged = bytearray(data)
    damaged[26] = 2
    with pytest.raises(FormatError, match="too short"):
        heads_of(bytes(damaged), lengths)
