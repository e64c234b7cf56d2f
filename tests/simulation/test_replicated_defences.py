"""Each defence of replicated streams, taken out on whole servers, breaks a promise.

The faults are written down, and aim at the moment that the defence is for: seeds choose everything
else. With the defence the same seeds keep every promise, and without it nothing shows while nothing
fails.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.checker import BrokenPromise
from headwater.jetstream.group import Group
from headwater.jetstream.proposal import Confirmed, Proposal
from headwater.jetstream.streams.stream import Stream
from headwater.store.groups.opening import StartFacts
from headwater.store.recovery import replicas
from headwater.testing import Episode, World
from headwater.testing.faults import Crash, Pause
from headwater.testing.loop import UnhandledException
from tests.simulation.replicated_scenario import VIRTUAL_S_MAX, ReplicatedScenario, Shape, Stuck

THREE = Shape(replicas=3, blackout=0.0, flip_s_max=0.0)
UNSYNCED = replace(THREE, sync_always=False)


def _alone_and_then_away(server: str, others: tuple[str, str]) -> Episode:
    """A server hears none of the others, and is away when they go on."""
    return Episode(
        (
            *(Pause(1.0, 6.0, other) for other in others),
            Crash(5.0, 8.0, server, "kill"),
        )
    )


def _one_behind_one_forgetful_one_away() -> Episode:
    """The only server that has the last entries for certain is away."""
    return Episode(
        (
            Pause(1.0, 3.0, "s3"),
            Crash(2.4, 9.0, "s1", "kill"),
            Crash(2.5, 0.5, "s2", "power"),
        )
    )


def _each_loses_power() -> Episode:
    return Episode(tuple(Crash(2.0 * at, 0.5, f"s{at}", "power") for at in (1, 2, 3)))


ALONE = tuple(
    _alone_and_then_away(f"s{each}", (f"s{each % 3 + 1}", f"s{(each + 1) % 3 + 1}"))
    for each in (1, 2, 3)
)
FORGETFUL = (_one_behind_one_forgetful_one_away(),)
POWERLESS = (_each_loses_power(), _each_loses_power())


class Planned(ReplicatedScenario):
    """A run with the faults of a plan."""

    plan: tuple[Episode, ...] = ()

    def _plan(self) -> list[Episode]:
        return [*self.plan]


def run(seed: int, shape: Shape, plan: tuple[Episode, ...]) -> None:
    """One run of a seed."""
    world = World(seed, virtual_s_max=VIRTUAL_S_MAX)
    scenario = Planned(shape)
    scenario.plan = plan
    world.run(scenario.run)
    assert all(len(each.replicas) == shape.replicas for each in scenario.histories.values())


def _no_retreat(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stream, "retreat", lambda *_: None)


def _acks_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    propose = Group.propose

    def confirm_at_once(self: Group[Any, Any], proposal: Proposal[Any]) -> None:
        early = tuple(each for each in proposal.effects if isinstance(each, Confirmed))
        proposal.effects = tuple(each for each in proposal.effects if each not in early)
        propose(self, proposal)
        if early:
            answer: Proposal[Any] = Proposal(effects=early)
            answer.index = self.applied
            self._driver.release(answer)

    patch.setattr(Group, "propose", confirm_at_once)


def _no_exact_replay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replicas, "cut_back", lambda files, folder, point, sets_aside: None)


def _no_doubt_after_an_unclean_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StartFacts, "doubt_about", lambda self, group, is_damaged: "")


@dataclass(frozen=True)
class Defence:
    """A defence, and the run that misses it."""

    take_out: Callable[[pytest.MonkeyPatch], None]
    shape: Shape
    plan: tuple[Episode, ...]
    seed: int


DEFENCES = {
    "retreat": Defence(_no_retreat, THREE, ALONE, 2),
    "acks_at_commit": Defence(_acks_before_the_commit, THREE, ALONE, 1),
    "exact_replay": Defence(_no_exact_replay, UNSYNCED, POWERLESS, 1),
    "unclean_start": Defence(_no_doubt_after_an_unclean_start, UNSYNCED, FORGETFUL, 5),
}


@pytest.mark.parametrize("name", DEFENCES)
def test_promises_are_broken_without_the_defence(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    defence = DEFENCES[name]
    defence.take_out(monkeypatch)
    with pytest.raises((BrokenPromise, Stuck, UnhandledException, InvariantViolation)):
        run(defence.seed, defence.shape, defence.plan)


@pytest.mark.parametrize("name", DEFENCES)
def test_promises_are_kept_with_the_defence(name: str) -> None:
    defence = DEFENCES[name]
    run(defence.seed, defence.shape, defence.plan)


@pytest.mark.parametrize("name", DEFENCES)
def test_no_defence_is_missed_while_nothing_fails(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    defence = DEFENCES[name]
    defence.take_out(monkeypatch)
    run(defence.seed, defence.shape, ())
