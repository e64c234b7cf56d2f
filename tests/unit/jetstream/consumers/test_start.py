"""The first message of a new consumer, by its deliver policy."""

from typing import Any

import pytest

from headwater.base.clock import NS_PER_S
from headwater.go.json import Time
from headwater.go.times import format_time
from headwater.jetstream.config.consumer_config import DeliverPolicy
from tests.kit.consumer_driver import sequences
from tests.kit.stream_driver import BEGINNING_NS
from tests.unit.jetstream.consumers.conftest import Consume


def at(seconds: int) -> Time:
    time_ns = BEGINNING_NS + seconds * NS_PER_S
    return Time(time_ns, format_time(time_ns))


STARTS: dict[str, tuple[dict[str, Any], list[int], int]] = {
    "all": ({}, [1, 2, 3, 4], 0),
    "all that match": ({"filter_subject": "S.b"}, [2, 4], 0),
    "the last": ({"deliver_policy": DeliverPolicy.LAST}, [4], 3),
    "the last that matches": (
        {"deliver_policy": DeliverPolicy.LAST, "filter_subject": "S.a"},
        [3],
        2,
    ),
    "the last where none matches": (
        {"deliver_policy": DeliverPolicy.LAST, "filter_subject": "S.z"},
        [],
        0,
    ),
    "what is new": ({"deliver_policy": DeliverPolicy.NEW}, [], 4),
    "a sequence": (
        {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": 3},
        [3, 4],
        2,
    ),
    "a time": (
        {"deliver_policy": DeliverPolicy.BY_START_TIME, "opt_start_time": at(2)},
        [3, 4],
        2,
    ),
    "a time that is over": (
        {"deliver_policy": DeliverPolicy.BY_START_TIME, "opt_start_time": at(-9)},
        [1, 2, 3, 4],
        0,
    ),
    "a time to come": (
        {"deliver_policy": DeliverPolicy.BY_START_TIME, "opt_start_time": at(900)},
        [],
        4,
    ),
    "the last of each": (
        {"deliver_policy": DeliverPolicy.LAST_PER_SUBJECT, "filter_subject": "S.>"},
        [3, 4],
        2,
    ),
    "the last of each that matches": (
        {"deliver_policy": DeliverPolicy.LAST_PER_SUBJECT, "filter_subject": "S.a"},
        [3],
        2,
    ),
    "the last of none": (
        {"deliver_policy": DeliverPolicy.LAST_PER_SUBJECT, "filter_subject": "S.z"},
        [],
        3,
    ),
}


@pytest.mark.parametrize(("config", "expected", "place"), STARTS.values(), ids=STARTS)
def test_where_it_begins(
    consume: Consume, config: dict[str, Any], expected: list[int], place: int
) -> None:
    driver = consume()
    for subject in ("S.a", "S.b", "S.a", "S.b"):
        driver.fill(subject)
        driver.advance(1)
    driver.create(**config)
    assert driver.figures() == ((0, place), (0, place))
    assert driver.consumer().position.pending_count() == len(expected)
    assert sequences(driver.pull(9)) == expected
    driver.fill("S.a", "S.b", "S.z")
    new = [each.sequence for each in driver.take() if each.sequence > 4]
    one = {"S.a": [5], "S.b": [6], "S.z": [7]}
    assert new == one.get(config.get("filter_subject", ""), [5, 6, 7])


@pytest.mark.parametrize(
    "policy",
    [
        DeliverPolicy.ALL,
        DeliverPolicy.LAST,
        DeliverPolicy.NEW,
        DeliverPolicy.LAST_PER_SUBJECT,
    ],
)
def test_where_it_begins_in_an_empty_stream(consume: Consume, policy: DeliverPolicy) -> None:
    driver = consume()
    driver.create(deliver_policy=policy, filter_subject="S.>")
    assert driver.figures() == ((0, 0), (0, 0))
    driver.fill("S.a", "S.a")
    assert sequences(driver.pull(5)) == [1, 2]


def test_it_does_not_begin_before_the_first_message(consume: Consume) -> None:
    driver = consume()
    driver.fill(*["S.a"] * 5)
    driver.purge(before=4)
    driver.create()
    driver.create("D", deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=2)
    assert driver.figures("C") == driver.figures("D") == ((0, 3), (0, 3))


def test_a_start_beyond_the_end_is_waited_for(consume: Consume) -> None:
    driver = consume()
    driver.fill("S.a", "S.a")
    driver.create(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=5)
    if driver.is_on_disk:
        driver.restart()
    assert driver.figures() == ((0, 4), (0, 4))
    driver.pull(9)
    driver.fill("S.a", "S.a")
    assert not driver.take()
    assert driver.consumer().position.pending_count() == 0
    driver.fill("S.a", "S.a")
    assert sequences(driver.take()) == [5, 6]
