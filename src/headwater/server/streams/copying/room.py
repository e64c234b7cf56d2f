"""The parts of a server that all its copies of streams share."""

from collections.abc import Callable, Hashable
from typing import Final, Protocol, final

from headwater.base.entropy import Entropy
from headwater.jetstream.streams.stream import Stream
from headwater.runtime.environment import Scheduler
from headwater.server.core.accounts import Account
from headwater.server.core.broker import Broker
from headwater.server.core.own_subscriptions import OwnSubscriptions
from headwater.server.streams.copying.mirror_reads import MirrorReads
from headwater.server.streams.due_times import DueTimes
from headwater.server.streams.requests import Request

# The timer of all copies is set at least this far ahead, and serves so many of them in a turn.
_DELAY_S_MIN: Final = 0.001
_DUE_MAX: Final = 64


class Target(Protocol):
    """The runner of the stream that copies, as far as a copy has to know it."""

    stream: Stream
    account: Account

    def request(self, request: Request) -> None:
        """Decide a request after all steps that came before it."""
        ...

    def when_free(self, look: Callable[[], object]) -> None:
        """Call `look` when no long work is under way."""
        ...


class Timed(Hashable, Protocol):
    """A copy, as far as the timer has to know it."""

    def run_due(self, now_ns: int) -> None:
        """Do what is due."""
        ...


@final
class CopyRoom:
    """The broker, the subscriptions and the timer of all copies of a server."""

    __slots__ = (
        "broker",
        "domain",
        "entropy",
        "is_announced",
        "mirrors",
        "now_ns",
        "scheduler",
        "subscriptions",
        "timers",
    )

    def __init__(
        self,
        broker: Broker,
        subscriptions: OwnSubscriptions,
        entropy: Entropy,
        scheduler: Scheduler,
        now_ns: Callable[[], int],
        domain: str,
        is_announced: bool,
    ) -> None:
        """`is_announced` has other servers deliver to the copies of this one."""
        self.broker = broker
        self.subscriptions = subscriptions
        self.entropy = entropy
        self.scheduler = scheduler
        self.now_ns = now_ns
        self.domain = domain
        self.mirrors = MirrorReads(entropy)
        self.is_announced = is_announced
        self.timers: DueTimes[Timed] = DueTimes(
            scheduler, now_ns, delay_s_min=_DELAY_S_MIN, turn_max=_DUE_MAX
        )

    def plan(self, copy: Timed, due_ns: int) -> None:
        """Have a copy do what is due at a time."""
        self.timers.plan(copy, due_ns, _run)

    def stop(self) -> None:
        """Plan nothing any more."""
        self.timers.stop()


def _run(copy: Timed, now_ns: int) -> None:
    copy.run_due(now_ns)
