"""Sockets of the server: clients, and the monitor over HTTP."""
