"""The fault model: the faults of the simulated world, and which of them a program can survive.

Core NATS promises delivery at most once, in order per publisher and subscriber, to clients
that are connected and subscribed. "Survivable" below means: after the fault ended and the clients
reconnected, every message reaches every matching subscriber exactly once again; and during it no
message is invented, repeated or reordered. Messages under way during the fault may be lost, and
clients do not learn which.

Cut             A prefix of the bytes under way arrives, ending at any byte; then a reset, at
                both ends. Survivable: an operation cut in half is never executed.
HalfOpen        One end sees a reset, the other nothing. Survivable: the other notices with its
                next bytes, which pings make it send.
Partition       Nothing passes, both ways or one. Bytes wait and arrive in order after it; past
                TCP's retransmission limit the sender's connection is lost. Survivable; shorter
                than the ping limits, nothing at all is lost.
Slow            High latency, or so little bandwidth that buffers fill. Survivable; a reader too
                slow for the server's limits is disconnected, and others do not notice.
Refuse          New connections are refused. Survivable: clients try again.
Pause           Nothing on the host runs, while its kernel accepts connections and bytes until
                its buffers are full. Survivable; beyond the ping limits connections are lost.
Crash "kill"    Tasks vanish between two callbacks, and the kernel closes the sockets, with a
                reset if bytes are unread. Survivable: clients reconnect and subscribe again; the
                server held nothing else.
Crash "power"   Tasks vanish, but peers get nothing until the host is back and resets their old
                connections when they send. Survivable, after pings gave up.
Drift           The host's clocks and timers run fast or slow. Survivable while pings still fall
                into their windows.
Jump            The wall clock is set, either way. Survivable: only reports show it.
FullDisk        Writes to the disk of a host find no room. Survivable: a server that has no room
                refuses messages, and stores them again when there is room. Drawn by no plan of its
                own accord.
BitFlip         A bit of a segment on a host's disk flips. Survivable for messages that other
                servers have too: strike a minority of them. Drawn by no plan of its own accord.

Not in the model, because TCP or the operating system excludes it: bytes lost, repeated, reordered
or flipped inside a living connection. Disks fail in other ways too (`headwater.testing.disk`); the
`Files` of a server hold only whole files and lose nothing.

Faults may overlap: a host may be killed while paused behind a partition. Every fault has an end,
and the end is harmless if another fault has ended it.
"""

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headwater.base.invariants import check
from headwater.store.disk.segment import sequence_of
from headwater.testing.network import Direction
from headwater.testing.world import CrashMode, World

_DIRECTIONS: Final[tuple[Direction, ...]] = ("both", "forward", "backward")
_CRASH_MODES: Final[tuple[CrashMode, ...]] = ("kill", "power")

# Durations: some shorter than any timeout of the programs, some longer than most.
_SHORT_S: Final = (0.001, 0.2)
_LONG_S: Final = (1.0, 20.0)
_LONG_CHANCE: Final = 0.4

# The time after the beginning of an episode within which its faults begin.
_SPREAD_S: Final = 5.0

# Slow links: from a bad connection overseas to one that takes minutes for a megabyte.
_LATENCY_S: Final = (0.05, 1.0)
_BYTES_PER_S: Final = (2_000, 200_000)

_DRIFT: Final = 0.05
_JUMP_S: Final = 86_400.0

# The room that a full disk still has.
_ROOM_BYTES_MAX: Final = 20_000


@dataclass(frozen=True)
class Fault:
    """A fault that begins `at_s` after the beginning of its episode, and lasts for `lasts_s`."""

    at_s: float
    lasts_s: float

    def begin(self, world: World) -> None:
        """Start the fault."""
        raise NotImplementedError

    def end(self, world: World) -> None:
        """End the fault; harmless if it has ended."""


@dataclass(frozen=True)
class Cut(Fault):
    """All connections between two hosts are lost."""

    a: str
    b: str

    def begin(self, world: World) -> None:
        """Cut each at a byte boundary of its own."""
        for connection in world.network.connections(self.a, self.b):
            world.network.cut(connection)


