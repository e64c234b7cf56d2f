"""Headwater: a message log server that NATS clients cannot tell from nats-server."""

from typing import Final

__version__: Final = "0.1.0"
