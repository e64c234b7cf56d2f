"""A history: the operations of all clients of one stream, and the stream's replicas at the end.

A client records an operation before it sends the request, and completes it by the reply. An
operation without a reply has the outcome UNKNOWN and ends at infinity: the server may have carried
it out at any time after its beginning, or not at all. All times are true seconds of one clock.

The body of a message identifies it: no two messages of a history have the same body, and a client
that repeats a publish under a message id repeats its body.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Final, TypeVar

LIMITS_RETENTION: Final = "limits"
WORK_QUEUE: Final = "workqueue"
INTEREST: Final = "interest"


class Outcome(Enum):
    """The fate of an operation, as far as its client knows."""

    UNKNOWN = "unknown"
    DONE = "done"
    REFUSED = "refused"


@dataclass(slots=True, eq=False, kw_only=True)
class Operation:
    """An operation of one client. Two operations are equal if they are the same object."""

    client: str
    begin_s: float
    end_s: float = inf
    outcome: Outcome = Outcome.UNKNOWN
    # The server's reason for a refusal, or for not knowing the outcome.
    reason: str = ""

    @property
    def is_done(self) -> bool:
        return self.outcome is Outcome.DONE

    @property
    def may_have_happened(self) -> bool:
        return self.outcome is not Outcome.REFUSED

    def complete(self, now_s: float) -> None:
        """The server has confirmed the operation."""
        self.end_s = now_s
        self.outcome = Outcome.DONE

    def leave_open(self, reason: str) -> None:
        """The server has said that it does not know whether it carries out the operation."""
        self.reason = reason

    def refuse(self, now_s: float, reason: str) -> None:
        """The server has said that it did not carry out the operation, and never will."""
        self.end_s = now_s
        self.outcome = Outcome.REFUSED
        self.reason = reason


@dataclass(slots=True, eq=False, kw_only=True)
class Publish(Operation):
    """An attempt to publish a message. `sequence` is that of the ack."""

    subject: str
    body: str
    message_id: str = ""
    # The last sequence of the stream that the publish expects (`Nats-Expected-Last-Sequence`).
    expected: int | None = None
    sequence: int = 0
    is_duplicate: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class Batch(Operation):
    """An atomic batch. `sequence` is that of its last message, as in the ack."""

    subject: str
    bodies: tuple[str, ...]
    sequence: int = 0

    def placed(self) -> Iterator[tuple[int, str]]:
        """The sequences that the ack gives to the messages."""
        return zip(
            range(self.sequence - len(self.bodies) + 1, self.sequence + 1), self.bodies, strict=True
        )


@dataclass(slots=True, eq=False, kw_only=True)
class Read(Operation):
    """A get of the message at a sequence. The body is None if the server had none there."""

    sequence: int
    body: str | None = None


class ReadLevel(Enum):
    """The levels of reads. Each promises something else about the age of an answer."""

    WEAK = "weak"
    SESSION = "session"
    SEQUENTIAL = "sequential"
    LINEARIZABLE = "linearizable"


@dataclass(slots=True, eq=False, kw_only=True)
class LastRead(Operation):
    """A get of the last message of a subject. Sequence 0 stands for the answer that there is none.

    `min_sequence` is the mark of a session read, and `complete_to` the one in its answer. `mirror`
    names the mirror that was asked, if not the stream itself.
    """

    subject: str
    level: ReadLevel
    mirror: str = ""
    min_sequence: int = 0
    sequence: int = 0
    body: str | None = None
    complete_to: int = 0


@dataclass(slots=True, eq=False, kw_only=True)
class Delivery(Operation):
    """A message that a consumer delivered.

    A delivery begins when its client asked for messages, and ends when the message arrived: the
    server has sent it in between.
    """

    consumer: str
    sequence: int
    consumer_sequence: int
    body: str
    # The time of the message, as the server tells it; 0 if the client has not read it.
    time_ns: int = 0


@dataclass(slots=True, eq=False, kw_only=True)
class Ack(Operation):
    """An acknowledgement of a message. A double ack is done when the server has confirmed it."""

    consumer: str
    sequence: int
    is_double: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class Purge(Operation):
    """A purge of the stream, or of one subject, or of the sequences below one."""

    subject: str = ""
    below: int = 0
    # The number of newest messages that stay.
    keep: int = 0


@dataclass(slots=True, eq=False, kw_only=True)
class Delete(Operation):
    """The deletion of the message at a sequence."""

    sequence: int


@dataclass(slots=True, eq=False, kw_only=True)
class Scan(Operation):
    """A new consumer that was created and delivered the whole stream.

    It begins with the request that creates the consumer, and is done when nothing was left to
    deliver.
    """

    consumer: str
    messages: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loss:
    """An event after which a stream may lack what was confirmed within `window_s` before it."""

    at_s: float
    window_s: float

    def concerns(self, operation: Operation) -> bool:
        """Whether the server may have forgotten an operation that it has confirmed."""
        return operation.begin_s <= self.at_s and operation.end_s > self.at_s - self.window_s


@dataclass(frozen=True, slots=True)
class Stored:
    """A message in a replica."""

    subject: str
    body: str
    # The time at which the stream got the message; 0 if it is not known.
    time_ns: int = 0


@dataclass(frozen=True, slots=True)
class Replica:
    """The contents of a stream on one server, after quiet.

    `state` is whatever else replicas have to agree on, by name: consumers, message ids, times.
    """

    server: str
    last_sequence: int
    messages: Mapping[int, Stored]
    state: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamRules:
    """The configuration of the stream, as far as the checks need it. 0 stands for no limit."""

    name: str
    retention: str = LIMITS_RETENTION
    max_msgs: int = 0
    max_msgs_per_subject: int = 0
    max_age_s: float = 0
    duplicate_window_s: float = 120


AnyOperation = TypeVar("AnyOperation", bound=Operation)


@dataclass(slots=True)
class History:
    """Everything that clients did with a stream, and the result."""

    rules: StreamRules
    operations: list[Operation] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)

    def begin(self, operation: AnyOperation) -> AnyOperation:
        """Record an operation that a client is about to request."""
        self.operations.append(operation)
        return operation

    def all_of(self, kind: type[AnyOperation]) -> list[AnyOperation]:
        """The operations of one kind, in the order of their beginnings."""
        return [each for each in self.operations if isinstance(each, kind)]

    def is_kept(self, operation: Operation) -> bool:
        """Whether an operation is confirmed, and no loss may have undone it."""
        return operation.is_done and not any(loss.concerns(operation) for loss in self.losses)
