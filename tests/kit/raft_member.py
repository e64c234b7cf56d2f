"""One member of a Raft group, whose disk writes at once. The test speaks for the others."""

from headwater.base.clock import NS_PER_S
from headwater.raft.config import RaftConfig
from headwater.raft.membership import membership_of
from headwater.raft.messages import (
    AppendReply,
    Message,
    PreVote,
    PreVoteReply,
    Vote,
    VoteReply,
)
from headwater.raft.node import RaftNode
from headwater.raft.role import RoleName
from headwater.raft.storage import SavedState, born
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.raft_disk import Disk


class Member:
    """A node, its disk, and the time. All other members are alive."""

    def __init__(
        self,
        name: str = "a",
        voters: str = "abc",
        learners: str = "",
        *,
        config: RaftConfig | None = None,
        saved: SavedState | None = None,
        disk: Disk | None = None,
        has_forgotten: bool = False,
        alive: bool = True,
    ) -> None:
        members = membership_of(voters, learners)
        self.now_ns = NS_PER_S
        self.disk = disk or Disk(saved or born(members))
        self.applied: list[bytes] = []
        self.node = RaftNode(
            name,
            config or RaftConfig(),
            SeededEntropy(labelled_rng(1, name)),
            self.disk,
            self.disk.saved(),
            self.now_ns,
            has_forgotten=has_forgotten,
        )
        if alive:
            for peer in members.members():
                if peer != name:
                    self.node.peer_alive(peer, self.now_ns)
        self.work()

    def work(self) -> list[Message]:
        """Do all the work there is. Returns the messages in the order in which they left."""
        sent: list[Message] = []
        while (ready := self.node.ready(self.now_ns)) is not None:
            sent += ready.messages
            self.applied += [entry.data for entry in ready.committed]
            if ready.committed:
                self.node.applied_to(ready.committed[-1].index)
            self.disk.files.write(ready, 0)
            self.disk.sync()
            sent += ready.replies
            self.node.written(ready, self.now_ns)
        return sent

    def step(self, *messages: Message) -> list[Message]:
        """Let messages arrive in one turn. Returns the answers."""
        for message in messages:
            self.node.step(message, self.now_ns)
        return self.work()

    def time_out(self) -> list[Message]:
        """Let time go on until the next timer fires. Returns the messages that follow."""
        assert self.node.deadline_ns is not None, "there is no timer"
        self.now_ns = max(self.now_ns, self.node.deadline_ns)
        self.node.tick(self.now_ns)
        return self.work()

    def lead(self) -> list[Message]:
        """Let all others vote for this member. Returns its first appends."""
        sent = self.time_out()
        while self.node.role is not RoleName.LEADER:
            replies: list[Message] = []
            for ask in sent:
                if isinstance(ask, PreVote):
                    replies.append(PreVoteReply(ask.to, ask.sender, ask.term, True))
                elif isinstance(ask, Vote):
                    replies.append(VoteReply(ask.to, ask.sender, ask.term, True))
            sent = self.step(*replies)
        return sent

    def confirm(self, *peers: str, match: int | None = None) -> list[Message]:
        """Let followers confirm the log up to an index. Returns the messages that follow."""
        node = self.node
        index = node.log.last_index if match is None else match
        return self.step(
            *(
                AppendReply(peer, node.name, node.term, index, min(index, node.log.commit))
                for peer in peers
            )
        )
