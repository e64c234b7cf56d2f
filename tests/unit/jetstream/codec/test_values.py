"""Values in the body of a record."""

from struct import Struct

import msgspec
import pytest

from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.values import decode_values, sized_parts, text_of, unpacked


@pytest.mark.parametrize(
    "body",
    [b"", b"\x90", b"\x80", b"\x01", b"\x91\x01\x00", b"\xdd\xff\xff\xff\xff", b"\x91" * 100_000],
    ids=["nothing", "empty", "map", "number", "more", "long", "deep"],
)
def test_a_body_that_is_no_list_of_values_is_refused(body: bytes) -> None:
    with pytest.raises(RecordError, match="values"):
        decode_values(body)


def test_values_come_back() -> None:
    values = ["C", 2**64 - 1, -(2**63), [1, 2], b"bytes"]
    assert decode_values(msgspec.msgpack.encode(values)) == values


def test_parts_end_with_their_data() -> None:
    assert sized_parts(b"-abbc", 1, (1, 2, 0, 1)) == [b"a", b"bb", b"", b"c"]
    for sizes in ((1, 2), (1, 4), (2**32, 0)):
        with pytest.raises(RecordError, match="end at"):
            sized_parts(b"-abbc", 1, sizes)


def test_fixed_values_have_to_be_there() -> None:
    layout = Struct("<H")
    assert unpacked(layout, b"-\1\0", 1) == (1,)
    with pytest.raises(RecordError, match="2 bytes"):
        unpacked(layout, b"-\1", 1)


def test_a_text_is_utf_8() -> None:
    assert text_of("é".encode()) == "é"
    with pytest.raises(RecordError, match="a name cannot be read"):
        text_of(b"\xff")
