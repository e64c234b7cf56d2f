"""The streams of a cluster: their assignments, and the servers that follow them."""
