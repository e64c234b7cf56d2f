"""Consumers: who reads a stream, how far they are, and what they are owed."""
