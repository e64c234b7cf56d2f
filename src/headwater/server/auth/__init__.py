"""Who may connect: users, passwords and tokens."""
