"""A simulated machine: a name, an address, a disk, a clock, and the process that runs on it."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from headwater.testing.clock import HostTime, SimClock
from headwater.testing.disk import SimDisk
from headwater.testing.files import MemoryFiles
from headwater.testing.loop import CURRENT_PROCESS, Process, SimLoop
from headwater.testing.marks import SimMarks
from headwater.testing.transport import SimServer

T = TypeVar("T")

# Linux assigns ports from here to clients and to servers that ask for any port.
EPHEMERAL_PORT_FIRST: Final = 32_768
PORT_LAST: Final = 65_535


class HostCrashed(Exception):
    """The host died before it could answer."""


class Host:
    """A simulated machine. All of its attributes but `process` survive a crash."""

    def __init__(
        self, loop: SimLoop, name: str, address: str, time: HostTime, disk_seed: int
    ) -> None:
        self._loop = loop
        self.name = name
        self.address = address
        self.time = time
        self.clock = SimClock(time, loop.now_s)
        self.files = MemoryFiles()
        self.disk = SimDisk(disk_seed)
        self.marks = SimMarks()
        self.boots = 0
        self.power_cycles = 0
        self.boot: Callable[[], Coroutine[Any, Any, object]] | None = None
        self.process = Process(name, time)
        self.powered = True
        self.listeners: dict[int, SimServer] = {}
        self.refusing = False
        self._next_port = EPHEMERAL_PORT_FIRST
        self._awaited: dict[asyncio.Future[Any], None] = {}

    def __repr__(self) -> str:
        return f"<Host {self.name} {self.address}>"

    @property
    def alive(self) -> bool:
        """Whether a process runs here, possibly paused."""
        return not self.process.dead

    def free_port(self) -> int:
        """The next port without a listener."""
        while True:
            port = self._next_port
            self._next_port = EPHEMERAL_PORT_FIRST if port == PORT_LAST else port + 1
            if port not in self.listeners:
                return port

    def context(self) -> contextvars.Context:
        """A context in which everything is done by this host's process."""
        context = contextvars.copy_context()
        context.run(CURRENT_PROCESS.set, self.process)
        return context

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start a task of this host. It ends with the host, without its `finally` blocks."""
        if self.process.dead:
            coroutine.close()
            raise HostCrashed(self.name)
        return self._loop.create_task(coroutine, context=self.context())

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run on this host and wait from anywhere. Raises HostCrashed if the host dies."""
        task = self.spawn(coroutine)
        answer: asyncio.Future[T] = self._loop.create_future()
        self._awaited[answer] = None

        def finished(task: "asyncio.Task[T]") -> None:
            self._awaited.pop(answer, None)
            if answer.done():
                if not task.cancelled():
                    task.exception()
            elif task.cancelled():
                answer.cancel()
            elif (error := task.exception()) is not None:
                answer.set_exception(error)
            else:
                answer.set_result(task.result())

        # In the caller's context: the host may be dead or paused when the task is done.
        task.add_done_callback(finished)
        try:
            return await answer
        except asyncio.CancelledError:
            task.cancel()
            raise

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call `function` at once, as this host's process."""
        return self.context().run(function, *args)

    def process_died(self) -> None:
        """Raise HostCrashed in everything that waits for this host."""
        self.listeners.clear()
        awaited, self._awaited = self._awaited, {}
        for answer in awaited:
            if not answer.done():
                answer.set_exception(HostCrashed(self.name))

    def start_process(self) -> "Awaitable[object] | None":
        """Start a new process after a crash, with `boot` if it is set."""
        self.boots += 1
        self.process = Process(self.name, self.time)
        return None if self.boot is None else self.spawn(self.boot())
