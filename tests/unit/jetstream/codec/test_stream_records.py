"""Bodies of a stream's records that no stream wrote."""

import struct
from collections.abc import Callable

import pytest

from headwater.base.errors import ProgrammerError
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.codec.stream_records import (
    REMOVED_MAX,
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


# --- messages under one checksum ------------------------------------------------------------------

SUMMED = RecordCodec(0xC0FFEE, sums_messages=True)


def summed() -> bytes:
    headers = [b"", b"NATS/1.0\r\na: b\r\n\r\n", b""]
    batch = Batch([b"S.a", b"S.b", b"S.a"], headers, [b"x", b"", b"y" * 40], [5, 6, 7], [0, 9, 0])
    return SUMMED.encode(Published(12, batch, rolls_up=True))


@pytest.mark.parametrize("codec", [SUMMED, RecordCodec(0xC0FFEE)])
def test_messages_under_one_checksum_come_back_as_they_were(codec: RecordCodec) -> None:
    found = codec.decode(summed())
    assert isinstance(found, Published)
    assert (found.first_sequence, found.rolls_up) == (12, True)
    assert found.batch.payloads == [b"x", b"", b"y" * 40]
    assert found.batch.expiries_ns == [0, 9, 0]
    plain = RecordCodec(0xC0FFEE).encode(Published(12, found.batch, rolls_up=True))
    assert found.encoded is not None
    assert summed()[found.encoded.begin :] == plain[-sum(found.encoded.lengths) :]


def test_any_flipped_bit_of_summed_messages_is_noticed() -> None:
    data = summed()
    for place in range(2, len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 4
        with pytest.raises(RecordError):
            SUMMED.decode(bytes(damaged))


def test_summed_messages_that_are_cut_off_are_refused() -> None:
    data = summed()
    for size in range(len(data)):
        with pytest.raises(RecordError):
            SUMMED.decode(data[:size])


def test_summed_messages_of_another_stream_are_refused() -> None:
    with pytest.raises(RecordError, match="checksum"):
        RecordCodec(0xC0FFEF).decode(summed())


def test_a_removal_of_lost_messages_says_so() -> None:
    body = encode_removed(Removed([5, 6], is_lost=True))
    assert body == struct.pack("<BIQQ", 2, 1, 5, 6)
    found = decode_removed(body)
    assert (found.sequences, found.erase, found.is_lost) == ([5, 6], False, True)
