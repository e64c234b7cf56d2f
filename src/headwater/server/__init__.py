"""Assembly of a server: configuration, accounts, broker, monitoring, lifecycle."""
