"""The machine's clocks."""

import time
from typing import Final

# CLOCK_BOOTTIME also counts while the machine sleeps, which leases need. Linux only.
_BOOTTIME: Final = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """Clock protocol on the operating system."""

    __slots__ = ()

    def monotonic_ns(self) -> int:
        """Nanoseconds since boot, with suspended time if the system has it."""
        if _BOOTTIME is None:
            return time.monotonic_ns()
        return time.clock_gettime_ns(_BOOTTIME)

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch."""
        return time.time_ns()
