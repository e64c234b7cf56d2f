"""Rounds of confirmation: a leader asks its quorum whether it still leads (`ReadIndex` of Raft).

A round confirms that no other leader was elected before it began, so it serves the reads that had
arrived by then, at an applied index that has all that was committed at that moment. It trusts no
clock. A member that may have forgotten does not confirm: it may have voted for another leader.

One message of a round goes to each voter. A lost one is not sent again; a later round also stands
for the rounds before it.
"""

from collections import deque
from typing import Final, final

from headwater.raft import quorum
from headwater.raft.messages import ReadRound, ReadRoundReply
from headwater.raft.replica import Replica

ROUNDS_MAX: Final = 64
"""The rounds that may be on their way. A driver needs two: one for the reads that came before it,
and the next for those that came since."""


@final
class ReadRounds:
    """The rounds of one leader in its term."""

    __slots__ = ("_begun", "_confirmed", "_number", "_pending", "_replica")

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._number = 0
        self._confirmed = 0
        # The last round that each voter has confirmed.
        self._begun: dict[str, int] = {}
        # Rounds that are not confirmed, with the commit index of their beginnings.
        self._pending: deque[tuple[int, int]] = deque()

    def begin(self) -> int | None:
        """Ask all voters. Returns the number of the round; None if too many are on their way."""
        replica = self._replica
        if len(self._pending) >= ROUNDS_MAX:
            return None
        self._number += 1
        self._begun[replica.name] = self._number
        self._pending.append((self._number, replica.log.commit))
        for voter in replica.log.membership.electors():
            if voter != replica.name and voter in replica.alive:
                replica.messages.append(ReadRound(replica.name, voter, replica.term, self._number))
        return self._number

    def confirm(self, message: ReadRoundReply) -> None:
        """Note that a member had elected no other leader when it was asked."""
        known = self._begun.get(message.sender, 0)
        self._begun[message.sender] = max(known, min(message.number, self._number))

    @property
    def confirmed(self) -> int:
        """The last round whose reads may be served now, at the applied index; zero if none may."""
        log = self._replica.log
        number = quorum.committed_index(log.membership, self._begun)
        applied = min(log.commit, log.applied)
        pending = self._pending
        while pending and pending[0][0] <= number and pending[0][1] <= applied:
            self._confirmed = pending.popleft()[0]
        return self._confirmed
