"""The job that draws a report of a stream."""
