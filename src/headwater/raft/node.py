"""One member of one group: the driver's door to the consensus core.

The core is a value machine. It reads no clock, sends nothing and writes nothing: the driver tells
it messages, time, live servers and finished writes, and takes the work that follows with `ready`.

Liveness is a matter of servers, not of groups
----------------------------------------------

There are no heartbeats in a group. The server layer keeps one heartbeat per pair of servers and
tells each group `peer_alive(peer)` when a server is heard again, and `peer_lost(peer)` after an
election timeout of silence or when its connection is reset and not renewed. A follower of a live
server has no timer, a leader whose followers are settled has none either, and `deadline_ns` is
None: a thousand idle groups cost nothing.

A live server is not proof that it still leads a group. A leader that resigns says so, and two
servers that meet again exchange `digest`s: term and leader of each common group. Both are ordered
with all other messages of a connection, and a lost message means a lost connection, so no silent
group follows a server that has ceased to lead. Beside that, an append that stays unanswered is sent
again, a server that asks its own followers for votes is believed not to lead, and a leader that
refuses a vote shows itself to the candidate: message loss without a reset connection delays a group
and does not stop it.

A message of a peer is stepped only after `peer_alive(peer)`.

Members that may have forgotten
-------------------------------

A driver that finds its state emptied, rolled back or possibly incomplete starts the member with
`has_forgotten`. The member then draws a recovery number, accepts entries, and neither votes nor
confirms until a leader readmits that number (see `leader`). The number is part of the hard state. A
driver that starts again before the first hard state of a member was written must give
`has_forgotten` again: a second crash does not make the loss undone.
"""

from collections.abc import Callable
from typing import Any, Final, final

from headwater.base.entropy import Entropy
from headwater.base.invariants import check
from headwater.raft import election
from headwater.raft.candidate import Campaign, Candidate, PreCandidate
from headwater.raft.config import RaftConfig
from headwater.raft.follower import Follower
from headwater.raft.leader import Leader
from headwater.raft.log import RaftLog
from headwater.raft.membership import Membership
from headwater.raft.messages import (
    TERM_JUMP_MAX,
    Append,
    AppendReject,
    AppendReply,
    CampaignNow,
    Digest,
    ImpossibleMessage,
    InstallSnapshot,
    Message,
    PreVote,
    PreVoteReply,
    ReadRound,
    ReadRoundReply,
    Vote,
    VoteReply,
)
from headwater.raft.progress import Progress
from headwater.raft.ready import Ready
from headwater.raft.replica import Disowned, Replica
from headwater.raft.role import Role, RoleName, Transition
from headwater.raft.storage import NOBODY, TRUSTED, SavedState, Snapshot, Storage

_RECOVERY_LIMIT: Final = (1 << 63) - 1

_HANDLERS: Final[dict[type[Message], Callable[[Role, Any, int], Transition | None]]] = {
    Append: lambda role, message, now_ns: role.on_append(message, now_ns),
    AppendReply: lambda role, message, now_ns: role.on_append_reply(message, now_ns),
    AppendReject: lambda role, message, now_ns: role.on_append_reject(message, now_ns),
    InstallSnapshot: lambda role, message, now_ns: role.on_install_snapshot(message, now_ns),
    VoteReply: lambda role, message, now_ns: role.on_vote_reply(message, now_ns),
    ReadRound: lambda role, message, now_ns: role.on_read_round(message, now_ns),
    ReadRoundReply: lambda role, message, now_ns: role.on_read_round_reply(message, now_ns),
    CampaignNow: lambda role, message, now_ns: role.on_campaign_now(message, now_ns),
    Digest: lambda role, message, now_ns: role.on_digest(message, now_ns),
}


def _recovery_number(entropy: Entropy) -> int:
    """A number that identifies a loss of memory."""
    return 1 + entropy.below(_RECOVERY_LIMIT)


