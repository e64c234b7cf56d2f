"""Connections of clients: accepted, logged in, kept alive, served in turns, closed."""
