"""Values in the body of a record: fields of fixed size, texts, and lists as msgpack arrays."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from struct import Struct
from typing import Any, Final

import msgspec

from headwater.jetstream.codec.errors import RecordError

encode_values: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Any]).decode


def decode_values(body: bytes) -> list[Any]:
    """The values of a body, of which there is at least one. Raises RecordError."""
    try:
        values = _decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RecordError(f"the body is no list of values: {error}") from error
    if not values:
        raise RecordError("the body has no values")
    return values


def check_count(count: int, values: list[Any]) -> None:
    """Raises RecordError unless there are that many values."""
    if len(values) != count:
        raise RecordError(f"the body has {len(values)} values, not {count}")


def check_type(kind: type, values: Iterable[object]) -> None:
    """Raises RecordError unless all values are of one type."""
    if not all(type(value) is kind for value in values):
        raise RecordError(f"a value is no {kind.__name__}")


def check_numbers(lists: Iterable[Any]) -> None:
    """Raises RecordError unless all values are lists of integers."""
    for numbers in lists:
        check_type(list, [numbers])
        check_type(int, numbers)


def unpacked(layout: Struct, data: bytes, offset: int = 0) -> tuple[Any, ...]:
    """The values of fixed size at `offset`. Raises RecordError."""
    if len(data) < offset + layout.size:
        raise RecordError(f"the record has {len(data)} bytes, and at least {layout.size} are due")
    return layout.unpack_from(data, offset)


def sized_parts(data: bytes, offset: int, sizes: Sequence[int]) -> list[bytes]:
    """Parts of these sizes, of which the last one ends with the data. Raises RecordError."""
    ends = [*accumulate(sizes, initial=offset)]
    if ends[-1] != len(data):
        raise RecordError(f"the parts of the record end at {ends[-1]}, its bytes at {len(data)}")
    return [data[begin:end] for begin, end in pairwise(ends)]


def flag_of(flags: int) -> bool:
    """The one flag of a record. Raises RecordError for any other flag."""
    if flags > 1:
        raise RecordError(f"the record has unknown flags ({flags})")
    return flags == 1


def text_of(data: bytes) -> str:
    """A name. Raises RecordError."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RecordError(f"a name cannot be read: {error}") from error
