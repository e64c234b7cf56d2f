"""Backups of streams in the formats of nats-server, with readers that trust nothing."""
