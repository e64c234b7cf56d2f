"""The logs of consensus groups, all of them in the server's one write-ahead file."""
