"""Commands about the servers of a cluster, and about the streams on several of them."""
