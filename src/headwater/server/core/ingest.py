"""Publishes on their way from the broker into a stream: gathered for a turn, then taken at once.

The publishes that a stream has not answered are bounded (`Room`); a publish beyond that is refused.
"""

from enum import Enum
from typing import Final, NamedTuple, final

from headwater.jetstream.streams.publishing.incoming import Incoming
from headwater.server.core.client import Client, InletOwner
from headwater.wire.headers import status_block

TOO_MANY_REQUESTS: Final = status_block(429, "Too Many Requests")


class RoomLimits(NamedTuple):
    """Limits on the publishes that a stream has not answered yet; below zero is no limit."""

    messages_max: int
    bytes_max: int
    # Longest subject and reply subject of a publish together; saves counting them one by one.
    line_bytes_max: int


class Excess(Enum):
    """The limit that a publish met, in the words of nats-server's log."""

    MESSAGES = "IPQ len limit reached"
    BYTES = "IPQ size limit reached"


def size_of(incoming: Incoming) -> int:
    """The bytes that publishes count for: subjects, reply subjects, headers and payloads."""
    return (
        sum(map(len, incoming.payloads))
        + sum(map(len, incoming.subjects))
        + sum(map(len, filter(None, incoming.replies)))
    )


@final
class Room:
    """The publishes that one stream has not answered, and the room for more."""

    __slots__ = ("_limits", "messages", "size")

    def __init__(self, limits: RoomLimits) -> None:
        self._limits = limits
        self.messages = 0
        self.size = 0

    def hold(self, messages: int, size: int) -> None:
        """Count publishes that the stream keeps; negative when they are answered."""
        self.messages += messages
        self.size += size

    def has_room(self, incoming: Incoming) -> bool:
        """Whether there is room for all of the publishes."""
        messages_max, bytes_max, line_bytes_max = self._limits
        payloads = incoming.payloads
        count = len(payloads)
        if 0 <= messages_max < self.messages + count:
            return False
        if bytes_max < 0:
            return True
        size = len(payloads[0]) if count == 1 else sum(map(len, payloads))
        return (
            self.size + size + count * line_bytes_max <= bytes_max
            or self.size + size_of(incoming) <= bytes_max
        )

    def admit(self, incoming: Incoming) -> tuple[Incoming, list[bytes], Excess | None]:
        """Split publishes by the room for them.

        Returns the admitted publishes, the reply subjects of the others, and the limit they met.
        """
        messages_max, bytes_max, _ = self._limits
        admitted, refused, excess = Incoming(), list[bytes](), None
        messages, size = self.messages, self.size
        for subject, reply, header_size, payload in zip(
            incoming.subjects,
            incoming.replies,
            incoming.header_sizes,
            incoming.payloads,
            strict=True,
        ):
            each = len(subject) + len(reply or b"") + len(payload)
            has_place = messages_max < 0 or messages < messages_max
            if has_place and (bytes_max < 0 or size + each <= bytes_max):
                admitted.add(subject, reply, header_size, payload)
                messages += 1
                size += each
                continue
            excess = Excess.BYTES if has_place else Excess.MESSAGES
            if reply is not None:
                refused.append(reply)
        return admitted, refused, excess


@final
class Ingest:
    """The inlet of one stream. `waiting` is whether anything was gathered this turn."""

    __slots__ = ("incoming", "owner", "publishers", "since_mark", "starts", "waiting")

    def __init__(self, owner: InletOwner) -> None:
        self.owner = owner
        self.incoming = Incoming()
        # Clients whose publishes were gathered, in order, and where those of each begin; a client
        # that takes turns with others is there repeatedly.
        self.publishers: list[Client] = []
        self.starts: list[int] = []
        self.since_mark = 0
        self.waiting = False

    def take(self) -> Incoming:
        """Remove and return the gathered publishes."""
        incoming = self.incoming
        self.incoming = Incoming()
        self.publishers, self.starts = [], []
        self.waiting = False
        return incoming
