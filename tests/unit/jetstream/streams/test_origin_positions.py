"""The position of a source survives whatever happens to the messages of it."""

from typing import Any, Final

import pytest

from headwater.jetstream.config.stream_config import Storage, StreamSource
from headwater.jetstream.copying import mirroring
from headwater.jetstream.records import Copied
from headwater.jetstream.streams.origin_positions import NOWHERE, Position
from tests.kit.copied_messages import IDENTITY, arrivals, origin_of, source
from tests.kit.stream_driver import StreamDriver

NAME: Final = b"O > >"


def aggregate(storage: Storage = Storage.FILE, **config: Any) -> StreamDriver:
    return StreamDriver(storage, subjects=(), sources=(StreamSource(name="O"),), **config)


def position(driver: StreamDriver) -> Position:
    return driver.stream.positions.of(NAME)


def test_a_source_of_which_nothing_was_copied_is_nowhere() -> None:
    assert position(aggregate()) == NOWHERE


def test_the_position_is_that_of_the_last_message() -> None:
    driver = aggregate()
    source(driver, arrivals((3, "a", b"1"), (9, "b", b"2")))
    assert position(driver) == Position(9, IDENTITY)
    driver.check()


def test_a_record_in_flight_changes_nothing() -> None:
    driver = aggregate()
    driver.hold()
    source(driver, arrivals((3, "a", b"1")))
    assert position(driver) == NOWHERE
    driver.retreat(1)
    assert position(driver) == NOWHERE


def test_a_record_whose_messages_are_not_stored_does_not_hold() -> None:
    driver = aggregate()
    driver.stream.apply(Copied(NAME, 3, IDENTITY, 1))
    assert position(driver) == NOWHERE
    driver.stream.retreat([])
    source(driver, arrivals((1, "a", b"1")))
    assert position(driver) == Position(1, IDENTITY)


@pytest.mark.parametrize("is_flushed", [False, True])
def test_a_kill_leaves_position_and_messages_together(is_flushed: bool) -> None:
    driver = aggregate()
    source(driver, arrivals((3, "a", b"1")))
    driver.stream.consumers.flush()
    source(driver, arrivals((4, "a", b"2"), (8, "a", b"3")))
    if is_flushed:
        driver.stream.consumers.flush()
    driver.kill()
    assert position(driver) == Position(8, IDENTITY)


@pytest.mark.parametrize("limit", [{"max_msgs": 1}, {"max_msgs_per_subject": 1}])
def test_limits_do_not_take_the_position_with_the_messages(limit: dict[str, Any]) -> None:
    driver = aggregate(**limit)
    source(driver, arrivals((3, "a", b"1"), (8, "a", b"2")))
    driver.kill()
    assert position(driver) == Position(8, IDENTITY)
    driver.purge()
    driver.restart()
    assert position(driver) == Position(8, IDENTITY)


def test_a_purge_leaves_the_position() -> None:
    driver = aggregate()
    source(driver, arrivals((3, "a", b"1"), (8, "a", b"2")))
    driver.purge()
    driver.kill()
    assert driver.sequences == []
    assert position(driver) == Position(8, IDENTITY)


def test_a_rewritten_journal_has_the_position() -> None:
    driver = aggregate()
    source(driver, arrivals((3, "a", b"1")))
    driver.purge()
    driver.rewrite_journal()
    driver.kill()
    assert position(driver) == Position(3, IDENTITY)


def test_a_source_that_was_removed_comes_back_behind_its_messages() -> None:
    driver = aggregate()
    source(driver, arrivals((3, "a", b"1"), (8, "a", b"2")))
    driver.update(sources=())
    assert position(driver) == NOWHERE
    driver.update(sources=(StreamSource(name="O"),))
    assert position(driver) == Position(8, IDENTITY)
    driver.check()
    driver.restart()


def test_a_source_that_comes_back_without_messages_begins_again() -> None:
    driver = aggregate()
    source(driver, arrivals((3, "a", b"1")))
    driver.update(sources=())
    driver.purge()
    driver.update(sources=(StreamSource(name="O"),))
    assert position(driver) == NOWHERE


@pytest.mark.parametrize("is_rewritten", [False, True])
def test_a_mirror_knows_its_origin_until_it_is_promoted(is_rewritten: bool) -> None:
    driver = StreamDriver(Storage.FILE, subjects=(), mirror=StreamSource(name="O"))
    driver.propose(mirroring.beginning(driver.stream, origin_of(True), 3, IDENTITY))
    if is_rewritten:
        driver.rewrite_journal()
    driver.check()
    driver.restart()
    assert position(driver) == Position(0, IDENTITY)
    driver.update(mirror=None)
    assert position(driver) == NOWHERE
