"""Priority groups: which of several waiting clients is served.

Overflow serves a client only while there is much to do; pinned serves one client until it is silent
for too long. (Prioritized only says where in the queue a request waits: `PullQueue` does that.)
"""

from typing import Protocol, final

from headwater.jetstream.config.consumer_config import ConsumerConfig, PriorityPolicy
from headwater.jetstream.consumers.outbox import Outbox
from headwater.jetstream.consumers.pull import (
    LATER,
    SERVE,
    WRONG,
    Gate,
    PullRefusedError,
    PullRequest,
    Verdict,
)

_PIN_MISMATCH = b"NATS/1.0 423 Nats-Pin-Id mismatch\r\n\r\n"


class Pinning(Protocol):
    """A consumer that can be pinned to a client."""

    @property
    def pin_id(self) -> str:
        """The client it is pinned to; empty if to none."""
        ...

    def pin(self, group: str, now_ns: int, out: Outbox) -> str:
        """Pin it to a new client, whose id is returned."""
        ...

    def keep_pinned(self, now_ns: int) -> None:
        """The client is still there."""
        ...

    def unpin_unserved(self) -> None:
        """The client that was just pinned got nothing."""
        ...


class Load(Protocol):
    """How much a consumer has to do while it sends."""

    @property
    def pending(self) -> int:
        """How many messages were not delivered yet, with the one that is being sent."""
        ...

    @property
    def unacknowledged(self) -> int:
        """How many are not acknowledged."""
        ...


@final
class OverflowGate:
    """Serves a request that names a threshold only when it is exceeded."""

    __slots__ = ("_load",)

    def __init__(self, load: Load) -> None:
        self._load = load

    def check(self, request: PullRequest, now_ns: int) -> None:
        """Nothing to object to."""

    def judge(self, request: PullRequest, now_ns: int, out: Outbox) -> Verdict:
        """Whether one of its thresholds is reached."""
        pending, ack_pending = request.min_pending, request.min_ack_pending
        if pending <= 0 and ack_pending <= 0:
            return SERVE
        if 0 < pending <= self._load.pending:
            return SERVE
        return SERVE if 0 < ack_pending <= self._load.unacknowledged else LATER

    def unserved(self, request: PullRequest) -> None:
        """Nothing to take back."""


@final
class PinnedGate:
    """Serves one client, known by the id it was given with its first message."""

    __slots__ = ("_consumer", "_newly_pinned")

    def __init__(self, consumer: Pinning) -> None:
        self._consumer = consumer
        self._newly_pinned: PullRequest | None = None

    def check(self, request: PullRequest, now_ns: int) -> None:
        """A request of the pinned client shows that it is there; an id of another is refused."""
        pin_id = self._consumer.pin_id
        if not pin_id or not request.group:
            return
        if request.pin_id == pin_id:
            self._consumer.keep_pinned(now_ns)
        elif request.pin_id:
            raise PullRefusedError(_PIN_MISMATCH)

    def judge(self, request: PullRequest, now_ns: int, out: Outbox) -> Verdict:
        """Whether it is the pinned client's, or makes its client that."""
        self._newly_pinned = None
        pin_id = self._consumer.pin_id
        if not pin_id:
            if request.pin_id:
                return WRONG
            if request.group:
                request.pin_id = self._consumer.pin(request.group, now_ns, out)
                self._newly_pinned = request
            return SERVE
        if request.pin_id == pin_id:
            return SERVE
        return WRONG if request.pin_id else LATER

    def unserved(self, request: PullRequest) -> None:
        """Whoever was pinned for a message that was too large for him is not."""
        if request is self._newly_pinned:
            self._consumer.unpin_unserved()


def gate_of(config: ConsumerConfig, consumer: Pinning, load: Load) -> Gate | None:
    """The gate a consumer needs; None if all are served alike."""
    if config.priority_policy is PriorityPolicy.OVERFLOW:
        return OverflowGate(load)
    if config.priority_policy is PriorityPolicy.PINNED_CLIENT:
        return PinnedGate(consumer)
    return None
