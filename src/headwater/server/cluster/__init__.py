"""Servers that know each other: links between them, interest, and the groups that they share."""
