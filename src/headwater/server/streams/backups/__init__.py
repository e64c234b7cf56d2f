"""Snapshots and restores on their way over a connection."""
