"""The effects of a consumer's steps, as values: messages, statuses and events.

Messages to one receiver are parallel lists, as everywhere on the path of a message. An event has
the facts of an advisory or a metric that only the consumer knows.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias, final

from headwater.base.columns import MessageColumns

# The reason in the advisory about a message that left the stream before it was acknowledged.
REMOVED_REASON: Final = "Unacknowledged message was deleted"


@final
class Messages(MessageColumns):
    """Messages of the stream for the subscribers of `to`, each with its subject and reply."""

    __slots__ = ("headers", "replies", "to")

    COLUMNS = ("subjects", "replies", "headers", "payloads")
    SHARED = ("to",)

    def __init__(
        self,
        to: bytes,
        subjects: list[bytes],
        replies: Sequence[bytes],
        headers: list[bytes],
        payloads: list[bytes],
    ) -> None:
        self.to = to
        self.subjects = subjects
        self.replies = replies
        self.headers = headers
        self.payloads = payloads


class Status(NamedTuple):
    """A message without payload whose header has a status."""

    to: bytes
    header: bytes
    reply: bytes | None = None


class Naked(NamedTuple):
    """A receiver could not process a message."""

    consumer_sequence: int
    stream_sequence: int
    deliveries: int


class Terminated(NamedTuple):
    """A message will not be delivered again: a receiver said so, or it left the stream."""

    consumer_sequence: int
    stream_sequence: int
    deliveries: int
    reason: str


class DeliveriesExceeded(NamedTuple):
    """A message reached the limit of deliveries."""

    stream_sequence: int
    deliveries: int


class AckSampled(NamedTuple):
    """The time between the delivery of a message and its acknowledgement."""

    consumer_sequence: int
    stream_sequence: int
    delay_ns: int
    deliveries: int


class ClientPinned(NamedTuple):
    """A client was pinned: it gets all messages of a priority group."""

    group: str
    pin_id: str


class ClientUnpinned(NamedTuple):
    """The client is no longer pinned."""

    group: str
    reason: str


class PauseEnded(NamedTuple):
    """The pause of a consumer is over."""


Event: TypeAlias = (
    Naked
    | Terminated
    | DeliveriesExceeded
    | AckSampled
    | ClientPinned
    | ClientUnpinned
    | PauseEnded
)
