"""A disk that has no room while a change of a stream is applied in slices.

The entry that is being applied is on the disk, and so are the committed entries that wait behind
it: neither their indexes are given out again, nor are their clients refused.
"""

from collections.abc import Callable
from errno import ENOSPC

import pytest

from headwater.base import sliced
from headwater.jetstream.streams import removal
from headwater.store.log import file_log as log
from headwater.store.log import message_log
from tests.kit.long_requests import is_held, pass_turns, sync
from tests.kit.stream_world import AHEAD, STORE_FAILED, StreamWorld, error_code

COUNT = 12


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced, "SLICE_UNITS_MAX", 1)
    for module in (removal, log, message_log):
        monkeypatch.setattr(module, "PURGED_AT_A_TIME", 2)


@pytest.fixture
def world() -> StreamWorld:
    world = StreamWorld()
    world.create("S", subjects=["s.>"])
    world.create("O", subjects=["o.>"])
    for _ in range(COUNT):
        world.push("s.a")
    finish(world)
    return world


def finish(world: StreamWorld) -> None:
    world.settle()
    world.sync()
    world.settle()
    world.sync()


def begin_purge(world: StreamWorld) -> int:
    """Ask for a purge of S, in a turn that goes on. Returns the number of the request."""
    number = world.push("$JS.API.STREAM.PURGE.S", b'{"filter":"s.a"}')
    pass_turns(world, 2)
    return number


def meet_full_disk(world: StreamWorld, then: Callable[[], object]) -> None:
    """Do something while the write-ahead file has no room; afterwards there is room again."""
    fault = world.disk.fail("write", AHEAD, code=ENOSPC, times=None)
    then()
    finish(world)
    world.disk.heal(fault)
    world.advance(3.0)
    finish(world)


def after_kill(world: StreamWorld) -> StreamWorld:
    world.disk.kill()
    return StreamWorld(world.node.options, world.disk)


def purge_without_room_behind_it(world: StreamWorld) -> int:
    """Purge S, and have no room for a publish behind the purge. Returns the publish."""
    purge = begin_purge(world)
    behind = world.push("s.b", b"B")
    pass_turns(world, 2)

    def end_sync() -> None:
        sync(world)
        assert is_held(world), "the purge is applied in slices"
        pass_turns(world, 1)

    meet_full_disk(world, end_sync)
    assert world.answers[purge]["purged"] == COUNT
    return behind


def test_a_purge_that_was_answered_is_there_after_a_power_loss(world: StreamWorld) -> None:
    behind = purge_without_room_behind_it(world)
    assert error_code(world.answers[behind]) == STORE_FAILED
    later = [world.publish("s.c", b"C"), world.publish("s.d", b"D")]
    finish(world)
    assert world.errors(*later) == [0, 0]
    assert world.after_power_loss().state()["messages"] == 2


def test_a_publish_is_acked_by_a_sync_of_its_own(world: StreamWorld) -> None:
    purge_without_room_behind_it(world)
    world.push("o.x", b"O")
    pass_turns(world, 2)
    number = world.push("s.c", b"C")
    pass_turns(world, 2)
    sync(world)
    pass_turns(world, 1)
    assert number not in world.answers, "the sync that has ended was begun before the publish"
    finish(world)
    assert world.errors(number) == [0]
    assert after_kill(world).state()["messages"] == 1


def test_a_message_on_the_disk_is_acked_also_if_another_stream_finds_no_room(
    world: StreamWorld,
) -> None:
    begin_purge(world)
    number = world.push("s.b", b"B")
    pass_turns(world, 2)
    sync(world)
    pass_turns(world, 1)
    others: list[int] = []

    def end_sync_and_publish() -> None:
        sync(world)
        assert is_held(world), "the publish waits behind the purge"
        others.append(world.push("o.c", b"C"))
        pass_turns(world, 2)

    meet_full_disk(world, end_sync_and_publish)
    assert world.errors(number, *others) == [0, STORE_FAILED]
    assert after_kill(world).state()["messages"] == 1
