"""The role of a member that orders entries.

- The first entry of a term is an empty one. Entries of earlier terms are committed only together
  with an entry of the leader's own: a majority alone does not protect them. The leader serves as
  soon as its first entry is applied.
- A leader sends entries before its own disk has them, and counts itself when it has.
- A leader that inherits entries with leases commits nothing until they have passed, and one that
  hands over on purpose writes a release (`lease`).
- A leader that has not had a quorum of live servers for an election timeout resigns, unless its
  group runs ahead of the quorum.
- A joint membership is left as soon as it is committed. A leader that is no voter of the membership
  which follows resigns when that is committed.
- A follower that may have forgotten its confirmations is counted again when it has an entry that
  was created after it asked, and that the others have committed without it: then no vote and no
  confirmation that it has forgotten can matter any more.
- A leader may withdraw entries that it has not committed. It commits none of them before the
  withdrawal has its quorum (see `withdrawals`). If it has disowned entries when it ceased to lead,
  it withdraws them before anything else when it leads again; unless another leader's entry stands
  behind them, which may have committed them.
"""

from typing import Final, final

from headwater.base.invariants import check
from headwater.raft import membership as memberships
from headwater.raft import quorum, withdrawals
from headwater.raft.entry import Entry, EntryKind
from headwater.raft.leader_lease import SEQUENCES, LeaderLease, ends_with_release
from headwater.raft.log import RaftLog
from headwater.raft.membership import Membership
from headwater.raft.messages import (
    Append,
    AppendReject,
    AppendReply,
    CampaignNow,
    Digest,
    ImpossibleMessage,
    InstallSnapshot,
    ReadRoundReply,
)
from headwater.raft.progress import Progress
from headwater.raft.read_rounds import ReadRounds
from headwater.raft.replica import Replica
from headwater.raft.replication import Replication
from headwater.raft.role import Role, RoleName, Transition
from headwater.raft.storage import BIRTH_INDEX, NOBODY, TRUSTED

_NEVER: Final = -1


def protects_earlier_entries(log: RaftLog, index: int, term: int) -> bool:
    """Whether an entry that a majority has is safe: it is of the leader's own term.

    An entry of an earlier term can still be cut off by a candidate whose last entry is of a later
    one.
    """
    return log.term_at(index) == term


def hold_for_withdrawals(log: RaftLog, index: int) -> int:
    """The index that a leader commits when a majority has the entries up to `index`: nothing that a
    withdrawal covers which the majority lacks."""
    return log.withdrawals.lowered(index, log.last_index)


def follows_release(log: RaftLog) -> bool:
    """Whether the last leader has handed over all that it has acted on, or there was none."""
    return log.last_index == BIRTH_INDEX or ends_with_release(log, SEQUENCES)


