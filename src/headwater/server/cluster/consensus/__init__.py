"""Consensus between servers: all groups of a server, their frames and logs, and the cluster."""

from headwater.server.cluster.consensus.driver import ConsensusDriver

__all__ = ["ConsensusDriver"]
