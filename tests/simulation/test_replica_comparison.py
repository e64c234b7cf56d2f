"""Replicas of whole clusters compare what they applied: one that differs is found and filled again.

Digests are formed every few entries here, so that a short run has many of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from headwater.checker import BrokenPromise
from headwater.jetstream.streams import digests
from headwater.jetstream.streams.digests import Digest
from headwater.server.cluster.assignment.comparison import ReplicaComparison
from headwater.server.streams.follower import StreamFollower
from headwater.store.log.file_log import FileLog
from headwater.testing import World
from tests.kit.shadows import Shadows
from tests.simulation.replicated_scenario import ReplicatedScenario, Shape

ENTRIES = 16
VIRTUAL_S_MAX = 1_200.0
CALM = Shape(replicas=3, episodes=0, blackout=0, flip_s_max=0.0)
SHAPES = {
    "calm": CALM,
    "calm, interval": replace(CALM, sync_always=False),
    "calm, five replicas": replace(CALM, servers=5, replicas=5),
    "faults": Shape(replicas=3),
    "faults, interval": Shape(replicas=3, sync_always=False),
}
SEEDS = (1, 2, 3)
# Few entries follow a removal that is skipped.
ENTRIES_OF_PLANTED_BUGS = 4
SEEDS_OF_PLANTED_BUGS = (1, 2, 3)


@pytest.fixture(autouse=True)
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Digest]:
    """Form many digests, and note those that are compared."""
    monkeypatch.setattr(digests, "ENTRIES", ENTRIES)
    is_comparable = Digest.is_comparable
    found: list[Digest] = []

    def note_comparable(self: Digest, other: Digest) -> bool:
        comparable = is_comparable(self, other)
        if comparable:
            found.append(self)
        return comparable

    monkeypatch.setattr(Digest, "is_comparable", note_comparable)
    return found


def run(seed: int, shape: Shape) -> list[str]:
    """The reports of one run of a seed."""
    world = World(seed, virtual_s_max=VIRTUAL_S_MAX)
    scenario = ReplicatedScenario(shape)
    try:
        world.run(scenario.run)
    finally:
        lines = [line for logged in scenario.cluster.logs.values() for line in logged]
    return [line for line in lines if "differs from that of server" in line]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("seed", SEEDS)
def test_replicas_that_apply_the_same_log_never_differ(
    compared: list[Digest], seed: int, shape: Shape
) -> None:
    assert run(seed, shape) == []
    assert compared


def _a_follower_that_keeps_one_message(patch: pytest.MonkeyPatch) -> None:
    """Have the first follower that removes messages of a stream keep one of them."""
    patch.setattr(digests, "ENTRIES", ENTRIES_OF_PLANTED_BUGS)
    apply, delete = StreamFollower.apply, FileLog.delete
    applying: list[FileLog] = []
    done: list[int] = []

    def apply_noted(self: StreamFollower, entries: Iterable[tuple[int, bytes]]) -> int:
        log = self._stream.log
        assert isinstance(log, FileLog)
        applying.append(log)
        try:
            return apply(self, entries)
        finally:
            applying.pop()

    def delete_less(self: FileLog, sequences: Sequence[int], *rest: Any, **named: Any) -> int:
        if self in applying and sequences and not done:
            done.append(sequences[-1])
            sequences = sequences[:-1]
        return delete(self, sequences, *rest, **named)

    patch.setattr(StreamFollower, "apply", apply_noted)
    patch.setattr(FileLog, "delete", delete_less)


@pytest.mark.parametrize("seed", SEEDS_OF_PLANTED_BUGS)
def test_a_replica_that_keeps_a_message_is_filled_again(
    monkeypatch: pytest.MonkeyPatch, shadows: Shadows, seed: int
) -> None:
    shadows.defect_planted()
    _a_follower_that_keeps_one_message(monkeypatch)
    assert len(run(seed, CALM)) == 1


@pytest.mark.parametrize("seed", SEEDS_OF_PLANTED_BUGS)
def test_without_the_comparison_the_replicas_stay_different(
    monkeypatch: pytest.MonkeyPatch, shadows: Shadows, seed: int
) -> None:
    shadows.defect_planted()
    _a_follower_that_keeps_one_message(monkeypatch)
    monkeypatch.setattr(ReplicaComparison, "compare", lambda self, replica: None)
    with pytest.raises(BrokenPromise) as caught:
        run(seed, CALM)
    assert "replicas are equal" in caught.value.rules
