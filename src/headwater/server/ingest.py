"""Publishes on their way from the broker into a stream: gathered for a turn, then taken at once."""

from typing import Protocol, final

from headwater.jetstream.decision import Incoming


class IngestOwner(Protocol):
    """Who processes what was gathered."""

    def process(self, ingest: "Ingest") -> None:
        """Take what was gathered into the stream."""
        ...


@final
class Ingest:
    """The inlet of one stream. `waiting` is whether anything was gathered this turn."""

    __slots__ = ("_owner", "incoming", "waiting")

    def __init__(self, owner: IngestOwner) -> None:
        self._owner = owner
        self.incoming = Incoming()
        self.waiting = False

    def take(self) -> Incoming:
        """What was gathered; the next turn begins with nothing."""
        incoming = self.incoming
        self.incoming = Incoming()
        self.waiting = False
        return incoming

    def process(self) -> None:
        """Have it taken in."""
        self._owner.process(self)
