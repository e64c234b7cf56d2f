"""Consensus on a log, by Raft, without any input or output of its own.

Start at `node.RaftNode`; `ready` has the contract between the core and its driver.
"""

from headwater.raft.node import RaftNode

__all__ = ["RaftNode"]
