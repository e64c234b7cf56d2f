"""Priority groups: which of several waiting clients is served.

The policy overflow serves a client only above a threshold of pending messages or acks; pinned
serves one client until it is silent for too long. (Prioritized only sets the position of a request
in the queue, see `PullQueue`.)
"""

from typing import Protocol, final

from headwater.jetstream.config.consumer_config import ConsumerConfig, PriorityPolicy
from headwater.jetstream.consumers.pin import Pin
from headwater.jetstream.consumers.pull import (
    LATER,
    SERVE,
    WRONG,
    Gate,
    PullRefusedError,
    PullRequest,
    Verdict,
)
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record

_PIN_MISMATCH = b"NATS/1.0 423 Nats-Pin-Id mismatch\r\n\r\n"


class Load(Protocol):
    """The load of a consumer while it sends."""

    @property
    def pending(self) -> int:
        """The number of messages not delivered yet, with the one that is being sent."""
        ...

    @property
    def unacknowledged(self) -> int:
        """The number of messages not acknowledged."""
        ...


@final
class OverflowGate:
    """Serves a request with a threshold only when the threshold is reached."""

    __slots__ = ("_load",)

    def __init__(self, load: Load) -> None:
        self._load = load

    def check(self, request: PullRequest, now_ns: int) -> None:
        """Accept every request."""

    def judge(self, request: PullRequest, now_ns: int, out: Proposal[Record]) -> Verdict:
        """Serve a request without a threshold, or with one that is reached."""
        pending, ack_pending = request.min_pending, request.min_ack_pending
        if pending <= 0 and ack_pending <= 0:
            return SERVE
        if 0 < pending <= self._load.pending:
            return SERVE
        return SERVE if 0 < ack_pending <= self._load.unacknowledged else LATER

    def unserved(self, request: PullRequest, out: Proposal[Record]) -> None:
        """Do nothing: this gate keeps no state."""


@final
class PinnedGate:
    """Serves one client, known by the id that it got with its first message."""

    __slots__ = ("_newly_pinned", "_pin")

    def __init__(self, pin: Pin) -> None:
        self._pin = pin
        self._newly_pinned: PullRequest | None = None

    def check(self, request: PullRequest, now_ns: int) -> None:
        """Restart the timeout for a request of the pinned client; refuse one with another id."""
        pin_id = self._pin.pin_id
        if not pin_id or not request.group:
            return
        if request.pin_id == pin_id:
            self._pin.keep_pinned(now_ns)
        elif request.pin_id:
            raise PullRefusedError(_PIN_MISMATCH)

    def judge(self, request: PullRequest, now_ns: int, out: Proposal[Record]) -> Verdict:
        """Serve the pinned client; without one, pin the client of this request."""
        self._newly_pinned = None
        pin_id = self._pin.pin_id
        if not pin_id:
            if request.pin_id:
                return WRONG
            if request.group:
                request.pin_id = self._pin.pin(request.group, now_ns, out)
                self._newly_pinned = request
            return SERVE
        if request.pin_id == pin_id:
            return SERVE
        return WRONG if request.pin_id else LATER

    def unserved(self, request: PullRequest, out: Proposal[Record]) -> None:
        """Unpin a client that was pinned for a message which is too large for its request."""
        if request is self._newly_pinned:
            self._pin.unpin_unserved(out)


def gate_of(config: ConsumerConfig, pin: Pin, load: Load) -> Gate | None:
    """The gate for a priority policy; None if all clients are served alike."""
    if config.priority_policy is PriorityPolicy.OVERFLOW:
        return OverflowGate(load)
    if config.priority_policy is PriorityPolicy.PINNED_CLIENT:
        return PinnedGate(pin)
    return None
