"""Messages of a batch as records, read back as a whole or not at all."""

from itertools import accumulate

import pytest

from headwater.store.disk.format import FormatError, encode_skip
from headwater.store.log.batch_records import decode_batch, encode_batch
from headwater.store.log.message_log import Batch

SEED = 0xC0FFEE
BATCH = Batch(
    [b"S.a", b"S.b", b"S.a"],
    [b"", b"NATS/1.0\r\na: b\r\n\r\n", b""],
    [b"payload", b"", b"x" * 200],
    [5, -6, 7],
    [0, 2**62, 0],
)
RECORDS, LENGTHS = encode_batch(2**63, BATCH, SEED)
ENDS = [*accumulate(LENGTHS)]


def test_a_batch_comes_back_as_it_was() -> None:
    batch, encoded = decode_batch(RECORDS, 0, SEED)
    assert (encoded.first_sequence, encoded.lengths) == (2**63, LENGTHS)
    assert batch.subjects == BATCH.subjects
    assert batch.headers == BATCH.headers
    assert batch.payloads == BATCH.payloads
    assert batch.timestamps_ns == BATCH.timestamps_ns
    assert batch.expiries_ns == BATCH.expiries_ns


def test_a_batch_without_expiries_has_no_list_of_them() -> None:
    plain = Batch([b"S.a"], [b""], [b"x"], [5], [0])
    records, _ = encode_batch(1, plain, SEED)
    assert decode_batch(records, 0, SEED)[0].expiries_ns == []


def test_records_may_begin_behind_other_bytes() -> None:
    batch, encoded = decode_batch(b"before" + RECORDS, 6, SEED)
    assert (encoded.first_sequence, encoded.begin) == (2**63, 6)
    assert batch.payloads == BATCH.payloads


def test_records_that_are_cut_off_are_refused() -> None:
    for size in range(len(RECORDS)):
        if size not in ENDS:
            with pytest.raises(FormatError, match="message"):
                decode_batch(RECORDS[:size], 0, SEED)


def test_any_flipped_bit_is_noticed() -> None:
    for place in range(len(RECORDS)):
        damaged = bytearray(RECORDS)
        damaged[place] ^= 0x10
        with pytest.raises(FormatError, match="message"):
            decode_batch(bytes(damaged), 0, SEED)


def test_the_seed_of_another_stream_is_noticed() -> None:
    with pytest.raises(FormatError, match="fails its checksum"):
        decode_batch(RECORDS, 0, SEED + 1)


def test_sequences_follow_each_other() -> None:
    other, _ = encode_batch(2**63, Batch([b"S.a"], [b""], [b""], [8]), SEED)
    with pytest.raises(FormatError, match=f"message {2**63 + 3}"):
        decode_batch(RECORDS + other, 0, SEED)


def test_records_of_other_kinds_are_no_messages() -> None:
    skip = encode_skip(2**63 + 3, 1, 8, SEED)
    with pytest.raises(FormatError, match="a record of kind 4 is no message"):
        decode_batch(RECORDS + skip, 0, SEED)


@pytest.mark.parametrize("size", [0, 31, 4096])
def test_zeros_are_no_message(size: int) -> None:
    with pytest.raises(FormatError, match="message 0"):
        decode_batch(bytes(size), 0, 0)