@dataclass(frozen=True)
class HalfOpen(Fault):
    """All connections between two hosts are lost, and only `loser` knows."""

    loser: str
    other: str

    def begin(self, world: World) -> None:
        """Reset one end."""
        for connection in world.network.connections(self.loser, self.other):
            world.network.half_open(connection, self.loser)


@dataclass(frozen=True)
class Partition(Fault):
    """Nothing passes between two hosts, or one way only."""

    a: str
    b: str
    direction: Direction

    def begin(self, world: World) -> None:
        """Block the links."""
        world.network.partition(self.a, self.b, self.direction)

    def end(self, world: World) -> None:
        """Unblock the links."""
        world.network.heal(self.a, self.b)


@dataclass(frozen=True)
class Slow(Fault):
    """A link with high latency or little bandwidth."""

    a: str
    b: str
    latency_s: float | None
    bytes_per_s: float | None

    def begin(self, world: World) -> None:
        """Slow the link down."""
        world.network.slow(
            self.a,
            self.b,
            latency_s=self.latency_s,
            jitter_s=self.latency_s,
            bytes_per_s=self.bytes_per_s,
        )

    def end(self, world: World) -> None:
        """Restore the usual speed."""
        world.network.slow(self.a, self.b)


@dataclass(frozen=True)
class Refuse(Fault):
    """A host refuses new connections."""

    host: str

    def begin(self, world: World) -> None:
        """Refuse new connections."""
        world.network.refuse(self.host)

    def end(self, world: World) -> None:
        """Accept new connections."""
        world.network.accept(self.host)


@dataclass(frozen=True)
class Pause(Fault):
    """A host stands still."""

    host: str

    def begin(self, world: World) -> None:
        """Pause the host."""
        world.pause(self.host)

    def end(self, world: World) -> None:
        """Resume the host."""
        world.resume(self.host)


@dataclass(frozen=True)
class Crash(Fault):
    """A host dies and boots again; set the host's `boot` to start programs on it."""

    host: str
    mode: CrashMode

    def begin(self, world: World) -> None:
        """Crash the host."""
        if world.host(self.host).alive:
            world.crash(self.host, self.mode)

    def end(self, world: World) -> None:
        """Restart the host."""
        if not world.host(self.host).alive:
            world.restart(self.host)


@dataclass(frozen=True)
class Drift(Fault):
    """A host's clocks run fast or slow."""

    host: str
    rate: float

    def begin(self, world: World) -> None:
        """Change the rate of the clock."""
        world.drift(self.host, self.rate)

    def end(self, world: World) -> None:
        """Let the clock run at the true rate, from its current time."""
        world.drift(self.host, 1.0)


@dataclass(frozen=True)
class Jump(Fault):
    """A host's wall clock is set."""

    host: str
    by_s: float

    def begin(self, world: World) -> None:
        """Set the clock."""
        world.jump_wall_clock(self.host, self.by_s)


@dataclass(frozen=True)
class FullDisk(Fault):
    """The disk of a host has room for so many bytes and no more."""

    host: str
    room_bytes: int = 0

    def begin(self, world: World) -> None:
        """Limit the disk."""
        disk = world.host(self.host).disk
        disk.capacity_bytes = disk.used_bytes + self.room_bytes

    def end(self, world: World) -> None:
        """Let the disk have room without end again."""
        world.host(self.host).disk.capacity_bytes = None


@dataclass(frozen=True)
class BitFlip(Fault):
    """A bit of a segment flips on the disk of a host, for good.

    `place` is the place of the byte among those of all segments, from 0 to 1.
    """

    host: str
    place: float
    bit: int = 0

    def begin(self, world: World) -> None:
        """Flip the bit, if there are segments."""
        disk = world.host(self.host).disk
        sizes = {
            path: len(data)
            for path, data in sorted(disk.dump().items())
            if sequence_of(path.rpartition("/")[2])
        }
        offset = int(self.place * sum(sizes.values()))
        for path, size in sizes.items():
            if offset < size:
                disk.flip_bit(path, offset, self.bit)
                return
            offset -= size


