"""The machine's clocks."""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

# CLOCK_BOOTTIME also counts while the machine sleeps, which leases need. Linux only.
_BOOTTIME: Final = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """Clock protocol on the operating system.

    The clocks are read several times for every read of a socket, so both are the system's own
    functions and not methods around them: nanoseconds since boot, with suspended time if the system
    has it, and nanoseconds since the Unix epoch.
    """

    __slots__ = ("monotonic_ns", "wall_ns")

    def __init__(self) -> None:
        self.monotonic_ns: Callable[[], int] = (
            time.monotonic_ns if _BOOTTIME is None else partial(time.clock_gettime_ns, _BOOTTIME)
        )
        self.wall_ns: Callable[[], int] = time.time_ns
