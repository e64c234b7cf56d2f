"""The evidence in a history: its messages, and every claim that a message has a sequence.

An ack claims that its message has a sequence; a delivery, a read and a scan claim it of the
messages that they found. A replica claims it of all its messages, at the end.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from headwater.checker.history import (
    Batch,
    Delivery,
    History,
    LastRead,
    Operation,
    Publish,
    Read,
    Replica,
    Scan,
)


class Claim(NamedTuple):
    """An operation that showed a message at a sequence."""

    sequence: int
    body: str
    operation: Operation


@dataclass(slots=True)
class Message:
    """A message that some client wanted to publish, once or several times."""

    body: str
    subject: str
    attempts: list[Publish | Batch] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)

    @property
    def begin_s(self) -> float:
        """The time before which the stream cannot have the message."""
        return min(each.begin_s for each in self.attempts)

    @property
    def may_exist(self) -> bool:
        """Whether some attempt was not refused."""
        return any(each.may_have_happened for each in self.attempts)

    def is_stored_once(self, duplicate_window_s: float) -> bool:
        """Whether the stream must not have the message twice."""
        if len(self.attempts) == 1:
            return True
        has_ids = all(isinstance(each, Publish) and each.message_id for each in self.attempts)
        begins_s = [each.begin_s for each in self.attempts]
        return has_ids and max(begins_s) - min(begins_s) <= duplicate_window_s


class Evidence:
    """A history with its messages and claims. The history must not change any more."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.messages: dict[str, Message] = {}
        # Claims of bodies that nobody has published, too.
        self.claims: list[Claim] = []
        attempts: list[Publish | Batch] = [*history.all_of(Publish), *history.all_of(Batch)]
        for attempt in attempts:
            bodies = attempt.bodies if isinstance(attempt, Batch) else (attempt.body,)
            for body in bodies:
                message = self.messages.setdefault(body, Message(body, attempt.subject))
                message.attempts.append(attempt)
        for operation in history.operations:
            for sequence, body in _claimed_by(operation):
                claim = Claim(sequence, body, operation)
                self.claims.append(claim)
                if body in self.messages:
                    self.messages[body].claims.append(claim)

    @cached_property
    def last_sequence(self) -> int:
        """The highest sequence that anybody has seen."""
        claimed = [claim.sequence for claim in self.claims]
        stored = [replica.last_sequence for replica in self.history.replicas]
        return max([0, *claimed, *stored])

    @cached_property
    def bodies_by_sequence(self) -> dict[int, dict[str, list[Operation]]]:
        """The bodies that each sequence was ever seen with, and the operations that saw them."""
        found: dict[int, dict[str, list[Operation]]] = defaultdict(lambda: defaultdict(list))
        for claim in self.claims:
            found[claim.sequence][claim.body].append(claim.operation)
        for replica in self.history.replicas:
            for sequence, stored in replica.messages.items():
                found[sequence].setdefault(stored.body, [])
        return found

    @cached_property
    def last_by_body(self) -> dict[str, int]:
        """The highest sequence of each message that was ever seen."""
        found: dict[str, int] = {}
        for sequence, bodies in self.bodies_by_sequence.items():
            for body in bodies:
                found[body] = max(found.get(body, 0), sequence)
        return found

    @cached_property
    def sequences_by_subject(self) -> dict[str, list[int]]:
        """The sequences at which messages of each subject were ever seen, in order."""
        found: dict[str, list[int]] = defaultdict(list)
        for sequence, bodies in sorted(self.bodies_by_sequence.items()):
            for subject in {
                self.messages[body].subject for body in bodies if body in self.messages
            }:
                found[subject].append(sequence)
        return found

    @cached_property
    def places(self) -> list[tuple[Replica, dict[str, list[int]]]]:
        """Each replica with the sequences of every body that it has."""
        found = []
        for replica in self.history.replicas:
            places: dict[str, list[int]] = defaultdict(list)
            for sequence, stored in sorted(replica.messages.items()):
                places[stored.body].append(sequence)
            found.append((replica, dict(places)))
        return found

    def kept_claims(self, message: Message) -> list[Claim]:
        """The claims of a message that no loss may have made untrue."""
        return [each for each in message.claims if self.history.is_kept(each.operation)]


def _claimed_by(operation: Operation) -> Iterator[tuple[int, str]]:
    if isinstance(operation, Scan):
        # The messages of a scan that was not completed have arrived, too.
        yield from operation.messages.items()
    elif not operation.is_done:
        return
    elif isinstance(operation, Batch):
        yield from operation.placed()
    elif isinstance(operation, (Publish, Delivery, Read, LastRead)) and operation.body is not None:
        yield operation.sequence, operation.body
