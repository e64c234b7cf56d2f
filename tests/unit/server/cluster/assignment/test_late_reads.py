"""Reads that were sent to a leader which may be cut off: refused when it is silent, else left."""

from typing import cast

import pytest

from headwater.base.clock import NS_PER_S
from headwater.server.cluster.assignment import late_reads
from headwater.server.cluster.assignment.late_reads import LOOK_S, LOOKS_MAX, LateReads
from headwater.server.streams.routing import Call
from tests.kit.world import ManualClock, ManualScheduler


class Watching:
    """Reads that were sent to servers, and those that were refused."""

    def __init__(self) -> None:
        self.silent_ns: dict[str, int] = {}
        self.alive = {"s1", "s2"}
        self.refused: list[Call] = []
        self.scheduler = ManualScheduler(ManualClock())
        self.late = LateReads(
            lambda name: self.silent_ns.get(name, 0),
            lambda name: name in self.alive,
            self.refused.append,
            self.scheduler,
        )

    def look(self, count: int) -> None:
        for _ in range(count):
            self.scheduler.advance(LOOK_S)


READ = cast(Call, "read")


def test_a_read_is_refused_when_its_leader_is_silent() -> None:
    watching = Watching()
    watching.silent_ns["s1"] = NS_PER_S
    watching.late.watch("s1", READ)
    watching.late.watch("s2", READ)
    watching.look(1)
    assert watching.refused == [READ]
    watching.look(5)
    assert watching.refused == [READ]


def test_a_read_is_refused_when_its_leader_falls_silent_soon() -> None:
    watching = Watching()
    watching.late.watch("s1", READ)
    watching.look(LOOKS_MAX - 1)
    watching.silent_ns["s1"] = NS_PER_S
    assert watching.refused == []
    watching.look(1)
    assert watching.refused == [READ]


def test_a_read_is_not_looked_after_for_ever() -> None:
    watching = Watching()
    watching.late.watch("s1", READ)
    watching.look(LOOKS_MAX)
    watching.alive.clear()
    watching.late.watch("s2", READ)
    watching.look(1)
    assert watching.refused == [READ]


def test_a_read_is_refused_when_its_leader_is_given_up() -> None:
    watching = Watching()
    watching.late.watch("s1", READ)
    watching.alive.clear()
    watching.look(2)
    assert watching.refused == [READ]


def test_without_reads_nothing_is_planned() -> None:
    watching = Watching()
    watching.late.watch("s1", READ)
    watching.look(LOOKS_MAX + 1)
    assert watching.scheduler.waiting == 0


def test_reads_beyond_a_number_are_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_reads, "WATCHED_MAX", 2)
    watching = Watching()
    for _ in range(3):
        watching.late.watch("s1", READ)
    watching.alive.clear()
    watching.look(2)
    assert len(watching.refused) == 2
