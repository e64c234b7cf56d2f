"""Pings: clients that are silent are asked whether they are there, and closed if they are not.

The first ping of a connection measures the round trip. Later pings go to clients that were silent
for the ping interval; a client that leaves too many of them unanswered is stale.
"""

from typing import Final, final

from headwater.base.clock import NS_PER_S
from headwater.runtime.environment import Environment
from headwater.server.connections import closing
from headwater.server.connections.closing import Close
from headwater.server.connections.roster import Roster
from headwater.server.core.broker import Broker
from headwater.server.core.client import Client
from headwater.server.log import Log
from headwater.server.settings import Settings
from headwater.wire import frames

STALE_CONNECTION: Final = "Stale Connection"

# The first ping measures the round trip, so it comes early, spread so that clients that all
# reconnect at once are not all pinged at once.
FIRST_PING_S_MAX: Final = 2.0
_FIRST_PING_SPREAD: Final = 5
# A round trip older than this is measured again even if the client was heard of meanwhile.
_RTT_MAX_AGE_S: Final = 3600.0


@final
class Pings:
    """The liveness of all clients of a server; `close` ends a stale connection."""

    __slots__ = (
        "_broker",
        "_clock",
        "_close",
        "_entropy",
        "_log",
        "_monotonic_ns",
        "_roster",
        "_scheduler",
        "_settings",
        "_wall_ns",
    )

    def __init__(
        self,
        environment: Environment,
        settings: Settings,
        log: Log,
        roster: Roster,
        broker: Broker,
        close: Close,
    ) -> None:
        self._clock = environment.clock
        self._monotonic_ns = environment.clock.monotonic_ns
        self._wall_ns = environment.clock.wall_ns
        self._entropy = environment.entropy
        self._scheduler = environment.scheduler
        self._settings = settings
        self._log = log
        self._roster = roster
        self._broker = broker
        self._close = close

    def watch(self, client: Client) -> None:
        """Begin to watch a client that has just connected."""
        self._set_timer(client, self._settings.options.ping_interval_s)

    def note_activity(self, client: Client) -> None:
        """The client did something of its own accord: it need not be pinged for a while."""
        liveness = client.liveness
        liveness.last_in_ns = self._monotonic_ns()
        liveness.last_activity_wall_ns = self._wall_ns()

    def note_connect(self, client: Client) -> None:
        """CONNECT came: the first ping follows soon."""
        clock = self._clock
        client.liveness.measure_connect(clock.monotonic_ns(), clock.wall_ns())
        delay_s = min(self._settings.options.ping_interval_s, FIRST_PING_S_MAX)
        spread_ns = int(delay_s / _FIRST_PING_SPREAD * NS_PER_S)
        jitter_ns = self._entropy.below(spread_ns) if spread_ns else 0
        self._set_timer(client, delay_s + jitter_ns / NS_PER_S)

    def note_pong(self, client: Client) -> None:
        """A ping was answered."""
        client.liveness.measure_pong(self._clock.monotonic_ns())

    def _set_timer(self, client: Client, delay_s: float) -> None:
        timers = client.timers
        if timers.ping is not None:
            timers.ping.cancel()
        timers.ping = self._scheduler.call_later(delay_s, lambda: self._check(client))

    def _check(self, client: Client) -> None:
        """Ping a client if it is due, or close it if it left too many pings unanswered."""
        client.timers.ping = None
        options = self._settings.options
        now_ns = self._clock.monotonic_ns()
        interval_s = options.ping_interval_s
        liveness = client.liveness
        if liveness.needs_ping(now_ns, interval_s * NS_PER_S, _RTT_MAX_AGE_S * NS_PER_S):
            if liveness.pings_out + 1 > options.ping_max:
                self._roster.stale_connections += 1
                self._log.debug(f"{client.label} - Stale Client Connection - Closing")
                self._close(client, closing.STALE_CONNECTION, STALE_CONNECTION)
                return
            liveness.count_ping(now_ns)
            self._broker.queue_frame(client, frames.PING)
        self._set_timer(client, interval_s)
