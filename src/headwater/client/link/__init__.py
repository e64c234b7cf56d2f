"""A blocking NATS client for tasks that read and write streams: one socket, one thread.

Imports neither pyspark nor pyarrow: what Spark is, its callers know.
"""
