"""A run can be told apart, repeated, and explained when it fails."""

import asyncio

import pytest

from headwater.testing import World, seeds
from headwater.testing.trace import Trace
from headwater.testing.world import SEEDS_VARIABLE


async def connects_and_fails(world: World) -> None:
    await asyncio.start_server(lambda reader, writer: writer.close(), "0.0.0.0", 4222)
    reader, writer = await asyncio.open_connection("outside", 4222)
    await reader.read()
    writer.close()
    raise ValueError("something is wrong")


def test_a_failure_keeps_its_type_and_tells_how_to_repeat_it() -> None:
    with pytest.raises(ValueError, match="something is wrong") as failure:
        World(42).run(connects_and_fails)
    [note] = failure.value.__notes__
    assert "seed 42:" in note
    assert "SEEDS=seed:42 python -m pytest 'tests/unit/testing/test_world.py::test_a_fail" in note
    assert "established #1 outside>outside:4222" in note


def test_the_replay_command_can_be_given() -> None:
    with pytest.raises(ValueError, match="something is wrong") as failure:
        World(42, replay="make again SEED=42").run(connects_and_fails)
    assert "replay: make again SEED=42" in failure.value.__notes__[0]


def test_the_summary_has_seed_and_hash() -> None:
    async def main(world: World) -> None:
        await asyncio.sleep(1.5)

    world = World(7)
    world.run(main)
    assert world.summary().startswith("seed 7: 1.500 virtual s, 0 events, trace ")
    assert world.trace_hash in world.summary()


def test_seeds_are_counted_or_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SEEDS_VARIABLE, raising=False)
    assert seeds(3) == [1, 2, 3]
    assert seeds(2, first=10) == [10, 11]
    monkeypatch.setenv(SEEDS_VARIABLE, "5")
    assert seeds(3) == [1, 2, 3, 4, 5]
    monkeypatch.setenv(SEEDS_VARIABLE, "seed:42")
    assert seeds(3) == [42]


def test_dice_of_one_purpose_do_not_move_those_of_another() -> None:
    world = World(1)
    first = world.rng("a")
    assert first.random() == world.rng("a").random()
    assert world.rng("a").random() != world.rng("b").random()
    assert world.rng("a", 1).random() != world.rng("a", 2).random()
    world.loop.end()


def test_a_trace_is_its_events_and_their_order() -> None:
    def digest(*events: tuple[float, str, str]) -> str:
        trace = Trace(keep=10)
        for event in events:
            trace.note(*event)
        return trace.digest()

    one, two = (1.0, "read", "#1"), (2.0, "read", "#2")
    assert digest(one, two) == digest(one, two)
    assert len({digest(), digest(one), digest(two), digest(one, two), digest(two, one)}) == 5


def test_asking_for_the_digest_does_not_change_it() -> None:
    asked, unasked = Trace(keep=0), Trace(keep=0)
    for number in range(2000):
        for trace in (asked, unasked):
            trace.note_bytes(number / 7, "read", "#1", b"x" * number)
        asked.digest()
    assert asked.digest() == unasked.digest()


def test_only_the_latest_events_are_kept() -> None:
    trace = Trace(keep=2)
    for number in range(5):
        trace.note(number, "event", str(number))
    assert trace.tail() == ["3.000000 event 3", "4.000000 event 4"]
    assert trace.tail(origin_s=3) == ["0.000000 event 3", "1.000000 event 4"]
    assert trace.event_count == 5