@final
class RaftNode:
    """A member and its present role."""

    __slots__ = ("_portions", "_replica", "_role", "_written")

    def __init__(
        self,
        name: str,
        config: RaftConfig,
        entropy: Entropy,
        storage: Storage,
        saved: SavedState,
        now_ns: int,
        *,
        has_forgotten: bool = False,
    ) -> None:
        recovery = _recovery_number(entropy) if has_forgotten else TRUSTED
        self._replica = Replica(name, config, entropy, storage, saved, recovery)
        # Nobody knows when the entries that are there were received.
        self._replica.leases.received(self.log.longest_lease_ns, now_ns)
        self._portions = 0
        self._written = 0
        self._role: Role = Follower(self._replica, NOBODY)
        self._role.enter(now_ns)

    # --- facts ----------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the member's server."""
        return self._replica.name

    @property
    def role(self) -> RoleName:
        """The present role."""
        return self._role.name

    @property
    def term(self) -> int:
        """The present term."""
        return self._replica.term

    @property
    def vote(self) -> str:
        """The candidate that got this member's vote in this term, or no name."""
        return self._replica.vote

    @property
    def leader(self) -> str:
        """The leader that this member follows or is, or no name."""
        return self._replica.leader

    @property
    def log(self) -> RaftLog:
        """The log, to look at."""
        return self._replica.log

    @property
    def membership(self) -> Membership:
        """The membership in force."""
        return self._replica.log.membership

    @property
    def is_membership_settled(self) -> bool:
        """Whether no change of members is on its way, as far as this member knows."""
        log = self._replica.log
        return not log.membership.is_joint and log.membership_index <= log.commit

    @property
    def may_vote(self) -> bool:
        """Whether this member votes and confirms."""
        return self._replica.recovery == TRUSTED

    @property
    def is_ready(self) -> bool:
        """Whether this member leads and has applied an entry of its own term."""
        return isinstance(self._role, Leader) and self._role.is_ready

    @property
    def has_quorum(self) -> bool:
        """Whether this member leads, and hears enough voters to commit."""
        return isinstance(self._role, Leader) and self._role.has_quorum

    @property
    def replicated(self) -> int:
        """The index up to which all live members have the log, as far as this one knows.

        That is the commit index of a member that does not lead.
        """
        role = self._role
        return role.replicated if isinstance(role, Leader) else self._replica.log.commit

    @property
    def deadline_ns(self) -> int | None:
        """The time of the next tick that has something to do, or None."""
        return self._role.deadline_ns

    def progress_of(self, peer: str) -> Progress | None:
        """The leader's view of a follower, to look at."""
        return self._role.progress_of(peer) if isinstance(self._role, Leader) else None

    # --- events ---------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        """Do the work that is due. There is no such work before `deadline_ns`."""
        self._enter(self._role.tick(now_ns), now_ns)

    def peer_alive(self, peer: str, now_ns: int) -> None:
        """Note that a server is heard. The next message to it should be a `digest`."""
        self._replica.alive.add(peer)
        self._enter(self._role.peer_alive(peer, now_ns), now_ns)

    def peer_lost(self, peer: str, now_ns: int) -> None:
        """Note that a server has been silent too long, or has reset its connection."""
        self._replica.alive.discard(peer)
        self._enter(self._role.peer_lost(peer, now_ns), now_ns)

    def digest(self, peer: str) -> Digest:
        """Term and leader of this member, for a server that it meets again.

        A follower names its leader only if that has sent it an append since it follows it.
        """
        return Digest(self.name, peer, self.term, self._role.known_leader)

    def greet(self, peer: str) -> None:
        """Send a `digest` to a server that this member meets again."""
        self._replica.replies.append(self.digest(peer))

    def step(self, message: Message, now_ns: int) -> None:
        """Answer a message. Raises ImpossibleMessage, which leaves the member as it was."""
        check(message.to == self._replica.name, "a message is for this member")
        if message.term > self._replica.term + TERM_JUMP_MAX:
            raise ImpossibleMessage("it tells a term to which no elections can have led")
        if isinstance(message, PreVote):
            self._answer_pre_vote(message, now_ns)
        elif isinstance(message, PreVoteReply):
            self._count_pre_vote(message, now_ns)
        elif message.term < self._replica.term:
            self._answer_stale(message)
        elif isinstance(message, Vote):
            self._answer_vote(message, now_ns)
        else:
            self._follow_term(message, now_ns)
            handler = _HANDLERS[type(message)]
            self._enter(handler(self._role, message, now_ns), now_ns)

    def _follow_term(self, message: Message, now_ns: int) -> None:
        """Enter the term of a message, and follow its sender if only a leader can have sent it."""
        is_from_leader = isinstance(message, Append | InstallSnapshot | ReadRound)
        is_newer = message.term > self._replica.term
        is_campaigning = self._role.name in (RoleName.PRE_CANDIDATE, RoleName.CANDIDATE)
        if is_newer or (is_from_leader and is_campaigning):
            leader = message.sender if is_from_leader else NOBODY
            self._enter(Transition(RoleName.FOLLOWER, message.term, leader), now_ns)

    def _answer_stale(self, message: Message) -> None:
        """Tell a leader, a candidate or a returning server of an earlier term about this one."""
        replica = self._replica
        if isinstance(message, Append | InstallSnapshot | ReadRound | Digest):
            replica.replies.append(self.digest(message.sender))
            self._role.show_leader(message.sender)
        elif isinstance(message, Vote):
            replica.replies.append(VoteReply(replica.name, message.sender, replica.term, False))

    def _distrust(self, message: PreVote | Vote, now_ns: int) -> None:
        """Cease to follow a leader that campaigns itself."""
        replica = self._replica
        if message.sender == replica.leader and message.term > replica.term:
            self._enter(Transition(RoleName.FOLLOWER, replica.term), now_ns)

    def _answer_pre_vote(self, message: PreVote, now_ns: int) -> None:
        self._distrust(message, now_ns)
        trusts_leader = self._role.trusts_leader
        reply = election.pre_vote_reply(self._replica, message, trusts_leader)
        self._replica.messages.append(reply)
        if trusts_leader:
            self._role.show_leader(message.sender)

    def _count_pre_vote(self, message: PreVoteReply, now_ns: int) -> None:
        term = self._replica.term
        if message.term > term and not message.granted:
            self._enter(Transition(RoleName.FOLLOWER, message.term), now_ns)
        elif not message.granted or message.term == term + 1:
            self._enter(self._role.on_pre_vote_reply(message, now_ns), now_ns)

    def _answer_vote(self, message: Vote, now_ns: int) -> None:
        self._distrust(message, now_ns)
        if message.term > self._replica.term:
            if self._role.trusts_leader and not message.forced:
                self._role.show_leader(message.sender)
                return
            self._enter(Transition(RoleName.FOLLOWER, message.term), now_ns)
        reply = election.vote_reply(self._replica, message)
        self._replica.replies.append(reply)
        if reply.granted:
            self._role.vote_granted(now_ns)

    # --- roles ----------------------------------------------------------------------------------

    def _enter(self, transition: Transition | None, now_ns: int) -> None:
        """Carry out transitions until a role stays."""
        while transition is not None:
            replica = self._replica
            if transition.term > replica.term:
                replica.enter_term(transition.term)
            check(transition.term == replica.term, "a role belongs to the present term")
            replica.leader = NOBODY
            match transition.role:
                case RoleName.FOLLOWER:
                    self._role = Follower(replica, transition.leader)
                case RoleName.PRE_CANDIDATE:
                    self._role = PreCandidate(replica, now_ns)
                case RoleName.CANDIDATE:
                    self._role = Candidate(replica, now_ns, transition.forced)
                case RoleName.LEADER:
                    self._role = Leader(replica)
            transition = self._role.enter(now_ns)

    # --- the driver's requests ------------------------------------------------------------------

    def propose(self, batch: list[bytes], now_ns: int) -> int | None:
        """Append entries with these data. Returns the index of the first, or None if not possible.

        The entries are committed if an entry with this index and the present term is handed out to
        be applied; if one of another term is, they never will be. If they were withdrawn, they come
        without their data.
        """
        role = self._role
        return role.propose(batch, now_ns) if isinstance(role, Leader) else None

    def withdraw(self, first: int, now_ns: int) -> int | None:
        """Withdraw all entries of data from an index on. Returns the index of the withdrawal.

        Returns None if this member does not lead, or has committed some of the entries. The entries
        may still be committed under another leader, as long as the withdrawal is not. The meta
        group withdraws nothing.
        """
        role = self._role
        return role.withdraw(first, now_ns) if isinstance(role, Leader) else None

    def disown(self, first: int) -> None:
        """Have the entries from an index on withdrawn if this member leads again, and no other
        leader's entry stands behind them.

        For a member that has ceased to lead, and has told those who wait that it does not know
        whether the entries will be committed. A member that starts again does not know it any more.
        """
        replica, log = self._replica, self._replica.log
        first = max(first, log.commit + 1)
        # Another leader may have replaced them already.
        if log.term_at(first) == replica.led_term:
            replica.disowned = Disowned(first, replica.led_term)

    def propose_membership(self, target: Membership, now_ns: int) -> int | None:
        """Begin a change to other members. Returns the index of its first entry, or None."""
        role = self._role
        return role.propose_membership(target, now_ns) if isinstance(role, Leader) else None

    def transfer_leadership(self, to: str, now_ns: int) -> bool:
        """Begin to hand over to another voter. Returns whether that is possible now."""
        return isinstance(self._role, Leader) and self._role.transfer(to, now_ns)

    @property
    def is_contradicted(self) -> bool:
        """Whether the leader lacks entries that are committed here.

        A majority has forgotten them, and went on. The driver gives this member's log and state up,
        and joins the group again as a member that has forgotten (CONSISTENCY.md section 1).
        """
        return self._replica.is_contradicted

    def best_successor(self) -> str:
        """The live voter that has most of the log of this leader, or no name."""
        return self._role.best_successor() if isinstance(self._role, Leader) else NOBODY

    def campaign(self, now_ns: int) -> None:
        """Stand for election now, if this member may and no leader is known."""
        if self._replica.may_campaign and not self.leader:
            self._enter(Transition(RoleName.PRE_CANDIDATE, self.term), now_ns)

    def step_down(self, now_ns: int) -> None:
        """Hand over to the best successor, and lead no more from now on.

        For a server that works: the successor is sent a release of the lease, and serves at once.
        """
        if isinstance(self._role, Leader):
            self._enter(self._role.step_down(now_ns), now_ns)

    def resign(self, now_ns: int) -> None:
        """Cease to lead, for instance because this server's disk has failed.

        A group that stops on a server which lives on must resign first: its followers hear the
        server, and would not look for another leader.
        """
        if isinstance(self._role, Leader):
            self._enter(self._role.resign(now_ns), now_ns)

    def retire(self, now_ns: int) -> None:
        """Hand over to a voter that is alive, and never stand for election again: the server is
        about to stop. The member votes and confirms as before, and leads on if it is the only one.
        """
        self._replica.is_retiring = True
        if isinstance(self._role, Leader):
            self._role.hand_over(now_ns)
        elif isinstance(self._role, Campaign):
            self._enter(Transition(RoleName.FOLLOWER, self.term), now_ns)

    def resume_voting(self, now_ns: int) -> None:
        """Vote with what this member has, although it may have forgotten.

        For a majority of members that have all forgotten. Committed entries may be lost by it; the
        decision is the driver's (CONSISTENCY.md section 1), never the core's.
        """
        replica = self._replica
        replica.recovery = TRUSTED
        # The entries that were forgotten are taken for such as the group creates now.
        longest_ns = max(replica.log.longest_lease_ns, replica.leases.granted_ns)
        replica.leases.received(longest_ns, now_ns)
        self._enter(Transition(RoleName.FOLLOWER, self.term, self.leader), now_ns)

    def forget(self, now_ns: int) -> None:
        """Neither vote nor confirm until a leader readmits this member.

        For a member that learns from a peer that its disk was rolled back. Promises that were not
        taken with `ready` yet are not made.
        """
        replica = self._replica
        if replica.recovery == TRUSTED:
            self.resign(now_ns)
            replica.replies = [each for each in replica.replies if isinstance(each, Digest)]
            replica.recovery = _recovery_number(replica.entropy)
            leader = self.leader
            self._enter(Transition(RoleName.FOLLOWER, self.term, leader), now_ns)
            if leader != NOBODY:
                # The leader of a silent group learns of it by this.
                self.greet(leader)

    def snapshot_failed(self, peer: str) -> None:
        """Note that a snapshot did not reach a follower. It is offered again."""
        if isinstance(self._role, Leader):
            self._role.retry_snapshot(peer)

    def snapshot_at(self, index: int) -> Snapshot:
        """The place of a snapshot that ends with an applied entry, which is still in the log."""
        log = self._replica.log
        check(log.snapshot.index <= index <= log.applied, "a snapshot of applied entries")
        # Entries that are withdrawn have not changed the state.
        return log.snapshot_at(log.withdrawals.lowered(index, log.commit))

    def trim(self, index: int) -> Snapshot:
        """Give up the log up to an applied index. Returns the place of the snapshot that replaces
        it."""
        return self._replica.log.trim(index)

    # --- ahead of the quorum --------------------------------------------------------------------

    def run_ahead(self, runs_ahead: bool) -> None:
        """Have leaders of the group act on entries before the quorum has them, or not.

        A leader that runs ahead stays in office without a quorum, and writes a release when it
        hands over.
        """
        self._replica.runs_ahead = runs_ahead

    @property
    def runs_ahead(self) -> bool:
        """Whether leaders of the group act on entries before the quorum has them."""
        return self._replica.runs_ahead

    def be_sure_of_sequences(self) -> None:
        """Note that this leader has passed over all that leaders before it may have given out."""
        self._replica.is_sure_of_sequences = True

    @property
    def follows_release(self) -> bool:
        """Whether this leader has all that leaders before it have acted on."""
        return isinstance(self._role, Leader) and self._role.follows_release

    @property
    def vouched(self) -> int:
        """The last entry that a leader which runs ahead may act on; 0 for other members."""
        return self._role.lease.vouched if isinstance(self._role, Leader) else 0

    # --- linearizable reads ---------------------------------------------------------------------

    def grant_leases(self, lease_ns: int) -> None:
        """Grant this lease with each later entry, if this member leads; 0 for none."""
        self._replica.leases.grant(lease_ns)

    def may_read(self, now_ns: int) -> bool:
        """Whether a read of the applied state is linearizable by this leader's lease.

        The clock is read behind the state: a process may be paused between the two.
        """
        return isinstance(self._role, Leader) and self._role.lease.may_read(now_ns)

    def renew(self, now_ns: int) -> bool:
        """Renew the lease of this leader, if no entry does. Returns whether there is work to do.

        For the server's one timer, which asks all groups twice per lease.
        """
        return isinstance(self._role, Leader) and self._role.renew(now_ns)

    def begin_read_round(self) -> int | None:
        """Ask the quorum whether this member leads. Returns the number of the round, or None.

        The round serves the reads that have arrived by now, as soon as `confirmed_read_round` is
        its number or a later one.
        """
        role = self._role
        return role.rounds.begin() if isinstance(role, Leader) and role.is_ready else None

    @property
    def confirmed_read_round(self) -> int:
        """The last round of this leader whose reads may be made now at the applied index."""
        return self._role.rounds.confirmed if isinstance(self._role, Leader) else 0

    # --- work -----------------------------------------------------------------------------------

    def ready(self, now_ns: int) -> Ready | None:
        """Take all work there is, or None. See `ready` for the order in which it must be done."""
        replica = self._replica
        log = replica.log
        self._role.flush(now_ns)
        number = self._portions + 1
        must_sync = replica.is_hard_state_new or log.must_sync
        snapshot, entries = log.take_unwritten(number) if log.has_unwritten else (None, [])
        hard_state = replica.take_hard_state(bool(entries) or snapshot is not None)
        committed = log.take_committed(replica.config.apply_bytes_max)
        messages, replica.messages = replica.messages, []
        replies, replica.replies = replica.replies, []
        if not (messages or replies or entries or committed or hard_state or snapshot):
            return None
        self._portions = number
        return Ready(number, messages, snapshot, hard_state, must_sync, entries, replies, committed)

    def written(self, ready: Ready, now_ns: int) -> bool:
        """Note that a portion of work is written, as `Ready` demands it. Returns whether there may
        be more work because of it."""
        check(ready.number == self._written + 1, "writes are reported in order, each once")
        self._written = ready.number
        replica, role = self._replica, self._role
        log = replica.log
        commit = log.commit
        log.written(ready.number, ready.snapshot)
        if ready.hard_state is not None:
            replica.hard_state_written(ready.hard_state)
        self._enter(role.written(now_ns), now_ns)
        has_news = log.commit > commit or self._role is not role
        return has_news or self.has_more or bool(replica.messages or replica.replies)

    @property
    def has_more(self) -> bool:
        """Whether there is work that the last portion had no room for, or that waited for its
        write: entries to write or to apply."""
        log = self._replica.log
        return log.has_unwritten or log.stable_commit > log.handed_out

    def applied_to(self, index: int) -> None:
        """Note that the state machine has applied all entries up to an index."""
        self._replica.log.applied_to(index)
