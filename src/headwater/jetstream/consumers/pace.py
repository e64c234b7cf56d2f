"""The pace of a consumer: the original distances between messages, or a rate limit."""

from typing import Final, final

from headwater.base.clock import NS_PER_S
from headwater.jetstream.config.consumer_config import ConsumerConfig, ReplayPolicy

# Messages whose distance is at most this are sent without a pause.
_PAUSE_NS_MIN: Final = 1_000_000
_BITS: Final = 8


@final
class Pace:
    """The pace of one consumer.

    `burst_bytes` may be sent at once. From the sequence `caught_up_at` on, messages no longer keep
    their original distances.
    """

    __slots__ = (
        "_bucket_bytes",
        "_burst_bytes",
        "_bytes_per_s",
        "_caught_up_at",
        "_filled_ns",
        "_last_sent_ns",
        "_last_stored_ns",
    )

    def __init__(self, config: ConsumerConfig, burst_bytes: int, caught_up_at: int) -> None:
        is_original = config.replay_policy is ReplayPolicy.ORIGINAL
        self._caught_up_at = caught_up_at if is_original else 0
        # When the last message was stored and when it was sent; 0 before the first.
        self._last_stored_ns = 0
        self._last_sent_ns = 0
        self._bytes_per_s = config.rate_limit_bps / _BITS
        self._burst_bytes = float(burst_bytes)
        self._bucket_bytes = self._burst_bytes
        self._filled_ns = 0

    def earliest_ns(self, sequence: int, stored_ns: int, size: int, now_ns: int) -> int:
        """The earliest time to send the next message; not after `now_ns` if it may be sent now."""
        earliest_ns = now_ns
        if sequence <= self._caught_up_at and self._last_stored_ns:
            distance_ns = stored_ns - self._last_stored_ns
            if distance_ns > _PAUSE_NS_MIN:
                earliest_ns = self._last_sent_ns + distance_ns
        if self._bytes_per_s:
            self._fill(now_ns)
            missing = min(size, self._burst_bytes) - self._bucket_bytes
            if missing > 0:
                wait_ns = int(missing / self._bytes_per_s * NS_PER_S) + 1
                earliest_ns = max(earliest_ns, now_ns + wait_ns)
        return earliest_ns

    def sent(self, stored_ns: int, size: int, now_ns: int) -> None:
        """Count a message that was sent."""
        self._last_stored_ns, self._last_sent_ns = stored_ns, now_ns
        if self._bytes_per_s:
            self._fill(now_ns)
            self._bucket_bytes -= size

    def _fill(self, now_ns: int) -> None:
        if self._filled_ns:
            gained = (now_ns - self._filled_ns) / NS_PER_S * self._bytes_per_s
            self._bucket_bytes = min(self._bucket_bytes + gained, self._burst_bytes)
        self._filled_ns = now_ns


def pace_of(config: ConsumerConfig, burst_bytes: int, caught_up_at: int) -> Pace | None:
    """The pace that a configuration asks for; None if messages are sent as fast as possible."""
    if config.replay_policy is ReplayPolicy.INSTANT and not config.rate_limit_bps:
        return None
    return Pace(config, burst_bytes, caught_up_at)
