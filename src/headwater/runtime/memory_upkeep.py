"""The memory of a server process: when old objects are collected, and memory is returned.

Objects that end in a server break their own cycles and are freed by reference counts; the garbage
collector is the safety net. It makes three kinds of passes, each no longer than the loop can bear:

* over young objects: automatic, and bounded by the thresholds;
* over old objects: when the process is quiet after some work, or has grown by much. A pass that
  took long freezes the objects it found alive, so that the next one covers newer objects only;
* over frozen objects too: when the process is quiet and no client is connected.

After a pass in a quiet moment the allocator returns its empty memory to the operating system.

`MemoryPolicy` decides on passes, by values alone. A process that only embeds a server keeps its own
rules: only `headwater serve` starts these passes.
"""

import contextlib
import gc
import time
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple, Protocol, final

from headwater.runtime.environment import Process, Scheduler, TimerHandle

# Passes over young objects are rare, because messages are bytes, which the collector does not
# track, and walking the lists that hold them is wasted. One pass covers 250,000 objects at the
# most, some 20 ms of work.
YOUNG_OBJECTS: Final = 50_000
YOUNG_PASSES: Final = 5
# Old objects are collected when the policy decides so, never by count.
_OLD_PASSES: Final = (1 << 31) - 1

# The interval of the policy.
LOOK_S: Final = 1.0
# A process that used less of a core than this since the last look is quiet.
QUIET_CPU_PART: Final = 0.05
# Less work than this leaves nothing worth a pass.
WORK_CPU_S_MIN: Final = 0.25
# A process that has grown by this is worth a pass even while it is busy: some 500,000 objects.
GROWTH_BYTES_MIN: Final = 64 * 1024 * 1024
# The share of time that passes may take.
PASS_PART_MAX: Final = 0.01
# Objects that a longer pass found alive are frozen.
PASS_S_FREEZING: Final = 0.010


class Step(Enum):
    """The action that the policy decides on."""

    NOTHING = 0
    # Collect, because the process grows.
    COLLECT = 1
    # Collect and trim, because the process is quiet.
    TIDY = 2
    # Collect and trim, frozen objects too, because the process is quiet and has no clients.
    TIDY_ALL = 3


class Look(NamedTuple):
    """The state of the process: a clock, its processor time, its memory, and its clients."""

    now_s: float
    cpu_s: float
    rss_bytes: int
    is_alone: bool


@final
class MemoryPolicy:
    """Decides when a pass is worth its time."""

    __slots__ = ("_last_cpu_s", "_next_s", "_passed_bytes", "_passed_cpu_s")

    def __init__(self, first: Look) -> None:
        self._last_cpu_s = first.cpu_s
        # Processor time and memory after the last pass, and the earliest time of the next.
        self._passed_cpu_s = first.cpu_s
        self._passed_bytes = first.rss_bytes
        self._next_s = first.now_s

    def step(self, look: Look) -> Step:
        """The action to take now."""
        is_quiet = look.cpu_s - self._last_cpu_s < QUIET_CPU_PART * LOOK_S
        self._last_cpu_s = look.cpu_s
        if look.now_s < self._next_s:
            return Step.NOTHING
        if is_quiet and look.cpu_s - self._passed_cpu_s >= WORK_CPU_S_MIN:
            return Step.TIDY_ALL if look.is_alone else Step.TIDY
        if look.rss_bytes - self._passed_bytes >= GROWTH_BYTES_MIN:
            return Step.COLLECT
        return Step.NOTHING

    def done(self, after: Look, took_s: float) -> None:
        """Note a pass that was made, with the state of the process after it."""
        self._last_cpu_s = self._passed_cpu_s = after.cpu_s
        self._passed_bytes = after.rss_bytes
        self._next_s = after.now_s + took_s / PASS_PART_MAX


class Heap(Protocol):
    """The objects and the memory of a process."""

    def settle(self) -> None:
        """Exclude all current objects from later passes."""
        ...

    def collect(self, with_frozen: bool) -> float:
        """Free unreachable objects. Returns the seconds that it took."""
        ...

    def trim(self) -> None:
        """Return empty memory to the operating system."""
        ...


@final
class SystemHeap:
    """Heap protocol on Python's collector and the C library's allocator."""

    __slots__ = ()

    def bound_passes(self) -> None:
        """Make passes over young objects rare, and leave those over old ones to the policy.

        A server does this before it restores its streams: with Python's own thresholds passes over
        a thousand streams take a fifth of that time.
        """
        gc.set_threshold(YOUNG_OBJECTS, YOUNG_PASSES, _OLD_PASSES)

    def settle(self) -> None:
        """Freeze everything, and leave passes over old objects to the policy."""
        gc.collect()
        gc.freeze()
        self.bound_passes()

    def collect(self, with_frozen: bool) -> float:
        """Collect all objects that are not frozen, or all."""
        began_s = time.perf_counter()
        if with_frozen:
            gc.unfreeze()
        gc.collect()
        took_s = time.perf_counter() - began_s
        if with_frozen or took_s > PASS_S_FREEZING:
            gc.freeze()
        return took_s

    def trim(self) -> None:
        """Let the allocator return empty memory; others than glibc's do so by themselves."""
        # Imported here, because it would delay the start of a server by 10 ms.
        import ctypes

        with contextlib.suppress(OSError, AttributeError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)


@final
class MemoryUpkeep:
    """Inspects the process at intervals, and acts on the policy."""

    __slots__ = ("_heap", "_is_alone", "_policy", "_process", "_scheduler", "_timer")

    def __init__(
        self,
        heap: Heap,
        scheduler: Scheduler,
        process: Process,
        is_alone: Callable[[], bool],
    ) -> None:
        self._heap = heap
        self._scheduler = scheduler
        self._process = process
        self._is_alone = is_alone
        self._timer: TimerHandle | None = None
        heap.settle()
        self._policy = MemoryPolicy(self._current())

    def start(self) -> None:
        """Start the inspections."""
        self._timer = self._scheduler.call_later(LOOK_S, self._inspect)

    def stop(self) -> None:
        """Stop the inspections."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _inspect(self) -> None:
        self.start()
        step = self._policy.step(self._current())
        if step is Step.NOTHING:
            return
        took_s = self._heap.collect(with_frozen=step is Step.TIDY_ALL)
        if step is not Step.COLLECT:
            self._heap.trim()
        self._policy.done(self._current(), took_s)

    def _current(self) -> Look:
        return Look(
            time.monotonic(), time.process_time(), self._process.rss_bytes(), self._is_alone()
        )