@final
class Leader(Role):
    """The leader of a term."""

    __slots__ = (
        "_first_index",
        "_quorum_lost_ns",
        "_replication",
        "_successor",
        "_transfer_end_ns",
        "_unwritten_ns",
        "follows_release",
        "lease",
        "rounds",
    )

    name = RoleName.LEADER

    def __init__(self, replica: Replica) -> None:
        super().__init__(replica)
        replica.leader = replica.name
        replica.led_term = replica.term
        replica.is_sure_of_sequences = False
        self.follows_release = follows_release(replica.log)
        """Whether no leader before this one has acted on an entry that is not in its log."""
        self._first_index = replica.log.last_index + 1
        self._replication = Replication(replica)
        self._quorum_lost_ns = _NEVER
        self._successor = NOBODY
        self._transfer_end_ns = _NEVER
        self._unwritten_ns = _NEVER
        """The time of the first append since this disk has last finished a write."""
        self.lease = LeaderLease(replica)
        self.rounds = ReadRounds(replica)

    @property
    def replicated(self) -> int:
        """The index up to which all live members have the log."""
        replica, matches = self.replica, self._replication.matches
        return min(
            (
                matches.get(name, 0)
                for name in replica.log.membership.members()
                if name in replica.alive
            ),
            default=replica.log.last_index,
        )

    @property
    def is_ready(self) -> bool:
        """Whether this leader may serve: an entry of its own term is applied."""
        return self.replica.log.applied >= self._first_index

    @property
    def trusts_leader(self) -> bool:
        return self.has_quorum

    @property
    def known_leader(self) -> str:
        return self.replica.name

    def enter(self, now_ns: int) -> Transition | None:
        log, disowned = self.replica.log, self.replica.disowned
        is_last = disowned is not None and log.term_at(disowned.place) == log.last_term
        self.lease.begin(now_ns)
        self._append(EntryKind.NOOP, [b""], now_ns)
        if disowned is not None and is_last and log.term_at(disowned.place) == disowned.term:
            self._withdraw(disowned.place, now_ns)
        self.replica.disowned = None
        self._note_quorum(now_ns)
        return None

    def flush(self, now_ns: int) -> None:
        self._replication.flush(now_ns)

    # --- proposals ------------------------------------------------------------------------------

    def propose(self, batch: list[bytes], now_ns: int) -> int | None:
        """Append entries with these data. Returns the index of the first; None in a transfer."""
        check(bool(batch), "a proposal has entries")
        if self._successor != NOBODY:
            return None
        return self._append(EntryKind.DATA, batch, now_ns)

    def withdraw(self, first: int, now_ns: int) -> int | None:
        """Append a withdrawal of all entries of data from an index on. Returns its index, or None
        if some of them are committed, or may be: an earlier leader may have committed its entries.

        It is possible during a transfer too: the entries would be committed by this leader or by
        the next one.
        """
        check(first <= self.replica.log.last_index, "withdrawn entries are there")
        return self._withdraw(first, now_ns) if first >= self._first_index else None

    def _withdraw(self, first: int, now_ns: int) -> int | None:
        if first <= self.replica.log.commit:
            return None
        return self._append(EntryKind.WITHDRAWAL, [withdrawals.encode(first)], now_ns)

    def propose_membership(self, target: Membership, now_ns: int) -> int | None:
        """Begin a change of members. Returns the index of its first entry.

        Returns None while another change is on its way, during a transfer, and before the leader is
        ready: until then it may not know the membership that is committed. Returns None also unless
        a majority of the new voters are members that are alive and have forgotten nothing: a server
        joins as a learner first.
        """
        log = self.replica.log
        is_busy = log.membership.is_joint or log.membership_index > log.commit
        if is_busy or self._successor != NOBODY or not self.is_ready:
            return None
        if not quorum.has_quorum(target, self._is_present):
            return None
        return self._append_membership(memberships.change(log.membership, target), now_ns)

    def _append(self, kind: EntryKind, batch: list[bytes], now_ns: int) -> int:
        replica = self.replica
        lease_ns = replica.leases.granted_ns if kind is not EntryKind.RELEASE else 0
        first = replica.log.last_index + 1
        term = replica.term
        entries = [
            Entry(term, index, kind, data, now_ns, lease_ns)
            for index, data in enumerate(batch, first)
        ]
        replica.log.append(entries)
        self.lease.created(first, kind, lease_ns, now_ns)
        if self._unwritten_ns == _NEVER:
            self._unwritten_ns = now_ns
        return first

    def _append_membership(self, membership: Membership, now_ns: int) -> int:
        index = self._append(EntryKind.MEMBERSHIP, [memberships.encode(membership)], now_ns)
        self._replication.follow_membership()
        self._note_quorum(now_ns)
        return index

    # --- commitment -----------------------------------------------------------------------------

    def written(self, now_ns: int) -> Transition | None:
        log = self.replica.log
        self._replication.matches[self.replica.name] = log.stable
        self._unwritten_ns = _NEVER if log.stable == log.last_index else now_ns
        return self._advance_commit(now_ns)

    def on_append_reply(self, message: AppendReply, now_ns: int) -> Transition | None:
        progress = self._replication.confirm(message, now_ns)
        if progress is None:
            return None
        self._begin_readmission(progress, now_ns)
        transition = self._advance_commit(now_ns)
        if transition is None and message.sender == self._successor:
            self._appoint_successor()
        return transition

    def on_append_reject(self, message: AppendReject, now_ns: int) -> Transition | None:
        if progress := self._replication.refuse(message, now_ns):
            self._begin_readmission(progress, now_ns)
        return None

    def _begin_readmission(self, progress: Progress, now_ns: int) -> None:
        """Create the entry that a follower needs which may have forgotten earlier ones."""
        if progress.recovery != TRUSTED and progress.readmit_index == 0:
            progress.readmit_index = self._append(EntryKind.NOOP, [b""], now_ns)
            self._note_quorum(now_ns)

    def _advance_commit(self, now_ns: int) -> Transition | None:
        if self.lease.is_waiting:
            return None
        replica = self.replica
        log = replica.log
        index = quorum.committed_index(log.membership, self._replication.matches)
        if index <= log.commit or not protects_earlier_entries(log, index, replica.term):
            return None
        index = hold_for_withdrawals(log, index)
        if index <= log.commit:
            return None
        log.commit_to(index)
        self._replication.committed(now_ns)
        if log.membership_index > index:
            return None
        if log.membership.is_joint:
            self._append_membership(log.membership.left(), now_ns)
        elif not log.membership.is_voter(replica.name):
            return self.step_down(now_ns)
        return None

    # --- live servers ---------------------------------------------------------------------------

    def peer_alive(self, peer: str, now_ns: int) -> Transition | None:
        progress = self._replication.progress_of(peer)
        if progress is not None and not self._replication.is_settled(progress):
            # Messages that were on their way when the server was lost are lost too.
            progress.probe()
        self._note_quorum(now_ns)
        return None

    def peer_lost(self, peer: str, now_ns: int) -> Transition | None:
        self._replication.peer_lost(peer)
        self._note_quorum(now_ns)
        if peer == self._successor:
            self._lead_on(now_ns)
        return None

    def on_digest(self, message: Digest, now_ns: int) -> Transition | None:
        if message.leader != self.replica.name:
            self.show_leader(message.sender)
        return None

    def show_leader(self, member: str) -> None:
        # A silent leader would not tell it, and does not know what the member has by now.
        self._replication.probe(member)

    @property
    def has_quorum(self) -> bool:
        """Whether enough voters are alive, and have forgotten nothing."""
        return quorum.has_quorum(self.replica.log.membership, self._is_present)

    def _is_present(self, member: str) -> bool:
        if member == self.replica.name:
            return True
        progress = self._replication.progress_of(member)
        return (
            member in self.replica.alive and progress is not None and progress.recovery == TRUSTED
        )

    def _note_quorum(self, now_ns: int) -> None:
        if self.has_quorum:
            self._quorum_lost_ns = _NEVER
        elif self._quorum_lost_ns == _NEVER:
            self._quorum_lost_ns = now_ns

    # --- ending ---------------------------------------------------------------------------------

    def transfer(self, successor: str, now_ns: int) -> bool:
        """Begin to hand over to a voter that is alive. Returns whether that is possible."""
        if successor == self.replica.name or not self._is_electable(successor):
            return False
        self._release(now_ns)
        self._successor = successor
        self._transfer_end_ns = now_ns + self.replica.config.election_timeout_ns
        self._appoint_successor()
        return True

    def hand_over(self, now_ns: int) -> None:
        """Begin to hand over to the best successor, if there is one and no other was chosen."""
        successor = self.best_successor()
        if self._successor == NOBODY and successor != NOBODY:
            self.transfer(successor, now_ns)

    def _is_electable(self, member: str) -> bool:
        return self.replica.log.membership.is_voter(member) and self._is_present(member)

    def _appoint_successor(self) -> None:
        """Let the successor campaign as soon as it has everything."""
        replica = self.replica
        progress = self._replication.progress_of(self._successor)
        if progress is not None and progress.match == replica.log.last_index:
            replica.messages.append(CampaignNow(replica.name, self._successor, replica.term))

    def best_successor(self) -> str:
        """The live voter that has most of the log, or no name."""
        matches = self._replication.matches
        names = [
            name
            for name in self.replica.log.membership.electors()
            if name != self.replica.name and self._is_electable(name)
        ]
        return max(names, key=lambda name: matches.get(name, 0), default=NOBODY)

    def _lead_on(self, now_ns: int) -> None:
        """Give up a transfer of leadership. An entry behind the release renews the lease."""
        self._successor = NOBODY
        if self.lease.is_released:
            self._append(EntryKind.NOOP, [b""], now_ns)

    def _release(self, now_ns: int) -> bool:
        """Give up the lease, if there is one. Returns whether a release is the last entry."""
        if self.lease.must_release:
            data = SEQUENCES if self.replica.releases_sequences else b""
            self._append(EntryKind.RELEASE, [data], now_ns)
        return self.lease.is_released

    def step_down(self, now_ns: int) -> Transition:
        """Cease to lead on purpose: the successor has a release, if it has the entries before."""
        if self._release(now_ns):
            # The release travels before the appointment.
            self.flush(now_ns)
        return self.resign(now_ns)

    def resign(self, now_ns: int) -> Transition:
        """Cease to lead, and appoint a successor if there is a live one."""
        # Nobody else tells the followers of a commit that has waited for entries.
        if self._replication.is_commit_waiting:
            self._replication.tell_commit(now_ns)
        return self._resign(self.best_successor())

    def _resign(self, successor: str) -> Transition:
        replica = self.replica
        for name in replica.log.membership.members():
            if name == successor:
                replica.messages.append(CampaignNow(replica.name, name, replica.term))
            elif name != replica.name:
                replica.replies.append(Digest(replica.name, name, replica.term, NOBODY))
        return Transition(RoleName.FOLLOWER, replica.term)

    # --- time -----------------------------------------------------------------------------------

    @property
    def deadline_ns(self) -> int | None:
        timeout_ns = self.replica.config.election_timeout_ns
        quorum_lost_ns = _NEVER if self.replica.runs_ahead else self._quorum_lost_ns
        deadlines = [
            begin_ns + timeout_ns
            for begin_ns in (quorum_lost_ns, self._unwritten_ns)
            if begin_ns != _NEVER
        ]
        if self._successor != NOBODY:
            deadlines.append(self._transfer_end_ns)
        resend_ns = self._replication.deadline_ns()
        if resend_ns is not None:
            deadlines.append(resend_ns)
        if self.lease.wait_end_ns is not None:
            deadlines.append(self.lease.wait_end_ns)
        return min(deadlines, default=None)

    def tick(self, now_ns: int) -> Transition | None:
        timeout_ns = self.replica.config.election_timeout_ns
        is_quorum_missed = self._quorum_lost_ns != _NEVER and not self.replica.runs_ahead
        if is_quorum_missed and now_ns >= self._quorum_lost_ns + timeout_ns:
            # A successor would have no quorum either, and enter a term in vain.
            return self._resign(NOBODY)
        if self._successor != NOBODY and now_ns >= self._transfer_end_ns:
            if self.replica.is_retiring and self.best_successor() != NOBODY:
                # The successor did not take over: any other member may.
                return self.step_down(now_ns)
            self._lead_on(now_ns)
        if self._unwritten_ns != _NEVER and now_ns >= self._unwritten_ns + timeout_ns:
            self._unwritten_ns = now_ns
            self.hand_over(now_ns)
        self._replication.resend(now_ns)
        return self._end_wait(now_ns)

    def _end_wait(self, now_ns: int) -> Transition | None:
        """Begin to commit when the leases of inherited entries have passed. The entry that this
        leader began with is old by then, so another one begins its own lease."""
        if not self.lease.ends_wait(now_ns):
            return None
        if self._successor == NOBODY:
            self._append(EntryKind.NOOP, [b""], now_ns)
        else:
            self._release(now_ns)
        return self._advance_commit(now_ns)

    # --- reads ----------------------------------------------------------------------------------

    def renew(self, now_ns: int) -> bool:
        """Append an entry that renews the lease, if it needs one. Returns whether it did."""
        if self._successor != NOBODY or not self.lease.must_renew(now_ns):
            return False
        self._append(EntryKind.NOOP, [b""], now_ns)
        return True

    def on_read_round_reply(self, message: ReadRoundReply, now_ns: int) -> Transition | None:
        self.rounds.confirm(message)
        return None

    def retry_snapshot(self, peer: str) -> None:
        """Offer a snapshot again that could not be delivered."""
        self._replication.retry_snapshot(peer)

    def progress_of(self, peer: str) -> Progress | None:
        """The progress of a member, for placement and monitoring."""
        return self._replication.progress_of(peer)

    def on_append(self, message: Append, now_ns: int) -> Transition | None:
        raise ImpossibleMessage("it claims to lead the term that this server leads")

    def on_install_snapshot(self, message: InstallSnapshot, now_ns: int) -> Transition | None:
        raise ImpossibleMessage("it claims to lead the term that this server leads")
