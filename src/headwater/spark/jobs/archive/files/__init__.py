"""The files of an archive: Delta or Parquet, written once, merged, and never half there."""
