"""Snapshots of replicated streams: the state of a stream, in chunks from leader to follower."""
