"""The job that archives a stream as Delta or Parquet, and the archive's own log."""
