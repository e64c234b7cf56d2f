"""The event loop a server runs on: uvloop where it exists, asyncio's own elsewhere."""

import asyncio

try:
    from uvloop import new_event_loop as _new_event_loop
except ImportError:  # Windows has no uvloop
    _new_event_loop = asyncio.new_event_loop


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop of the fastest kind there is here."""
    return _new_event_loop()
