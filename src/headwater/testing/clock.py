"""Time on a simulated host: it drifts, and its wall clock can be set.

The world has one true time, in seconds since its beginning. A host sees it through a `HostTime`: a
straight line whose slope is the host's drift. Everything on the host reads that line: the loop's
timers, `SimClock`, and the `time.monotonic` of nats-py. Only the wall clock jumps.
"""

from collections.abc import Callable
from typing import Final

from headwater.base.clock import NS_PER_S
from headwater.base.invariants import check

# A day that is easy to recognise in a failure: 2030-01-01T00:00:00Z.
WALL_EPOCH_S: Final = 1_893_456_000

# Real oscillators stay within 0.02 %; a thousand times that still leaves a clock that moves.
DRIFT_RATE_MIN: Final = 0.5
DRIFT_RATE_MAX: Final = 2.0


class HostTime:
    """The line from true time to the time of one host."""

    __slots__ = ("_local_s", "_rate", "_true_s", "boot_offset_ns", "wall_offset_ns")

    def __init__(self, boot_offset_ns: int = 0) -> None:
        """`boot_offset_ns` sets this host's monotonic clock apart from every other host's."""
        self._true_s = 0.0
        self._local_s = 0.0
        self._rate = 1.0
        self.boot_offset_ns = boot_offset_ns
        self.wall_offset_ns = 0

    def to_local(self, true_s: float) -> float:
        """The reading of the host's monotonic clock at `true_s`."""
        if self._rate == 1.0:
            return true_s + (self._local_s - self._true_s)
        return self._local_s + (true_s - self._true_s) * self._rate

    def to_true(self, local_s: float) -> float:
        """The true time at which the host's monotonic clock shows `local_s`."""
        if self._rate == 1.0:
            return local_s + (self._true_s - self._local_s)
        return self._true_s + (local_s - self._local_s) / self._rate

    def drift(self, true_s: float, rate: float) -> None:
        """From `true_s` on, run at `rate` seconds per true second.

        Timers already set keep the moment computed for them, unlike a kernel's; the error is a part
        of one timer's remaining time and ends with it.
        """
        check(DRIFT_RATE_MIN <= rate <= DRIFT_RATE_MAX, f"no clock drifts at a rate of {rate}")
        self._local_s = self.to_local(true_s)
        self._true_s = true_s
        self._rate = rate


class SimClock:
    """Clock protocol on one simulated host."""

    __slots__ = ("_time", "_true_s")

    def __init__(self, time: HostTime, true_s: Callable[[], float]) -> None:
        self._time = time
        self._true_s = true_s

    def monotonic_ns(self) -> int:
        """Nanoseconds since this host booted, with the time of pauses."""
        return round(self._time.to_local(self._true_s()) * NS_PER_S) + self._time.boot_offset_ns

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch, by this host's wall clock."""
        local_ns = round(self._time.to_local(self._true_s()) * NS_PER_S)
        return WALL_EPOCH_S * NS_PER_S + local_ns + self._time.wall_offset_ns

    def jump_wall(self, by_s: float) -> None:
        """Set the wall clock forward or, if negative, back."""
        self._time.wall_offset_ns += round(by_s * NS_PER_S)
