"""A simulated world: hosts, a network and one virtual loop, all decided by a seed.

    async def main(world: World) -> None:
        server = world.host("server-1")
        await server.run(start_my_server())
        ...

    World(seed=7).run(main)

`main` runs on a host of its own, named "outside", which no fault touches. A task that is started
with `host.run` or `host.spawn` belongs to that host: its connections leave from there, its timers
stop when it is paused, it dies when it is crashed. Real nats-py clients may be used anywhere
inside.

Runs of one seed have one `trace_hash`, on one Python minor version with the same dependencies. A
failure carries the seed, the latest events and the command that replays it.
"""

import contextlib
import contextvars
import gc
import os
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Final, Literal, TypeVar

from headwater.base.clock import NS_PER_S
from headwater.base.invariants import check
from headwater.runtime.environment import Environment
from headwater.runtime.loop_adapters import LoopNetwork, LoopScheduler
from headwater.runtime.time_zones import find_zone
from headwater.runtime.tls import TlsContext, TlsError, TlsSettings
from headwater.testing.clock import HostTime
from headwater.testing.entropy import SeededEntropy, labelled_rng
from headwater.testing.host import Host
from headwater.testing.loop import BEGINNING_S, CURRENT_PROCESS, Process, SimLoop
from headwater.testing.nats_py import simulated_nats_py
from headwater.testing.network import SimNetwork
from headwater.testing.tcp import NetworkSettings
from headwater.testing.trace import Trace

T = TypeVar("T")

SEEDS_VARIABLE: Final = "SEEDS"
"""Environment variable with the number of `seeds` ("1000") or a single one ("seed:42")."""

_ONE_SEED: Final = "seed:"

OUTSIDE: Final = "outside"

CALLBACKS_MAX: Final = 20_000_000
VIRTUAL_S_MAX: Final = 30 * 24 * 3_600.0
EVENTS_KEPT: Final = 40

# The monotonic clocks of two hosts have nothing in common; a random uptime sets them apart.
_UPTIME_S_MAX: Final = 1_000_000

_DISK_SEED_MAX: Final = 1 << 32

_PID_FIRST: Final = 100
_RSS_BYTES: Final = 32 * 1024 * 1024
_MEMORY_BYTES: Final = 1 << 30

CrashMode = Literal["kill", "power"]
"""kill: the process dies, its kernel closes its sockets. power: the machine falls silent."""


def seeds(count: int, first: int = 1) -> list[int]:
    """Seeds to run: `count` of them, or the number or the single seed in the environment."""
    wish = os.environ.get(SEEDS_VARIABLE, "")
    if wish.startswith(_ONE_SEED):
        return [int(wish.removeprefix(_ONE_SEED))]
    return list(range(first, first + (int(wish) if wish else count)))


