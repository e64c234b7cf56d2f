"""Closing a file that has lost its name: the disk frees its blocks then, which may take long."""

from collections.abc import Callable

Close = Callable[[], None]
# Runs a `Close`, at once or on another thread.
Dispose = Callable[[Close], object]


def close_at_once(close: Close) -> None:
    """Close a file on the caller's own thread."""
    close()
