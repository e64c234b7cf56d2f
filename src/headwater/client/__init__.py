"""Clients of a server, on the protocol in `wire`."""
