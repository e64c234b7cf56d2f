"""Answers of nats-server, written down once and compared without one."""
