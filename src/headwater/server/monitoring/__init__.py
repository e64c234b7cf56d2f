"""The monitoring port: documents about a running server over HTTP."""
