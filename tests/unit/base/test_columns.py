"""Every type with messages as parallel lists cuts, picks and joins them alike."""

from collections.abc import Callable
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.columns import MessageColumns, StoredColumns
from headwater.client.link import publisher
from headwater.client.link.reads.ranges import Columns
from headwater.jetstream.consumers import effects
from headwater.jetstream.streams.publishing.incoming import Incoming
from headwater.store.log.message_log import Batch, MessageBatch
from headwater.wire.batch import Publishes
from headwater.wire.server_decoder import Deliveries

TYPES: dict[str, Callable[[], MessageColumns]] = {
    "publishes": lambda: Publishes([], [], [], [], []),
    "deliveries": Deliveries,
    "incoming": Incoming,
    "batch": lambda: Batch([b"s"], [b""], [b""], [1], [1]),
    "read": MessageBatch,
    "stored": StoredColumns,
    "sent": lambda: effects.Messages(b"to", [], [], [], []),
    "published": publisher.Messages.none,
    "chunk": Columns.empty,
}

Row = tuple[object, ...]


def filled(name: str, count: int, first: int = 0) -> MessageColumns:
    """Messages each of whose values names its message and its column."""
    messages = TYPES[name]()
    for column in messages.COLUMNS:
        setattr(messages, column, [(first + at, column) for at in range(count)])
    return messages


def rows_of(messages: MessageColumns) -> list[Row]:
    columns = [getattr(messages, column) for column in messages.COLUMNS]
    return [*zip(*columns, strict=True)]


counts = st.integers(0, 6)


@pytest.mark.parametrize("name", TYPES)
def test_every_attribute_is_a_column_or_shared(name: str) -> None:
    messages = TYPES[name]()
    slots = chain.from_iterable(getattr(each, "__slots__", ()) for each in type(messages).__mro__)
    assert sorted(slots) == sorted((*messages.COLUMNS, *messages.SHARED))


NAMES = st.sampled_from([*TYPES])


@given(name=NAMES, count=counts, begin=counts, end=counts)
def test_a_part_has_the_messages_of_its_stretch(
    name: str, count: int, begin: int, end: int
) -> None:
    messages = filled(name, count)
    part = messages.part(begin, end)
    assert rows_of(part) == rows_of(messages)[begin:end]
    assert len(part) == len(rows_of(part))
    assert type(part) is type(messages)
    for shared in messages.SHARED:
        assert getattr(part, shared) is getattr(messages, shared)


@given(name=NAMES, count=counts, position=counts)
def test_messages_are_split_without_loss_and_joined_again(
    name: str, count: int, position: int
) -> None:
    messages = filled(name, count)
    rows = rows_of(messages)
    before, behind = messages.split_at(min(position, count))
    assert (rows_of(before), rows_of(behind)) == (rows[:position], rows[position:])
    assert rows_of(before.followed_by(behind)) == rows
    assert rows_of(messages) == rows
    assert [row for part in messages.parts(position + 1) for row in rows_of(part)] == rows
    assert all(0 < len(part) <= position + 1 for part in messages.parts(position + 1) if rows)


@given(name=NAMES, wanted=st.lists(st.booleans(), max_size=6))
def test_messages_are_picked_by_their_places(name: str, wanted: list[bool]) -> None:
    messages = filled(name, len(wanted))
    places = [at for at, is_wanted in enumerate(wanted) if is_wanted]
    assert rows_of(messages.picked(places)) == [rows_of(messages)[at] for at in places]


@given(name=NAMES, count=counts, more=counts, gone=counts)
def test_messages_come_behind_and_go_from_either_end(
    name: str, count: int, more: int, gone: int
) -> None:
    messages = filled(name, count)
    messages.extend(filled(name, more, first=count))
    rows = rows_of(filled(name, count + more))
    assert rows_of(messages) == rows
    messages.drop(gone)
    assert rows_of(messages) == rows[gone:]
    messages.cut(gone)
    assert rows_of(messages) == rows[gone:][:gone]


def test_a_column_that_no_message_uses_stays_empty() -> None:
    batch = Batch([b"a", b"b"], [b"", b""], [b"1", b"2"], [7, 8])
    assert batch.picked([1]).expiries_ns == batch.part(0, 1).expiries_ns == []
    assert batch.picked([1]).timestamps_ns == [8]
