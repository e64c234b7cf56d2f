"""Refusals of publishes that a stream has no room for."""

from typing import Final, Protocol, final

from headwater.base.clock import NS_PER_S
from headwater.jetstream import error_codes
from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.stream import Stream
from headwater.server.core.accounts import Account
from headwater.server.core.broker import Broker
from headwater.server.core.ingest import TOO_MANY_REQUESTS, Excess

# A stream that refuses publishes says so in the log no more often than this.
REFUSALS_LOGGED_NS: Final = 60 * NS_PER_S


class Parts(Protocol):
    """The parts of a server that refusals need."""

    broker: Broker

    def now_ns(self) -> int:
        """The time."""
        ...

    def log_warning(self, text: str) -> None:
        """Log a warning."""
        ...


@final
class ExcessRefusals:
    """The refusals of one stream."""

    __slots__ = ("_account", "_logged_ns", "_parts", "_stream")

    def __init__(self, parts: Parts, account: Account, stream: Stream) -> None:
        self._parts = parts
        self._account = account
        self._stream = stream
        # The time of the last log line, by the limit that publishes met.
        self._logged_ns: dict[Excess, int] = {}

    def answer(self, replies: list[bytes], excess: Excess) -> None:
        """Answer publishes that there is no room for, also if the stream sends no acks."""
        stream, parts = self._stream, self._parts
        answer = stream.publishing.acks.refusal(ApiError.of(error_codes.STREAM_TOO_MANY_REQUESTS))
        count = len(replies)
        blocks = [TOO_MANY_REQUESTS] * count
        parts.broker.send_replies(self._account, replies, [answer] * count, blocks)
        now_ns = parts.now_ns()
        logged_ns = self._logged_ns.get(excess)
        if logged_ns is None or now_ns - logged_ns >= REFUSALS_LOGGED_NS:
            self._logged_ns[excess] = now_ns
            parts.log_warning(
                "Dropping messages due to excessive stream ingest rate on "
                f"'{self._account.name}' > '{stream.name}': {excess.value}"
            )
