"""The storage of streams: what the machine offers, what accounts may use of it, and the files."""
