"""Streams as rows of bytes, in the form nats-server gives them: written, read, never trusted."""
