"""The four promises of Raft, checked after every step of a simulation, from outside the members.

- Election safety: a term has at most one leader, and a member votes for one candidate of a term.
- Log matching: an entry of one index and term is the same in all logs, and so is the one before it.
- Leader completeness: a leader has all entries that leaders of earlier terms have committed.
- State-machine safety: members that have applied an index are in the same state.

And one of withdrawals: if any member has applied one, none has applied an entry that it covers.
"""

from collections.abc import Callable
from zlib import crc32

from headwater.raft.entry import Entry, EntryKind
from headwater.raft.messages import Append, Message, VoteReply
from headwater.raft.node import RaftNode
from headwater.raft.role import RoleName
from headwater.raft.withdrawals import first_of

Nodes = Callable[[], list[RaftNode]]


class Violation(AssertionError):
    """A promise was broken."""


def demand(condition: bool, message: str) -> None:
    """Raise a violation unless a condition holds."""
    if not condition:
        raise Violation(message)


def next_state(state: int, entry: Entry) -> int:
    """The state of the machine after an entry, as a digest of its whole history."""
    return crc32(b"%d/%d " % (entry.index, entry.term) + entry.data, state)


class Checks:
    """Everything that was ever seen, and must never be contradicted."""

    def __init__(self) -> None:
        self.leaders: dict[int, str] = {}
        self.votes: dict[tuple[int, str], str] = {}
        self.entries: dict[tuple[int, int], tuple[int, bytes, int]] = {}
        self.committed: dict[int, tuple[int, int]] = {}
        """The term of each committed entry, and the term in which it was committed."""
        self.states: dict[int, int] = {}
        self.proposed: set[bytes] = set()
        self.effective: set[int] = set()
        """The places of entries that a member has applied with their data."""
        self.withdrawn = 0
        """The number of entries that are withdrawn by an applied withdrawal."""

    def observe(self, node: RaftNode, commit_seen: int, others: Nodes) -> None:
        """Check a member after a step; `commit_seen` is the commit index of its last one."""
        if node.role is RoleName.LEADER and node.term not in self.leaders:
            self.leaders[node.term] = node.name
            for index in self.committed:
                self._demand_present(node, index)
        elif node.role is RoleName.LEADER:
            first = self.leaders[node.term]
            demand(first == node.name, f"election: {first} and {node.name} lead {node.term}")
        demand(node.log.commit >= commit_seen, f"{node.name} takes back what was committed")
        for index in range(max(commit_seen, node.log.snapshot.index) + 1, node.log.commit + 1):
            self._observe_commit(node, index, others)

    def _observe_commit(self, node: RaftNode, index: int, others: Nodes) -> None:
        term = node.log.term_at(index)
        if index not in self.committed:
            # The leader that commits an entry is the first to know.
            self.committed[index] = (term, node.term)
            for other in others():
                if other.role is RoleName.LEADER:
                    self._demand_present(other, index)
        known, _ = self.committed[index]
        demand(known == term, f"committed: {node.name} has {term} at {index}, not {known}")

    def _demand_present(self, leader: RaftNode, index: int) -> None:
        term, committed_in = self.committed[index]
        if committed_in >= leader.term or index < leader.log.snapshot.index:
            return
        demand(
            leader.log.term_at(index) == term,
            f"completeness: {leader.name} leads {leader.term} without {index} of {term}",
        )

    def observe_message(self, message: Message) -> None:
        """Check a message that leaves a member."""
        if isinstance(message, VoteReply) and message.granted:
            known = self.votes.setdefault((message.term, message.sender), message.to)
            demand(known == message.to, f"election: {message.sender} votes for {known} and others")
        elif isinstance(message, Append):
            self.observe_entries(message.entries, message.prev_term)

    def observe_entries(self, entries: list[Entry], prev_term: int) -> None:
        """Check entries that a member writes or sends."""
        for entry in entries:
            content = (entry.kind, entry.data, prev_term)
            known = self.entries.setdefault((entry.index, entry.term), content)
            demand(known == content, f"matching: {entry} is {content} and {known}")
            prev_term = entry.term

    def observe_apply(self, name: str, entry: Entry, state: int) -> None:
        """Check the state of a machine after an entry."""
        known = self.states.setdefault(entry.index, state)
        demand(known == state, f"state machine: {name} differs at {entry.index}")
        if entry.data and entry.kind == 1:
            demand(entry.data in self.proposed, f"{name} applies what nobody proposed")
            self.effective.add(entry.index)
        elif entry.kind is EntryKind.WITHDRAWAL:
            covered = range(first_of(entry), entry.index)
            self.withdrawn += len(covered)
            found = sorted(self.effective.intersection(covered))
            demand(not found, f"withdrawal: {found} had effects, {entry.index} withdraws them")
