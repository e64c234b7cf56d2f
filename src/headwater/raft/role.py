"""The common form of the four roles, and the ways from one to the next.

A role answers messages of the member's own term, the passing of time, and news about servers. Each
of its methods may return a `Transition`; the node carries it out. So roles do not know each other,
and a role has only the fields that are legal in it.
"""

from enum import Enum
from typing import final

from headwater.raft.messages import (
    Append,
    AppendReject,
    AppendReply,
    CampaignNow,
    Digest,
    InstallSnapshot,
    PreVoteReply,
    ReadRound,
    ReadRoundReply,
    VoteReply,
)
from headwater.raft.replica import Replica
from headwater.raft.storage import NOBODY


class RoleName(Enum):
    """The roles of a member. A learner is a follower that is not a voter."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


@final
class Transition:
    """The role to enter next."""

    __slots__ = ("forced", "leader", "role", "term")

    def __init__(
        self, role: RoleName, term: int, leader: str = NOBODY, forced: bool = False
    ) -> None:
        self.role = role
        self.term = term
        self.leader = leader
        """For a follower: the leader of the term, if it is known."""
        self.forced = forced
        """For a candidate: whether the leader has appointed it."""


class Role:
    """A role that ignores everything."""

    __slots__ = ("replica",)

    name: RoleName

    def __init__(self, replica: Replica) -> None:
        self.replica = replica

    @property
    def deadline_ns(self) -> int | None:
        """The time at which `tick` has something to do, or None: a silent group costs no ticks."""
        return None

    @property
    def trusts_leader(self) -> bool:
        """Whether this member hears a leader, and so refuses to help to depose it."""
        return False

    @property
    def known_leader(self) -> str:
        """The leader that has this member's log in hand, or no name."""
        return NOBODY

    def enter(self, now_ns: int) -> Transition | None:
        """Begin the role."""
        return None

    def tick(self, now_ns: int) -> Transition | None:
        """Do the work that is due."""
        return None

    def flush(self, now_ns: int) -> None:
        """Add the messages that conflate the events since the last `Ready`."""

    def written(self, now_ns: int) -> Transition | None:
        """React to a finished write."""
        return None

    def peer_alive(self, peer: str, now_ns: int) -> Transition | None:
        """React to a server that has come back."""
        return None

    def peer_lost(self, peer: str, now_ns: int) -> Transition | None:
        """React to a server that is silent or has reset its connection."""
        return None

    def vote_granted(self, now_ns: int) -> None:
        """React to the vote that this member has just given to another."""

    def show_leader(self, member: str) -> None:
        """React to a member that does not know of the leader which this member hears or is."""

    def on_append(self, message: Append, now_ns: int) -> Transition | None:
        return None

    def on_append_reply(self, message: AppendReply, now_ns: int) -> Transition | None:
        return None

    def on_append_reject(self, message: AppendReject, now_ns: int) -> Transition | None:
        return None

    def on_install_snapshot(self, message: InstallSnapshot, now_ns: int) -> Transition | None:
        return None

    def on_pre_vote_reply(self, message: PreVoteReply, now_ns: int) -> Transition | None:
        return None

    def on_vote_reply(self, message: VoteReply, now_ns: int) -> Transition | None:
        return None

    def on_read_round(self, message: ReadRound, now_ns: int) -> Transition | None:
        return None

    def on_read_round_reply(self, message: ReadRoundReply, now_ns: int) -> Transition | None:
        return None

    def on_campaign_now(self, message: CampaignNow, now_ns: int) -> Transition | None:
        return None

    def on_digest(self, message: Digest, now_ns: int) -> Transition | None:
        return None
