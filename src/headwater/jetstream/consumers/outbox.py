"""What a consumer wants sent and told, as values, in order.

Messages to one receiver are parallel lists, like everywhere on the way of a message. What is told
besides, as advisories and metrics, carries what only the consumer knows.
"""

from typing import Final, NamedTuple, TypeAlias, final

# Why a message is terminated that left the stream before it was acknowledged.
REMOVED_REASON: Final = "Unacknowledged message was deleted"


@final
class Messages:
    """Messages of the stream for whoever listens at `to`, each with its subject and reply."""

    __slots__ = ("headers", "payloads", "replies", "subjects", "to")

    def __init__(
        self,
        to: bytes,
        subjects: list[bytes],
        replies: list[bytes],
        headers: list[bytes],
        payloads: list[bytes],
    ) -> None:
        self.to = to
        self.subjects = subjects
        self.replies = replies
        self.headers = headers
        self.payloads = payloads


class Status(NamedTuple):
    """A message without payload that says how things stand."""

    to: bytes
    header: bytes
    reply: bytes | None = None


class Naked(NamedTuple):
    """A receiver could not process a message."""

    consumer_sequence: int
    stream_sequence: int
    deliveries: int


class Terminated(NamedTuple):
    """A message will not be delivered again, whoever wanted it so."""

    consumer_sequence: int
    stream_sequence: int
    deliveries: int
    reason: str


class DeliveriesExceeded(NamedTuple):
    """A message was delivered as often as it may be."""

    stream_sequence: int
    deliveries: int


class AckSampled(NamedTuple):
    """How long it took until a message was acknowledged."""

    consumer_sequence: int
    stream_sequence: int
    delay_ns: int
    deliveries: int


class ClientPinned(NamedTuple):
    """One client gets the messages of a priority group from now on."""

    group: str
    pin_id: str


class ClientUnpinned(NamedTuple):
    """It does no longer."""

    group: str
    reason: str


class PauseEnded(NamedTuple):
    """A consumer that was told to stop for some time goes on."""


Event: TypeAlias = (
    Naked
    | Terminated
    | DeliveriesExceeded
    | AckSampled
    | ClientPinned
    | ClientUnpinned
    | PauseEnded
)


@final
class Outbox:
    """Everything that came of one call of a consumer."""

    __slots__ = ("answered", "events", "sends")

    def __init__(self) -> None:
        self.sends: list[Messages | Status] = []
        self.events: list[Event] = []
        # Who asked to be told when an acknowledgement is as durable as the stream's messages.
        self.answered: list[bytes] = []

    def status(self, to: bytes, header: bytes, reply: bytes | None = None) -> None:
        """Send a status."""
        self.sends.append(Status(to, header, reply))
