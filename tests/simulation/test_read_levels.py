"""Every level of reads keeps its promise while servers, links, clocks and disks fail, many seeds.

A seed is replayed by `SEEDS=seed:42 python -m pytest tests/simulation/test_read_levels.py`. The
rules of leases are taken out one by one in `tests/scenarios`; here runs without faults pass
without them.
"""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from headwater.checker import BrokenPromise
from headwater.checker.history import ReadLevel
from headwater.jetstream.streams.stream import Stream
from headwater.server.streams.awaited_reads import AwaitedReads
from headwater.server.streams.confirmation import Confirmation
from headwater.server.streams.copying.stream_copies import StreamCopies
from headwater.testing import Cluster, World, seeds
from tests.kit.lease_defences import DEFENCES, Defence
from tests.simulation.read_scenario import CALM, FILTERED, STREAM, STRONG, ReadScenario, Shape

SEEDS = 3
SEEDS_OF_MIRRORS = 2
VIRTUAL_S_MAX = 600.0

SHAPES = {"by leases": Shape(), "by rounds": Shape(by_rounds=True)}
WITH_MIRRORS = Shape(has_mirrors=True)


def run(seed: int, shape: Shape) -> ReadScenario:
    """One run of a seed."""
    world = World(seed, virtual_s_max=VIRTUAL_S_MAX)
    scenario = ReadScenario(shape)
    world.run(scenario.run)
    print(scenario.counts(), world.summary())
    return scenario


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_linearizable_session_and_weak_reads_keep_their_promises(seed: int, shape: Shape) -> None:
    scenario = run(seed, shape)
    for level in (ReadLevel.LINEARIZABLE, ReadLevel.SESSION, ReadLevel.WEAK):
        assert scenario.answered(level)


@pytest.mark.parametrize("seed", seeds(SEEDS_OF_MIRRORS))
def test_sequential_and_session_reads_of_mirrors_keep_their_promises(seed: int) -> None:
    scenario = run(seed, WITH_MIRRORS)
    assert scenario.answered(ReadLevel.SEQUENTIAL)
    assert {each.mirror for each in scenario.answered(ReadLevel.SESSION)} == {"", STRONG, FILTERED}


@pytest.mark.parametrize("by_rounds", [False, True])
def test_without_faults_no_read_is_refused(by_rounds: bool) -> None:
    scenario = run(1, replace(CALM, by_rounds=by_rounds, has_operator=False))
    for level in (ReadLevel.LINEARIZABLE, ReadLevel.SESSION, ReadLevel.WEAK):
        assert scenario.answered(level)
        assert not scenario.refused(level)


def test_an_idle_stream_never_refuses_a_linearizable_read_for_an_hour() -> None:
    async def main(world: World) -> None:
        cluster = Cluster(world, 3)
        await cluster.start()
        client = await cluster.connect(1)
        await client.jetstream().add_stream(name=STREAM, subjects=["r.>"], num_replicas=3)
        update = b'{"name":"R","subjects":["r.>"],"num_replicas":3,"read_consistency":"strong"}'
        await client.request(f"$JS.API.STREAM.UPDATE.{STREAM}", update)
        await client.jetstream().publish("r.a", b"one")
        await asyncio.sleep(1.0)
        rng = world.rng("moments")
        begin_s = world.now_s()
        while world.now_s() < begin_s + 3_600.0:
            reply = await client.request(f"$JS.API.DIRECT_LEADER.GET.{STREAM}.r.a", b"")
            assert reply.data == b"one"
            await asyncio.sleep(rng.uniform(0.0, 20.0))
        info = await client.jetstream().stream_info(STREAM)
        assert info.state.last_seq == 1

    World(1).run(main)


# --- each defence taken out ----------------------------------------------------------------------

SEED_OF_STALE_READS = 5
SHORT = replace(CALM, calm_s=3.0, has_operator=False)


@pytest.mark.parametrize("defence", DEFENCES.values(), ids=DEFENCES)
def test_without_faults_a_rule_is_not_missed(
    defence: Defence, monkeypatch: pytest.MonkeyPatch
) -> None:
    defence.take_out(monkeypatch)
    run(1, SHORT)


def _never_wait(self: AwaitedReads, sequence: int, answer: Any) -> None:
    answer()


def test_without_faults_the_check_behind_a_read_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Confirmation, "holds", lambda self: True)
    monkeypatch.setattr(AwaitedReads, "add", _never_wait)
    run(1, SHORT)


def test_a_mirror_of_a_part_that_answers_sessions_of_its_origin_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(StreamCopies, "is_whole", True)
    with pytest.raises(BrokenPromise, match="session reads are complete"):
        run(1, replace(SHORT, has_mirrors=True))


def test_a_mirror_that_counts_what_it_does_not_have_yet_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lag of a mirror, which is known before the messages come, makes nothing complete."""

    def complete(self: Stream) -> int:
        return self.visible_sequence + (5 if self.config.mirror is not None else 0)

    monkeypatch.setattr(Stream, "complete_sequence", property(complete))
    with pytest.raises(BrokenPromise, match="session reads are complete"):
        run(1, replace(SHORT, has_mirrors=True))


def test_a_lease_that_nobody_checks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that was cut off answers with old data when it neither looks before nor behind."""
    monkeypatch.setattr(Confirmation, "holds", lambda self: True)
    monkeypatch.setattr(Confirmation, "may_begin", lambda self: True)
    with pytest.raises(BrokenPromise, match="linearizable reads are never stale"):
        run(SEED_OF_STALE_READS, Shape())
