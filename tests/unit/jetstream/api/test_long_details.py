"""Long details of a reply are written in steps, and are the text that one step would write."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.sliced import at_once
from headwater.go.json import write
from headwater.jetstream.api.documents import StreamListResponse
from headwater.jetstream.api.long_details import (
    NUMBERS_AT_A_TIME,
    NUMBERS_PER_UNIT,
    writing_counts,
    writing_documents,
    writing_numbers,
)
from headwater.jetstream.config.stream_config import StreamConfig

NAMES = st.text(st.sampled_from('ab.<>&"\\\u2028\u2029é\n'), min_size=1, max_size=6)


@given(st.lists(st.dictionaries(NAMES, st.integers(0, 1 << 60), max_size=4), max_size=4))
def test_counts_in_parts_are_written_as_one_object(parts: list[dict[str, int]]) -> None:
    text = b",".join(write(part)[1:-1] for part in parts if part)
    assert bytes(at_once(writing_counts([{**part} for part in parts]))) == b"{%b}" % text


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=50))
def test_numbers_are_written_as_one_list(numbers: list[int]) -> None:
    assert bytes(at_once(writing_numbers(numbers))) == write(numbers)


def test_numbers_are_written_so_many_in_a_step() -> None:
    numbers = list(range(3 * NUMBERS_AT_A_TIME + 1))
    work = writing_numbers(numbers)
    assert max(work) == 1 + NUMBERS_AT_A_TIME // NUMBERS_PER_UNIT
    assert msgspec.json.decode(at_once(writing_numbers(numbers))) == numbers


def test_parts_are_written_one_in_a_step_and_given_back() -> None:
    parts = [{f"{part}.{name}": name for name in range(100)} for part in range(5)]
    assert len([*writing_counts(parts)]) == len(parts)
    assert parts == [{}] * 5


def test_documents_are_written_one_in_a_step_and_by_their_size() -> None:
    few = StreamConfig(name="few", subjects=("a<b",))
    many = StreamConfig(name="many", subjects=tuple(f"subject.{number}" for number in range(2000)))
    units = [*writing_documents([few, many])]
    assert len(units) == 2
    assert units[1] > 10 * units[0]


def test_a_reply_takes_over_documents_as_they_are_written() -> None:
    configs = [StreamConfig(name="A", subjects=("a&b",)), StreamConfig(name="B")]
    texts = at_once(writing_documents(configs))
    reply = write(StreamListResponse(total=2, limit=256, streams=texts))
    assert reply.endswith(b'"streams":[%b,%b]}' % (write(configs[0]), write(configs[1])))
