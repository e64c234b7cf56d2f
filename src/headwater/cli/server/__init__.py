"""Commands about a server and the account of its user."""
