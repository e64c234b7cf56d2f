"""Compression of blocks: they come back as they were, and forged ones cannot take much memory."""

import tracemalloc

import lz4.block  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.errors import OperatingError
from headwater.store.disk.compression import (
    EXPANSION_MAX,
    RAW_BYTES_MAX,
    Compression,
    DamagedBlockError,
    compress,
    decompress,
)
from headwater.testing.entropy import labelled_rng

# Short stretches, repeated: some of these shrink and some do not.
blocks = st.builds(lambda part, count: part * count, st.binary(max_size=40), st.integers(0, 200))

MESSAGES = b"".join(b'{"order": %d, "state": "paid", "currency": "EUR"}' % n for n in range(1000))
NOISE = labelled_rng(1, "noise").randbytes(4096)


def test_the_numbers_in_block_headers_never_change() -> None:
    assert [(kind.name, kind.value) for kind in Compression] == [("NONE", 0), ("LZ4", 1)]


@given(blocks)
def test_a_block_comes_back_as_it_was(block: bytes) -> None:
    kind, stored = compress(block)
    assert decompress(kind, stored, len(block)) == block


@given(blocks)
def test_a_block_never_grows(block: bytes) -> None:
    kind, stored = compress(block)
    assert len(stored) < len(block) if kind is Compression.LZ4 else stored is block


def test_messages_shrink() -> None:
    kind, stored = compress(MESSAGES)
    assert kind is Compression.LZ4
    assert len(stored) < len(MESSAGES) / 3


@pytest.mark.parametrize(
    "block", [b"", b"x", b"short text", NOISE], ids=["empty", "byte", "text", "noise"]
)
def test_what_does_not_shrink_is_kept_plain(block: bytes) -> None:
    assert compress(block) == (Compression.NONE, block)
    assert decompress(Compression.NONE, block, len(block)) is block


def test_a_block_that_is_all_one_byte_stays_within_the_expansion_we_accept() -> None:
    block = bytes(1024 * 1024)
    kind, stored = compress(block)
    assert len(block) / EXPANSION_MAX < len(stored) < len(block) / (EXPANSION_MAX - 2)
    assert decompress(kind, stored, len(block)) == block


def test_the_largest_block_that_is_packed_comes_back_and_a_larger_one_is_kept_plain() -> None:
    largest = bytes(RAW_BYTES_MAX)
    kind, stored = compress(largest)
    assert kind is Compression.LZ4
    assert decompress(kind, stored, RAW_BYTES_MAX) == largest

    larger = bytes(RAW_BYTES_MAX + 1)
    assert compress(larger)[0] is Compression.NONE
    assert decompress(Compression.NONE, larger, len(larger)) is larger


# --- damage -------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [-1, 0, 1, len(MESSAGES) - 1, len(MESSAGES) + 1])
def test_a_header_with_another_size_is_refused(wrong: int) -> None:
    kind, stored = compress(MESSAGES)
    with pytest.raises(DamagedBlockError):
        decompress(kind, stored, wrong)
    with pytest.raises(DamagedBlockError):
        decompress(Compression.NONE, MESSAGES, wrong)


def test_a_packed_block_that_claims_more_than_any_block_is_refused() -> None:
    stored: bytes = lz4.block.compress(bytes(RAW_BYTES_MAX + 1), store_size=False)
    with pytest.raises(DamagedBlockError, match="67108864 at most"):
        decompress(Compression.LZ4, stored, RAW_BYTES_MAX + 1)


def test_a_bomb_is_refused_at_the_size_its_header_claims() -> None:
    bomb: bytes = lz4.block.compress(bytes(RAW_BYTES_MAX), store_size=False)
    for claimed in (len(bomb) + 1, 1024 * 1024, RAW_BYTES_MAX - 1):
        with pytest.raises(DamagedBlockError, match="cannot be unpacked"):
            decompress(Compression.LZ4, bomb, claimed)


def test_a_few_bytes_that_claim_many_are_refused_before_memory_is_taken() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DamagedBlockError, match="16 packed bytes cannot stand for 67108864"):
            decompress(Compression.LZ4, bytes(16), RAW_BYTES_MAX)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1024 * 1024


def test_the_most_that_few_bytes_can_stand_for_has_a_limit() -> None:
    with pytest.raises(DamagedBlockError, match="cannot stand for"):
        decompress(Compression.LZ4, bytes(16), 16 * EXPANSION_MAX + 1)


def test_a_packed_block_that_did_not_shrink_was_not_written_by_us() -> None:
    stored: bytes = lz4.block.compress(NOISE, store_size=False)
    with pytest.raises(DamagedBlockError, match="cannot stand for"):
        decompress(Compression.LZ4, stored, len(NOISE))


@pytest.mark.parametrize("kind", [-1, 2, 255])
def test_an_unknown_compression_is_refused_by_its_number(kind: int) -> None:
    with pytest.raises(
        DamagedBlockError, match=rf"number {kind} is not known.*0 \(NONE\), 1 \(LZ4"
    ):
        decompress(kind, b"abc", 3)


def test_a_packed_block_cut_at_any_byte_is_refused() -> None:
    block = MESSAGES[:2000]
    kind, stored = compress(block)
    for size in range(len(stored)):
        with pytest.raises(DamagedBlockError):
            decompress(kind, stored[:size], len(block))


def test_damage_is_an_operating_error() -> None:
    assert issubclass(DamagedBlockError, OperatingError)


@given(
    kind=st.integers(0, 3),
    stored=st.binary(max_size=300),
    raw_size=st.one_of(st.integers(-10, 2000), st.integers(-(2**63), 2**64)),
)
def test_any_bytes_give_a_block_of_the_claimed_size_or_the_typed_error(
    kind: int, stored: bytes, raw_size: int
) -> None:
    try:
        block = decompress(kind, stored, raw_size)
    except DamagedBlockError:
        return
    assert len(block) == raw_size


@given(block=blocks, at=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_flipped_bit_gives_a_block_of_the_same_size_or_the_typed_error(
    block: bytes, at: int, bit: int
) -> None:
    kind, stored = compress(block)
    if not stored:
        return
    flipped = bytearray(stored)
    flipped[at % len(stored)] ^= 1 << bit
    try:
        assert len(decompress(kind, bytes(flipped), len(block))) == len(block)
    except DamagedBlockError:
        pass
