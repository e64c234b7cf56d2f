"""Priority groups: the choice between several waiting clients."""

from typing import Any

import pytest

from headwater.jetstream.config.consumer_config import PriorityPolicy
from tests.kit.consumer_driver import Got, sequences
from tests.unit.jetstream.consumers.conftest import Consume

GROUP: dict[str, Any] = {"priority_groups": ("g",)}
OVERFLOW = {**GROUP, "priority_policy": PriorityPolicy.OVERFLOW}
PINNED = {**GROUP, "priority_policy": PriorityPolicy.PINNED_CLIENT}
PRIORITIZED = {**GROUP, "priority_policy": PriorityPolicy.PRIORITIZED}


def receivers(got: list[Got]) -> list[str]:
    return [each.to for each in got]


# --- the group ------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [OVERFLOW, PINNED, PRIORITIZED])
def test_a_request_names_a_group_of_the_consumer(consume: Consume, config: dict[str, Any]) -> None:
    driver = consume()
    driver.create(**config)
    driver.pull(1)
    driver.pull(1, group="other")
    assert driver.texts() == [
        "400 Bad Request - Priority Group missing",
        "400 Bad Request - Invalid Priority Group",
    ]


# --- overflow -------------------------------------------------------------------------------------


def test_overflow_is_served_while_there_is_much_to_do(consume: Consume) -> None:
    driver = consume()
    driver.create(**OVERFLOW)
    driver.pull(10, group="g", min_pending=3)
    driver.fill("S.a", "S.a")
    assert not driver.take()
    driver.fill("S.a", "S.a")
    assert sequences(driver.take()) == [1, 2], "two are left, which are less than three"


def test_overflow_is_served_while_much_is_not_acknowledged(consume: Consume) -> None:
    driver = consume()
    driver.create(**OVERFLOW)
    driver.fill(*["S.a"] * 6)
    assert not driver.pull(10, "I", group="g", min_ack_pending=2)
    assert sequences(driver.pull(2, "J", group="g")) == [1, 2, 3, 4, 5, 6]
    assert receivers(driver.take()) == ["J", "J", "I", "I", "I", "I"]


def test_who_names_no_threshold_is_always_served(consume: Consume) -> None:
    driver = consume()
    driver.create(**OVERFLOW)
    driver.pull(1, "I", group="g", min_pending=100)
    driver.pull(1, "J", group="g")
    driver.fill("S.a")
    assert receivers(driver.take()) == ["J"]


def test_what_is_due_again_and_nobody_may_have_keeps_nobody_busy(consume: Consume) -> None:
    driver = consume()
    driver.create(**OVERFLOW)
    driver.fill("S.a")
    (got,) = driver.pull(1, "J", group="g")
    driver.pull(1, "I", group="g", min_pending=100)
    driver.ack(got, payload=b"-NAK")
    driver.take()
    driver.advance(100)
    assert not driver.take()
    assert sequences(driver.pull(1, "J", group="g")) == [1]


# --- prioritized ----------------------------------------------------------------------------------


def test_the_smaller_number_is_served_first(consume: Consume) -> None:
    driver = consume()
    driver.create(**PRIORITIZED)
    driver.pull(1, "I", group="g", priority=2)
    driver.pull(2, "J", group="g", priority=1)
    driver.pull(1, "K", group="g", priority=1)
    driver.pull(1, "L", group="g")
    driver.fill(*["S.a"] * 5)
    assert receivers(driver.take()) == ["L", "J", "K", "J", "I"]


# --- changes --------------------------------------------------------------------------------------


def test_another_policy_holds_at_once(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.change(**OVERFLOW)
    driver.fill("S.a")
    assert not driver.pull(1, group="g", min_pending=5)
    driver.change(priority_groups=(), priority_policy=PriorityPolicy.NONE)
    assert sequences(driver.take()) == [1]
