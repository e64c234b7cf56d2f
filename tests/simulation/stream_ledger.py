"""What writers and readers of a stream saw, and whether it can all be true.

The rules are those of the consistency contract for one server. They are stated here against times
and sequences alone; nothing in this module knows how a server works.
"""

from dataclasses import dataclass, field
from typing import Literal

CrashMode = Literal["kill", "power"]

IN_FLIGHT_S = 0.05
"""How long bytes may be on their way."""


class Violation(AssertionError):
    """A promise that was broken."""


@dataclass(frozen=True)
class Promise:
    """What a stream may lose: what was seen less than so long before a crash."""

    kill_s: float
    power_s: float

    def window_s(self, mode: CrashMode) -> float:
        return self.kill_s if mode == "kill" else self.power_s


@dataclass(frozen=True)
class Sighting:
    """Somebody was told that a message has a sequence."""

    sequence: int
    identity: str
    at_s: float
    who: str


@dataclass(frozen=True)
class Crash:
    """When the server died, and how."""

    at_s: float
    mode: CrashMode

    @property
    def heard_s(self) -> float:
        """Until when what it had said before may arrive."""
        return self.at_s + IN_FLIGHT_S


@dataclass
class StreamLedger:
    """Everything that was seen in one run."""

    promise: Promise
    sightings: list[Sighting] = field(default_factory=list)
    crashes: list[Crash] = field(default_factory=list)
    # Ids that were sent, also those that were never answered.
    sent: set[str] = field(default_factory=set)
    batches: dict[str, list[str]] = field(default_factory=dict)

    def saw(self, sequence: int, identity: str, at_s: float, who: str) -> None:
        self.sightings.append(Sighting(sequence, identity, at_s, who))

    def check(self, final: dict[int, str]) -> None:
        """Hold everything seen against what is in the stream at the end."""
        self._check_nothing_invented(final)
        self._check_sequences_given_once(final)
        self._check_no_duplicates(final)
        self._check_batches(final)
        self._check_losses(final)

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

    def _check_batches(self, final: dict[int, str]) -> None:
        stored = set(final.values())
        for name, identities in self.batches.items():
            present = [identity for identity in identities if identity in stored]
            if present and len(present) != len(identities):
                raise Violation(f"half a batch: {name} has only {present}")

    def _check_losses(self, final: dict[int, str]) -> None:
        lost = [seen for seen in self.sightings if seen.sequence not in final]
        for seen in lost:
            if not any(
                crash.at_s - self.promise.window_s(crash.mode) <= seen.at_s <= crash.heard_s
                for crash in self.crashes
            ):
                raise Violation(f"lost: {seen} with crashes {self.crashes}")
        for crash in self.crashes:
            before = [seen.sequence for seen in self.sightings if seen.at_s <= crash.heard_s]
            earlier = [other.heard_s for other in self.crashes if other.at_s < crash.at_s]
            since = max(earlier, default=0.0)
            gone = [seen.sequence for seen in lost if since < seen.at_s <= crash.heard_s]
            kept = [sequence for sequence in before if sequence in final]
            if gone and kept and max(kept) > min(gone):
                raise Violation(f"a hole: {min(gone)} is lost and {max(kept)} is not, at {crash}")
