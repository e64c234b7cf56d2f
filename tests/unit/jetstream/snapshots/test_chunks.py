"""Chunks are bounded and joined in order; a chunk that is not the next one is refused by name."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.invariants import InvariantViolation
from headwater.jetstream.snapshots import chunks as module
from headwater.jetstream.snapshots.chunks import (
    CHUNK_HEADER_BYTES,
    Block,
    ChunkReader,
    ChunkWriter,
    SnapshotError,
)

BLOCK = st.builds(Block, st.integers(0, 255), st.binary(max_size=50), st.booleans())
CHUNK_BYTES_MAX = 16
FIRST = Block(1, b"the first block is one chunk")
BLOCKS = [FIRST, Block(2, b""), Block(3, b"123456"), Block(4, b"1234567"), Block(5, b"x" * 30)]


def cut(blocks: list[Block], chunk_bytes_max: int = CHUNK_BYTES_MAX) -> list[bytes]:
    writer = ChunkWriter(chunk_bytes_max)
    return [chunk for block in blocks for chunk in writer.cut(block)]


def joined(chunks: list[bytes]) -> list[Block]:
    reader = ChunkReader()
    return [block for block in map(reader.join, chunks) if block is not None]


def test_blocks_come_back_from_chunks_of_bounded_size() -> None:
    chunks = cut(BLOCKS)
    assert joined(chunks) == BLOCKS
    assert [len(chunk) for chunk in chunks[1:]] == [10, 16, 16, 11, *[16] * 5]


@given(st.lists(BLOCK), st.integers(11, 40))
def test_any_blocks_come_back(blocks: list[Block], chunk_bytes_max: int) -> None:
    chunks = cut([FIRST, *blocks], chunk_bytes_max)
    assert joined(chunks) == [FIRST, *blocks]
    assert all(len(chunk) <= chunk_bytes_max for chunk in chunks[1:])


def test_a_chunk_with_a_changed_bit_is_refused() -> None:
    chunk = cut(BLOCKS)[0]
    for at in range(len(chunk)):
        for bit in range(8):
            changed = bytearray(chunk)
            changed[at] ^= 1 << bit
            with pytest.raises(SnapshotError, match="chunk 0 fails its checksum"):
                ChunkReader().join(bytes(changed))


def test_a_body_with_checksums_of_its_own_is_not_covered_and_the_header_is() -> None:
    chunks = cut([FIRST, Block(2, b"x" * 20, has_checksums=True)])
    assert joined(chunks)[1] == Block(2, b"x" * 20, has_checksums=True)
    changed = chunks[1][:CHUNK_HEADER_BYTES] + b"y" + chunks[1][CHUNK_HEADER_BYTES + 1 :]
    assert joined([chunks[0], changed, *chunks[2:]])[1].body == b"y" + b"x" * 19
    for at in range(CHUNK_HEADER_BYTES):
        reader = ChunkReader()
        reader.join(chunks[0])
        wrong = bytearray(chunks[1])
        wrong[at] ^= 1
        with pytest.raises(SnapshotError, match="chunk 1 fails its checksum"):
            reader.join(bytes(wrong))


def test_a_chunk_that_is_cut_off_is_refused_at_every_length() -> None:
    chunk = cut(BLOCKS)[0]
    for size in range(len(chunk)):
        with pytest.raises(SnapshotError):
            ChunkReader().join(chunk[:size])


def test_a_chunk_out_of_order_is_refused() -> None:
    chunks = cut(BLOCKS)
    for second in (chunks[0], chunks[2]):
        reader = ChunkReader()
        reader.join(chunks[0])
        with pytest.raises(SnapshotError, match="chunk"):
            reader.join(second)


def test_a_chunk_of_another_snapshot_is_refused() -> None:
    others = cut([Block(1, b"another"), *BLOCKS[1:]])
    reader = ChunkReader()
    reader.join(cut(BLOCKS)[0])
    with pytest.raises(SnapshotError, match="chunk 1 fails its checksum"):
        reader.join(others[1])


def forged(change: Callable[[ChunkWriter], bytes]) -> bytes:
    writer = ChunkWriter(CHUNK_BYTES_MAX)
    writer.cut(FIRST)
    return change(writer)


@pytest.mark.parametrize("flags", [4, 7, 255])
def test_unknown_flags_are_refused(flags: int) -> None:
    reader = ChunkReader()
    reader.join(cut(BLOCKS)[0])
    with pytest.raises(SnapshotError, match="unknown flags"):
        reader.join(forged(lambda writer: writer._chunk(2, flags, b"")))


def test_a_first_chunk_that_goes_on_is_refused() -> None:
    with pytest.raises(SnapshotError, match="unknown flags"):
        ChunkReader().join(ChunkWriter(CHUNK_BYTES_MAX)._chunk(1, 1, b""))


def test_a_block_that_goes_on_as_another_kind_is_refused() -> None:
    writer, reader = ChunkWriter(CHUNK_BYTES_MAX), ChunkReader()
    reader.join(*writer.cut(FIRST))
    reader.join(writer._chunk(2, 1, b"a"))
    with pytest.raises(SnapshotError, match="does not go on"):
        reader.join(writer._chunk(3, 0, b"b"))


def test_a_block_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES_MAX", 30)
    assert joined(cut([FIRST, Block(2, b"x" * 30)]))[1].body == b"x" * 30
    with pytest.raises(InvariantViolation):
        cut([Block(2, b"x" * 31)])
    writer, reader = ChunkWriter(100), ChunkReader()
    reader.join(*writer.cut(FIRST))
    reader.join(writer._chunk(2, 1, b"x" * 30))
    with pytest.raises(SnapshotError, match="more than 30 bytes"):
        reader.join(writer._chunk(2, 0, b"x"))


def test_a_chunk_has_room_for_more_than_its_header() -> None:
    with pytest.raises(InvariantViolation):
        ChunkWriter(CHUNK_HEADER_BYTES)
