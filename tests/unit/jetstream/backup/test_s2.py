"""S2 frames: every kind of element, every way to cut them, and bytes that are no frames."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.jetstream.backup.crc32c import crc32c
from headwater.jetstream.backup.errors import BackupError
from headwater.jetstream.backup.s2 import BEGINNING, UNPACKED_BYTES_MAX, S2Reader, plain_frame

SNAPPY = b"\xff\x06\x00\x00sNaPpY"


def unpacked(data: bytes, size: int = 1 << 20) -> bytes:
    """All that is in frames, fed in pieces."""
    reader = S2Reader()
    found = b""
    for begin in range(0, len(data), size):
        reader.feed(data[begin : begin + size])
        while (piece := reader.read()) is not None:
            found += piece
    assert reader.is_between_frames
    return found


def read_all(reader: S2Reader) -> None:
    while reader.read() is not None:
        pass


def masked(data: bytes) -> bytes:
    checksum = crc32c(data)
    turned = (checksum >> 15 | checksum << 17) & 0xFFFFFFFF
    return ((turned + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def frame(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + len(body).to_bytes(3, "little") + body


def block(meaning: bytes, elements: bytes) -> bytes:
    """A stream of one compressed frame that should unpack to `meaning`."""
    size, digits = len(meaning), b""
    while size >= 0x80:
        digits += bytes([size & 0x7F | 0x80])
        size >>= 7
    return BEGINNING + frame(0, masked(meaning) + digits + bytes([size]) + elements)


def near(distance: int, length: int) -> bytes:
    """A copy of 4 to 11 bytes."""
    return bytes([distance >> 8 << 5 | (length - 4) << 2 | 1, distance & 0xFF])


def repeat(length: int) -> bytes:
    """A copy from as far back as the one before."""
    more = length - 4
    if more < 5:
        return bytes([more << 2 | 1, 0])
    for code, base, size in ((5, 4, 1), (6, 1 << 8, 2), (7, 1 << 16, 3)):
        if more - base < 1 << 8 * size:
            return bytes([code << 2 | 1, 0]) + (more - base).to_bytes(size, "little")
    raise AssertionError(length)


@pytest.mark.parametrize(
    ("meaning", "elements"),
    [
        pytest.param(b"", b"", id="nothing"),
        pytest.param(b"abc", b"\x08abc", id="literal, size in the tag"),
        pytest.param(b"x" * 60, b"\xec" + b"x" * 60, id="the longest of those"),
        pytest.param(b"x" * 61, b"\xf0\x3c" + b"x" * 61, id="literal, size in one byte"),
        pytest.param(b"x" * 300, b"\xf4\x2b\x01" + b"x" * 300, id="in two"),
        pytest.param(b"x" * 300, b"\xf8\x2b\x01\0" + b"x" * 300, id="in three"),
        pytest.param(b"x" * 300, b"\xfc\x2b\x01\0\0" + b"x" * 300, id="in four"),
        pytest.param(b"abcdabcd", b"\x0cabcd" + near(4, 4), id="copy, near"),
        pytest.param(b"abcdabc", b"\x0cabcd\x0a\x04\x00", id="copy, two bytes of distance"),
        pytest.param(b"abcdab", b"\x0cabcd\x07\x04\x00\x00\x00", id="copy, four bytes"),
        pytest.param(b"ab" * 5, b"\x04ab" + near(2, 8), id="copy of what it copies itself"),
        pytest.param(b"abcdabcdbcda", b"\x0cabcd" + near(4, 4) + near(7, 4), id="two copies"),
        pytest.param(b"ab" * 5, b"\x04ab" + near(2, 4) + repeat(4), id="repeat"),
        pytest.param(b"ab" * 7, b"\x04ab" + near(2, 4) + repeat(8), id="the longest of those"),
        pytest.param(b"ab" * 50, b"\x04ab" + near(2, 4) + repeat(94), id="repeat, one byte more"),
        pytest.param(b"a" * 400, b"\x00a" + near(1, 4) + repeat(395), id="repeat, two bytes more"),
        pytest.param(b"a" * 70_000, b"\x00a" + near(1, 4) + repeat(69_995), id="repeat, three"),
    ],
)
def test_elements(meaning: bytes, elements: bytes) -> None:
    data = block(meaning, elements)
    assert unpacked(data) == meaning
    assert unpacked(data, 1) == meaning


@pytest.mark.parametrize(
    ("elements", "text"),
    [
        pytest.param(b"\x08ab", "ends too early", id="literal beyond the end"),
        pytest.param(b"\xf0", "ends too early", id="literal without its size"),
        pytest.param(b"\x08abc\x01", "ends too early", id="copy without its distance"),
        pytest.param(b"\x08abc\x02\x01", "ends too early", id="copy with half its distance"),
        pytest.param(b"\x08abc\x15\x00", "ends too early", id="repeat without its size"),
        pytest.param(b"\x01\x04", "before it", id="copy of nothing"),
        pytest.param(b"\x01\x00", "before it", id="repeat of nothing"),
        pytest.param(b"\x08abc\x02\x00\x00", "before it", id="copy from nowhere"),
        pytest.param(b"\x08abc\x01\x04", "before it", id="copy from too far back"),
        pytest.param(b"\x0cabcd", "longer", id="too much"),
        pytest.param(b"\x08abc" + near(1, 4), "longer", id="copy of too much"),
        pytest.param(b"\x04ab", "shorter", id="too little"),
        pytest.param(b"\x08abd", "checksum", id="something else"),
    ],
)
def test_elements_that_are_none(elements: bytes, text: str) -> None:
    with pytest.raises(BackupError, match=text):
        unpacked(block(b"abc", elements))


def test_a_repeat_can_not_ask_for_more_than_the_frame_says() -> None:
    with pytest.raises(BackupError, match="longer"):
        unpacked(block(b"a" * 100, b"\x00a" + near(1, 4) + repeat(1 << 24)))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"this is no backup at all", "begin"),
        (frame(0xFF, b"S2sTw"), "begin"),
        (frame(0xFF, b"S2sTwX"), "begin"),
        (plain_frame(b"x"), "begin"),
        (BEGINNING + frame(0x02, b"body"), "unknown kind 0x02"),
        (BEGINNING + frame(0x7F, b"body"), "unknown kind 0x7f"),
        (BEGINNING + frame(0x01, b"abc"), "no possible size"),
        (BEGINNING + frame(0xFF, b"short"), "begins again"),
        (BEGINNING + frame(0x01, bytes(4) + b"x"), "checksum"),
        (BEGINNING + b"\x01\xff\xff\xff", "no possible size"),
        (BEGINNING + b"\x01" + (UNPACKED_BYTES_MAX + 5).to_bytes(3, "little"), None),
    ],
)
def test_frames_that_are_none(data: bytes, text: str | None) -> None:
    reader = S2Reader()
    reader.feed(data)
    if text is None:
        # Its size is possible for a compressed frame: more has to come before that is known.
        reader.feed(bytes(UNPACKED_BYTES_MAX + 5))
        text = "no possible size"
    with pytest.raises(BackupError, match=text):
        read_all(reader)


def test_what_may_be_skipped_is_skipped() -> None:
    data = b"".join(
        (
            SNAPPY,
            frame(0xFE, bytes(100_000)),
            plain_frame(b"one"),
            frame(0x99, b"an index"),
            BEGINNING,
            plain_frame(b"two"),
            frame(0x80, b""),
        )
    )
    for size in (1, 9, 1 << 20):
        assert unpacked(data, size) == b"onetwo"


@given(st.lists(st.binary(max_size=2000), max_size=5), st.integers(1, 3000))
def test_plain_frames_come_back(parts: list[bytes], size: int) -> None:
    data = BEGINNING + b"".join(map(plain_frame, parts))
    assert unpacked(data, size) == b"".join(parts)


@given(st.binary(max_size=400), st.integers(0, 400))
def test_nothing_but_a_refusal_comes_of_garbage(garbage: bytes, size: int) -> None:
    """Elements drawn by lot: a checksum that happens to be right is not to be expected."""
    reader = S2Reader()
    meaning = b"m" * size
    reader.feed(block(meaning, garbage))
    try:
        while (piece := reader.read()) is not None:
            assert piece in (b"", meaning)
    except BackupError:
        pass
