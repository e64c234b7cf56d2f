"""The JetStream API: requests and replies as values, and who answers which subject."""
