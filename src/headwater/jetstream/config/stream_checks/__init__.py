"""The rules for the configuration of a stream, by subject."""
