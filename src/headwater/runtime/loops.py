"""The event loop a server runs on: uvloop where it exists, asyncio's own elsewhere."""

import asyncio
import importlib.util


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop of the fastest kind that is installed."""
    if importlib.util.find_spec("uvloop") is None:  # Windows has none
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()
