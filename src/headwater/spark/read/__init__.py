"""The source: streams, buckets and objects as DataFrames."""
