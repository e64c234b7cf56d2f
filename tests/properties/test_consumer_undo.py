"""Records that a consumer applies ahead of the log, and that are then undone.

Two equal consumers are given the same records. One of them is also given others, and undoes these:
both must then have the same state, tell the same and deliver the same.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.clock import NS_PER_S
from headwater.jetstream.config.consumer_config import AckPolicy, DeliverPolicy
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.consumers.machine import Consumer
from headwater.jetstream.consumers.records import (
    Acked,
    ConsumerRecord,
    Delivered,
    Exhausted,
    Pinned,
    Postponed,
)
from tests.kit.consumer_driver import ConsumerDriver

SUBJECTS: Final = ("S.a", "S.b", "S.c", "S.a", "S.d", "S.b", "S.a", "S.a", "S.c", "S.b")
WAIT_NS: Final = 10 * NS_PER_S
KINDS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"filter_subjects": ("S.a", "S.c")},
    {"ack_policy": AckPolicy.ALL},
    {"backoff": (WAIT_NS, 2 * WAIT_NS), "max_deliver": 3},
    {"deliver_policy": DeliverPolicy.LAST_PER_SUBJECT, "filter_subject": "S.>"},
    {"ack_policy": AckPolicy.NONE},
)


class Pair:
    """Two equal streams, each with a consumer; messages are on the same subjects."""

    def __init__(self, config: dict[str, Any]) -> None:
        waits = {} if config.get("ack_policy") is AckPolicy.NONE else {"ack_wait": WAIT_NS}
        self.drivers = [ConsumerDriver(Storage.MEMORY) for _ in range(2)]
        for driver in self.drivers:
            driver.fill(*SUBJECTS)
            driver.create(**{**waits, **config})
            driver.fill(*SUBJECTS)
            driver.leave_shadow()
        self.undoing, self.plain = (driver.consumer() for driver in self.drivers)

    def both(self, work: Callable[[Consumer], object]) -> None:
        for consumer in (self.undoing, self.plain):
            work(consumer)

    def deliveries(self, now_ns: int) -> list[list[tuple[int, ...]]]:
        """The deliveries of each consumer to a client that asks for all messages, until late."""
        told: list[list[tuple[int, ...]]] = []
        for driver in self.drivers:
            driver.now_ns = now_ns
            driver.pull(1000, expires=1000)
            driver.advance(25)
            told.append([(*got[2:5], got.at_ns) for got in driver.take()])
        return told


@pytest.mark.parametrize("config", KINDS, ids=str)
@given(data=st.data())
def test_a_consumer_that_undoes_records_never_saw_them(
    config: dict[str, Any], data: st.DataObject
) -> None:
    pair = Pair(config)
    now_ns = pair.drivers[0].now_ns
    for _ in range(data.draw(st.integers(0, 6))):
        record = _record(data, pair.undoing, now_ns)
        pair.both(lambda consumer, record=record: consumer.machine.apply(record))  # type: ignore[misc]
        again = data.draw(_some_of([*pair.plain.state.pending]))
        pair.both(lambda consumer, again=again: consumer.machine.make_ready(again))  # type: ignore[misc]
        now_ns += NS_PER_S
    kept = data.draw(st.integers(0, 3))
    undone = data.draw(st.integers(0, 6))
    for number in range(kept + undone):
        record = _record(data, pair.undoing, now_ns)
        pair.undoing.machine.apply_ahead(record)
        if number < kept:
            pair.plain.machine.apply(record)
        now_ns += NS_PER_S
    last = [record for record, _, _ in pair.undoing.machine.ahead][kept:]
    pair.undoing.machine.forget_ahead(last)
    for record, _, _ in [*pair.undoing.machine.ahead]:
        pair.drivers[0].stream.consumers.apply(record)
    assert not pair.undoing.machine.ahead
    assert pair.undoing.dump() == pair.plain.dump()
    assert pair.undoing.info(now_ns) == pair.plain.info(now_ns)
    ready = [sorted(each.machine.first_ready(100)) for each in (pair.undoing, pair.plain)]
    assert ready[0] == ready[1]
    first, second = pair.deliveries(now_ns)
    if any(ready):
        # A message that was acknowledged meanwhile is now the first to be sent again.
        first, second = (sorted((got[0], *got[2:]) for got in each) for each in (first, second))
    assert first == second


def _some_of(sequences: Sequence[int]) -> st.SearchStrategy[list[int]]:
    if not sequences:
        return st.just([])
    return st.lists(st.sampled_from(sorted(sequences)), unique=True).map(sorted)


def _record(data: st.DataObject, consumer: Consumer, now_ns: int) -> ConsumerRecord:
    """A record that a step of the consumer could make."""
    state = consumer.state
    pending = [*state.pending]
    kind = data.draw(st.sampled_from((Delivered, Delivered, Acked, Postponed, Exhausted, Pinned)))
    if kind is Pinned:
        return Pinned(consumer.name, data.draw(st.sampled_from(("", "id"))), now_ns)
    if kind is Delivered or not pending:
        again = data.draw(_some_of([*consumer.machine.first_ready(100)]))
        return Delivered(consumer.name, again, _next_of(consumer, data), now_ns)
    some = data.draw(_some_of([*pending, *state.redelivered]))
    if kind is Postponed:
        return Postponed(consumer.name, some, [now_ns + NS_PER_S] * len(some))
    if kind is Exhausted:
        return Exhausted(consumer.name, [each for each in some if each in state.pending])
    if consumer.config.ack_policy is AckPolicy.EXPLICIT or not some:
        return Acked(consumer.name, some, now_ns)
    last = some[-1]
    floor = (state.pending.get(last, state.floor_consumer), last)
    return Acked(consumer.name, state.unsettled_up_to(last), now_ns, floor)


def _next_of(consumer: Consumer, data: st.DataObject) -> list[int]:
    count = data.draw(st.integers(0, 5))
    if consumer.position.last_per_subject:
        return [*consumer.position.last_per_subject][:count]
    end = consumer.stream.visible_sequence + 1
    return consumer.position.cursor.next_sequences(end, count) if count else []
