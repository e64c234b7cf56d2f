"""The leader's side of replication: the followers' logs, and the messages that complete them.

Appends are built when the work of a turn is taken, so all that was proposed in a turn travels in as
few messages as the limits allow. A follower is settled when it has confirmed the whole log and the
commit index; nothing is sent to a settled follower, and it has no timer. Nothing is sent to a
server that is not alive either.

A member that has left is sent the entry by which it left, so that it does not campaign for a group
that it is no longer in. That is a courtesy: it is given up if the server is lost or does not
answer.
"""

from typing import Final, final

from headwater.raft.entry import Entry, size_of
from headwater.raft.messages import Append, AppendReject, AppendReply, InstallSnapshot
from headwater.raft.progress import Phase, Progress
from headwater.raft.replica import Replica
from headwater.raft.storage import TRUSTED

_NEVER: Final = -1


@final
class Replication:
    """All followers of a leader."""

    __slots__ = ("_leaving", "_progress", "_replica", "_tell_ns", "matches")

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._progress: dict[str, Progress] = {}
        self._leaving: set[str] = set()
        # The time at which followers are told a commit index that no entry has carried to them.
        self._tell_ns = _NEVER
        self.matches: dict[str, int] = {}
        """The confirmed index by member, as majorities count it, with the leader's own."""
        self.follow_membership()

    def follow_membership(self) -> None:
        """Begin to replicate to new members; those that have left are sent no more than that."""
        log, alive = self._replica.log, self._replica.alive
        members = [name for name in log.membership.members() if name != self._replica.name]
        known = self._progress
        self._progress = {name: known.get(name) or Progress(log.last_index + 1) for name in members}
        leaving = [name for name in known if name not in self._progress and name in alive]
        self._leaving = {*leaving}
        self._progress |= {name: known[name] for name in leaving}
        self.matches = {name: self.matches.get(name, 0) for name in members}
        self.matches[self._replica.name] = log.stable

    def peer_lost(self, peer: str) -> None:
        """Forget a server that has left and is lost."""
        if peer in self._leaving:
            self._leaving.discard(peer)
            del self._progress[peer]

    def progress_of(self, peer: str) -> Progress | None:
        """The progress of a member, unless it is the leader or no member."""
        return self._progress.get(peer)

    # --- answers --------------------------------------------------------------------------------

    def confirm(self, message: AppendReply, now_ns: int) -> Progress | None:
        """Note a confirmation. Returns the progress of its sender, if that is still a member."""
        progress = self._progress.get(message.sender)
        if progress is None:
            return None
        self._note_recovery(message.sender, progress, message.recovery)
        progress.resend_ns = now_ns + self._replica.config.resend_ns
        last_index = self._replica.log.last_index
        if message.match > last_index:
            # It knows more committed entries than this log has. The end of the log, an entry of
            # this term, shows it that they are contradicted.
            progress.ask_at(last_index)
            return None
        first_index = self._replica.log.snapshot.index + 1
        progress.confirm(message.match, message.commit, first_index)
        if message.sender in self._leaving:
            if progress.commit_known >= self._replica.log.membership_index:
                self.peer_lost(message.sender)
            return None
        if progress.recovery == TRUSTED:
            self.matches[message.sender] = progress.match
        return progress

    def refuse(self, message: AppendReject, now_ns: int) -> Progress | None:
        """Note a refusal, which leads to another append. Returns the progress of a member."""
        progress = self._progress.get(message.sender)
        if progress is None:
            return None
        self._note_recovery(message.sender, progress, message.recovery)
        if message.recovery != TRUSTED:
            # Confirmations that were sent before the member forgot may have been late.
            progress.match = 0
        progress.resend_ns = now_ns + self._replica.config.resend_ns
        # The leader's own log may show that no agreement is possible at the follower's hint.
        hint, _ = self._replica.log.agreement_hint(message.hint_index, message.hint_term)
        progress.refuse(message.prev_index, hint)
        return None if message.sender in self._leaving else progress

    def _note_recovery(self, peer: str, progress: Progress, recovery: int) -> None:
        if progress.recovery != recovery:
            progress.forget(recovery)
        if recovery != TRUSTED:
            self.matches[peer] = 0

    def probe(self, peer: str) -> None:
        """Ask a member for the end of its log; it then also knows who leads.

        A question or a snapshot that is on its way will do.
        """
        progress = self._progress.get(peer)
        if progress is not None and progress.phase is Phase.REPLICATE:
            progress.probe()

    def retry_snapshot(self, peer: str) -> None:
        """Begin again with a member whose snapshot failed."""
        progress = self._progress.get(peer)
        if progress is not None and progress.phase is Phase.SNAPSHOT:
            progress.probe()

    # --- timers ---------------------------------------------------------------------------------

    def is_settled(self, progress: Progress) -> bool:
        """Whether a follower has confirmed everything there is."""
        log = self._replica.log
        return (
            progress.phase is Phase.REPLICATE
            and progress.match == log.last_index
            and progress.commit_known >= log.commit
            and progress.recovery == TRUSTED
        )

    def deadline_ns(self) -> int | None:
        """The time at which a live follower is asked that has not answered, or is told of a
        commit."""
        alive = self._replica.alive
        deadlines = [
            progress.resend_ns
            for peer, progress in self._progress.items()
            if peer in alive and not self.is_settled(progress)
        ]
        if self._tell_ns != _NEVER:
            deadlines.append(self._tell_ns)
        return min(deadlines, default=None)

    def resend(self, now_ns: int) -> None:
        """Ask live followers that have not answered in time for the ends of their logs."""
        alive = self._replica.alive
        silent = [
            peer
            for peer, progress in self._progress.items()
            if peer in alive and now_ns >= progress.resend_ns and not self.is_settled(progress)
        ]
        for peer in silent:
            if peer in self._leaving:
                self.peer_lost(peer)
                continue
            progress = self._progress[peer]
            progress.ask()
            progress.resend_ns = now_ns + self._replica.config.resend_ns

    # --- sending --------------------------------------------------------------------------------

    def flush(self, now_ns: int) -> None:
        """Send each live follower the entries, and the commit index, that it has not been sent."""
        alive = self._replica.alive
        tells_commit = now_ns >= self._tell_ns
        is_told = True
        for peer, progress in self._progress.items():
            if peer in alive:
                while self._send(peer, progress, now_ns, tells_commit):
                    pass
                is_told &= progress.commit_sent >= self._replica.log.commit
        if is_told or tells_commit:
            self._tell_ns = _NEVER

    def committed(self, now_ns: int) -> None:
        """Note that the commit index has moved: followers are told of it with the next entries, or
        soon."""
        delay_ns = self._replica.config.commit_delay_ns
        if delay_ns and self._tell_ns == _NEVER:
            self._tell_ns = now_ns + delay_ns

    @property
    def is_commit_waiting(self) -> bool:
        """Whether followers are to be told a commit index later."""
        return self._tell_ns != _NEVER

    def tell_commit(self, now_ns: int) -> None:
        """Tell the followers the commit index now."""
        self._tell_ns = _NEVER
        self.flush(now_ns)

    def _send(self, peer: str, progress: Progress, now_ns: int, tells_commit: bool) -> bool:
        """Send one message to a follower, if there is one to send. Returns whether to go on."""
        replica = self._replica
        log, config = replica.log, replica.config
        if not progress.may_send(config):
            return False
        if progress.next <= log.snapshot.index:
            replica.messages.append(InstallSnapshot(replica.name, peer, replica.term, log.snapshot))
            progress.sent_snapshot(log.snapshot.index)
            progress.resend_ns = now_ns + config.snapshot_timeout_ns
            return False
        is_question = progress.is_unanswered
        entries = (
            []
            if is_question
            else log.entries_from(progress.next, config.append_entries_max, config.append_bytes_max)
        )
        is_probe = progress.phase is Phase.PROBE
        readmits = self._readmits(progress)
        has_news = (
            is_probe
            or is_question
            or (tells_commit and progress.commit_sent < log.commit)
            or (readmits != TRUSTED and not progress.is_readmission_sent)
        )
        if not (entries or has_news):
            return False
        self._append(peer, progress, entries, readmits)
        progress.resend_ns = now_ns + config.resend_ns
        return not is_probe and (is_question or bool(entries))

    def _append(self, peer: str, progress: Progress, entries: list[Entry], readmits: int) -> None:
        replica = self._replica
        log = replica.log
        prev_index = progress.next - 1
        last_index = prev_index + len(entries)
        commit = log.commit_for(last_index)
        replica.messages.append(
            Append(
                replica.name,
                peer,
                replica.term,
                prev_index,
                log.term_at(prev_index),
                entries,
                commit,
                readmits,
            )
        )
        progress.is_readmission_sent = readmits != TRUSTED
        progress.sent(last_index, sum(map(size_of, entries)), commit)

    def _readmits(self, progress: Progress) -> int:
        """The recovery number of a follower that has all that it may have forgotten, else zero."""
        index = progress.readmit_index
        if index and progress.match >= index and self._replica.log.commit >= index:
            return progress.recovery
        return TRUSTED
