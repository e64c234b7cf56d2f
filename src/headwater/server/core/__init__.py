"""Core NATS: clients, accounts, permissions, and the routing of messages."""
