"""Consumers ahead of the log, taken through random turns beside a replica in the order of the log.

Proposals of the stream and of its consumers are committed one by one, in order and late, and some
of the last ones never. After every commit the stream must be what its replica is, which gets the
committed records alone and has no record ahead.
"""

import random
from typing import Any, Final

import pytest

from headwater.base.clock import NS_PER_S
from headwater.jetstream.config.consumer_config import AckPolicy
from headwater.jetstream.config.stream_config import Retention, Storage
from headwater.jetstream.consumers.acks import ACK, NAK, PROGRESS
from tests.kit.consumer_driver import STEP_RECORDS, ConsumerDriver, Got

SEEDS: Final = 150
STEPS: Final = 80
SUBJECTS: Final = ("S.a", "S.b", "S.c")
WORDS: Final = (ACK, ACK, ACK, b"+TERM", NAK, PROGRESS)
CONSUMERS: Final[dict[Retention, tuple[dict[str, Any], ...]]] = {
    Retention.LIMITS: ({}, {"filter_subjects": ("S.a", "S.b")}),
    Retention.INTEREST: ({}, {"filter_subjects": ("S.b", "S.c")}),
    Retention.WORKQUEUE: ({"filter_subjects": ("S.a",)}, {"filter_subjects": ("S.b", "S.c")}),
}
WEIGHTS: Final = {
    "publish": 4,
    "pull": 8,
    "speak": 8,
    "wait": 2,
    "delete": 2,
    "purge": 1,
    "commit": 12,
    "retreat": 2,
}


class AheadWalk:
    """A stream with two consumers, whose proposals are committed late."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        retention = rng.choice([*Retention])
        limits: dict[str, Any] = rng.choice(({}, {"max_msgs": 7}, {"max_msgs_per_subject": 3}))
        self.driver = ConsumerDriver(rng.choice([*Storage]), retention=retention, **limits)
        policies = [AckPolicy.EXPLICIT]
        if retention is not Retention.WORKQUEUE:
            policies += [AckPolicy.ALL]
        for name, config in zip("CD", CONSUMERS[retention], strict=True):
            policy = rng.choice(policies)
            self.driver.create(
                name, ack_policy=policy, ack_wait=2 * NS_PER_S, max_deliver=3, **config
            )
        self._publishes = rng.choice((True, False))
        self.driver.fill(*SUBJECTS * (1 if self._publishes else 6))
        self.driver.hold_all()
        self._got: list[Got] = []

    def publish(self) -> None:
        if self._publishes:
            self.driver.fill(*(self._rng.choice(SUBJECTS) for _ in range(self._rng.randint(1, 3))))

    def pull(self) -> None:
        self.driver.pull(self._rng.randint(1, 3), name=self._rng.choice("CD"), expires=3)

    def speak(self) -> None:
        self._got += self.driver.take()
        if self._got:
            some = self._rng.sample(self._got, min(len(self._got), self._rng.randint(1, 3)))
            self.driver.say([(got, self._rng.choice(WORDS), None) for got in some])

    def wait(self) -> None:
        self.driver.advance(self._rng.choice((0.5, 2.5)))

    def delete(self) -> None:
        waiting = [each for records in self.driver.waiting_records for each in records]
        sequences = self.driver.sequences
        if sequences and all(isinstance(each, STEP_RECORDS) for each in waiting):
            self.driver.delete(self._rng.choice(sequences))

    def purge(self) -> None:
        # The log has messages in flight already, where a purge of a subject finds them.
        patterns = (b">",) if self._publishes else (b">", b"S.a", b"S.*")
        self.driver.purge(self._rng.choice(patterns))

    def commit(self) -> None:
        for _ in range(self._rng.randint(1, 3)):
            self.driver.release_oldest()
            self.check()

    def retreat(self) -> None:
        waiting = self.driver.waiting_records
        last = 0
        while last < len(waiting) and all(
            isinstance(each, STEP_RECORDS) for each in waiting[-1 - last]
        ):
            last += 1
        self.driver.retreat(self._rng.randint(0, last))
        self.check()

    def check(self) -> None:
        """Compare the consumers and the visible messages; the log has others that are in flight."""
        stream, shadow = self.driver.stream, self.driver.shadow
        assert stream.consumers.dump() == shadow.consumers.dump()
        there = [each for each in range(1, shadow.visible_sequence + 1) if shadow.message(each)]
        assert self.driver.sequences == there


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_committed_is_the_same_on_a_replica(seed: int) -> None:
    rng = random.Random(seed)
    walk = AheadWalk(rng)
    for step in rng.choices([*WEIGHTS], [*WEIGHTS.values()], k=STEPS):
        getattr(walk, step)()
    driver = walk.driver
    while driver.waiting_records:
        driver.release_oldest()
        walk.check()
    driver.check()
    assert all(not consumer.machine.ahead for consumer in driver.stream.consumers)
    if driver.is_on_disk:
        driver.restart()
