"""Addresses of other servers, and the times at which to connect to them.

A configured route is dialled for ever. An address that another server named is dialled
`connect_retries` times after a failure and then left to the other end. Attempts are a second apart,
with `connect_backoff` twice as long after every failure up to 30 s, and a random part keeps two
servers that dial each other from staying in step. A server that was refused, or refuses this one,
is dialled less and less often too.

The first attempt after the end of an open connection comes within tens of milliseconds: a
connection that was reset is renewed before its server counts as lost, and a server that was killed
refuses it. A connection that was open for less than a second is not renewed so, lest servers that
always end their connections dial without a pause.

Pure: times are given and returned in seconds; the caller has the timers.
"""

from typing import Final, final

from headwater.base.entropy import Entropy
from headwater.runtime.environment import TimerHandle
from headwater.server.cluster.addresses import joined_address
from headwater.server.cluster.handshake import Credentials
from headwater.wire.peer_info import Purpose

RECONNECT_S: Final = 1.0
RECONNECT_S_MAX: Final = 30.0
JITTER_S_MAX: Final = 0.1
RENEWAL_S: Final = 0.01
RENEWAL_JITTER_S_MAX: Final = 0.02
# Connections that were open for so long are renewed at once.
RENEWABLE_S: Final = 1.0
# Handshakes in a row that end with a refusal before a server is dialled less often: another server
# of its name is given up after some of them.
REFUSALS_IN_STEP: Final = 3
_JITTER_STEPS: Final = 1_000


@final
class Attempt:
    """The efforts to reach one target for one purpose."""

    __slots__ = ("failures", "is_under_way", "reached", "timer")

    def __init__(self) -> None:
        self.failures = 0
        # A connection is being made, or is in its handshake.
        self.is_under_way = False
        # Whether a connection was ever made: failures are reported more seldom before.
        self.reached = False
        self.timer: TimerHandle | None = None

    def cancel(self) -> None:
        """Give up the next attempt."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


@final
class Target:
    """One address of another server."""

    __slots__ = (
        "attempts",
        "credentials",
        "host",
        "is_configured",
        "is_over",
        "is_refused",
        "peer_id",
        "peer_name",
        "port",
    )

    def __init__(
        self,
        host: str,
        port: int,
        credentials: Credentials | None,
        is_configured: bool,
        peer_id: str = "",
    ) -> None:
        self.host = host
        self.port = port
        # Those of a configured route; None for the ones that the cluster has at the time.
        self.credentials = credentials
        self.is_configured = is_configured
        # The server behind the address, once it is known.
        self.peer_id = peer_id
        self.peer_name = ""
        # Not dialled any more: the address is the server's own, or was removed.
        self.is_over = False
        # The last handshake has ended with a refusal, of either end.
        self.is_refused = False
        self.attempts = {purpose: Attempt() for purpose in Purpose}

    @property
    def address(self) -> str:
        """`host:port`, with brackets around an IPv6 address."""
        return joined_address(self.host, self.port)

    def end(self) -> None:
        """Dial no more."""
        self.is_over = True
        for attempt in self.attempts.values():
            attempt.cancel()


def delay_s(failures: int, with_backoff: bool, entropy: Entropy) -> float:
    """The time until the next attempt, after so many failures in a row."""
    wait_s = RECONNECT_S
    if with_backoff:
        # The exponent is bounded: 2 to the power of a large number takes long.
        wait_s = min(RECONNECT_S * 2.0 ** min(max(failures - 1, 0), 10), RECONNECT_S_MAX)
    return wait_s + JITTER_S_MAX * entropy.below(_JITTER_STEPS) / _JITTER_STEPS


def renewal_delay_s(entropy: Entropy) -> float:
    """The time until the first attempt after the end of an open connection."""
    return RENEWAL_S + RENEWAL_JITTER_S_MAX * entropy.below(_JITTER_STEPS) / _JITTER_STEPS


def may_retry(target: Target, failures: int, retries_max: int) -> bool:
    """Whether a target is dialled once more after so many failures in a row."""
    return target.is_configured or failures <= retries_max


def is_reported(failures: int, reports: int) -> bool:
    """Whether a failure is logged as an error: the first one, and every so many after it."""
    return failures == 1 or failures % reports == 0
