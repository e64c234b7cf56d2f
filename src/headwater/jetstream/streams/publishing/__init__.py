"""A publish on its way into a stream: checks, batches, counters, look-ahead."""
