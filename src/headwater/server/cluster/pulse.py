"""The liveness of channels: pings at an interval, and challenges of channels that may be dead.

A channel that leaves too many pings unanswered is stale, unless bytes of its peer still come: a
ping may wait behind much else on a slow link. A channel whose place another connection
claims is challenged: any bytes from its peer within a second prove that it is alive.
"""

from collections.abc import Callable
from typing import Final, final

from headwater.base.clock import NS_PER_S, Clock
from headwater.runtime.environment import Scheduler
from headwater.server.cluster.channel import Channel
from headwater.server.settings import Settings

CHALLENGE_S: Final = 1.0
# Routes are pinged at least this often, whatever the interval of clients is.
PING_INTERVAL_S_MAX: Final = 30.0


@final
class Pulse:
    """The pings of one server; `ping` sends one, and `end_stale` ends a channel."""

    __slots__ = ("_clock", "_end_stale", "_ping", "_scheduler", "_settings")

    def __init__(
        self,
        clock: Clock,
        scheduler: Scheduler,
        settings: Settings,
        ping: Callable[[Channel], None],
        end_stale: Callable[[Channel], None],
    ) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._settings = settings
        self._ping = ping
        self._end_stale = end_stale

    @property
    def interval_s(self) -> float:
        """The time between two pings."""
        options = self._settings.options
        return min(options.cluster.ping_interval_s or options.ping_interval_s, PING_INTERVAL_S_MAX)

    def watch(self, channel: Channel) -> None:
        """Begin to watch a channel that is open; the first ping measures the round trip."""
        channel.liveness.measure_connect(self._clock.monotonic_ns(), self._clock.wall_ns())
        self._send(channel)
        self._set_timer(channel)

    def note_pong(self, channel: Channel) -> None:
        """A ping was answered."""
        channel.liveness.measure_pong(self._clock.monotonic_ns())

    def challenge(self, channel: Channel) -> None:
        """Have a peer prove that it is there."""
        if channel.challenge is None:
            self._send(channel)
            channel.challenge = self._scheduler.call_later(
                CHALLENGE_S, lambda: self._end_stale(channel)
            )

    def _set_timer(self, channel: Channel) -> None:
        channel.timers.ping = self._scheduler.call_later(
            self.interval_s, lambda: self._check(channel)
        )

    def _check(self, channel: Channel) -> None:
        options = self._settings.options
        silence_ns = self._clock.monotonic_ns() - channel.liveness.last_in_ns
        is_silent = silence_ns >= self.interval_s * NS_PER_S
        pings_max = options.cluster.ping_max or options.ping_max
        if is_silent and channel.liveness.pings_out + 1 > pings_max:
            self._end_stale(channel)
            return
        self._send(channel)
        self._set_timer(channel)

    def _send(self, channel: Channel) -> None:
        channel.liveness.count_ping(self._clock.monotonic_ns())
        self._ping(channel)
