"""Reads that wait until a damaged message has come from another server.

The leader of a stream may be unable to read a message that other replicas have. It has the record
within milliseconds, so a read waits and is then made again. After `LOOKS_MAX` looks its client is
told that the service is not available, and may try again: the message is neither gone nor unknown.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from headwater.jetstream import error_codes
from headwater.jetstream.api.documents import Response
from headwater.runtime.environment import Scheduler

# A read looks again after this time, and so often: two seconds in all.
LOOK_S: Final = 0.05
LOOKS_MAX: Final = 40

ReplyTo: TypeAlias = Callable[[Response | None, bool], object]


def awaiting_repair(
    scheduler: Scheduler, begin: Callable[[ReplyTo], object], reply_to: ReplyTo
) -> Callable[[], None]:
    """A read that is made again while its answer is that a message cannot be read yet."""
    looks_left = LOOKS_MAX

    def reply(response: Response | None, is_told: bool) -> None:
        nonlocal looks_left
        error = getattr(response, "error", None)
        is_damaged = error is not None and error.err_code == error_codes.CLUSTER_NOT_AVAIL.err_code
        if is_damaged and looks_left:
            looks_left -= 1
            scheduler.call_later(LOOK_S, read)
        else:
            reply_to(response, is_told)

    def read() -> None:
        begin(reply)

    return read
