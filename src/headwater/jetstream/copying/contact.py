"""The contact of a mirror with its origin: how long it may be silent, and what ends a silence.

A mirror with `max_staleness` answers direct reads for as long as it hears of its origin. After a
longer silence, and before the first sign, it has to catch up first: with what the origin had when
it was heard of again. A heartbeat names the last sequence that the origin has, a message the number
of those behind it.

    LOST ─▶ BEHIND ─▶ STORING ─▶ KEPT        a sign; all up to the target accepted; and applied
      ▲        │          │        │
      └────────┴──────────┴────────┘         silence; a new request before the target is applied

The silence is noted by the sign that ends it, so it counts also if nobody has read meanwhile.
"""

from enum import Enum
from typing import final


class Standing(Enum):
    """The knowledge of a mirror after a silence."""

    # Nothing was heard since the silence.
    LOST = "lost"
    # The origin has messages up to the target, which have not all arrived.
    BEHIND = "behind"
    # All messages up to the target were accepted.
    STORING = "storing"
    KEPT = "kept"


@final
class Contact:
    """The contact with one origin; every time is one of the server that copies."""

    __slots__ = ("_end_number", "_heard_ns", "_sequence", "_standing", "max_staleness_ns")

    def __init__(self) -> None:
        # 0 if a mirror may answer however long it has heard nothing.
        self.max_staleness_ns = 0
        # The time of the last message or heartbeat; 0 before the first one.
        self._heard_ns = 0
        self._standing = Standing.LOST
        # The number of the last message that the origin had, while that has not arrived, and its
        # sequence from then on.
        self._end_number = 0
        self._sequence = 0

    def holds(self, now_ns: int) -> bool:
        """Whether a mirror may answer, as far as the contact decides it."""
        if not self.max_staleness_ns:
            return True
        return self._standing is Standing.KEPT and not self._is_silent(now_ns)

    def _is_silent(self, now_ns: int) -> bool:
        return 0 < self.max_staleness_ns < now_ns - self._heard_ns

    # --- signs ---------------------------------------------------------------------------------

    def delivered(self, now_ns: int, number: int, sequence: int, pending: int) -> None:
        """Note messages: the number and sequence of the last one, and how many are behind it."""
        self._hear(now_ns)
        if self._standing is Standing.LOST:
            self._standing = Standing.BEHIND
            self._end_number = number + pending
        if self._standing is Standing.BEHIND and (number >= self._end_number or not pending):
            self._accepted(sequence)

    def idle(self, now_ns: int, sequence: int) -> None:
        """Note a heartbeat: all messages of the origin have arrived, up to a sequence."""
        self._hear(now_ns)
        if self._standing in (Standing.LOST, Standing.BEHIND):
            self._accepted(sequence)

    def _hear(self, now_ns: int) -> None:
        if self._is_silent(now_ns):
            self._standing = Standing.LOST
        self._heard_ns = now_ns

    def _accepted(self, sequence: int) -> None:
        self._standing = Standing.STORING
        self._sequence = sequence

    # --- the stream ----------------------------------------------------------------------------

    def applied(self, sequence: int) -> None:
        """Note the last sequence that the mirror has applied."""
        if self._standing is Standing.STORING and sequence >= self._sequence:
            self._standing = Standing.KEPT

    def asked(self) -> None:
        """Note a new request, which counts messages from the beginning again."""
        if self._standing is not Standing.KEPT:
            self._standing = Standing.LOST
