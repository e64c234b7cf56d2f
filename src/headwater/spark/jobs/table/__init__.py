"""The job that keeps a bucket as a table."""
