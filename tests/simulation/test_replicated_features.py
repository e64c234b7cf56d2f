"""Counters, schedules, times to live, roll-ups and pins of replicated streams are checked.

`test_replicated_streams.py` runs them with many faults. Here each rule is broken in the server, and
the check of that rule has to find it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from headwater.checker import BrokenPromise
from headwater.checker.history import Outcome
from headwater.jetstream.consumers import pin
from headwater.jetstream.streams import effects
from headwater.jetstream.streams.publishing import admission, counters
from headwater.jetstream.streams.schedules.due import DueWork
from headwater.testing import Episode, World
from headwater.testing.faults import Pause
from tests.simulation import replicated_scenario
from tests.simulation.replicated_scenario import SHAPES, VIRTUAL_S_MAX, ReplicatedScenario

SEED = 2
CALM = replace(SHAPES["features"], blackout=0.0, flip_s_max=0.0)
# A rule that does not hold by then never will.
SETTLED_S = 10.0


class WithPause(ReplicatedScenario):
    """A run in which the client that is pinned first stands still, so that the other one is."""

    def _plan(self) -> list[Episode]:
        return [Episode((Pause(1.0, 6.0, "g1"),)), Episode((Pause(1.0, 6.0, "g2"),))]


def run() -> WithPause:
    world = World(SEED, virtual_s_max=VIRTUAL_S_MAX)
    scenario = WithPause(CALM)
    world.run(scenario.run)
    return scenario


def test_the_workload_has_every_kind_of_operation() -> None:
    scenario = run()
    counts: Counter[tuple[str, str, Outcome]] = Counter()
    for name, history in scenario.featured.items():
        assert not history.losses
        counts.update((name, type(each).__name__, each.outcome) for each in history.operations)
    for name, kind in (
        ("COUNT", "Increment"),
        ("FLEETING", "Increment"),
        ("TIMED", "Scheduled"),
        ("TIMED", "Expiring"),
        ("TIMED", "RollUp"),
        ("TIMED", "PinnedDelivery"),
    ):
        assert counts[name, kind, Outcome.DONE], counts


def _wrong_total(patch: pytest.MonkeyPatch) -> None:
    total_of = counters.total_of
    patch.setattr(counters, "total_of", lambda body: total_of(body) + 1)


def _no_copies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DueWork, "_publish_copies", lambda self, admission: None)


def _no_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DueWork, "_gone", lambda self, now_ns: [])


def _no_roll_ups(patch: pytest.MonkeyPatch) -> None:
    for module in (effects, admission):
        patch.setattr(module, "purges_of", lambda *_: [])


def _one_pin_for_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pin, "base62", lambda entropy, size: "one")


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "counters sum right": _wrong_total,
    "schedules fire once": _no_copies,
    "messages go after their time": _no_end,
    "roll-ups replace what was before": _no_roll_ups,
    "a pin is one client's": _one_pin_for_all,
}


@pytest.mark.parametrize("rule", PLANTED)
def test_a_server_that_breaks_a_rule_is_found(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicated_scenario, "SETTLED_S_MAX", SETTLED_S)
    PLANTED[rule](monkeypatch)
    with pytest.raises(BrokenPromise) as caught:
        run()
    assert rule in caught.value.rules
