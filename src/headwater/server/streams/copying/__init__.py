"""The copying of streams at work: joined to the broker, the clock and the streams of a server."""
