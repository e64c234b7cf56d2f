"""The connection of a command to a server: the target, the login, the session and its failures."""
