"""The index of a log in memory: which message is where, and which match a filter."""
