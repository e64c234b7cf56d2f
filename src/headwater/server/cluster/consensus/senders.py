"""The servers whose messages a member of a group takes.

A connection proves that a server has the password of the cluster, and no more. Messages of servers
that cannot be in a group are dropped: one of them would be enough to depose a leader.

    a member by the log of the group, or of the meta group    every message
    another server that has said it is in this cluster        those of leaders and candidates
    any other server                                          none

A server may be in the meta group, and in groups of streams, by entries that are not here yet: they
come from a leader that this server does not know. So it has to hear such a leader, and may have to
vote for it. A member that has been told no membership takes everything.

A member that lies is not guarded against, as it is not in other implementations of Raft: it can
hinder elections. The codec and the core refuse what would stop a server or a group for good.
"""

from typing import Final, final

from headwater.raft.messages import (
    Append,
    InstallSnapshot,
    Message,
    PreVote,
    ReadRound,
    Vote,
)
from headwater.raft.node import RaftNode

_OF_LEADERS: Final = (Append, InstallSnapshot, ReadRound, Vote, PreVote)


@final
class Senders:
    """The clusters that connected servers are in, as they say."""

    __slots__ = ("_clusters", "cluster")

    def __init__(self) -> None:
        self._clusters: dict[str, bytes] = {}
        self.cluster = b""
        """The cluster of this server, once it is in one."""

    def told(self, server: str, cluster: bytes) -> None:
        """Note the cluster that a server says it is in."""
        self._clusters[server] = cluster

    def lost(self, server: str) -> None:
        """Note that a server is not connected any more."""
        self._clusters.pop(server, None)

    def accepts(self, node: RaftNode, meta: RaftNode | None, message: Message) -> bool:
        """Whether a member may step a message. `meta` is the member of the meta group, if any."""
        if node.log.membership.has(message.sender):
            return True
        if isinstance(message, _OF_LEADERS):
            return self.may_lead(node, meta, message.sender)
        return _may_be_member(node, meta, message.sender)

    def may_lead(self, node: RaftNode, meta: RaftNode | None, server: str) -> bool:
        """Whether a server may lead a group, or stand for it, for all that is known here."""
        is_of_cluster = bool(self.cluster) and self._clusters.get(server) == self.cluster
        return is_of_cluster or _may_be_member(node, meta, server)


def _may_be_member(node: RaftNode, meta: RaftNode | None, server: str) -> bool:
    if meta is None or not node.membership.voters:
        return True
    return node.log.names(server) or meta.log.names(server) or not meta.membership.voters
