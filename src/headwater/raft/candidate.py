"""The two roles of a member that wants to lead.

A pre-candidate asks whether it would be elected and changes nothing. Only if a majority would vote
for it does it become a candidate, which enters a new term and asks for votes. A candidate counts
its own vote when that vote is on disk, and asks the others only then: the log that it claims to
have must be one that it cannot lose.
"""

from abc import abstractmethod
from typing import final

from headwater.raft import quorum
from headwater.raft.messages import Digest, PreVote, PreVoteReply, Vote, VoteReply
from headwater.raft.quorum import Outcome
from headwater.raft.replica import Replica
from headwater.raft.role import Role, RoleName, Transition


class Campaign(Role):
    """Votes that are counted until a deadline."""

    __slots__ = ("_deadline_ns", "_votes")

    def __init__(self, replica: Replica, now_ns: int) -> None:
        super().__init__(replica)
        self._votes: dict[str, bool] = {}
        self._deadline_ns = now_ns + replica.patience_ns()

    @property
    def deadline_ns(self) -> int | None:
        return self._deadline_ns

    def tick(self, now_ns: int) -> Transition | None:
        if now_ns < self._deadline_ns:
            return None
        replica = self.replica
        role = RoleName.PRE_CANDIDATE if replica.may_campaign else RoleName.FOLLOWER
        return Transition(role, replica.term)

    def on_digest(self, message: Digest, now_ns: int) -> Transition | None:
        if message.leader == message.sender:
            return Transition(RoleName.FOLLOWER, self.replica.term, message.sender)
        return None

    def _count(self, voter: str, granted: bool) -> Transition | None:
        # The first answer stands: a second one is a copy of it.
        self._votes.setdefault(voter, granted)
        outcome = quorum.outcome(self.replica.log.membership, self._votes)
        if outcome is Outcome.WON:
            return self._victory()
        if outcome is Outcome.LOST:
            return Transition(RoleName.FOLLOWER, self.replica.term)
        return None

    @abstractmethod
    def _victory(self) -> Transition:
        """The role of a winner."""

    def _others(self) -> list[str]:
        name = self.replica.name
        return [voter for voter in self.replica.log.membership.electors() if voter != name]


@final
class PreCandidate(Campaign):
    """A member that asks whether it would be elected in the next term."""

    __slots__ = ()

    name = RoleName.PRE_CANDIDATE

    def enter(self, now_ns: int) -> Transition | None:
        replica = self.replica
        log = replica.log
        for voter in self._others():
            replica.messages.append(
                PreVote(replica.name, voter, replica.term + 1, log.last_index, log.last_term)
            )
        return self._count(replica.name, True)

    def on_pre_vote_reply(self, message: PreVoteReply, now_ns: int) -> Transition | None:
        return self._count(message.sender, message.granted)

    def _victory(self) -> Transition:
        return Transition(RoleName.CANDIDATE, self.replica.term + 1)


@final
class Candidate(Campaign):
    """A member that asks for votes in a term of its own."""

    __slots__ = ("_forced",)

    name = RoleName.CANDIDATE

    def __init__(self, replica: Replica, now_ns: int, forced: bool) -> None:
        super().__init__(replica, now_ns)
        self._forced = forced
        replica.grant(replica.name)

    def enter(self, now_ns: int) -> Transition | None:
        replica = self.replica
        log = replica.log
        for voter in self._others():
            replica.replies.append(
                Vote(replica.name, voter, replica.term, log.last_index, log.last_term, self._forced)
            )
        return None

    def written(self, now_ns: int) -> Transition | None:
        replica = self.replica
        if replica.durable_term == replica.term and replica.durable_vote == replica.name:
            return self._count(replica.name, True)
        return None

    def on_vote_reply(self, message: VoteReply, now_ns: int) -> Transition | None:
        return self._count(message.sender, message.granted)

    def _victory(self) -> Transition:
        return Transition(RoleName.LEADER, self.replica.term)
