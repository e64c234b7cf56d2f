"""Fault plans: drawn from the seed, begun and ended in time, harmless in any combination."""

import asyncio
import random

import pytest

from headwater.base.errors import ProgrammerError
from headwater.testing import Episode, FaultPlan, World
from headwater.testing import faults as model
from headwater.testing.faults import (
    ALL_KINDS,
    BitFlip,
    Crash,
    Fault,
    FullDisk,
    Partition,
    Pause,
    Refuse,
    Slow,
)


def drawn(seed: int, **options: object) -> FaultPlan:
    return FaultPlan.drawn(
        random.Random(seed),
        servers=["server-1", "server-2"],
        clients=["client-1", "client-2"],
        **options,  # type: ignore[arg-type]
    )


def test_every_kind_is_in_the_model() -> None:
    assert model.__doc__ is not None
    for kind in (*ALL_KINDS, BitFlip, FullDisk):
        assert f"\n{kind.__name__} " in model.__doc__
    # No plan flips bits or fills disks of its own accord.
    assert {*ALL_KINDS, BitFlip, FullDisk} == set(Fault.__subclasses__())


def test_a_plan_follows_the_random_numbers() -> None:
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_all_kinds_are_drawn() -> None:
    kinds = {type(fault) for seed in range(50) for e in drawn(seed) for fault in e.faults}
    assert kinds == set(ALL_KINDS)


def test_kinds_and_counts_can_be_chosen() -> None:
    plan = drawn(1, kinds=[Pause], episodes=7, faults_max=1)
    assert len(plan.episodes) == 7
    for episode in plan:
        [fault] = episode.faults
        assert type(fault) is Pause


def test_a_plan_needs_a_server() -> None:
    with pytest.raises(ProgrammerError, match="at least one"):
        FaultPlan.drawn(random.Random(1), servers=[], clients=["client-1"])


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_left_of_an_episode(seed: int) -> None:
    async def main(world: World) -> None:
        names = ["server-1", "server-2", "client-1", "client-2"]
        for name in names:
            world.host(name)
        for episode in drawn(seed, episodes=5, faults_max=8):
            await episode.run(world)
            for name in names:
                host = world.host(name)
                assert host.alive
                assert host.powered
                assert not host.process.paused
                assert not host.refusing
                for other in names:
                    link = world.network.link(name, other)
                    assert not link.blocks
                    assert link.bytes_per_s is None

    World(seed).run(main)


def test_faults_begin_and_end_in_time() -> None:
    async def main(world: World) -> None:
        for name in ("a", "b"):
            world.host(name)
        episode = Episode(
            (
                Partition(1.0, 4.0, "a", "b", "forward"),
                Pause(2.0, 1.0, "b"),
                Refuse(0.0, 10.0, "b"),
                Slow(3.0, 1.0, "a", "b", 0.5, None),
                Crash(6.0, 1.0, "a", "power"),
            )
        )
        running = asyncio.ensure_future(episode.run(world))
        seen = []
        await asyncio.sleep(0.5)
        for _ in range(10):
            link = world.network.link("a", "b")
            b = world.host("b")
            seen.append(
                (
                    bool(link.blocks),
                    b.process.paused,
                    b.refusing,
                    link.latency_s == 0.5,
                    world.host("a").alive,
                )
            )
            await asyncio.sleep(1)
        await running
        assert [moment[0] for moment in seen] == [0, 1, 1, 1, 1, 0, 1, 0, 0, 0]
        assert [moment[1] for moment in seen[:5]] == [0, 0, 1, 0, 0]
        assert all(moment[2] for moment in seen)
        assert [moment[3] for moment in seen[:6]] == [0, 0, 0, 1, 0, 0]
        assert [moment[4] for moment in seen[4:9]] == [1, 1, 0, 1, 1]

    World(1).run(main)


def test_a_full_disk_has_room_for_some_bytes_until_the_fault_ends() -> None:
    async def main(world: World) -> None:
        disk = world.host("server-1").disk
        fault = FullDisk(0.0, 1.0, "server-1", 5)
        fault.begin(world)
        assert disk.capacity_bytes == disk.used_bytes + 5
        fault.end(world)
        assert disk.capacity_bytes is None

    World(1).run(main)
