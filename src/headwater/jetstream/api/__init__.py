"""The JetStream API: requests and replies as values, and the call behind each subject."""
