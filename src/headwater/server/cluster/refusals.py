"""The log of connections that were refused: each reason once for an address.

A server that is refused dials again every second. Its reason is an error in the log the first time,
and detail after that, until a connection with the address succeeds or another reason comes.
"""

from typing import Final, final

from headwater.server.cluster.channel import Channel
from headwater.server.log import Log

# Addresses that are remembered, so that strangers cannot fill the memory.
REFUSALS_MAX: Final = 1_000


@final
class Refusals:
    """The reasons for which connections were refused last, by address."""

    __slots__ = ("_log", "_reasons")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._reasons: dict[str, str] = {}

    def report(self, channel: Channel, reason: str) -> None:
        """Log a refusal."""
        address = _address_of(channel)
        line = f"{channel.label} - {reason}"
        if self._reasons.get(address) == reason:
            self._log.debug(line)
            return
        if len(self._reasons) >= REFUSALS_MAX:
            self._reasons.clear()
        self._reasons[address] = reason
        self._log.error(line)

    def forget(self, channel: Channel) -> None:
        """A connection with the address has succeeded."""
        self._reasons.pop(_address_of(channel), None)


def _address_of(channel: Channel) -> str:
    """The address that was dialled, or the host that a connection came from."""
    target = channel.target
    return channel.connection.peer_host if target is None else target.address
