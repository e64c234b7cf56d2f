"""How many batches may be open, how large they may be, and how long they may be silent.

The limits are the server's. Both kinds of batch are counted for each stream and for the whole
server; a stream counts its own, the rest is counted here. Atomic batches are kept in memory while
they are open, so their bytes are counted too: that limit is ours, nats-server has none.
"""

from typing import Final, final

import msgspec

from headwater.base.clock import NS_PER_S

ATOMIC_PER_STREAM_MAX: Final = 50
ATOMIC_TOTAL_MAX: Final = 1000
FAST_PER_STREAM_MAX: Final = 1000
FAST_TOTAL_MAX: Final = 50_000
# What open atomic batches may hold, all together.
OPEN_BYTES_MAX: Final = 128 * 1024 * 1024


class BatchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says. Counts of 0 leave it to each kind of batch."""

    messages_max: int = 1000
    per_stream_max: int = 0
    total_max: int = 0
    idle_ns_max: int = 10 * NS_PER_S


@final
class OpenBatches:
    """All open batches of one kind on a server."""

    __slots__ = ("_count", "_per_stream_max", "_total_max")

    def __init__(self, per_stream_max: int, total_max: int) -> None:
        self._per_stream_max = per_stream_max
        self._total_max = total_max
        self._count = 0

    def begin(self, in_stream: int) -> bool:
        """Count one more, of a stream that has so many; whether that is allowed."""
        if in_stream >= self._per_stream_max or self._count >= self._total_max:
            return False
        self._count += 1
        return True

    def end(self, count: int = 1) -> None:
        """So many are over."""
        self._count -= count


@final
class BatchRoom:
    """The room for batches on one server."""

    __slots__ = ("_open_bytes", "atomic", "fast", "limits")

    def __init__(self, limits: BatchLimits) -> None:
        self.limits = limits
        self._open_bytes = 0
        self.atomic = OpenBatches(
            limits.per_stream_max or ATOMIC_PER_STREAM_MAX, limits.total_max or ATOMIC_TOTAL_MAX
        )
        self.fast = OpenBatches(
            limits.per_stream_max or FAST_PER_STREAM_MAX, limits.total_max or FAST_TOTAL_MAX
        )

    def take_bytes(self, count: int) -> bool:
        """Count bytes that are kept for an open batch; whether that is allowed."""
        if self._open_bytes + count > OPEN_BYTES_MAX:
            return False
        self._open_bytes += count
        return True

    def give_bytes_back(self, count: int) -> None:
        """A batch is not open any more."""
        self._open_bytes -= count
