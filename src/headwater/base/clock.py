"""The source of time. Cores never read a clock; they get a value from one of these."""

from typing import Final, Protocol

NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000


class Clock(Protocol):
    """Two readings that must never be mixed: one that only moves forward, and the time of day."""

    def monotonic_ns(self) -> int:
        """Nanoseconds that never go back, and count while the machine is suspended too."""
        ...

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch. May jump in either direction."""
        ...
