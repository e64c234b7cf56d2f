"""Time zones of this machine: the system's zoneinfo directory, or the `tzdata` package.

As in nats-server, names are case-sensitive paths below that directory, and none may leave it.
nats-server also accepts `Local`, the zone of the machine; it is refused here, because a schedule
would mean another time on the next server.
"""

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def find_zone(name: str) -> tzinfo | None:
    """The rules of a zone; None if it does not exist."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
