"""The connections of a server, open and closed, and their counts."""

from typing import final

from headwater.server.connections.closed_clients import ClosedClients
from headwater.server.core.client import Client


@final
class Roster:
    """Open connections by id, records of closed ones, and counts since the server started."""

    __slots__ = (
        "_last_cid",
        "closed",
        "open",
        "slow_consumers",
        "stale_connections",
        "total_connections",
    )

    def __init__(self, closed_max: int) -> None:
        self.open: dict[int, Client] = {}
        self.closed = ClosedClients(closed_max)
        self.total_connections = 0
        self.slow_consumers = 0
        self.stale_connections = 0
        self._last_cid = 0

    def next_cid(self) -> int:
        """A connection id that was never given before."""
        self._last_cid += 1
        return self._last_cid
