"""A job waits for a server that is away, for some time, and its log says so.

Patience is a duration: a restart of a server takes as long as it takes, and a count of tries says
nothing about that. An outage begins with the first failure after a success and ends with the next
success. Until it has lasted as long as the login allows, the caller pauses and tries again; then
the failure itself is raised. The first try again comes at once, because a connection that its
server closed while nobody used it is no outage; from then on the pauses double.

A server that answers is not away. It may answer before its JetStream does, or before a stream has a
leader, so its refusals may pass too; but a stream that was deleted stays deleted, and a job that
waits minutes for it hides the reason. Refusals are borne for `ANSWERED_PATIENCE_S` in a row.

Each loop that tries again has an outage of its own: a connection that can be made again is a
success for the loop that makes it, and none for the read that breaks on it every time.

Must not know: which failures may pass; the caller knows that.
"""

import logging
import time
from collections.abc import Callable
from typing import Final, final

from headwater.client.link.errors import LinkError
from headwater.client.link.login import Login

PAUSE_S_MIN: Final = 0.1
PAUSE_S_MAX: Final = 2.0
LINE_AFTER_S: Final = 1.0
"""A shorter outage is not worth a line: every closed connection would write one."""
LINE_EVERY_S: Final = 30.0
ANSWERED_PATIENCE_S: Final = 20.0
"""Twice as long as a stream of nats-server may be without a leader before it elects another."""

log: Final = logging.getLogger("headwater.spark")


@final
class Outage:
    """The failures of one loop since its last success."""

    __slots__ = (
        "_answered_since_s",
        "_began_s",
        "_clock",
        "_failures",
        "_line_due_s",
        "_login",
        "_sleep",
    )

    def __init__(
        self,
        login: Login,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._login = login
        self._clock = clock
        self._sleep = sleep
        self._failures = 0
        self._began_s = 0.0
        # None unless the last failure was the answer of a server.
        self._answered_since_s: float | None = None
        self._line_due_s = LINE_AFTER_S

    @property
    def has_begun(self) -> bool:
        """Whether the last attempt was a failure."""
        return self._failures > 0

    def pause(self, error: LinkError) -> None:
        """Wait before the next try. Raises `error` when the login allows no more tries."""
        now_s = self._clock()
        if not self._failures:
            self._began_s = now_s
        self._failures += 1
        lasted_s = now_s - self._began_s
        left_s = self._login.outage_timeout_s - lasted_s
        if error.server_is_away:
            self._answered_since_s = None
        else:
            if self._answered_since_s is None:
                self._answered_since_s = now_s
            left_s = min(left_s, self._answered_since_s + ANSWERED_PATIENCE_S - now_s)
        retries = self._login.retries
        if left_s <= 0 or (retries is not None and self._failures > retries):
            raise error
        if lasted_s >= self._line_due_s:
            self._line_due_s = lasted_s + LINE_EVERY_S
            log.warning(
                "the server at %s is away for %d s: %s; the job tries again for another %d s"
                " (outageTimeout)",
                self._login.shown_url,
                lasted_s,
                error,
                left_s,
            )
        if self._failures > 1:
            pause_s = min(PAUSE_S_MIN * 2 ** min(self._failures - 2, 16), PAUSE_S_MAX)
            self._sleep(min(pause_s, left_s))

    def end(self) -> None:
        """End the outage: the last attempt was a success."""
        if self._line_due_s > LINE_AFTER_S:
            log.warning(
                "the server at %s answers again after %d s",
                self._login.shown_url,
                self._clock() - self._began_s,
            )
            self._line_due_s = LINE_AFTER_S
        self._failures = 0
        self._answered_since_s = None
