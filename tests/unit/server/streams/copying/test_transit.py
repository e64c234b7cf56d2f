"""A request for more of an origin waits for the parts that are on their way."""

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.server.streams.copying.transit import Transit


def test_a_call_that_finds_nothing_on_its_way_comes_at_once() -> None:
    calls: list[str] = []
    Transit().when_empty(lambda: calls.append("asked"))
    assert calls == ["asked"]


def test_a_call_waits_for_the_last_part_and_comes_once() -> None:
    transit, calls = Transit(), list[str]()
    transit.begin_part()
    transit.begin_part()
    transit.when_empty(lambda: calls.append("asked"))
    transit.end_part()
    assert calls == []
    transit.end_part()
    transit.begin_part()
    transit.end_part()
    assert calls == ["asked"]


def test_a_later_call_takes_the_place_of_one_that_waits() -> None:
    transit, calls = Transit(), list[str]()
    transit.begin_part()
    transit.when_empty(lambda: calls.append("first"))
    transit.when_empty(lambda: calls.append("second"))
    transit.end_part()
    assert calls == ["second"]


def test_a_call_that_is_forgotten_does_not_come() -> None:
    transit, calls = Transit(), list[str]()
    transit.begin_part()
    transit.when_empty(lambda: calls.append("asked"))
    transit.wait_no_more()
    transit.end_part()
    assert calls == []


def test_no_part_ends_twice() -> None:
    transit = Transit()
    transit.begin_part()
    transit.end_part()
    with pytest.raises(InvariantViolation):
        transit.end_part()
