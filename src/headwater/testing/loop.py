"""A virtual asyncio event loop: many simulated processes, one thread, no wall clock.

Time stands still while anything can run and jumps to the next timer when nothing can, so the cost
of an hour depends on the events in it. Every callback belongs to a `Process`, found in the context
it was scheduled with; within a process callbacks run first in, first out, as asyncio promises,
while the processes that are ready in one round take turns in an order drawn from the seed.

Invariants: nothing here reads a clock, starts a thread, opens a socket or depends on the address of
an object. An error that asyncio would only log (an exception in a callback, a task destroyed while
pending) fails the run.

Must not know: the network. `create_server` and `create_connection` are passed on to its
`NetworkPort`.
"""

import asyncio
import contextvars
import gc
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from headwater.base.errors import ProgrammerError
from headwater.testing.clock import HostTime

T = TypeVar("T")

# The loop's time at the start. Not 0, which code may take for "never".
BEGINNING_S: Final = 1_000.0

# The cost of one round. Without a cost, code that polls would stop the clock it waits for.
TURN_S: Final = 1e-6

# Work in an executor takes a time in this range, so that it may overtake other work.
EXECUTOR_DELAY_MIN_S: Final = 20e-6
EXECUTOR_DELAY_MAX_S: Final = 2e-3

# Cancelled timers stay in the heap until they are many, as in asyncio.
_CANCELLED_TIMERS_KEPT_MAX: Final = 256

# Garbage is collected at fixed points of a run, because destructors are part of it.
_CALLBACKS_PER_COLLECTION: Final = 500_000

# A coroutine that awaits while it is being closed is closed again, this many times.
_CLOSE_ATTEMPTS_MAX: Final = 16


class SimulationError(Exception):
    """The simulated program did something that no program may do."""


class Deadlock(SimulationError):
    """Nothing can run, nothing is due, and the main coroutine still waits."""


class Runaway(SimulationError):
    """The run exceeded its bound of callbacks or of virtual time."""


class UnhandledException(SimulationError):
    """An exception reached the event loop, where asyncio would have logged it."""


class Process:
    """A group of callbacks that run, stop and die together. A restarted host gets a new one."""

    __slots__ = ("dead", "name", "paused", "queued", "ready", "time")

    def __init__(self, name: str, time: HostTime) -> None:
        self.name = name
        self.time = time
        self.ready: deque[SimHandle] = deque()
        self.queued = False
        self.paused = False
        self.dead = False

    def __repr__(self) -> str:
        return f"<Process {self.name}>"


CURRENT_PROCESS: Final[contextvars.ContextVar[Process]] = contextvars.ContextVar(
    "headwater_simulated_process"
)


class SimHandle(asyncio.TimerHandle):
    """A callback of a process, for its next turn or for a time."""

    __slots__ = ("args", "callback", "context", "heap", "process", "when_s")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context,
        process: Process,
    ) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context
        self.process = process
        self.when_s = 0.0
        self.heap: SimLoop | None = None
        self._cancelled = False

    def __repr__(self) -> str:
        what = "cancelled" if self._cancelled else repr(self.callback)
        return f"<SimHandle {what} of {self.process.name}>"

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def cancel(self) -> None:
        """Cancel the callback; its references are released at once."""
        if not self._cancelled:
            self._cancelled = True
            self.callback = None
            self.args = ()
            if self.heap is not None:
                self.heap.timer_was_cancelled()

    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def when(self) -> float:
        """The time on its process's clock at which it is due."""
        return self.when_s

    def get_context(self) -> contextvars.Context:
        """The context in which it runs."""
        return self.context


class KernelEvent:
    """A call that belongs to no process: it happens while hosts are paused or dead."""

    __slots__ = ("args", "callback")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args

    def cancel(self) -> None:
        """Cancel the call."""
        self.callback = None
        self.args = ()