@dataclass(frozen=True)
class Episode:
    """Faults that overlap, all with an end."""

    faults: tuple[Fault, ...]

    async def run(self, world: World) -> None:
        """Start and end every fault at its time. Call it from outside."""
        loop = asyncio.get_running_loop()
        beginning_s = loop.time()
        for moment_s, begins, fault in self._moments():
            await asyncio.sleep(beginning_s + moment_s - loop.time())
            if begins:
                fault.begin(world)
            else:
                fault.end(world)

    def _moments(self) -> list[tuple[float, bool, Fault]]:
        moments = []
        for fault in self.faults:
            moments.append((fault.at_s, True, fault))
            moments.append((fault.at_s + fault.lasts_s, False, fault))
        return sorted(moments, key=lambda moment: moment[0])


@dataclass(frozen=True)
class FaultPlan:
    """Episodes of faults, between which a test checks what must hold without faults:

    for episode in plan:
        await episode.run(world)
        ... reconnect, then account for every message ...
    """

    episodes: tuple[Episode, ...]

    def __iter__(self) -> Iterator[Episode]:
        return iter(self.episodes)

    @classmethod
    def drawn(
        cls,
        rng: random.Random,
        *,
        servers: Sequence[str],
        clients: Sequence[str],
        episodes: int = 3,
        faults_max: int = 4,
        kinds: Sequence[type[Fault]] | None = None,
    ) -> "FaultPlan":
        """A random plan: up to `faults_max` faults in each episode."""
        check(bool(servers), "faults strike servers and their links: name at least one")
        draw = _Drawer(rng, servers, clients)
        chosen = tuple(kinds) if kinds is not None else ALL_KINDS
        return cls(
            tuple(
                Episode(
                    tuple(draw.fault(rng.choice(chosen)) for _ in range(rng.randint(1, faults_max)))
                )
                for _ in range(episodes)
            )
        )


ALL_KINDS: Final[tuple[type[Fault], ...]] = (
    Cut,
    HalfOpen,
    Partition,
    Slow,
    Refuse,
    Pause,
    Crash,
    Drift,
    Jump,
)


class _Drawer:
    """Chooses the parameters of faults at random."""

    def __init__(self, rng: random.Random, servers: Sequence[str], clients: Sequence[str]) -> None:
        self._rng = rng
        self._servers = servers
        self._hosts = [*servers, *clients]

    def fault(self, kind: type[Fault]) -> Fault:
        rng = self._rng
        at_s = rng.uniform(0.0, _SPREAD_S)
        lasts_s = rng.uniform(*(_LONG_S if rng.random() < _LONG_CHANCE else _SHORT_S))
        server = rng.choice(self._servers)
        host = rng.choice(self._hosts)
        peer = rng.choice([name for name in self._hosts if name != server] or [server])
        if kind is Cut:
            return Cut(at_s, 0.0, peer, server)
        if kind is HalfOpen:
            loser, other = rng.sample((peer, server), 2)
            return HalfOpen(at_s, 0.0, loser, other)
        if kind is Partition:
            return Partition(at_s, lasts_s, peer, server, rng.choice(_DIRECTIONS))
        if kind is Slow:
            if rng.random() < 0.5:
                return Slow(at_s, lasts_s, peer, server, rng.uniform(*_LATENCY_S), None)
            return Slow(at_s, lasts_s, peer, server, None, rng.uniform(*_BYTES_PER_S))
        if kind is Refuse:
            return Refuse(at_s, lasts_s, server)
        if kind is Pause:
            return Pause(at_s, lasts_s, host)
        if kind is Crash:
            return Crash(at_s, lasts_s, host, rng.choice(_CRASH_MODES))
        if kind is Drift:
            return Drift(at_s, lasts_s, host, rng.uniform(1 - _DRIFT, 1 + _DRIFT))
        if kind is FullDisk:
            return FullDisk(at_s, lasts_s, server, rng.randint(0, _ROOM_BYTES_MAX))
        check(kind is Jump, f"no way to draw {kind}")
        return Jump(at_s, 0.0, host, rng.uniform(-_JUMP_S, _JUMP_S))
