"""Consumers against a dumb twin (`consumer_walk`), and how their work falls into turns."""

import random
from itertools import cycle
from typing import Final, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headwater.jetstream.config.consumer_config import AckPolicy
from headwater.jetstream.config.stream_config import Retention, Storage
from headwater.jetstream.consumers.acks import ACK, PROGRESS
from tests.kit.consumer_driver import ConsumerDriver
from tests.kit.stream_driver import Publish
from tests.properties.consumer_walk import NAK_LATER, ROUNDS_MAX, SUBJECTS, Walk

SEEDS: Final = 120
STEPS: Final = 60
KILLED_SEEDS: Final = 30
KILLED_STEPS: Final = 30

T = TypeVar("T")

# The relative probability of each step.
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
def test_a_random_walk(seed: int) -> None:
    rng = random.Random(seed)
    walk = Walk(rng.choice)
    steps = rng.choices([*WEIGHTS], [*WEIGHTS.values()], k=STEPS)
    for step in steps:
        getattr(walk, step)()
        walk.check()
    walk.arrive()


class ConsumerTurns(RuleBasedStateMachine):
    """A walk chosen by hypothesis, which finds the shortest way to a failure."""

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


# --- work divided into turns ----------------------------------------------------------------------

DONE_OR_LATER: Final = st.sampled_from([ACK, b"", b"+TERM", NAK_LATER, PROGRESS])


@settings(deadline=None, max_examples=60)
@given(
    retention=st.sampled_from([*Retention]),
    acks=st.sampled_from([AckPolicy.EXPLICIT, AckPolicy.ALL]),
    subjects=st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=8),
    said=st.lists(st.tuples(st.integers(min_value=0, max_value=20), DONE_OR_LATER), max_size=8),
    cuts=st.lists(st.integers(min_value=1, max_value=3), min_size=1, max_size=4),
)
def test_turns_show_in_nothing_durable(
    retention: Retention,
    acks: AckPolicy,
    subjects: list[str],
    said: list[tuple[int, bytes]],
    cuts: list[int],
) -> None:
    """Publishes and acks leave equal streams, whether they come together or one by one."""
    if retention is Retention.WORKQUEUE:
        acks = AckPolicy.EXPLICIT
    dumps = []
    for sizes in ([1], cuts, [100]):
        driver = ConsumerDriver(Storage.MEMORY, retention=retention)
        driver.create(ack_policy=acks)
        if retention is not Retention.WORKQUEUE:
            driver.create("other", filter_subject="S.b")
        # The pull asks for just the messages there will be: after them, no request waits.
        driver.pull(len(subjects))
        for part in parts([Publish(each, b"x") for each in subjects], sizes):
            driver.publish_together(part)
        got = driver.take()
        assert len(got) == len(subjects)
        words = [(got[number % len(got)], payload, None) for number, payload in said]
        for turn in parts(words, sizes):
            driver.say(turn)
        driver.check()
        dumps.append(driver.stream.dump(driver.now_ns))
    assert dumps[0] == dumps[1] == dumps[2]


def parts(items: list[T], sizes: list[int]) -> list[list[T]]:
    """Items cut into turns of these sizes, over and over again."""
    found: list[list[T]] = []
    begin = 0
    for size in cycle(sizes):
        if begin >= len(items):
            return found
        found.append(items[begin : begin + size])
        begin += size
    return found


@pytest.mark.parametrize("seed", range(KILLED_SEEDS))
def test_what_a_kill_costs_is_delivered_again(seed: int) -> None:
    """A kill loses the acks and deliveries that were not in the journal yet, and no message.

    A message that left the stream stays away: its acknowledgement was written with its removal.
    """
    rng = random.Random(seed)
    walk = Walk(rng.choice)
    for step in rng.choices([*WEIGHTS], [*WEIGHTS.values()], k=KILLED_STEPS):
        getattr(walk, step)()
    driver = walk.driver
    before = driver.sequences
    unsettled = {name: unsettled_of(walk, name) for name in walk.twins}
    driver.kill()
    assert driver.sequences == before, "no message comes back, and none is lost"
    for name, sequences in unsettled.items():
        config = driver.consumer(name).config
        if config.ack_policy is not AckPolicy.NONE and config.max_deliver < 0:
            assert sequences <= receive_all(driver, name), "what was not acknowledged comes"


def receive_all(driver: ConsumerDriver, name: str) -> set[int]:
    """Every message that a consumer delivers to a client that acknowledges all of them."""
    found: set[int] = set()
    for _ in range(ROUNDS_MAX):
        if driver.consumer(name).push is not None:
            driver.listen(name)
        else:
            driver.pull(100, name=name, no_wait=True)
        got = driver.take()
        driver.ack(*got)
        found |= {each.sequence for each in got}
        driver.advance(10)
    return found


def unsettled_of(walk: Walk, name: str) -> set[int]:
    """The messages that a consumer still has to deliver, for the first time or again."""
    twin = walk.twins[name]
    return twin.pending | {*twin.to_come(walk.stream)}
