"""Bodies of the records of the set of streams."""

import struct

import pytest

from headwater.base.errors import ProgrammerError
from headwater.go.json import write
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.stream_set_records import (
    decode_stream_created,
    decode_stream_deleted,
    encode_stream_created,
    encode_stream_deleted,
)
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.records import StreamCreated, StreamDeleted
from tests.kit.record_values import INCARNATION

CONFIG = StreamConfig(name="S", subjects=("s.>",))


def test_a_created_stream_has_the_layout_that_is_drawn() -> None:
    body = encode_stream_created(StreamCreated("ACC", "S", INCARNATION, CONFIG, 5))
    fixed = INCARNATION + struct.pack("<qII", 5, 3, 1)
    assert body == fixed + b"ACC" + b"S" + write(CONFIG)


def test_a_deleted_stream_has_the_layout_that_is_drawn() -> None:
    body = encode_stream_deleted(StreamDeleted("ACC", "S", INCARNATION))
    assert body == INCARNATION + struct.pack("<II", 3, 1) + b"ACC" + b"S"


@pytest.mark.parametrize("incarnation", [b"", bytes(15), bytes(17)])
def test_an_incarnation_of_another_size_is_not_written(incarnation: bytes) -> None:
    with pytest.raises(ProgrammerError, match="16 bytes"):
        encode_stream_created(StreamCreated("A", "S", incarnation, CONFIG, 5))
    with pytest.raises(ProgrammerError, match="16 bytes"):
        encode_stream_deleted(StreamDeleted("A", "S", incarnation))


@pytest.mark.parametrize(
    ("account_size", "name_size", "reason"),
    [
        (2**32 - 1, 1, "end at"),
        (1, 2**32 - 1, "end at"),
        (3, 0, "configuration"),
        (0, 1, "configuration"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(account_size: int, name_size: int, reason: str) -> None:
    sizes = struct.pack("<II", account_size, name_size)
    body = encode_stream_created(StreamCreated("A", "S", INCARNATION, CONFIG, 5))
    with pytest.raises(RecordError, match=reason):
        decode_stream_created(body[:24] + sizes + body[32:])


def test_names_that_are_no_text_are_refused() -> None:
    body = encode_stream_deleted(StreamDeleted("A", "S", INCARNATION))
    with pytest.raises(RecordError, match="a name cannot be read"):
        decode_stream_deleted(body[:-1] + b"\xff")
