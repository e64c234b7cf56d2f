"""The log of connections that were refused: each reason once for an address.

A server that is refused dials again every second. Its reason is an error in the log the first time,
and detail after that, until a connection with the address succeeds. Several servers may share an
address, and each have a reason of its own.
"""

from typing import Final, final

from headwater.server.cluster.channel import Channel
from headwater.server.log import Log

# Reasons that are remembered, so that strangers cannot fill the memory; the first are forgotten
# first.
REFUSALS_MAX: Final = 1_000
# Reasons quote strangers, so they are told apart by their beginnings.
REASON_CHARS_MAX: Final = 256
# A line of the log has no more of a reason.
LOGGED_CHARS_MAX: Final = 1_024


@final
class Refusals:
    """The reasons for which connections were refused, with the addresses of these."""

    __slots__ = ("_log", "_reasons")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._reasons: dict[tuple[str, str], None] = {}

    def report(self, channel: Channel, reason: str) -> None:
        """Log a refusal."""
        refusal = _address_of(channel), reason[:REASON_CHARS_MAX]
        line = f"{channel.label} - {_printable(reason[:LOGGED_CHARS_MAX])}"
        if refusal in self._reasons:
            self._log.debug(line)
            return
        while len(self._reasons) >= REFUSALS_MAX:
            del self._reasons[next(iter(self._reasons))]
        self._reasons[refusal] = None
        self._log.error(line)

    def forget(self, channel: Channel) -> None:
        """A connection with the address has succeeded."""
        address = _address_of(channel)
        self._reasons = {known: None for known in self._reasons if known[0] != address}


def _printable(reason: str) -> str:
    """A reason in one line: the other end may have chosen its characters."""
    return "".join(char if char.isprintable() else "?" for char in reason)


def _address_of(channel: Channel) -> str:
    """The address that was dialled, or the host that a connection came from."""
    target = channel.target
    return channel.connection.peer_host if target is None else target.address
