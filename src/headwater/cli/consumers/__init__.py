"""`headwater consumer`: consumers, and the messages that they deliver."""
