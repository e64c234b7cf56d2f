"""The job that publishes an archive again."""
