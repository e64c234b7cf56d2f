"""The state machine of a stream, and its policies."""
