"""Everything a server takes from outside, in one value.

A server is built from options and one Environment. Nothing in it reaches around this object for a
clock, dice, a file, a socket or a thread; that is what lets the same server run in simulation.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from typing import Protocol, TypeVar

from headwater.base.clock import Clock
from headwater.base.entropy import Entropy
from headwater.store.disk.filesystem import FileSystem

T = TypeVar("T")


class Listener(Protocol):
    """A bound port."""

    @property
    def port(self) -> int:
        """The port really bound, also when 0 or -1 was asked for."""
        ...

    def close(self) -> None:
        """Stop accepting. Connections already accepted go on."""
        ...


class Network(Protocol):
    """Listening sockets."""

    async def listen(
        self, host: str, port: int, factory: Callable[[], asyncio.Protocol]
    ) -> Listener:
        """Accept connections on `host:port`; a port of 0 or below asks for a free one.

        Raises OSError when the port can not be bound.
        """
        ...


class AppendFile(Protocol):
    """A file that only grows, such as a log file."""

    def write(self, data: bytes) -> None:
        """Append, reaching the operating system before returning."""
        ...

    def close(self) -> None:
        """Release the file."""
        ...


class Files(Protocol):
    """The few whole-file operations a server needs besides its store. All raise OSError."""

    def read_bytes(self, path: str) -> bytes: ...

    def replace_bytes(self, path: str, data: bytes) -> None:
        """Write `data` to `path`, whole or not at all."""
        ...

    def open_append(self, path: str) -> AppendFile: ...

    def remove(self, path: str) -> None:
        """Delete `path`; absent is fine."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def is_dir(self, path: str) -> bool: ...

    def make_dirs(self, path: str) -> None: ...


class TimerHandle(Protocol):
    """A call that has not happened yet."""

    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """Calls that happen later on the one loop thread, and work that must not block it."""

    def call_soon(self, call: Callable[[], object]) -> TimerHandle: ...

    def call_later(self, delay_s: float, call: Callable[[], object]) -> TimerHandle: ...

    def offload(self, work: Callable[[], T], done: Callable[[T], object]) -> None:
        """Run `work` off the loop, then `done(result)` on it. `work` must not raise."""
        ...


class Process(Protocol):
    """What the operating system knows of the process the server runs in, and of its machine."""

    def pid(self) -> int: ...

    def rss_bytes(self) -> int: ...

    def cpu_percent(self) -> float:
        """Processor time used since the last call, 100 for one core fully busy."""
        ...

    def cores(self) -> int: ...

    def memory_bytes(self) -> int:
        """All memory of the machine; 0 if it does not tell."""
        ...

    def temporary_folder(self) -> str:
        """Where files go that nobody has a place for."""
        ...


@dataclass(frozen=True)
class Environment:
    """What a server may use of the world."""

    clock: Clock
    entropy: Entropy
    files: Files
    network: Network
    scheduler: Scheduler
    process: Process
    # Where streams are kept, and what tells one life of the machine from another.
    disk: FileSystem
    boot_id: str
    # The rules of a time zone by its name in the IANA database; None for one nobody knows.
    find_zone: Callable[[str], tzinfo | None]
