"""Copies of streams keep their promises while servers, links and disks fail, many seeds.

A seed is replayed by `SEEDS=seed:42 python -m pytest tests/simulation/test_copying.py`.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from headwater.jetstream.copying import machine
from headwater.jetstream.copying.arrivals import Arrivals, Control
from headwater.jetstream.copying.machine import CopyMachine
from headwater.jetstream.copying.origins import Origin
from headwater.jetstream.copying.patience import SILENCE_NS
from headwater.jetstream.streams.origin_positions import OriginPositions
from headwater.server.streams.storage.stream_store import StreamStore
from headwater.testing import seeds
from tests.simulation.copying_ledger import BrokenCopy
from tests.simulation.copying_scenario import SHAPES, Shape, run

Plant: TypeAlias = Callable[[pytest.MonkeyPatch], None]

SEEDS = 6


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_copies_are_what_their_origins_say(seed: int, shape: Shape) -> None:
    """Mirrors have their origin's messages under its sequences and times; an aggregate has every
    message once, in the order of each source."""
    world, scenario = run(seed, shape)
    assert scenario.published
    print(world.summary())


def test_the_same_seed_gives_the_same_run() -> None:
    hashes = [run(3, SHAPES["two servers"])[0].trace_hash for _ in range(2)]
    assert hashes[0] == hashes[1]


# --- each defence switched off -----------------------------------------------------------------

SEEDS_FOR_PLANTED_BUGS = 12
CALM = Shape(copy_server=2, episodes=0, blackout=0)


def _positions_are_not_recovered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OriginPositions, "recover", lambda *_: None)


def _mirrors_go_on_above_their_reservation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StreamStore, "_is_copy_file", lambda *_: False)


def _positions_are_not_applied(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OriginPositions, "apply", lambda *_: None)


DEFECTS = {
    "positions are not recovered": (_positions_are_not_recovered, Shape(blackout=1.0)),
    "positions are not applied": (_positions_are_not_applied, SHAPES["three replicas"]),
    "mirrors go on above their reservation": (
        _mirrors_go_on_above_their_reservation,
        Shape(blackout=1.0),
    ),
}


def run_seeds(shape: Shape) -> None:
    """One seed after another, until one fails."""
    for seed in range(1, SEEDS_FOR_PLANTED_BUGS + 1):
        run(seed, shape)


@pytest.mark.parametrize(("plant", "shape"), DEFECTS.values(), ids=DEFECTS)
def test_without_a_defence_a_copy_is_broken(
    plant: Plant, shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(BrokenCopy):
        run_seeds(shape)


@pytest.mark.parametrize("plant", [plant for plant, _ in DEFECTS.values()], ids=DEFECTS)
def test_without_a_defence_nothing_shows_while_nothing_fails(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    _, scenario = run(2, CALM)
    assert scenario.published


# --- settings that are not kept --------------------------------------------------------------


def _origins_have_no_filters(patch: pytest.MonkeyPatch) -> None:
    describe = Origin.__init__

    def describe_all(self: Origin, *args: Any, **settings: Any) -> None:
        describe(self, *args, **settings)
        self.filters = ()

    patch.setattr(Origin, "__init__", describe_all)


def _subjects_are_not_transformed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Origin, "subjects_of", lambda self, subjects, entropy: subjects)


@pytest.mark.parametrize("plant", [_origins_have_no_filters, _subjects_are_not_transformed])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_settings_of_an_origin_that_are_not_kept_show_at_once(
    seed: int, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(BrokenCopy):
        run(seed, CALM)


# --- deliveries that are lost ------------------------------------------------------------------


def _gaps_are_not_seen(patch: pytest.MonkeyPatch) -> None:
    def count_all(arrivals: Arrivals, number: int) -> int:
        return len(arrivals)

    def hear(self: CopyMachine, control: Control, now_ns: int) -> None:
        self.due_ns = now_ns + SILENCE_NS

    patch.setattr(machine, "_count_in_order", count_all)
    patch.setattr(CopyMachine, "control", hear)


def _lose_deliveries(patch: pytest.MonkeyPatch) -> list[Arrivals]:
    """Have every fifth delivery lost on its way. Returns those that are."""
    take, lost, count = CopyMachine.take, list[Arrivals](), 0

    def take_most(self: CopyMachine, arrivals: Arrivals, now_ns: int) -> Arrivals | None:
        nonlocal count
        count += 1
        if count % 5:
            return take(self, arrivals, now_ns)
        lost.append(arrivals)
        return None

    patch.setattr(CopyMachine, "take", take_most)
    return lost


def test_lost_deliveries_are_copied_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = _lose_deliveries(monkeypatch)
    run(2, CALM)
    assert lost


def test_lost_deliveries_break_a_copy_that_does_not_see_gaps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _lose_deliveries(monkeypatch)
    _gaps_are_not_seen(monkeypatch)
    with pytest.raises(BrokenCopy):
        run(2, CALM)
