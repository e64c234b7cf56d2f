"""The role of a member that accepts entries of a leader, or waits for one.

A follower of a server that is alive has no timer. It campaigns when that server is lost, when it
learns that the server no longer leads, or when it has known no leader for an election timeout. A
learner, and a member that may have forgotten, never campaigns.

All appends of a turn are confirmed by one message, which leaves after the entries are written.
"""

from typing import final

from headwater.raft.lease import longest_lease
from headwater.raft.messages import (
    Append,
    AppendReject,
    AppendReply,
    CampaignNow,
    Digest,
    ImpossibleMessage,
    InstallSnapshot,
    ReadRound,
    ReadRoundReply,
)
from headwater.raft.replica import Replica
from headwater.raft.role import Role, RoleName, Transition
from headwater.raft.storage import NOBODY, TRUSTED


@final
class Follower(Role):
    """A follower, or a learner."""

    __slots__ = ("_deadline_ns", "_is_reply_due", "_match")

    name = RoleName.FOLLOWER

    def __init__(self, replica: Replica, leader: str) -> None:
        super().__init__(replica)
        replica.leader = leader
        self._deadline_ns: int | None = None
        self._match = 0
        """The index up to which the log is known to equal the leader's."""
        self._is_reply_due = False

    @property
    def deadline_ns(self) -> int | None:
        return self._deadline_ns

    @property
    def trusts_leader(self) -> bool:
        return self.replica.leader != NOBODY

    @property
    def known_leader(self) -> str:
        # The leader asks a follower that names nobody for the end of its log. It has to, unless the
        # follower has had an append since it follows.
        return self.replica.leader if self._match else NOBODY

    def enter(self, now_ns: int) -> Transition | None:
        self._set_deadline(now_ns)
        return None

    def _set_deadline(self, now_ns: int) -> None:
        """Wait for a leader, unless it is there or this member may not campaign."""
        replica = self.replica
        is_quiet = replica.leader in replica.alive or not replica.may_campaign
        self._deadline_ns = None if is_quiet else now_ns + replica.patience_ns()

    def _lose_leader(self, now_ns: int) -> None:
        replica = self.replica
        replica.leader = NOBODY
        if replica.may_campaign:
            spread_ns = replica.config.lost_leader_spread_ns
            self._deadline_ns = now_ns + replica.part_of(spread_ns)

    def tick(self, now_ns: int) -> Transition | None:
        if self._deadline_ns is None or now_ns < self._deadline_ns:
            return None
        if not self.replica.may_campaign:
            self._deadline_ns = None
            return None
        return Transition(RoleName.PRE_CANDIDATE, self.replica.term)

    # --- servers and leaders --------------------------------------------------------------------

    def peer_alive(self, peer: str, now_ns: int) -> Transition | None:
        if peer == self.replica.leader:
            self._deadline_ns = None
        return None

    def peer_lost(self, peer: str, now_ns: int) -> Transition | None:
        if peer == self.replica.leader:
            self._lose_leader(now_ns)
        return None

    def vote_granted(self, now_ns: int) -> None:
        self._set_deadline(now_ns)

    def on_digest(self, message: Digest, now_ns: int) -> Transition | None:
        if message.leader == message.sender:
            self._follow(message.sender, now_ns)
        elif message.sender == self.replica.leader:
            self._lose_leader(now_ns)
        return None

    def on_campaign_now(self, message: CampaignNow, now_ns: int) -> Transition | None:
        if not self.replica.may_campaign:
            return None
        return Transition(RoleName.CANDIDATE, self.replica.term + 1, forced=True)

    def _follow(self, leader: str, now_ns: int) -> None:
        if self.replica.leader not in (NOBODY, leader):
            raise ImpossibleMessage("it claims to lead the term of another leader")
        self.replica.leader = leader
        self._set_deadline(now_ns)

    # --- entries --------------------------------------------------------------------------------

    def on_append(self, message: Append, now_ns: int) -> Transition | None:
        self._follow(message.sender, now_ns)
        replica = self.replica
        log = replica.log
        if message.prev_index < log.commit and log.contradicts(
            message.prev_index, message.prev_term, message.entries
        ):
            replica.is_contradicted = True
            return None
        if not log.accept(message.prev_index, message.prev_term, message.entries):
            self._reject(message)
            return None
        replica.leases.received(longest_lease(message.entries), now_ns)
        last = message.prev_index + len(message.entries)
        # A message that ends before the commit index tells less than the commit index itself.
        self._match = max(self._match, last, log.commit)
        log.commit_to(min(message.commit, last))
        if message.readmits != TRUSTED and message.readmits == replica.recovery:
            replica.recovery = TRUSTED
        # The entries may have made this member a voter.
        self._set_deadline(now_ns)
        self._is_reply_due = True
        return None

    def _reject(self, message: Append) -> None:
        replica = self.replica
        log = replica.log
        index = min(message.prev_index, log.last_index)
        hint_index, hint_term = log.agreement_hint(index, message.prev_term)
        replica.replies.append(
            AppendReject(
                replica.name,
                message.sender,
                replica.term,
                message.prev_index,
                hint_index,
                hint_term,
                replica.recovery,
            )
        )

    def on_install_snapshot(self, message: InstallSnapshot, now_ns: int) -> Transition | None:
        self._follow(message.sender, now_ns)
        log = self.replica.log
        snapshot = message.snapshot
        self.replica.leases.received(snapshot.lease_ns, now_ns)
        if snapshot.index > log.commit:
            if log.term_at(snapshot.index) == snapshot.term:
                log.commit_to(snapshot.index)
            else:
                log.restore(snapshot)
        self._match = max(self._match, log.commit)
        self._is_reply_due = True
        return None

    def on_read_round(self, message: ReadRound, now_ns: int) -> Transition | None:
        self._follow(message.sender, now_ns)
        replica = self.replica
        # A member that may have forgotten may have voted for a later leader.
        if replica.recovery == TRUSTED:
            replica.messages.append(
                ReadRoundReply(replica.name, message.sender, replica.term, message.number)
            )
        return None

    def flush(self, now_ns: int) -> None:
        if not self._is_reply_due:
            return
        self._is_reply_due = False
        replica = self.replica
        if replica.leader != NOBODY:
            replica.replies.append(self._confirmation())

    def _confirmation(self) -> AppendReply:
        replica = self.replica
        return AppendReply(
            replica.name,
            replica.leader,
            replica.term,
            self._match,
            replica.log.commit,
            replica.recovery,
        )
