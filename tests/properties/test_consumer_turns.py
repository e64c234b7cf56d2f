"""Consumers against a dumb twin (`consumer_walk`), and how their work falls into turns."""

import random
from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headwater.jetstream.config import Storage
from tests.properties.consumer_walk import Walk

SEEDS: Final = 120
STEPS: Final = 60
# How likely each step is.
WEIGHTS: Final = {
    "publish": 6,
    "receive": 8,
    "speak": 8,
    "wait": 5,
    "restart": 2,
    "rewrite_journal": 1,
    "create": 2,
    "drop": 1,
    "filter": 2,
    "reset": 1,
    "delete": 2,
    "purge": 1,
}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_walk_by_dice(seed: int) -> None:
    dice = random.Random(seed)
    walk = Walk(dice.choice)
    steps = dice.choices([*WEIGHTS], [*WEIGHTS.values()], k=STEPS)
    for step in steps:
        getattr(walk, step)()
        walk.check()
    walk.arrive()


class ConsumerTurns(RuleBasedStateMachine):
    """The same by hypothesis, which finds the shortest way to a failure."""

    def _chosen_by(self, data: st.DataObject) -> Walk:
        self.walk.choose = lambda options: data.draw(st.sampled_from(options))
        return self.walk

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.walk = Walk(lambda options: data.draw(st.sampled_from(options)), Storage.FILE)

    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        self._chosen_by(data).publish()

    @rule(data=st.data())
    def receive(self, data: st.DataObject) -> None:
        self._chosen_by(data).receive()

    @rule(data=st.data())
    def speak(self, data: st.DataObject) -> None:
        self._chosen_by(data).speak()

    @rule(data=st.data())
    def wait(self, data: st.DataObject) -> None:
        self._chosen_by(data).wait()

    @rule(data=st.data(), step=st.sampled_from([*WEIGHTS]))
    def do_anything(self, data: st.DataObject, step: str) -> None:
        getattr(self._chosen_by(data), step)()

    @invariant()
    def agrees(self) -> None:
        self.walk.check()

    def teardown(self) -> None:
        if hasattr(self, "walk"):
            self.walk.arrive()


TestConsumerTurns = ConsumerTurns.TestCase
TestConsumerTurns.settings = settings(deadline=None, max_examples=20, stateful_step_count=30)
