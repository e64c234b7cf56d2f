"""Consensus on a log, by Raft, without any input or output of its own."""
