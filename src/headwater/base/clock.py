"""Where time comes from. Cores never read a clock; they are handed a value from one of these."""

from typing import Final, Protocol

NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000


class Clock(Protocol):
    """Two readings that must never be mixed: one that only moves forward, one that people read."""

    def monotonic_ns(self) -> int:
        """Nanoseconds that never go back, also counting while the machine is suspended."""
        ...

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch. May jump in either direction."""
        ...
