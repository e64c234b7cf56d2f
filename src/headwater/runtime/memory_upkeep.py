"""The memory of a server process: when old objects are collected, and memory goes back.

Objects that end in a server break their own cycles and are freed by reference counts; the collector
is the net below. It makes three kinds of passes, each as long as the loop can bear:

* over young objects: automatic, and bounded by the thresholds;
* over old objects: when the process is quiet after some work, or has grown by much. A pass that
  took long freezes the objects it found alive, so that the next one looks at newer objects only;
* over frozen objects too: when the process is quiet and no client is connected.

After a pass in a quiet moment the allocator gives its empty memory back to the operating system.

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

# Young objects are looked at this seldom, because messages are bytes, which the collector does not
# see, and walking the lists that hold them is wasted. One pass sees 250,000 objects at the most,
# some 20 ms of work.
YOUNG_OBJECTS: Final = 50_000
YOUNG_PASSES: Final = 5
# Old objects are looked at when the policy says so, never by count.
_OLD_PASSES: Final = (1 << 31) - 1

# How often the policy looks at the process.
LOOK_S: Final = 1.0
# A process that used less of a core than this since the last look is quiet.
QUIET_CPU_PART: Final = 0.05
# Less work than this leaves nothing worth a pass.
WORK_CPU_S_MIN: Final = 0.25
# A process that has grown by so much is worth a pass also while it is busy: some 500,000 objects.
GROWTH_BYTES_MIN: Final = 64 * 1024 * 1024
# Passes take no more than this part of the time.
PASS_PART_MAX: Final = 0.01
# Objects that a longer pass found alive are frozen.
PASS_S_FREEZING: Final = 0.010


class Step(Enum):
    """The action that a look leads to."""

    NOTHING = 0
    # Collect, because the process grows.
    COLLECT = 1
    # Collect and trim, because it is quiet.
    TIDY = 2
    # Collect and trim, frozen objects too, because it is quiet and no client is connected.
    TIDY_ALL = 3


class Look(NamedTuple):
    """The state of the process: a clock, its processor time, its memory, and its company."""

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
        # Processor time and memory after the last pass, and when the next may be.
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
        """A pass was made; what the process looks like after it."""
        self._last_cpu_s = self._passed_cpu_s = after.cpu_s
        self._passed_bytes = after.rss_bytes
        self._next_s = after.now_s + took_s / PASS_PART_MAX


class Heap(Protocol):
    """The objects and the memory of a process."""

    def settle(self) -> None:
        """All that is there stays: look at it no more."""
        ...

    def collect(self, with_frozen: bool) -> float:
        """Free what nobody reaches; how many seconds that took."""
        ...

    def trim(self) -> None:
        """Give empty memory back to the operating system."""
        ...


@final
class SystemHeap:
    """Heap protocol on Python's collector and the C library's allocator."""

    __slots__ = ()

    def bound_passes(self) -> None:
        """Look at young objects seldom, and at old ones when the policy says so.

        A server does this before it brings its streams back: with Python's own thresholds passes
        over a thousand streams take a fifth of that time.
        """
        gc.set_threshold(YOUNG_OBJECTS, YOUNG_PASSES, _OLD_PASSES)

    def settle(self) -> None:
        """Freeze everything, and let passes over old objects wait for the policy."""
        gc.collect()
        gc.freeze()
        self.bound_passes()

    def collect(self, with_frozen: bool) -> float:
        """Look at all that is not frozen, or at everything."""
        began_s = time.perf_counter()
        if with_frozen:
            gc.unfreeze()
        gc.collect()
        took_s = time.perf_counter() - began_s
        if with_frozen or took_s > PASS_S_FREEZING:
            gc.freeze()
        return took_s

    def trim(self) -> None:
        """Have the allocator give back what it can; others than glibc's do so by themselves."""
        # Not when the server starts: it would be 10 ms later.
        import ctypes

        with contextlib.suppress(OSError, AttributeError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)


@final
class MemoryUpkeep:
    """Looks at the process from time to time, and does what the policy says."""

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
        self._policy = MemoryPolicy(self._seen())

    def start(self) -> None:
        """Begin to look."""
        self._timer = self._scheduler.call_later(LOOK_S, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self.start()
        step = self._policy.step(self._seen())
        if step is Step.NOTHING:
            return
        took_s = self._heap.collect(with_frozen=step is Step.TIDY_ALL)
        if step is not Step.COLLECT:
            self._heap.trim()
        self._policy.done(self._seen(), took_s)

    def _seen(self) -> Look:
        return Look(
            time.monotonic(), time.process_time(), self._process.rss_bytes(), self._is_alone()
        )
