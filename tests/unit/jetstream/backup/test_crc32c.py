"""CRC-32C: the published values, and the obvious loop for everything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.jetstream.backup.crc32c import crc32c


def obvious(data: bytes) -> int:
    """Bit by bit."""
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_published_values(data: bytes, checksum: int) -> None:
    assert crc32c(data) == checksum


@given(st.binary(max_size=300), st.integers(0, 2000))
def test_any_length_is_what_the_obvious_loop_says(end: bytes, zeros: int) -> None:
    data = bytes(index * 7 % 251 for index in range(zeros)) + end
    assert crc32c(data) == obvious(data)


@pytest.mark.parametrize("size", [511, 512, 513, 64 * 127, 64 * 128, 64 * 129 + 1, 70_000])
def test_lengths_around_the_number_of_lanes(size: int) -> None:
    data = bytes(index * index % 253 for index in range(size))
    assert crc32c(data) == obvious(data)
