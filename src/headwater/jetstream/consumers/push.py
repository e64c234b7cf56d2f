"""Push delivery: interest, flow control and heartbeats.

A push consumer is active while a subscription matches its deliver subject. With flow control it
stops when more bytes than a window are unconfirmed; the window doubles with every confirmation.
The window of a consumer by which a server copies follows the time that confirmations take: bytes on
a slow link delay all that comes behind them, so no more are on the way than pass in some seconds.
Idle heartbeats tell the receiver that there was nothing to send.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, final

from headwater.base.clock import NS_PER_S
from headwater.base.entropy import Entropy
from headwater.jetstream.config.consumer_config import ConsumerConfig
from headwater.jetstream.consumers.effects import Status
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record

FLOW_CONTROL: Final = b"NATS/1.0 100 FlowControl Request\r\n\r\n"
FLOW_PREFIX: Final = b"$JS.FC."
WINDOW_BYTES_MAX: Final = 32 * 1024 * 1024
WINDOW_BYTES_MIN: Final = WINDOW_BYTES_MAX // 16
# The windows of copies: the first one, and the limits of those that follow.
COPY_WINDOW_BYTES: Final = 64 * 1024
COPY_WINDOW_BYTES_MIN: Final = 32 * 1024
COPY_WINDOW_BYTES_MAX: Final = 4 * 1024 * 1024
# A confirmation within the first of these times has the window of a copy double, and one after more
# than the second has it shrink.
QUICK_NS: Final = NS_PER_S
SLOW_NS: Final = 3 * NS_PER_S

_DIGITS: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FLOW_ID_SIZE: Final = 4


@final
class FlowWindow:
    """The bytes that were sent and not confirmed, and their limit."""

    __slots__ = (
        "_asked_bytes",
        "_asked_ns",
        "_entropy",
        "_is_of_copy",
        "_prefix",
        "_sent_bytes",
        "_window_bytes",
        "asked",
    )

    def __init__(self, prefix: bytes, entropy: Entropy, is_of_copy: bool = False) -> None:
        self._prefix = prefix
        self._entropy = entropy
        self._is_of_copy = is_of_copy
        self._window_bytes = COPY_WINDOW_BYTES if is_of_copy else WINDOW_BYTES_MIN
        self._sent_bytes = 0
        # The bytes that an answer to the outstanding request confirms, and the time of the request.
        self._asked_bytes = 0
        self._asked_ns = 0
        # The subject to which the outstanding request is answered; empty without such a request.
        self.asked = b""

    @property
    def is_open(self) -> bool:
        """Whether the window has room for another message."""
        return self._sent_bytes <= self._window_bytes

    def sent(self, size: int) -> bool:
        """Count a message that was sent. Returns whether to ask the receiver for a confirmation."""
        self._sent_bytes += size
        if not self.asked:
            return self._sent_bytes > self._window_bytes // 2
        if self._sent_bytes - self._asked_bytes >= self._window_bytes:
            self._asked_bytes += size
        return False

    def sent_all(self, sizes: Sequence[int]) -> int:
        """Count as many messages of these sizes as the window admits. Returns their number.

        The count ends with the message after which to ask for a confirmation; the request `is_due`
        then.
        """
        totals = [*accumulate(sizes, initial=self._sent_bytes)]
        count = min(bisect_right(totals, self._window_bytes), len(sizes))
        if not self.asked:
            place = bisect_right(totals, self._window_bytes // 2)
            count = min(count, max(place, 1))
        elif totals[count] - self._asked_bytes >= self._window_bytes:
            # The answer to the outstanding request has to confirm some of these messages too.
            for total, size in zip(totals[1 : count + 1], sizes, strict=False):
                if total - self._asked_bytes >= self._window_bytes:
                    self._asked_bytes += size
        self._sent_bytes = totals[count]
        return count

    @property
    def is_due(self) -> bool:
        """Whether to ask the receiver for a confirmation."""
        return not self.asked and self._sent_bytes > self._window_bytes // 2

    def ask(self, now_ns: int) -> bytes:
        """Note a request for a confirmation. Returns the subject of its answer."""
        digits = [self._entropy.below(len(_DIGITS)) for _ in range(_FLOW_ID_SIZE)]
        self.asked = self._prefix + bytes(_DIGITS[each] for each in digits)
        self._asked_bytes, self._asked_ns = self._sent_bytes, now_ns
        return self.asked

    def confirm(self, subject: bytes, now_ns: int) -> bool:
        """Note a confirmation. Returns whether it answers the outstanding request."""
        if subject != self.asked or not self.asked:
            return False
        self._resize(now_ns - self._asked_ns)
        self._sent_bytes = max(self._sent_bytes - self._asked_bytes, 0)
        self.asked = b""
        self._asked_bytes = 0
        return True

    def _resize(self, confirmation_ns: int) -> None:
        if not self._is_of_copy:
            self._window_bytes = min(self._window_bytes * 2, WINDOW_BYTES_MAX)
        elif confirmation_ns <= QUICK_NS:
            self._window_bytes = min(self._window_bytes * 2, COPY_WINDOW_BYTES_MAX)
        elif confirmation_ns > SLOW_NS:
            self._window_bytes = max(self._window_bytes // 2, COPY_WINDOW_BYTES_MIN)


@final
class Push:
    """The deliver subject of one consumer, with its interest, flow control and heartbeats."""

    __slots__ = (
        "flow",
        "group",
        "heartbeat_at_ns",
        "heartbeat_ns",
        "idle_since_ns",
        "is_active",
        "is_congested",
        "subject",
    )

    def __init__(self, config: ConsumerConfig, flow_prefix: bytes, entropy: Entropy) -> None:
        self.subject = b""
        self.group = b""
        self.flow: FlowWindow | None = None
        if config.flow_control:
            self.flow = FlowWindow(flow_prefix, entropy, config.sourcing)
        # Whether a subscription matches the deliver subject.
        self.is_active = False
        # Whether the subscribers have too many bytes pending.
        self.is_congested = False
        # Since when no subscription matches; 0 while one does.
        self.idle_since_ns = 0
        self.heartbeat_at_ns = 0
        self.heartbeat_ns = 0
        self.configure(config)

    def configure(self, config: ConsumerConfig) -> None:
        """Use another configuration."""
        self.subject = config.deliver_subject.encode(errors="surrogateescape")
        self.group = config.deliver_group.encode(errors="surrogateescape")
        self.heartbeat_ns = config.idle_heartbeat

    def set_active(self, is_active: bool, now_ns: int) -> None:
        """Note whether a subscription matches the deliver subject."""
        if self.heartbeat_ns and not self.heartbeat_at_ns:
            self.heartbeat_at_ns = now_ns + self.heartbeat_ns
        if is_active:
            self.idle_since_ns = 0
        elif self.is_active or not self.idle_since_ns:
            self.idle_since_ns = now_ns
        self.is_active = is_active

    @property
    def is_open(self) -> bool:
        """Whether messages may be sent."""
        return self.is_active and not self.is_congested and (self.flow is None or self.flow.is_open)

    def sent_now(self, now_ns: int) -> None:
        """Restart the wait for the next idle heartbeat."""
        if self.heartbeat_ns:
            self.heartbeat_at_ns = now_ns + self.heartbeat_ns

    def sent(self, size: int, now_ns: int, out: Proposal[Record]) -> None:
        """Count a message that was sent, and ask for a confirmation if one is due."""
        self.sent_now(now_ns)
        if self.flow is not None and self.flow.sent(size):
            self.ask(now_ns, out)

    def ask(self, now_ns: int, out: Proposal[Record]) -> None:
        """Ask the receiver to confirm the bytes it got."""
        if self.flow is not None:
            out.at_once.append(Status(self.subject, FLOW_CONTROL, self.flow.ask(now_ns)))
