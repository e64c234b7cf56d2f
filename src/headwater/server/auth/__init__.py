"""Permission to connect: users, passwords and tokens."""
