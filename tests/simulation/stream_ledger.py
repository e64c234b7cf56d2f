"""The observations of a stream's writers and readers, and the check of them.

The rules are those of the consistency contract for one server. They are stated here against times
and sequences alone; nothing in this module knows how a server works.

A message may be missing at the end for two reasons: a crash has cost it, as far as its row of the
contract allows that, or the server removed it. A removal has to have a cause among those that
clients asked for, answered or not: limits, roll-ups, requests, and the message's own TTL.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Literal

CrashMode = Literal["kill", "power"]

IN_FLIGHT_S = 0.05
"""The longest time that bytes may be on their way."""


class Violation(AssertionError):
    """A promise that was broken."""


@dataclass(frozen=True)
class Promise:
    """The messages that a stream may lose: those seen less than so long before a crash."""

    kill_s: float
    power_s: float

    def window_s(self, mode: CrashMode) -> float:
        return self.kill_s if mode == "kill" else self.power_s


@dataclass(frozen=True)
class Sighting:
    """A client saw a message with its sequence."""

    sequence: int
    identity: str
    at_s: float
    who: str


@dataclass(frozen=True)
class Crash:
    """A crash of the server; its disk may have refused writes for a while before."""

    at_s: float
    mode: CrashMode
    disk_failed_s: float = inf

    @property
    def heard_s(self) -> float:
        """The time until which bytes that the server sent before may arrive."""
        return self.at_s + IN_FLIGHT_S

    def may_cost(self, at_s: float, promise: Promise) -> bool:
        """Whether the crash may have lost a message or an answer that was received at `at_s`.

        A disk that has failed makes nothing durable any more: all that was not by then may be lost.
        """
        window_s = promise.window_s(self.mode)
        since_s = self.at_s - window_s
        if window_s:
            since_s = min(since_s, self.disk_failed_s - window_s)
        return since_s <= at_s <= self.heard_s


@dataclass(frozen=True)
class Request:
    """A request to remove messages; `done_s` is infinite if its client got no answer."""

    takes: Callable[[int, str], bool]
    sent_s: float
    done_s: float = inf


@dataclass(frozen=True)
class Limits:
    """The limits of a stream; 0 for none."""

    messages: int = 0
    per_subject: int = 0


def subject_of(identity: str) -> str:
    """Every writer has a subject of its own."""
    return identity[:2]


@dataclass
class StreamLedger:
    """Everything that was seen in one run."""

    promise: Promise
    limits: Limits = Limits()
    sightings: list[Sighting] = field(default_factory=list)
    crashes: list[Crash] = field(default_factory=list)
    # The ids that were sent, also without an answer, with the time of their first publish.
    sent: dict[str, float] = field(default_factory=dict)
    batches: dict[str, list[str]] = field(default_factory=dict)
    # Ids of messages that take the place of those before them on their subject.
    roll_ups: set[str] = field(default_factory=set)
    # The expiry times of messages with a TTL, by id; infinite while the time is unknown.
    goes_s: dict[str, float] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    # The last sequence that a message is known to have had.
    _last_places: dict[str, int] = field(default_factory=dict)

    def saw(self, sequence: int, identity: str, at_s: float, who: str) -> None:
        self.sightings.append(Sighting(sequence, identity, at_s, who))

    def check(self, final: dict[int, str], now_s: float) -> None:
        """Check all observations against the contents of the stream at the end."""
        for sequence, identity in (
            *((seen.sequence, seen.identity) for seen in self.sightings),
            *final.items(),
        ):
            self._last_places[identity] = max(self._last_places.get(identity, 0), sequence)
        self._check_nothing_invented(final)
        self._check_sequences_given_once(final)
        self._check_no_duplicates(final)
        self._check_one_sequence_each()
        self._check_batches(final)
        self._check_losses(final)
        self._check_limits(final)
        self._check_roll_ups(final)
        self._check_requests(final)
        self._check_times(final, now_s)

    # --- messages and sequences that must not be -----------------------------------------------

    def _check_nothing_invented(self, final: dict[int, str]) -> None:
        for sequence, identity in final.items():
            if identity not in self.sent:
                raise Violation(f"invented: {identity} at {sequence} was never sent")

    def _check_sequences_given_once(self, final: dict[int, str]) -> None:
        given = dict(final)
        for seen in self.sightings:
            known = given.setdefault(seen.sequence, seen.identity)
            if known != seen.identity:
                raise Violation(f"given twice: {seen.sequence} is {known} and {seen.identity}")

    def _check_no_duplicates(self, final: dict[int, str]) -> None:
        places: dict[str, int] = {}
        for sequence, identity in final.items():
            if identity in places:
                raise Violation(f"duplicate: {identity} at {places[identity]} and {sequence}")
            places[identity] = sequence

    def _check_one_sequence_each(self) -> None:
        """A repeat in the duplicate window gets no second sequence, even of a removed message."""
        first: dict[str, Sighting] = {}
        for seen in self.sightings:
            before = first.setdefault(seen.identity, seen)
            if before.sequence != seen.sequence and not self._may_be_lost(before):
                raise Violation(f"duplicate: {before} and {seen}")

    def _check_batches(self, final: dict[int, str]) -> None:
        stored = set(final.values())
        places = {seen.identity: seen.sequence for seen in self.sightings}
        for name, identities in self.batches.items():
            missing = [
                identity
                for identity in identities
                if identity not in stored
                and not self._may_be_gone(places.get(identity, 0), identity)
            ]
            if missing and not stored.isdisjoint(identities):
                raise Violation(f"half a batch: {name} lacks {missing}")

    def _check_losses(self, final: dict[int, str]) -> None:
        lost = [
            seen
            for seen in self.sightings
            if seen.sequence not in final and not self._may_be_gone(seen.sequence, seen.identity)
        ]
        for seen in lost:
            if not self._may_be_lost(seen):
                raise Violation(f"lost: {seen} with crashes {self.crashes}")
        for crash in self.crashes:
            before = [seen.sequence for seen in self.sightings if seen.at_s <= crash.heard_s]
            earlier = [other.heard_s for other in self.crashes if other.at_s < crash.at_s]
            since = max(earlier, default=0.0)
            gone = [seen.sequence for seen in lost if since < seen.at_s <= crash.heard_s]
            kept = [sequence for sequence in before if sequence in final]
            if gone and kept and max(kept) > min(gone):
                raise Violation(f"a hole: {min(gone)} is lost and {max(kept)} is not, at {crash}")

    # --- messages that have to be gone ---------------------------------------------------------

    def _check_limits(self, final: dict[int, str]) -> None:
        self.check_counts(Counter(map(subject_of, final.values())))

    def check_counts(self, counts: Mapping[str, int]) -> None:
        """Check the number of messages on each subject against the limits."""
        total, most = sum(counts.values()), max(counts.values(), default=0)
        if 0 < self.limits.messages < total or 0 < self.limits.per_subject < most:
            raise Violation(f"too many: {dict(counts)}, {self.limits}")

    def _check_roll_ups(self, final: dict[int, str]) -> None:
        for sequence, identity in final.items():
            if identity in self.roll_ups:
                for other, before in final.items():
                    if other < sequence and subject_of(before) == subject_of(identity):
                        raise Violation(f"not rolled up: {before} by {identity} at {sequence}")

    def _check_requests(self, final: dict[int, str]) -> None:
        """A message that an answered request removed stays removed."""
        for request in self.requests:
            if any(crash.may_cost(request.done_s, self.promise) for crash in self.crashes):
                continue
            for seen in self.sightings:
                was_there = request.done_s < inf and seen.at_s < request.sent_s
                is_there = was_there and seen.sequence in final
                if is_there and request.takes(seen.sequence, seen.identity):
                    raise Violation(f"back again: {seen} after {request}")

    def _check_times(self, final: dict[int, str], now_s: float) -> None:
        for sequence, identity in final.items():
            if self.goes_s.get(identity, inf) < now_s:
                raise Violation(f"stayed too long: {identity} at {sequence}")

    # --- excuses -------------------------------------------------------------------------------

    def _may_be_lost(self, seen: Sighting) -> bool:
        return any(crash.may_cost(seen.at_s, self.promise) for crash in self.crashes)

    def _may_be_gone(self, sequence: int, identity: str) -> bool:
        """Whether something that was asked for may have let a message go; 0 for any sequence."""
        if identity in self.goes_s:
            return True
        sent_s = self.sent[identity]
        if any(
            sent_s <= request.done_s and request.takes(sequence, identity)
            for request in self.requests
        ):
            return True
        later = [
            other
            for other in self.sent
            if other != identity and self._last_places.get(other, inf) > sequence
        ]
        same = [other for other in later if subject_of(other) == subject_of(identity)]
        return (
            not self.roll_ups.isdisjoint(same)
            or 0 < self.limits.per_subject <= len(same)
            or 0 < self.limits.messages <= len(later)
        )
