"""The only layer that touches the outside world: sockets, files, clocks, threads."""
