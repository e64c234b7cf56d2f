"""Whether the leader of a stream still leads it when it answers a linearizable read.

    may_begin ─▶ when_confirmed ─▶ the bytes are read ─▶ holds ─▶ the answer is sent, or refused

The last step is what makes a lease safe: a process may be paused at any moment before it.
"""

from collections.abc import Callable
from typing import Final, Protocol, final


class GroupReads(Protocol):
    """The linearizable reads of the groups of a server."""

    @property
    def uses_rounds(self) -> bool:
        """Whether the quorum is asked before a read, so that it cannot be made at once."""
        ...

    def may_begin(self, identity: bytes) -> bool:
        """Whether a read of a group may be answered here, as far as is known now."""
        ...

    def when_confirmed(self, identity: bytes, answer: Callable[[bool], object]) -> None:
        """Call `answer` when a read that came before this call may be made, or is refused."""
        ...

    def holds(self, identity: bytes) -> bool:
        """Whether a read that was made is linearizable. Called after its bytes were read."""
        ...


@final
class Confirmation:
    """The confirmation of the reads of one stream. Without a group, this server alone has it."""

    __slots__ = ("_identity", "_reads")

    def __init__(self, reads: GroupReads | None = None, identity: bytes = b"") -> None:
        self._reads = reads
        self._identity = identity

    @property
    def is_immediate(self) -> bool:
        """Whether reads are made at once, and confirmed behind that."""
        return self._reads is None or not self._reads.uses_rounds

    def may_begin(self) -> bool:
        """Whether a read may be answered here, as far as is known now."""
        return self._reads is None or self._reads.may_begin(self._identity)

    def when_confirmed(self, answer: Callable[[bool], object]) -> None:
        """Call `answer` when a read that came before this call may be made, or is refused."""
        if self._reads is None:
            answer(True)
        else:
            self._reads.when_confirmed(self._identity, answer)

    def holds(self) -> bool:
        """Whether a read that was made is linearizable. Called after its bytes were read."""
        return self._reads is None or self._reads.holds(self._identity)


@final
class _NoReads:
    """The reads of a server that does not lead."""

    __slots__ = ()
    uses_rounds = False

    def may_begin(self, identity: bytes) -> bool:
        """Begin none. Returns False."""
        return False

    def when_confirmed(self, identity: bytes, answer: Callable[[bool], object]) -> None:
        """Refuse a read."""
        answer(False)

    def holds(self, identity: bytes) -> bool:
        """Confirm none. Returns False."""
        return False


NOT_LED: Final = Confirmation(_NoReads())
"""The confirmation of a stream that another server leads: no read is confirmed."""

SOLE: Final = Confirmation()
"""The confirmation of a stream that no other server can lead."""
