"""The configuration of a server: file, flags, options, and reloading them."""
