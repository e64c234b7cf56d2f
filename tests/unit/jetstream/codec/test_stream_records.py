"""Bodies of a stream's records that no stream wrote."""

import struct
from collections.abc import Callable

import pytest

from headwater.base.errors import ProgrammerError
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.codec.stream_records import (
    LENGTHS_MIN,
    REMOVED_MAX,
    WITH_LENGTHS,
    decode_configured,
    decode_purged,
    decode_removed,
    decode_skipped,
    encode_configured,
    encode_removed,
)
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.records import Configured, Published, Removed
from headwater.store.log.message_log import Batch
from tests.kit.record_values import values_of

RANGE_OF_ALL = struct.pack("<BIQQ", 0, 1, 1, 2**64 - 1)
BAD: dict[str, tuple[Callable[[bytes], object], bytes, str]] = {
    "a subject beyond the end": (decode_skipped, struct.pack("<QqII", 1, 1, 9, 0), "parts"),
    "a header beyond the end": (decode_skipped, struct.pack("<QqII", 1, 1, 0, 2**32 - 1), "parts"),
    "a pattern beyond the end": (decode_purged, struct.pack("<QQqI", 1, 1, 1, 2**31), "parts"),
    "ranges that are not there": (decode_removed, struct.pack("<BI", 0, 2**32 - 1), "parts"),
    "a range backwards": (decode_removed, struct.pack("<BIQQ", 0, 1, 2, 1), "no range"),
    "a range from zero": (decode_removed, struct.pack("<BIQQ", 0, 1, 0, 1), "no range"),
    "a range of all sequences": (decode_removed, RANGE_OF_ALL, "at most"),
    "an unknown flag": (decode_removed, struct.pack("<BI", 4, 0), r"unknown flags \(4\)"),
    "no configuration": (decode_configured, bytes(8), "configuration"),
}


@pytest.mark.parametrize(("decode", "body", "reason"), BAD.values(), ids=BAD)
def test_a_body_that_no_stream_wrote_is_refused(
    decode: Callable[[bytes], object], body: bytes, reason: str
) -> None:
    with pytest.raises(RecordError, match=reason):
        decode(body)


def test_a_configuration_of_a_newer_version_is_refused() -> None:
    body = encode_configured(Configured(StreamConfig(name="S"), 5))
    assert decode_configured(body).config.name == "S"
    with pytest.raises(RecordError, match="configuration of a stream"):
        decode_configured(body[:-1] + b',"invented_later":true}')


def test_the_count_of_messages_is_checked() -> None:
    codec = RecordCodec()
    data = codec.encode(Published(1, Batch([b"S", b"S"], [b"", b""], [b"", b""], [1, 1])))
    assert data[3] == 2
    with pytest.raises(RecordError, match="2 of 3 messages"):
        codec.decode(data[:3] + b"\3" + data[4:])


def test_a_removal_may_be_as_long_as_the_limit_and_no_longer() -> None:
    longest = [*range(1, REMOVED_MAX + 1)]
    assert decode_removed(encode_removed(Removed(longest))).sequences == longest
    with pytest.raises(ProgrammerError, match="a removal fits its record"):
        encode_removed(Removed([*longest, 1]))
    with pytest.raises(RecordError, match="at most"):
        decode_removed(struct.pack("<BIQQ", 0, 1, 1, REMOVED_MAX + 1))


def test_a_long_removal_takes_little_room() -> None:
    assert len(encode_removed(Removed([*range(1, 4001)]))) == 21


# --- messages with their lengths ------------------------------------------------------------------

SEED = 0xC0FFEE
REPLICATED = RecordCodec(SEED, has_replicas=True)
HEADERS = [b"", b"NATS/1.0\r\na: b\r\n\r\n", b""]


