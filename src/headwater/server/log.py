"""Log lines exactly as nats-server writes them; harnesses wait for some of them.

    [2103] 2026/11/15 01:56:12.010609 [INF] Server is ready

This module has the format and the levels; the sink decides where a line goes.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, final

from headwater.base.clock import NS_PER_S, Clock

_NS_PER_US: Final = 1000

Sink = Callable[[bytes], None]


@final
class Log:
    """The log of one server. `debug_on`, `trace_on` and the time stamps can change by reload."""

    __slots__ = ("_clock", "_pid", "debug_on", "sink", "time_on", "trace_on", "utc")

    def __init__(self, sink: Sink, clock: Clock, pid: int) -> None:
        self.sink = sink
        self._clock = clock
        self._pid = pid
        self.debug_on = False
        self.trace_on = False
        self.time_on = True
        self.utc = False

    def info(self, text: str) -> None:
        """Something an operator wants to know."""
        self._write("INF", text)

    def warn(self, text: str) -> None:
        """Something that may become a problem."""
        self._write("WRN", text)

    def error(self, text: str) -> None:
        """Something went wrong; the server goes on."""
        self._write("ERR", text)

    def fatal(self, text: str) -> None:
        """The server cannot go on. The caller ends it."""
        self._write("FTL", text)

    def debug(self, text: str) -> None:
        """Detail, when asked for."""
        if self.debug_on:
            self._write("DBG", text)

    def trace(self, text: str) -> None:
        """Protocol, when asked for."""
        if self.trace_on:
            self._write("TRC", text)

    def _write(self, level: str, text: str) -> None:
        stamp = f"{self._stamp()} " if self.time_on else ""
        self.sink(f"[{self._pid}] {stamp}[{level}] {text}\n".encode())

    def _stamp(self) -> str:
        wall_ns = self._clock.wall_ns()
        seconds, rest_ns = divmod(wall_ns, NS_PER_S)
        moment = datetime.fromtimestamp(seconds, UTC if self.utc else None)
        return f"{moment:%Y/%m/%d %H:%M:%S}.{rest_ns // _NS_PER_US:06d}"
