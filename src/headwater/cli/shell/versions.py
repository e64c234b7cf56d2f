"""Which Headwater this is, and which nats-server it speaks as.

Must not import click, rich or nats: `headwater --version` works where only the server is installed.
"""

from headwater import __version__
from headwater.wire.info import NATS_VERSION


def version_line() -> str:
    """The line of `headwater --version`."""
    return f"headwater {__version__} (speaks as nats-server {NATS_VERSION})"