class World:
    """One simulated world, for one run."""

    def __init__(
        self,
        seed: int,
        *,
        settings: NetworkSettings | None = None,
        callbacks_max: int = CALLBACKS_MAX,
        virtual_s_max: float = VIRTUAL_S_MAX,
        replay: str | None = None,
    ) -> None:
        """`replay` is the command that repeats this run; inside pytest it is found out."""
        self.seed = seed
        self.trace = Trace(EVENTS_KEPT)
        self._replay = replay
        self._host_count = 0
        self._hosts: dict[str, Host] = {}
        outside_time = HostTime()
        self.loop = SimLoop(
            self.rng("loop"),
            callbacks_max=callbacks_max,
            virtual_s_max=virtual_s_max,
            outside=Process(OUTSIDE, outside_time),
        )
        self.network = SimNetwork(
            self.loop, self.rng("network"), self.trace, settings or NetworkSettings()
        )
        self.loop.network = self.network
        outside = self._add_host(OUTSIDE, outside_time)
        outside.process = self.loop.outside

    def rng(self, *label: str | int) -> random.Random:
        """A generator of random numbers for one purpose, independent of all others."""
        return labelled_rng(self.seed, *label)

    # Hosts

    def host(self, name: str) -> Host:
        """The host of that name, created at its first mention."""
        host = self._hosts.get(name)
        if host is None:
            uptime_ns = self.rng("uptime", name).randrange(_UPTIME_S_MAX) * NS_PER_S
            host = self._add_host(name, HostTime(uptime_ns))
        return host

    def _add_host(self, name: str, time: HostTime) -> Host:
        self._host_count += 1
        high, low = divmod(self._host_count, 250)
        disk_seed = self.rng("disk", name).randrange(_DISK_SEED_MAX)
        host = Host(self.loop, name, f"10.0.{high}.{low + 1}", time, disk_seed)
        self._hosts[name] = host
        self.network.add_host(host)
        return host

    def here(self) -> Host:
        """The host whose process is calling."""
        return self.network.here()

    def now_s(self) -> float:
        """True seconds since the beginning."""
        return self.loop.now_s() - BEGINNING_S

    # Faults of hosts

    def pause(self, name: str) -> None:
        """Stop everything on a host, as SIGSTOP does; its kernel keeps working."""
        self._fault(f"pause {name}")
        self.loop.pause(self._mortal(name).process)

    def resume(self, name: str) -> None:
        """End `pause`: due callbacks run now."""
        self._fault(f"resume {name}")
        self.loop.resume(self._mortal(name).process)

    def crash(self, name: str, mode: CrashMode = "kill") -> None:
        """Kill all tasks on a host. Files stay, memory is lost."""
        self._fault(f"crash {name} {mode}")
        host = self._mortal(name)
        if host.alive:
            self.loop.kill(host.process)
        if mode == "kill":
            host.disk.kill()
            self.network.process_killed(host)
        elif host.powered:
            host.disk.power_loss()
            host.power_cycles += 1
            host.marks.power_loss()
            self.network.power_lost(host)

    def restart(self, name: str) -> "Awaitable[object] | None":
        """Start a crashed host again. Returns the task of its `boot`, if it has one."""
        self._fault(f"restart {name}")
        host = self._mortal(name)
        check(not host.alive, f"{name} is running")
        if not host.powered:
            self.network.power_restored(host)
        return host.start_process()

    def drift(self, name: str, rate: float) -> None:
        """Let a host's clocks run at `rate` seconds per true second."""
        self._fault(f"drift {name} {rate}")
        self._mortal(name).time.drift(self.loop.now_s(), rate)

    def jump_wall_clock(self, name: str, by_s: float) -> None:
        """Set a host's wall clock forward or back."""
        self._fault(f"jump {name} {by_s}")
        self._mortal(name).clock.jump_wall(by_s)

    def _mortal(self, name: str) -> Host:
        check(name != OUTSIDE, "no fault touches the outside")
        check(name in self._hosts, f"no host {name}")
        return self._hosts[name]

    def _fault(self, what: str) -> None:
        self.trace.note(self.loop.now_s(), "fault", what)

    # Running

    def run(self, main: Callable[["World"], Coroutine[Any, Any, T]]) -> T:
        """Run `main` to its end; then everything that still runs ends silently."""
        check(not self.loop.is_closed(), "a world ends with its run: make a new one")
        context = contextvars.copy_context()
        context.run(CURRENT_PROCESS.set, self.loop.outside)
        try:
            with _collecting_only_here(), simulated_nats_py(self):
                try:
                    return self._run(main, context)
                finally:
                    self.network.end()
                    self.loop.end()
        except BaseException as error:
            error.add_note(self.report())
            raise

    def _run(
        self, main: Callable[["World"], Coroutine[Any, Any, T]], context: contextvars.Context
    ) -> T:
        task = self.loop.create_task(main(self), context=context)
        result: T = self.loop.run_until_complete(task)
        # Exceptions that were never fetched show when their futures are destroyed, which is now.
        gc.collect()
        failure = self.loop.take_failure()
        if failure is not None:
            raise failure
        return result

    @property
    def trace_hash(self) -> str:
        """The identity of the run so far."""
        return self.trace.digest()

    def summary(self) -> str:
        """One line: the seed, the size of the run, and the command to repeat it."""
        return (
            f"seed {self.seed}: {self.now_s():.3f} virtual s, {self.trace.event_count} events, "
            f"trace {self.trace_hash}; replay: {self.replay_command()}"
        )

    def report(self) -> str:
        """The summary and the latest events, for a failure."""
        events = "\n  ".join(self.trace.tail(BEGINNING_S)) or "none"
        return f"{self.summary()}\nlatest events:\n  {events}"

    def replay_command(self) -> str:
        """The command that repeats this run."""
        if self._replay is not None:
            return self._replay
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
        if test:
            return f"{SEEDS_VARIABLE}={_ONE_SEED}{self.seed} python -m pytest '{test}'"
        return f"World(seed={self.seed}).run(main)"


class SimulatedProcess:
    """Process protocol: a machine that looks the same in every run."""

    __slots__ = ("_pid",)

    def __init__(self, host: Host) -> None:
        self._pid = _PID_FIRST + host.boots

    def pid(self) -> int:
        """A new id after every boot."""
        return self._pid

    def rss_bytes(self) -> int:
        """A plausible size."""
        return _RSS_BYTES

    def cpu_percent(self) -> float:
        """0: virtual time costs no processor."""
        return 0.0

    def cores(self) -> int:
        """One process, one core."""
        return 1

    def memory_bytes(self) -> int:
        """A plausible machine."""
        return _MEMORY_BYTES

    def temporary_folder(self) -> str:
        """A folder on the host's own disk."""
        return "/temporary"


def simulated_environment(world: World, host: Host) -> Environment:
    """The environment of a server on `host`. Start the server with `host.run`."""
    rng = world.rng("entropy", host.name, host.boots)
    return Environment(
        clock=host.clock,
        entropy=SeededEntropy(rng),
        files=host.files,
        network=LoopNetwork(lambda: [host.address]),
        scheduler=LoopScheduler(),
        process=SimulatedProcess(host),
        disk=host.disk,
        boot_id=f"{host.name}-{host.power_cycles}",
        marks_in=lambda folder: host.marks,
        find_zone=find_zone,
        load_tls=_no_tls,
    )


def _no_tls(settings: TlsSettings) -> TlsContext:
    raise TlsError("no TLS in the simulated world; test it on real sockets")


@contextlib.contextmanager
def _collecting_only_here() -> Iterator[None]:
    """Collect garbage at fixed points only: destructors are events of the simulated program."""
    enabled = gc.isenabled()
    frozen = gc.get_freeze_count()
    gc.disable()
    if not frozen:
        # Existing objects need not be walked by the collection at the end of each run.
        gc.freeze()
    try:
        yield
    finally:
        if not frozen:
            gc.unfreeze()
        if enabled:
            gc.enable()
