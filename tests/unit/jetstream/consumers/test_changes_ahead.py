"""The changes of consumers in flight, and what publishes behind them may rely on."""

import msgspec
import pytest

from headwater.go.json import Time
from headwater.jetstream.config.consumer_config import ConsumerConfig
from headwater.jetstream.consumers.changes_ahead import ChangesAhead, Hold, hold_of
from headwater.jetstream.consumers.records import (
    ConsumerConfigured,
    ConsumerCreated,
    ConsumerDeleted,
    ConsumerReset,
    Delivered,
    LongRecord,
)


def changes() -> ChangesAhead:
    """Changes of a stream that has a consumer C of `a`."""
    return ChangesAhead({"C": (b"a",)}.get)


def created(name: str, start: int = 1, **config: object) -> ConsumerCreated:
    return ConsumerCreated(name, ConsumerConfig(**config), 1, start)  # type: ignore[arg-type]


def test_a_consumer_in_flight_has_interest_in_its_subjects() -> None:
    found = changes()
    assert not found.have_interest(b"a")
    found.propose(created("D", filter_subject="a.*"), 1)
    assert [found.have_interest(each) for each in (b"a.b", b"a")] == [True, False]
    found.propose(created("E"), 1)
    assert found.have_interest(b"a")
    assert not found.may_remove


def test_interest_ends_with_the_change_that_is_applied_or_forgotten() -> None:
    found = changes()
    first, second = created("D"), created("E", filter_subject="b")
    found.propose(first, 1)
    found.propose(second, 1)
    found.note_applied(second)
    assert len(found) == 2, "the oldest change is applied first"
    found.note_applied(first)
    assert [found.have_interest(each) for each in (b"a", b"b")] == [False, True]
    found.retreat([Delivered("D", [], [1], 1), second])
    assert not found.have_interest(b"b")
    assert not len(found)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (ConsumerDeleted("C"), True),
        (ConsumerReset("C", 1), True),
        (ConsumerConfigured("C", ConsumerConfig(filter_subject="a", description="x")), False),
        (ConsumerConfigured("C", ConsumerConfig(filter_subject="b")), True),
        (ConsumerConfigured("C", ConsumerConfig()), True),
        (created("D", start=5), False),
        (created("D", start=6), True),
    ],
)
def test_messages_may_leave_by_a_change_until_it_is_applied(
    record: LongRecord, expected: bool
) -> None:
    for end in (ChangesAhead.note_applied, lambda found, record: found.retreat([record])):
        found = changes()
        found.propose(record, 5)
        assert found.may_remove is expected
        end(found, record)
        assert not found.may_remove


def test_a_change_holds_the_steps_that_must_not_come_behind_it() -> None:
    before = ConsumerConfig(durable_name="C", filter_subject="a")

    def configured(**changes: object) -> ConsumerConfigured:
        return ConsumerConfigured("C", msgspec.structs.replace(before, **changes))

    until = Time(1, "1970-01-01T00:00:00.000000001Z")
    assert hold_of(created("C"), None) is Hold.NONE
    assert hold_of(ConsumerDeleted("C"), before) is Hold.ALL_BUT_DELIVERIES
    assert hold_of(ConsumerReset("C", 1), before) is Hold.ALL
    assert hold_of(configured(filter_subject="b"), before) is Hold.ALL
    assert hold_of(configured(max_deliver=3), before) is Hold.ALL
    assert hold_of(configured(pause_until=until, metadata={"a": "b"}), before) is Hold.NONE
