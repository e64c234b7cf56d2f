"""Consumers: the readers of a stream, their positions in it, and the deliveries that are due."""
