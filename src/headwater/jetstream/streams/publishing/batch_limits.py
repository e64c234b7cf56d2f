"""The limits of batches: how many may be open, their size, and their timeout.

The limits are the server's. Both kinds of batch are counted per stream and for the whole server; a
stream counts its own, this module counts all. Open atomic batches live in memory, so their bytes
are counted too: that limit is ours, nats-server has none.
"""

from typing import Final, final

import msgspec

from headwater.base.clock import NS_PER_S

ATOMIC_PER_STREAM_MAX: Final = 50
ATOMIC_TOTAL_MAX: Final = 1000
FAST_PER_STREAM_MAX: Final = 1000
FAST_TOTAL_MAX: Final = 50_000
# The limit of bytes in all open atomic batches together.
OPEN_BYTES_MAX: Final = 128 * 1024 * 1024


class BatchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits from the configuration. A count of 0 is the default of each kind of batch."""

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
        """Count one more batch of a stream that has `in_stream`. Returns whether it is allowed."""
        if in_stream >= self._per_stream_max or self._count >= self._total_max:
            return False
        self._count += 1
        return True

    def reopen(self) -> None:
        """Count a batch again that ended, whatever the limits are."""
        self._count += 1

    def end(self, count: int = 1) -> None:
        """Count batches that ended."""
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
        """Reserve memory for an open batch. Returns whether the limit allows it."""
        if self._open_bytes + count > OPEN_BYTES_MAX:
            return False
        self._open_bytes += count
        return True

    def give_bytes_back(self, count: int) -> None:
        """Release the memory of a batch."""
        self._open_bytes -= count