class _Numbered:
    """Hashes by order of first use, where asyncio's objects hash by address.

    Programs put tasks and futures in sets (asyncio.wait, TaskGroup) and iterate over them.
    """

    _number = 0

    def __hash__(self) -> int:
        if self._number == 0:
            self._number = self.get_loop().next_number()  # type: ignore[attr-defined]
        return self._number


class SimFuture(_Numbered, asyncio.Future[T]):
    """A future that sorts the same in every run."""


class SimTask(_Numbered, asyncio.Task[T]):
    """A task that sorts the same in every run and knows its process."""

    process: Process


class NetworkPort(Protocol):
    """The network for the loop. The signatures follow asyncio's."""

    async def create_server(
        self, factory: Callable[[], asyncio.BaseProtocol], host: Any, port: Any, **options: Any
    ) -> asyncio.AbstractServer: ...

    async def create_connection(
        self, factory: Callable[[], asyncio.BaseProtocol], host: Any, port: Any, **options: Any
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]: ...

    def resolve(self, name: str) -> str: ...


class SimLoop(asyncio.BaseEventLoop):
    """The event loop of a whole simulated world."""

    network: NetworkPort

    def __init__(
        self, rng: random.Random, *, callbacks_max: int, virtual_s_max: float, outside: Process
    ) -> None:
        """`outside` is the process of callbacks that are scheduled from no process."""
        super().__init__()
        self.set_debug(False)
        self.outside = outside
        self.callbacks_run = 0
        self._next_collection = _CALLBACKS_PER_COLLECTION
        self._callbacks_max = callbacks_max
        self._end_s = BEGINNING_S + virtual_s_max
        self._rng = rng
        # Set higher for a slow disk: executors mostly sync a disk.
        self.executor_delay_s_max = EXECUTOR_DELAY_MAX_S
        self._now_s = BEGINNING_S
        self._runnable: list[Process] = []
        self._timers: list[tuple[float, int, SimHandle | KernelEvent]] = []
        self._cancelled_timers = 0
        self._sequence = 0
        self._failure: BaseException | None = None
        self._ended = False
        self._dead_tasks: list[SimTask[Any]] = []

    # Time

    def now_s(self) -> float:
        """True time, which no process can see."""
        return self._now_s

    def time(self) -> float:
        """The monotonic clock of the calling process."""
        return CURRENT_PROCESS.get(self.outside).time.to_local(self._now_s)

    def next_number(self) -> int:
        """1, 2, 3, …"""
        self._sequence += 1
        return self._sequence

    # Scheduling

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> SimHandle:
        """Run in the next turn of the process that `context` belongs to."""
        handle = self._handle(callback, args, context)
        process = handle.process
        if not process.dead and not self._ended:
            process.ready.append(handle)
            if not process.queued and not process.paused:
                process.queued = True
                self._runnable.append(process)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> SimHandle:
        """Run after `delay` seconds on the clock of the process."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> SimHandle:
        """Run when the clock of the process shows `when`."""
        handle = self._handle(callback, args, context)
        process = handle.process
        handle.when_s = when
        if not process.dead and not self._ended:
            handle.heap = self
            self._sequence += 1
            entry = (process.time.to_true(when), self._sequence, handle)
            heapq.heappush(self._timers, entry)
        return handle

    def _handle(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> SimHandle:
        if context is None:
            context = contextvars.copy_context()
        return SimHandle(callback, args, context, context.get(CURRENT_PROCESS, self.outside))

    def call_kernel_at(
        self, true_s: float, callback: Callable[..., object], *args: Any
    ) -> KernelEvent:
        """Call at true time `true_s`, on behalf of no process."""
        event = KernelEvent(callback, args)
        self._sequence += 1
        heapq.heappush(self._timers, (true_s, self._sequence, event))
        return event

    def timer_was_cancelled(self) -> None:
        """Remove cancelled timers once more than half of the heap is cancelled."""
        self._cancelled_timers += 1
        if self._cancelled_timers < max(_CANCELLED_TIMERS_KEPT_MAX, len(self._timers) // 2):
            return
        self._timers = [
            entry
            for entry in self._timers
            if isinstance(entry[2], KernelEvent) or not entry[2].cancelled()
        ]
        heapq.heapify(self._timers)
        self._cancelled_timers = 0

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return SimFuture(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        """A task of the process that `context` belongs to."""
        if self._ended:
            coro.close()
            raise RuntimeError("the simulated world has ended")
        if name is None:
            name = f"Task-{self.next_number()}"
        task: SimTask[T] = SimTask(coro, loop=self, name=str(name), context=context, **options)
        if context is None:
            task.process = CURRENT_PROCESS.get(self.outside)
        else:
            task.process = context.get(CURRENT_PROCESS, self.outside)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run `func` at some later turn, in this thread; several may finish in any order."""
        future: asyncio.Future[T] = self.create_future()
        delay_s = self._rng.uniform(EXECUTOR_DELAY_MIN_S, self.executor_delay_s_max)
        # The work is done at some time in between, and its result is known only at the end.
        work_s = self._rng.uniform(0, delay_s)

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:
                self.call_later(delay_s - work_s, _unless_done, future.set_exception, future, error)
            else:
                self.call_later(delay_s - work_s, _unless_done, future.set_result, future, result)

        self.call_later(work_s, work)
        return future

    # Processes

    def pause(self, process: Process) -> None:
        """Stop running `process`; its due callbacks wait."""
        process.paused = True

    def resume(self, process: Process) -> None:
        """Run `process` again, beginning with the callbacks that are due by now."""
        process.paused = False
        if process.ready and not process.queued and not process.dead:
            process.queued = True
            self._runnable.append(process)

    def kill(self, process: Process) -> None:
        """Never run any callback of `process` again, not even the `finally` of its tasks."""
        process.dead = True
        process.ready.clear()
        for task in self._unfinished_tasks():
            if task.process is process:
                self._bury(task)

    def _unfinished_tasks(self) -> list[SimTask[Any]]:
        tasks = [task for task in asyncio.all_tasks(self) if isinstance(task, SimTask)]
        return sorted(tasks, key=SimTask.__hash__)

    def _bury(self, task: SimTask[Any]) -> None:
        # Kept alive until the end: a destroyed coroutine would run its `finally` blocks now.
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._dead_tasks.append(task)

    def end(self) -> None:
        """Close every coroutine that is left. Callbacks that they schedule never run."""
        self._ended = True
        for task in self._unfinished_tasks():
            self._bury(task)
        buried, self._dead_tasks = self._dead_tasks, []
        for task in buried:
            coroutine = task.get_coro()
            if coroutine is not None:
                _close_coroutine(coroutine)  # type: ignore[arg-type]
        self._timers.clear()
        self._runnable.clear()
        self.close()

    # Running

    def _run_once(self) -> None:
        if not self._runnable:
            self._jump_to_next_timer()
        self._release_due_timers()
        runnable, self._runnable = self._runnable, []
        if len(runnable) > 1:
            self._rng.shuffle(runnable)
        for process in runnable:
            self._run_turn(process)
        self._now_s += TURN_S
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self.callbacks_run > self._next_collection:
            self._next_collection = self.callbacks_run + _CALLBACKS_PER_COLLECTION
            gc.collect()
        if self.callbacks_run > self._callbacks_max:
            raise Runaway(f"more than {self._callbacks_max} callbacks ran\n{self.waiting()}")

    def _jump_to_next_timer(self) -> None:
        timers = self._timers
        while timers:
            when_s, _, event = timers[0]
            if event.callback is not None:
                break
            self._cancelled_timers -= isinstance(event, SimHandle)
            heapq.heappop(timers)
        else:
            raise Deadlock(f"nothing can run and nothing is due\n{self.waiting()}")
        if when_s > self._now_s:
            if when_s > self._end_s:
                raise Runaway(f"virtual time ran out at {self._end_s} s\n{self.waiting()}")
            self._now_s = when_s

    def _release_due_timers(self) -> None:
        timers = self._timers
        now_s = self._now_s
        while timers and timers[0][0] <= now_s:
            event = heapq.heappop(timers)[2]
            if event.callback is None:
                self._cancelled_timers -= isinstance(event, SimHandle)
                continue
            if isinstance(event, KernelEvent):
                event.callback(*event.args)
                # The call may have replaced the list of timers.
                timers = self._timers
                continue
            event.heap = None
            process = event.process
            if process.dead:
                continue
            process.ready.append(event)
            if not process.queued and not process.paused:
                process.queued = True
                self._runnable.append(process)

    def _run_turn(self, process: Process) -> None:
        process.queued = False
        ready = process.ready
        # Only callbacks that are ready now: those that they schedule belong to the next turn.
        for _ in range(len(ready)):
            if process.paused or process.dead:
                return
            handle = ready.popleft()
            if handle.callback is None:
                continue
            self.callbacks_run += 1
            try:
                handle.context.run(handle.callback, *handle.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self.call_exception_handler(
                    {"message": f"Exception in callback {handle!r}", "exception": error}
                )
        if ready and not process.queued:
            process.queued = True
            self._runnable.append(process)

    # Failing

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Fail the run; the first failure wins."""
        if self._failure is not None or self._ended:
            return
        failure = UnhandledException(f"{context.get('message')}: {_describe(context)}")
        failure.__cause__ = context.get("exception")
        self._failure = failure

    def take_failure(self) -> BaseException | None:
        """Remove and return a failure after the last turn, such as one of a destructor."""
        failure, self._failure = self._failure, None
        return failure

    def waiting(self) -> str:
        """One line per unfinished task: its process and its place in the code."""
        lines = []
        for task in self._unfinished_tasks():
            state = " (paused)" if task.process.paused else ""
            frames = task.get_stack(limit=1)
            place = "not started"
            if frames:
                code = frames[-1].f_code
                place = f"{code.co_qualname} ({code.co_filename}:{frames[-1].f_lineno})"
            lines.append(f"  {task.process.name}{state}: {place}")
        return "waiting tasks:\n" + ("\n".join(lines) or "  none")

    # The network

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: Any = None,
        **options: Any,
    ) -> asyncio.AbstractServer:
        """Listen on the calling process's host."""
        return await self.network.create_server(protocol_factory, host, port, **options)

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: Any = None,
        **options: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect from the calling process's host."""
        return await self.network.create_connection(protocol_factory, host, port, **options)

    async def getaddrinfo(  # type: ignore[override]
        self,
        host: Any,
        port: Any,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        """The one address a simulated host has."""
        address = self.network.resolve(host)
        return [(family, type, proto, "", (address, int(port or 0)))]

    async def start_tls(self, *args: Any, **options: Any) -> asyncio.Transport | None:
        """Refused: TLS is tested on real sockets."""
        raise NotImplementedError("no TLS in the simulated world; test it on real sockets")

    def _write_to_self(self) -> None:
        raise ProgrammerError("the simulated loop has one thread and no selector to wake")


def _close_coroutine(coroutine: Coroutine[Any, Any, object]) -> None:
    for _ in range(_CLOSE_ATTEMPTS_MAX):
        try:
            coroutine.close()
        except BaseException:
            # Its `finally` blocks ran after the end of the world: there is nothing to report.
            continue
        return


def _describe(context: dict[str, Any]) -> str:
    hidden = ("message", "source_traceback", "handle_traceback")
    return ", ".join(f"{key}={context[key]!r}" for key in sorted(context) if key not in hidden)


def _unless_done(
    settle: Callable[[Any], object], future: "asyncio.Future[Any]", value: object
) -> None:
    if not future.done():
        settle(value)
