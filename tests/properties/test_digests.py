"""Replicas that apply equal entries have equal digests, whatever the entries are (`retreat_walk`).

The leader takes entries back again and again, and the follower gets the committed ones as bytes.

More seeds: DIGEST_SEEDS=5000 pytest tests/properties/test_digests.py
"""

import os
import random
from typing import Any, Final

import pytest

from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record
from headwater.jetstream.streams import digests
from headwater.jetstream.streams.digests import Digests
from headwater.jetstream.streams.removal import Removals
from tests.kit.held_driver import Decided
from tests.properties.retreat_walk import STEPS, RetreatWalk

SEEDS: Final = int(os.environ.get("DIGEST_SEEDS", "60"))
LENGTH: Final = 50


class DigestWalk(RetreatWalk):
    """A walk that compares digests behind each entry that is applied."""

    def __init__(self, choose: Any) -> None:
        super().__init__(choose)
        self.compared = 0
        self._index = 0
        self.both = [
            Digests(driver.stream.log, 0, lambda: None) for driver in (self.leader, self.twin)
        ]
        self.leader.follow_applied = self._follow

    def _follow(self, proposal: Proposal[Record], decided: Decided | None) -> None:
        self.twin.follow(self.leader, proposal, decided)
        self._index += 1
        for each in self.both:
            each.applied(self._index)
        ours, theirs = self.both
        assert ours.kept == theirs.kept
        self.compared = max(self.compared, len(ours.kept))


def walk_by(seed: int) -> DigestWalk:
    rng = random.Random(seed)
    walk = DigestWalk(rng.choice)
    for step in rng.choices(STEPS, k=LENGTH):
        walk.take_step(step)
    walk.retreat()
    return walk


@pytest.mark.parametrize("entries", [1, 5])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_replicas_have_equal_digests_at_every_agreed_entry(
    monkeypatch: pytest.MonkeyPatch, seed: int, entries: int
) -> None:
    monkeypatch.setattr(digests, "ENTRIES", entries)
    walk = walk_by(seed)
    ours, theirs = walk.both
    assert ours.kept == theirs.kept


def test_walks_compare_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "ENTRIES", 5)
    assert sum(walk_by(seed).compared for seed in range(10)) > 10


def test_a_removal_that_one_replica_skips_is_in_its_digest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(digests, "ENTRIES", 1)
    removing = Removals.removing

    def remove_less(self: Removals, sequences: list[int], erase: bool = False) -> Any:
        is_wrong = self._view is wrong[0]
        return removing(self, sequences[is_wrong:], erase)

    monkeypatch.setattr(Removals, "removing", remove_less)
    wrong: list[object] = [None]
    found = 0
    for seed in range(20):
        rng = random.Random(seed)
        walk = DigestWalk(rng.choice)
        wrong[0] = walk.twin.stream
        try:
            for step in rng.choices(STEPS, k=LENGTH):
                walk.take_step(step)
        except AssertionError as error:
            found += "Digest(" in str(error)
    assert found
