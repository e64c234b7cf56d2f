"""Reads that wait until a damaged message has come from another server.

The leader of a stream may be unable to read a message that other replicas have. It has the record
within milliseconds, so a read waits and is then made again. After `LOOKS_MAX` looks its client is
told that the service is not available, and may try again: the message is neither gone nor unknown.
"""

from collections.abc import Callable
from typing import Final, TypeAlias, final

from headwater.jetstream import error_codes
from headwater.jetstream.api.documents import Response
from headwater.runtime.environment import Scheduler

# A read looks again after this time, and so often: two seconds in all.
LOOK_S: Final = 0.05
LOOKS_MAX: Final = 40

ReplyTo: TypeAlias = Callable[[Response | None, bool], object]


@final
class AwaitedRead:
    """A read that is made again while its answer is that a message cannot be read yet."""

    __slots__ = ("_begin", "_looks_left", "_reply_to", "_scheduler")

    def __init__(
        self, scheduler: Scheduler, begin: Callable[[ReplyTo], object], reply_to: ReplyTo
    ) -> None:
        self._scheduler = scheduler
        self._begin = begin
        self._reply_to = reply_to
        self._looks_left = LOOKS_MAX

    def read(self) -> None:
        """Make the read, for the first time or once more."""
        self._begin(self._reply)

    def _reply(self, response: Response | None, is_told: bool) -> None:
        error = getattr(response, "error", None)
        is_damaged = error is not None and error.err_code == error_codes.CLUSTER_NOT_AVAIL.err_code
        if is_damaged and self._looks_left:
            self._looks_left -= 1
            self._scheduler.call_later(LOOK_S, self.read)
        else:
            self._reply_to(response, is_told)
