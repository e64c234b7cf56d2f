"""The pin of a consumer: which client has it, and when the client loses it."""

from typing import Any

import pytest

from headwater.jetstream.config.consumer_config import PriorityPolicy
from headwater.jetstream.consumers.effects import ClientPinned, ClientUnpinned
from tests.kit.consumer_driver import ConsumerDriver, Got, sequences
from tests.unit.jetstream.consumers.conftest import Consume

PINNED: dict[str, Any] = {
    "priority_groups": ("g",),
    "priority_policy": PriorityPolicy.PINNED_CLIENT,
}


def receivers(got: list[Got]) -> list[str]:
    return [each.to for each in got]


@pytest.fixture
def pinned(consume: Consume) -> ConsumerDriver:
    """A stream with six messages; the first client of its consumer is pinned and got one."""
    driver = consume()
    driver.create(**PINNED)
    driver.fill(*["S.a"] * 6)
    driver.pull(1, "I", group="g")
    return driver


def pin_of(got: Got) -> str:
    (line,) = [each for each in got.header.split("\r\n") if each.startswith("Nats-Pin-Id: ")]
    return line.removeprefix("Nats-Pin-Id: ")


def test_the_first_client_is_pinned_by_its_first_message(pinned: ConsumerDriver) -> None:
    (got,) = pinned.take()
    pin_id = pinned.consumer().state.pin_id
    assert pin_of(got) == pin_id != ""
    assert pinned.take_events() == [ClientPinned("g", pin_id)]


def test_only_the_pinned_client_is_served(pinned: ConsumerDriver) -> None:
    pin_id = pin_of(pinned.take()[0])
    assert not pinned.pull(1, "J", group="g")
    assert sequences(pinned.pull(2, "I", group="g", id=pin_id)) == [2, 3]


def test_another_id_is_refused(pinned: ConsumerDriver) -> None:
    pinned.pull(1, "J", group="g", id="other")
    assert pinned.texts() == ["423 Nats-Pin-Id mismatch"]


def test_who_is_silent_for_too_long_is_pinned_no_longer(pinned: ConsumerDriver) -> None:
    pinned.pull(1, "J", group="g")
    pinned.take_events()
    pinned.advance(119)
    assert receivers(pinned.take()) == ["I"]
    pinned.advance(1)
    assert receivers(pinned.take()) == ["J"]
    pin_id = pinned.consumer().state.pin_id
    assert pinned.take_events() == [ClientUnpinned("g", "timeout"), ClientPinned("g", pin_id)]


def test_a_request_shows_that_the_client_is_there(pinned: ConsumerDriver) -> None:
    pin_id = pin_of(pinned.take()[0])
    pinned.advance(100)
    pinned.pull(1, "I", group="g", id=pin_id)
    pinned.advance(100)
    assert pinned.consumer().state.pin_id == pin_id


def test_an_unpin_lets_another_have_its_turn(pinned: ConsumerDriver) -> None:
    pin_id = pin_of(pinned.take()[0])
    pinned.pull(9, "I", group="g", id=pin_id)
    pinned.take()
    pinned.pull(1, "J", group="g")
    pinned.take_events()
    pinned.unpin()
    pinned.fill("S.a")
    assert pinned.texts("I") == ["423 Nats-Wrong-Pin-Id"]
    assert receivers(pinned.take()) == ["J"]
    assert pinned.take_events()[0] == ClientUnpinned("g", "admin")


def test_an_unpin_of_nobody_is_told_too(consume: Consume) -> None:
    driver = consume()
    driver.create(**PINNED)
    driver.unpin()
    assert driver.take_events() == [ClientUnpinned("g", "admin")]


def test_who_gets_nothing_is_not_pinned(consume: Consume) -> None:
    driver = consume()
    driver.create(**PINNED)
    driver.pull(1, "I", group="g", max_bytes=1)
    driver.fill("S.a")
    assert driver.texts() == ["409 Message Size Exceeds MaxBytes"]
    assert driver.consumer().state.pin_id == ""


def test_who_left_is_not_pinned(consume: Consume) -> None:
    driver = consume()
    driver.create(**PINNED)
    driver.pull(1, "I", group="g")
    driver.pull(1, "J", group="g")
    driver.host.unheard.add(b"I")
    driver.fill("S.a")
    (got,) = driver.take()
    assert got.to == "J"
    assert pin_of(got) == driver.consumer().state.pin_id


def test_who_names_no_group_is_served_while_nobody_is_pinned(consume: Consume) -> None:
    driver = consume()
    driver.create(**PINNED)
    driver.fill("S.a", "S.a")
    (got,) = driver.pull_by(b"1")
    assert pin_of(got) == ""
    assert driver.consumer().state.pin_id == ""


def test_a_pin_outlives_a_restart_and_ends_after_it(consume: Consume) -> None:
    driver = consume()
    driver.create(**PINNED)
    driver.fill("S.a", "S.a", "S.a")
    pin_id = pin_of(driver.pull(1, "I", group="g")[0])
    if driver.is_on_disk:
        driver.restart()
    assert driver.consumer().state.pin_id == pin_id
    driver.pull(1, "J", group="g")
    driver.take()
    driver.advance(121)
    assert receivers(driver.take()) == ["J"]


def test_info_tells_who_is_pinned(pinned: ConsumerDriver) -> None:
    (state,) = pinned.consumer().info(pinned.now_ns).priority_groups
    assert (state.group, state.pinned_client_id) == ("g", pinned.consumer().state.pin_id)


def test_who_is_not_pinned_by_policy_is_not_pinned(pinned: ConsumerDriver) -> None:
    pinned.take_events()
    pinned.change(priority_groups=(), priority_policy=PriorityPolicy.NONE, priority_timeout=0)
    assert pinned.consumer().state.pin_id == ""
    pinned.advance(1000)
    assert not pinned.take_events()
