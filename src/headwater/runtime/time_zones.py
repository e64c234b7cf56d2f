"""Time zones as this machine knows them: the system's zoneinfo directory, or the `tzdata` package.

As nats-server takes them: names are case-sensitive paths below that directory, and none may leave
it. `Local`, which it takes for the zone of the machine, is refused here: a schedule would mean
another time on the next server.
"""

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def find_zone(name: str) -> tzinfo | None:
    """The rules of a zone; None if there is no such zone."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
