"""Streams and consumers as pure values and decisions; the server connects them to the world."""