def many(count: int = LENGTHS_MIN) -> Published:
    """Messages of different subjects and sizes, some with headers or a time of their own."""
    return Published(
        12,
        Batch(
            [b"S.%d" % (each % 5) for each in range(count)],
            [HEADERS[each % 3] for each in range(count)],
            [b"x" * (each * 7 % 40) for each in range(count)],
            [5 + each for each in range(count)],
            [9 if each % 4 == 1 else 0 for each in range(count)],
        ),
        rolls_up=True,
    )


def alike(count: int = LENGTHS_MIN) -> Published:
    """Messages whose records have one length."""
    return Published(12, Batch([b"S"] * count, [b""] * count, [b"x"] * count, [*range(count)]))


@pytest.mark.parametrize("make", [many, alike])
@pytest.mark.parametrize("codec", [REPLICATED, RecordCodec(SEED)])
def test_messages_with_lengths_come_back_as_they_were(
    codec: RecordCodec, make: Callable[[], Published]
) -> None:
    data = REPLICATED.encode(make())
    assert data[1] == WITH_LENGTHS
    found = codec.decode(data)
    assert isinstance(found, Published)
    assert values_of(found) == values_of(make())
    plain = RecordCodec(SEED).encode(make())
    assert found.encoded is not None
    assert found.encoded.data[found.encoded.begin :] == plain[-sum(found.encoded.lengths) :]


def test_only_many_messages_of_a_replicated_stream_have_lengths() -> None:
    assert REPLICATED.encode(many(LENGTHS_MIN - 1))[1] == 1
    assert REPLICATED.encode(many(LENGTHS_MIN))[1] == WITH_LENGTHS
    assert RecordCodec(SEED).encode(many(1000))[1] == 1


def test_records_of_one_length_name_it_once() -> None:
    plain = len(RecordCodec(SEED).encode(alike(1000)))
    assert len(REPLICATED.encode(alike(1000))) == plain + 12


def test_payloads_stay_in_their_records_until_somebody_asks() -> None:
    found = REPLICATED.decode(REPLICATED.encode(many()))
    assert isinstance(found, Published)
    with pytest.raises(AttributeError):
        object.__getattribute__(found.batch, "payloads")
    assert found.batch.payloads == many().batch.payloads
    assert object.__getattribute__(found.batch, "payloads") is found.batch.payloads
    assert len(found.batch) == LENGTHS_MIN


@pytest.mark.parametrize("make", [many, alike])
def test_any_flipped_bit_of_messages_with_lengths_is_noticed(make: Callable[[], Published]) -> None:
    data = REPLICATED.encode(make())
    for place in range(2, len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises(RecordError):
            REPLICATED.decode(bytes(damaged))


@pytest.mark.parametrize("make", [many, alike])
def test_messages_with_lengths_are_refused_cut_off_and_with_more_behind(
    make: Callable[[], Published],
) -> None:
    data = REPLICATED.encode(make())
    for size in range(len(data)):
        with pytest.raises(RecordError):
            REPLICATED.decode(data[:size])
    with pytest.raises(RecordError):
        REPLICATED.decode(data + b"\0")


def test_messages_with_lengths_of_another_stream_are_refused() -> None:
    with pytest.raises(RecordError, match="checksum"):
        RecordCodec(SEED + 1).decode(REPLICATED.encode(many()))


@pytest.mark.parametrize("count", [0, 1, 15, 17, 2**32 - 1])
def test_a_count_of_messages_that_are_not_there_is_refused(count: int) -> None:
    """Nothing of the size of such a count is made."""
    for record in (many(), alike()):
        data = bytearray(REPLICATED.encode(record))
        data[3:7] = struct.pack("<I", count)
        with pytest.raises(RecordError):
            REPLICATED.decode(bytes(data))


def test_a_removal_of_lost_messages_says_so() -> None:
    body = encode_removed(Removed([5, 6], is_lost=True))
    assert body == struct.pack("<BIQQ", 2, 1, 5, 6)
    found = decode_removed(body)
    assert (found.sequences, found.erase, found.is_lost) == ([5, 6], False, True)
