"""The rules by which votes are given.

- A server that hears a leader refuses, so that one which lost its own connection cannot depose a
  leader that the others have. Only a candidate that the leader appointed is exempt.
- A vote goes to a candidate whose log is at least as up to date as the voter's, once in a term.
- A member that may have forgotten (its recovery number is set) gives no vote and no pre-vote.
- A member grants votes whatever its own membership says: the candidate's log may hold a later one,
  which counts it.
"""

from headwater.raft.messages import PreVote, PreVoteReply, Vote, VoteReply
from headwater.raft.replica import Replica
from headwater.raft.storage import NOBODY, TRUSTED


def pre_vote_reply(replica: Replica, message: PreVote, trusts_leader: bool) -> PreVoteReply:
    """The answer to a pre-vote. It binds nobody and changes nothing."""
    granted = (
        message.term > replica.term
        and not trusts_leader
        and replica.recovery == TRUSTED
        and replica.log.is_up_to_date(message.last_index, message.last_term)
    )
    term = message.term if granted else replica.term
    return PreVoteReply(replica.name, message.sender, term, granted)


def vote_reply(replica: Replica, message: Vote) -> VoteReply:
    """The answer to a candidate of this member's term. A granted vote is noted."""
    granted = may_grant(replica, message)
    if granted:
        replica.grant(message.sender)
    return VoteReply(replica.name, message.sender, replica.term, granted)


def may_grant(replica: Replica, message: Vote) -> bool:
    """Whether a candidate of this member's term gets its vote."""
    return (
        replica.recovery == TRUSTED
        and replica.leader == NOBODY
        and replica.vote in (NOBODY, message.sender)
        and replica.log.is_up_to_date(message.last_index, message.last_term)
    )
