"""Streams and their rules, as pure values and decisions; the server gives them the world."""
