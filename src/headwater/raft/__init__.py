"""Consensus on a log, by Raft, without any input or output of its own.

Start at `node.RaftNode`; `ready` has the contract between the core and its driver, and `codec` the
bytes of messages and entries.
"""

from headwater.raft.codec import decode, decode_entries, encode, encode_entries
from headwater.raft.node import RaftNode

__all__ = ["RaftNode", "decode", "decode_entries", "encode", "encode_entries"]
