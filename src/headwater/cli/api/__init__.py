"""The connection of a command to a server, and the JetStream API as commands call it."""
