"""Streams on a server: their host, runners, API, advisories and bounds."""
