"""A stream that forgets what is in flight is as one that never saw it (`retreat_walk`).

More seeds: RETREAT_SEEDS=5000 pytest tests/properties/test_retreat.py
"""

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.jetstream.consumers.changes_ahead import ChangesAhead
from headwater.jetstream.consumers.position import Position
from headwater.jetstream.consumers.state import ConsumerState
from headwater.jetstream.consumers.state_machine import StateMachine
from headwater.jetstream.group import Group
from headwater.jetstream.records import Configured, Copied, Published
from headwater.jetstream.streams.look_ahead import LookAhead
from headwater.jetstream.streams.publishing.atomic_batch import AtomicBatches
from headwater.jetstream.streams.publishing.fast_batch import FastBatches
from headwater.jetstream.streams.schedules.scheduling import Scheduling
from headwater.jetstream.streams.stream import Stream
from tests.properties.retreat_walk import STEPS, RetreatWalk

SEEDS: Final = int(os.environ.get("RETREAT_SEEDS", "100"))
LENGTH: Final = 50
# A defect shows within this number of walks.
PLANTED_SEEDS: Final = 120


def walk_by(seed: int) -> list[tuple[object, object]]:
    rng = random.Random(seed)
    walk = RetreatWalk(rng.choice)
    for step in rng.choices(STEPS, k=LENGTH):
        walk.take_step(step)
    return walk.probe()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_retreat_leaves_nothing_behind(seed: int) -> None:
    assert walk_by(seed) == []


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_retreat_leaves_nothing_behind_on_the_shortest_way(data: st.DataObject) -> None:
    walk = RetreatWalk(lambda options: data.draw(st.sampled_from(options)))
    for step in data.draw(st.lists(st.sampled_from(STEPS), max_size=20)):
        walk.take_step(step)
    assert walk.probe() == []


# --- planted defects ------------------------------------------------------------------------------


def keeps_ids(ahead: LookAhead, counted: Any) -> None:
    ahead._byte_count -= counted.byte_count


def keeps_bytes(ahead: LookAhead, counted: Any) -> None:
    for message_id, _ in counted.ids:
        ahead._ids.pop(message_id, None)


def keeps_deliveries(machine: StateMachine, records: Any) -> None:
    machine.ahead.clear()


def forgets_nothing(*_: object) -> None:
    """The state stays as it was before the retreat."""


UNDO: Final = ConsumerState.undo
RETREAT: Final = Stream.retreat
WITHDRAW: Final = Group.withdraw


def keeps_floor(state: ConsumerState, image: Any) -> None:
    floor = state.floor_consumer, state.floor_stream
    UNDO(state, image)
    state.floor_consumer, state.floor_stream = floor


def keeps_usage(stream: Stream, records: Any, proposals: Any) -> None:
    RETREAT(stream, records, proposals)
    host: Any = stream.host
    host.server.usage.add(stream.config.storage, len(records), 0)


def keeps_expiries(stream: Stream, records: Any, proposals: Any) -> None:
    RETREAT(stream, records, proposals)
    for record in records:
        if isinstance(record, Published):
            stream.log.note_expiries(record.first_sequence, record.batch.expiries_ns or [])


def keeps_messages(stream: Stream, records: Any, proposals: Any) -> None:
    """The subjects of messages are counted once more."""
    RETREAT(stream, records, proposals)
    stream.look_ahead.messages += sum(isinstance(each, Published) for each in records)


def keeps_rules(stream: Stream, records: Any, proposals: Any) -> None:
    RETREAT(stream, records, proposals)
    for record in records:
        if isinstance(record, Configured):
            stream.publishing.configure(record.config)


def keeps_positions(stream: Stream, records: Any, proposals: Any) -> None:
    """The position of a source counts messages that will never be stored."""
    RETREAT(stream, records, proposals)
    for record in records:
        if isinstance(record, Copied):
            stream.positions.restore([record])


def writes_a_file(stream: Stream, records: Any, proposals: Any) -> None:
    RETREAT(stream, records, proposals)
    stream.log.write_entries([(0x77, b"retreat")])


def drops_steps(group: Group[Any, Any], first: int, stays: Any, error: Any) -> None:
    """Steps of consumers behind the withdrawn entries are never committed."""
    WITHDRAW(group, first, stays, error)
    group.ready()
    while group.in_flight and group.in_flight[-1].index >= first:
        group.in_flight.pop()
    group.proposed = first - 1


PLANTED: Final = {
    "an id": (LookAhead, "_undo_counted", keeps_ids),
    "bytes in flight": (LookAhead, "_undo_counted", keeps_bytes),
    "a count of messages": (Stream, "retreat", keeps_messages),
    "an expiry": (Stream, "retreat", keeps_expiries),
    "a schedule": (Scheduling, "give_back_copies", forgets_nothing),
    "an open fast batch": (FastBatches, "restore", forgets_nothing),
    "an open atomic batch": (AtomicBatches, "drop", forgets_nothing),
    "a pending delivery": (StateMachine, "forget_ahead", keeps_deliveries),
    "the floor of a consumer": (ConsumerState, "undo", keeps_floor),
    "the position of a consumer": (Position, "go_back", forgets_nothing),
    "the usage of the account": (Stream, "retreat", keeps_usage),
    "the position of a source": (Stream, "retreat", keeps_positions),
    "the rules of an update": (Stream, "retreat", keeps_rules),
    "a consumer in flight": (ChangesAhead, "retreat", forgets_nothing),
    "a write to a file": (Stream, "retreat", writes_a_file),
    "a step that outlasts a withdrawal": (Group, "withdraw", drops_steps),
}


def test_a_message_that_does_not_count_the_consumers_in_flight_is_found() -> None:
    with patch.object(ChangesAhead, "have_interest", lambda *_: False):
        assert any(map(fails, range(PLANTED_SEEDS)))


@contextmanager
def planted(name: str) -> Iterator[None]:
    owner, method, defect = PLANTED[name]
    twin_drops = AtomicBatches.drop
    with ExitStack() as stack:
        if method == "drop":
            # The twin calls it, too, as the rule that the leader has to keep.
            stack.enter_context(
                patch("tests.properties.retreat_walk.drop_atomic_batches", twin_drops)
            )
        stack.enter_context(patch.object(owner, method, defect))
        yield


@pytest.mark.parametrize("name", PLANTED)
def test_a_thing_that_is_not_forgotten_is_found(name: str) -> None:
    with planted(name):
        assert any(map(fails, range(PLANTED_SEEDS)))


def fails(seed: int) -> bool:
    try:
        return walk_by(seed) != []
    except Exception:
        return True
