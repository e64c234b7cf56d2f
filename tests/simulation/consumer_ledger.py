"""The deliveries and acks that clients of consumers saw and sent, and the check of them.

The rules are those of the consistency contract for one server, stated against times and sequences
alone; nothing in this module knows how a server works. `StreamLedger` judges the fate of the
messages themselves; it takes every delivery as a sighting.

An acknowledgement that was answered is as durable as an acknowledged message is: a crash may cost
it only as far as the stream's row of the contract allows. An acknowledgement without an answer may
have been carried out or not.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from tests.simulation.stream_ledger import (
    IN_FLIGHT_S,
    StreamLedger,
    Violation,
    subject_of,
)

AckPolicy = Literal["explicit", "all", "none"]


@dataclass(frozen=True)
class Rules:
    """The configuration of a consumer, as far as the checks need it."""

    name: str
    acks: AckPolicy = "explicit"
    # The writers it is about; none for all.
    writers: tuple[str, ...] = ()
    max_deliver: int = 0
    # Whether it is only made while others are at work.
    is_late: bool = False

    def is_about(self, identity: str) -> bool:
        return not self.writers or subject_of(identity) in self.writers


@dataclass(frozen=True)
class Delivery:
    """A message that a client got from a consumer, with the delivery count of the server."""

    consumer: str
    sequence: int
    identity: str
    number: int
    at_s: float


@dataclass
class Ack:
    """An acknowledgement that a client sent; `done_s` is infinite if it got no answer."""

    consumer: str
    sequence: int
    sent_s: float
    done_s: float = inf


@dataclass
class Delay:
    """A NAK with a delay: its message may be redelivered after that time."""

    consumer: str
    sequence: int
    sent_s: float
    until_s: float
    done_s: float = inf


@dataclass(frozen=True)
class Look:
    """The state of a consumer in the answer to an info request."""

    consumer: str
    at_s: float
    floor: int
    delivered: int


@dataclass(frozen=True)
class Pause:
    """A pause of a consumer that the server has confirmed."""

    consumer: str
    done_s: float
    until_s: float


@dataclass
class ConsumerLedger(StreamLedger):
    """Everything that was seen of a stream and its consumers in one run."""

    rules: dict[str, Rules] = field(default_factory=dict)
    # Whether messages leave the stream when they are acknowledged.
    lets_go_of_acked: bool = False
    deliveries: list[Delivery] = field(default_factory=list)
    acks: list[Ack] = field(default_factory=list)
    delays: list[Delay] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    # The times of answers that a consumer is there, by its name.
    creations_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    # When clients died.
    deaths_s: list[float] = field(default_factory=list)
    # The sequences that clients are done with, by consumer, as far as they acknowledged them.
    _said: dict[str, set[int]] = field(default_factory=dict)

    def got(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        self.saw(delivery.sequence, delivery.identity, delivery.at_s, delivery.consumer)

    def check(self, final: dict[int, str], now_s: float) -> None:
        """Check all observations against the contents of the stream at the end, after draining."""
        for rules in self.rules.values():
            told = self.deliveries if rules.acks == "none" else self.acks
            self._said[rules.name] = {e.sequence for e in told if e.consumer == rules.name}
        super().check(final, now_s)
        self._check_not_after_ack()
        self._check_everything_done_with(final)
        self._check_order_without_acks()
        self._check_numbers()
        self._check_floors()
        self._check_pauses()
        self._check_delays()
        if self.lets_go_of_acked:
            self._check_let_go(final)

    # --- once ----------------------------------------------------------------------------------

    def _check_not_after_ack(self) -> None:
        """Nothing comes again whose acknowledgement was answered."""
        for delivery in self.deliveries:
            acked_s = self._sure_s(delivery.consumer, delivery.sequence, delivery.at_s)
            if acked_s + IN_FLIGHT_S < delivery.at_s:
                raise Violation(f"again: {delivery}, acknowledged at {acked_s}")

    def _sure_s(self, consumer: str, sequence: int, at_s: float) -> float:
        """Since when it is sure, at a time, that a consumer is done with a message."""
        covers_others = self.rules[consumer].acks == "all"
        times_s = [
            ack.done_s
            for ack in self.acks
            if ack.consumer == consumer
            and (ack.sequence == sequence or (covers_others and ack.sequence > sequence))
            and ack.done_s <= at_s
            and not self._is_forgotten(ack.done_s, at_s)
        ]
        return min(times_s, default=inf)

    def _is_forgotten(self, done_s: float, at_s: float) -> bool:
        """Whether a crash before `at_s` may have lost a change that was answered at `done_s`."""
        return any(
            crash.at_s <= at_s and crash.may_cost(done_s, self.promise) for crash in self.crashes
        )

    # --- at least once -------------------------------------------------------------------------

    def _check_everything_done_with(self, final: dict[int, str]) -> None:
        """Every message has come to every consumer that is about it, until it was done with."""
        messages = {seen.sequence: seen.identity for seen in self.sightings} | final
        for rules in self.rules.values():
            for sequence, identity in sorted(messages.items()):
                if (
                    self._is_owed(rules, identity)
                    and not self._is_said_to_be_done(rules, sequence)
                    and not self._may_be_missed(rules, sequence, identity, final)
                ):
                    raise Violation(f"missed: {rules.name} is not done with {identity}, {sequence}")

    def _is_owed(self, rules: Rules, identity: str) -> bool:
        """Whether a consumer has to get a message: it surely existed when the message was sent."""
        if not rules.is_about(identity):
            return False
        return not rules.is_late or any(
            created_s < self.sent[identity] and not self._is_forgotten(created_s, inf)
            for created_s in self.creations_s[rules.name]
        )

    def _is_said_to_be_done(self, rules: Rules, sequence: int) -> bool:
        """Whether a client acknowledged a message, or got it from a consumer without acks."""
        said = self._said[rules.name]
        # An ack of all also covers messages that were on their way to a client that died.
        return sequence <= max(said, default=0) if rules.acks == "all" else sequence in said

    def _may_be_missed(
        self, rules: Rules, sequence: int, identity: str, final: dict[int, str]
    ) -> bool:
        if sequence not in final and self._may_be_away(sequence, identity):
            return True
        # Some deliveries are not in the ledger: they went to a client that was dead.
        return rules.max_deliver > 0 and bool(self.crashes or self.deaths_s or self.delays)

    def _may_be_away(self, sequence: int, identity: str) -> bool:
        """Whether a message may be gone otherwise than by being consumed."""
        seen = [each for each in self.sightings if each.sequence == sequence]
        is_lost = bool(seen) and all(map(self._may_be_lost, seen))
        return is_lost or super()._may_be_gone(sequence, identity)

    def _may_be_gone(self, sequence: int, identity: str) -> bool:
        return super()._may_be_gone(sequence, identity) or self._is_consumed(sequence, identity)

    def _is_consumed(self, sequence: int, identity: str) -> bool:
        """Whether all consumers of a message may have been done with it, so that it was removed."""
        return self.lets_go_of_acked and all(
            self._is_said_to_be_done(rules, sequence)
            for rules in self.rules.values()
            if self._is_owed(rules, identity)
        )

    def _check_let_go(self, final: dict[int, str]) -> None:
        """At the end all messages are acknowledged and gone, but for those that were given up."""
        for sequence, identity in final.items():
            about = [rules for rules in self.rules.values() if rules.is_about(identity)]
            if not any(rules.max_deliver for rules in about):
                raise Violation(f"left: {identity} at {sequence}, though all are done with it")

    def _check_order_without_acks(self) -> None:
        """A consumer without acks delivers every message once, in order."""
        for rules in self.rules.values():
            if rules.acks == "none":
                got = [each.sequence for each in self.deliveries if each.consumer == rules.name]
                if got != sorted(set(got)):
                    raise Violation(f"not in order: {rules.name} got {got}")

    # --- how it is delivered -------------------------------------------------------------------

    def _check_numbers(self) -> None:
        for delivery in self.deliveries:
            rules = self.rules[delivery.consumer]
            if 0 < rules.max_deliver < delivery.number:
                raise Violation(f"too often: {delivery}")
            if not rules.is_about(delivery.identity):
                raise Violation(f"not wanted: {delivery}")

    def _check_floors(self) -> None:
        """The ack floor never falls while the server runs, nor ever below the durable acks.

        While the disk fails, consumers may forget what the log will never have.
        """
        highest: dict[tuple[str, int], int] = defaultdict(int)
        messages = sorted({(seen.sequence, seen.identity) for seen in self.sightings})
        for look in self.looks:
            life = sum(crash.at_s < look.at_s for crash in self.crashes)
            is_failing = any(c.disk_failed_s < look.at_s <= c.at_s for c in self.crashes)
            before = 0 if is_failing else highest[look.consumer, life]
            if not before <= look.floor <= look.delivered:
                raise Violation(f"floor: {look} after {before}")
            highest[look.consumer, life] = look.floor
            sure = self._sure_floor(look, messages)
            if look.floor < sure:
                raise Violation(f"floor: {look}, though all is acknowledged up to {sure}")

    def _sure_floor(self, look: Look, messages: list[tuple[int, str]]) -> int:
        """The sequence up to which all messages had answered acks before the look."""
        floor = 0
        for sequence, identity in messages:
            if not self.rules[look.consumer].is_about(identity):
                continue
            if self._sure_s(look.consumer, sequence, look.at_s) == inf:
                break
            floor = sequence
        return floor

    def _check_pauses(self) -> None:
        for pause in self.pauses:
            if self._is_forgotten(pause.done_s, inf):
                continue
            for delivery in self.deliveries:
                is_its = delivery.consumer == pause.consumer
                if is_its and pause.done_s + IN_FLIGHT_S < delivery.at_s < pause.until_s:
                    raise Violation(f"paused: {delivery} during {pause}")

    def _check_delays(self) -> None:
        """A NAK's delay keeps its message back, unless another NAK of the message ends sooner."""
        for delay in self.delays:
            about = (delay.consumer, delay.sequence)
            deliveries = [
                each for each in self.deliveries if (each.consumer, each.sequence) == about
            ]
            others = [each for each in self.delays if (each.consumer, each.sequence) == about]
            got_s = max(each.at_s for each in deliveries if each.at_s <= delay.sent_s)
            if (
                delay.done_s == inf
                or any(other.until_s < delay.until_s for other in others)
                # A crash may forget the delivery: the message is then still to be delivered.
                or any(got_s <= crash.at_s <= delay.done_s for crash in self.crashes)
                or self._is_forgotten(delay.done_s, inf)
            ):
                continue
            for delivery in deliveries:
                if delay.done_s + IN_FLIGHT_S < delivery.at_s < delay.until_s:
                    raise Violation(f"early: {delivery} in spite of {delay}")
