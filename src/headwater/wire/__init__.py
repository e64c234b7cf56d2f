"""The NATS client protocol in both directions, without I/O."""
