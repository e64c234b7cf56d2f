"""The times for which a copy waits: for the answer to a request, and for a sign of its origin.

On a slow link an answer waits behind messages, and one large message may take longer than the
silence after which an origin counts as gone. A copy that asked again each time would fill the link
with messages that it drops, and would never go on. So each wait that was in vain doubles the next
one; the waits become shorter again when answers and signs come sooner.
"""

from typing import Final, final

from headwater.base.clock import NS_PER_S
from headwater.jetstream.copying.requests import HEARTBEAT_NS

# A request without an answer within this time counts as lost.
ANSWER_NS: Final = 5 * NS_PER_S
# An origin that sends neither messages nor heartbeats for so long is asked again.
SILENCE_NS: Final = 4 * HEARTBEAT_NS
# No wait is longer: a megabyte passes within this time if the link has 16 kB/s.
PATIENCE_NS_MAX: Final = 64 * NS_PER_S
# A silence counts when it is longer than this many times the last distance between two signs.
_DISTANCES: Final = 3


@final
class Patience:
    """The patience with one origin."""

    __slots__ = ("answer_ns", "silence_ns")

    def __init__(self) -> None:
        self.answer_ns = ANSWER_NS
        self.silence_ns = SILENCE_NS

    def answered(self) -> None:
        """Note an answer."""
        self.answer_ns = max(self.answer_ns // 2, ANSWER_NS)

    def not_answered(self) -> None:
        """Note a request that was not answered in time."""
        self.answer_ns = min(self.answer_ns * 2, PATIENCE_NS_MAX)

    def heard(self, distance_ns: int) -> None:
        """Note a sign of the origin, and its distance from the sign before it."""
        longest_ns = max(distance_ns * _DISTANCES, self.silence_ns // 8 * 7, SILENCE_NS)
        self.silence_ns = min(longest_ns, PATIENCE_NS_MAX)

    def not_heard(self) -> None:
        """Note a silence that was too long."""
        self.silence_ns = min(self.silence_ns * 2, PATIENCE_NS_MAX)
