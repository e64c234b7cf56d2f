"""Everything that a server takes from outside, in one value.

A server is built from options and one Environment. Nothing in it reaches around this object for a
clock, a random number, a file, a socket or a thread; so the server can run in simulation.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from typing import Protocol, TypeVar

from headwater.base.clock import Clock
from headwater.base.entropy import Entropy
from headwater.runtime.sockets.client_connection import ConnectionHandler
from headwater.runtime.tls import TlsLoader
from headwater.store.disk.filesystem import FileSystem
from headwater.store.disk.mark import MarkMemory

T = TypeVar("T")


class Listener(Protocol):
    """A bound port."""

    @property
    def port(self) -> int:
        """The bound port, even if 0 or -1 was asked for."""
        ...

    def close(self) -> None:
        """Stop accepting. Accepted connections stay open."""
        ...


class Network(Protocol):
    """Sockets: those that listen, and those that connect to other servers."""

    async def listen(
        self, host: str, port: int, factory: Callable[[], asyncio.Protocol]
    ) -> Listener:
        """Accept connections on `host:port`; a port of 0 or below asks for a free one.

        Raises OSError when the port cannot be bound.
        """
        ...

    def dial(
        self,
        host: str,
        port: int,
        handler: ConnectionHandler,
        timeout_s: float,
        failed: Callable[[str], object],
    ) -> None:
        """Connect to `host:port`, and hand the connection to `handler.accept`.

        `failed` is called with the reason if no connection is made within `timeout_s`.
        """
        ...

    def addresses(self) -> list[str]:
        """The addresses by which other machines reach this one."""
        ...


class AppendFile(Protocol):
    """A file that only grows, such as a log file."""

    def write(self, data: bytes) -> None:
        """Append the data, which reach the operating system before the return."""
        ...

    def close(self) -> None:
        """Release the file."""
        ...


class Files(Protocol):
    """The few whole-file operations of a server outside its store. All raise OSError."""

    def read_bytes(self, path: str) -> bytes: ...

    def replace_bytes(self, path: str, data: bytes) -> None:
        """Write `data` to `path`, completely or not at all."""
        ...

    def open_append(self, path: str) -> AppendFile: ...

    def remove(self, path: str) -> None:
        """Delete `path`, if it exists."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def is_dir(self, path: str) -> bool: ...


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
    """The operating system's figures about the server's process and its machine."""

    def pid(self) -> int: ...

    def rss_bytes(self) -> int: ...

    def cpu_percent(self) -> float:
        """Processor time used since the last call, 100 for one core fully busy."""
        ...

    def cores(self) -> int: ...

    def memory_bytes(self) -> int:
        """All memory of the machine; 0 if unknown."""
        ...

    def temporary_folder(self) -> str:
        """The folder for temporary files."""
        ...


@dataclass(frozen=True)
class Environment:
    """The parts of the world that a server may use."""

    clock: Clock
    entropy: Entropy
    files: Files
    network: Network
    scheduler: Scheduler
    process: Process
    # The disk of the streams, and an id that changes when the machine restarts.
    disk: FileSystem
    boot_id: str
    # The marks of stores in a folder in memory; an empty path is the runtime folder of the machine.
    marks_in: Callable[[str], MarkMemory]
    # The rules of a time zone by its name in the IANA database; None for an unknown name.
    find_zone: Callable[[str], tzinfo | None]
    # Certificates and keys of listeners with TLS.
    load_tls: TlsLoader
