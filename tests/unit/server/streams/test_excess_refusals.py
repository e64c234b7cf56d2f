"""Publishes beyond the room of a stream are refused at once, and logged once in a while."""

from errno import EIO
from typing import Any

from headwater.base.clock import NS_PER_S
from headwater.server.configuration.options import Options
from headwater.server.streams.excess_refusals import REFUSALS_LOGGED_NS
from tests.kit.stored_world import streaming
from tests.kit.stream_world import AHEAD, STORE_FAILED, StreamWorld


def limited(messages_max: int = -1, **settings: Any) -> StreamWorld:
    """A stream S that holds so many unanswered publishes."""
    made = StreamWorld(Options(jetstream=streaming(max_buffered_messages=messages_max, **settings)))
    made.create("S", subjects=["s.>"])
    made.sync()
    return made


def warnings_of(world: StreamWorld) -> list[str]:
    return [line for line in world.log_lines if "excessive stream ingest rate" in line]


def test_publishes_that_wait_for_the_disk_are_bounded() -> None:
    world = limited(3, sync_always=True)
    numbers = [world.publish("s.a") for _ in range(4)]
    assert set(world.answers) & set(numbers) == set(), "refusals are no plain messages"
    refused = b"429 Too Many Requests\r\n\r\n"
    assert bytes(world.caller.connection.received).count(refused) == 1
    world.sync()
    assert world.errors(*numbers[:3]) == [0, 0, 0]
    later = world.publish("s.a")
    world.sync()
    assert world.answers[later]["seq"] == 4
    assert bytes(world.caller.connection.received).count(refused) == 1


def test_publishes_that_wait_behind_a_change_are_bounded_too() -> None:
    world = limited(2, sync_always=True)
    world.publish("s.a")
    world.call("STREAM.PURGE.S")
    for _ in range(2):
        world.publish("s.a")
    received = bytes(world.caller.connection.received)
    assert received.count(b"429 Too Many Requests") == 1
    world.sync()
    assert world.state()["messages"] == 1


def test_publishes_of_one_turn_are_bounded_where_none_waits_for_the_disk() -> None:
    world = limited(3)
    numbers = [world.push("s.a") for _ in range(5)]
    world.settle()
    assert world.errors(*numbers[:3]) == [0, 0, 0]
    assert world.state()["messages"] == 3
    assert len(warnings_of(world)) == 1


def test_a_stream_that_fails_makes_room_again() -> None:
    world = limited(1, sync_always=True)
    waiting = world.publish("s.a")
    world.disk.fail("sync", AHEAD, code=EIO)
    world.sync()
    assert world.errors(waiting) == [STORE_FAILED]
    assert world.errors(world.publish("s.a")) == [STORE_FAILED], "and not 429"


def test_refusals_are_logged_once_in_a_while() -> None:
    world = limited(0)
    for _ in range(3):
        world.publish("s.a")
    assert len(warnings_of(world)) == 1
    assert warnings_of(world)[0].rstrip().endswith("on '$G' > 'S': IPQ len limit reached")
    world.advance(REFUSALS_LOGGED_NS / NS_PER_S)
    world.publish("s.a")
    assert len(warnings_of(world)) == 2
