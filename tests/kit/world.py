"""A Node in a world without sockets, threads or time of its own.

Everything here happens on the word of a test: `settle` runs what the node planned for this turn,
`advance` moves the clock and fires what falls due, `finish_checks` does the work that was handed to
other threads. Connections remember every byte, and can be told to stop reading.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import msgspec

from headwater.base.clock import NS_PER_S
from headwater.runtime.environment import Environment, TimerHandle
from headwater.runtime.sockets.client_connection import WRITE_HIGH_BYTES
from headwater.server.configuration.options import Options
from headwater.server.core.client import Client
from headwater.server.log import Log
from headwater.server.node import Node
from headwater.testing.marks import SimMarks

T = TypeVar("T")

# 2026-01-02 03:04:05 UTC, and a machine that has been up for a day.
WALL_START_NS: Final = 1_767_323_045 * NS_PER_S
UPTIME_NS: Final = 86_400 * NS_PER_S


class ManualClock:
    """Both clocks, moved by hand."""

    def __init__(self, monotonic_ns: int = UPTIME_NS) -> None:
        self._start_ns = monotonic_ns
        self.passed_ns = 0
        # The time by which the wall clock was set forward.
        self.set_forward_ns = 0

    def monotonic_ns(self) -> int:
        return self._start_ns + self.passed_ns

    def wall_ns(self) -> int:
        return WALL_START_NS + self.passed_ns + self.set_forward_ns


class SeededEntropy:
    """Random numbers of a fixed seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)


def _nothing() -> None:
    """The call of a cancelled timer."""


class ManualTimer:
    """A call that waits for its time, or for the end of the turn."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True
        # As timers of an event loop, one that is cancelled holds nothing until its time comes.
        self._call = _nothing

    def fire(self) -> None:
        if not self.cancelled:
            call = self._call
            self.cancel()
            call()


class ManualScheduler:
    """Turns, timers and work for other threads, all run by the test."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._soon: deque[ManualTimer] = deque()
        self._later: list[tuple[int, int, ManualTimer]] = []
        self._timers_made = 0
        self.offloaded: list[Callable[[], object]] = []

    def call_soon(self, call: Callable[[], object]) -> TimerHandle:
        timer = ManualTimer(call)
        self._soon.append(timer)
        return timer

    def call_later(self, delay_s: float, call: Callable[[], object]) -> TimerHandle:
        timer = ManualTimer(call)
        self._timers_made += 1
        due_ns = self._clock.passed_ns + round(delay_s * NS_PER_S)
        heapq.heappush(self._later, (due_ns, self._timers_made, timer))
        return timer

    def offload(self, work: Callable[[], T], done: Callable[[T], object]) -> None:
        self.offloaded.append(lambda: done(work()))

    @property
    def waiting(self) -> int:
        """Timers that would still fire."""
        return sum(not timer.cancelled for _, _, timer in self._later)

    def run_turn(self) -> None:
        """Only calls that were planned before; what they plan belongs to the next turn."""
        for _ in range(len(self._soon)):
            self._soon.popleft().fire()

    def run_turns(self) -> None:
        while self._soon:
            self._soon.popleft().fire()

    def advance(self, seconds: float) -> None:
        end_ns = self._clock.passed_ns + round(seconds * NS_PER_S)
        self.run_turns()
        while self._later and self._later[0][0] <= end_ns:
            due_ns, _, timer = heapq.heappop(self._later)
            self._clock.passed_ns = max(self._clock.passed_ns, due_ns)
            timer.fire()
            self.run_turns()
        self._clock.passed_ns = end_ns

    def fire_due(self) -> None:
        """Fire the timers that are due by now, and neither those nor the turns that they plan."""
        due = []
        while self._later and self._later[0][0] <= self._clock.passed_ns:
            due.append(heapq.heappop(self._later)[2])
        for timer in due:
            timer.fire()

    def finish_offloaded(self) -> None:
        work, self.offloaded = self.offloaded, []
        for call in work:
            call()
        self.run_turns()


class FakeConnection:
    """A socket whose other end is the test."""

    def __init__(self, scheduler: ManualScheduler, port: int) -> None:
        self.peer_host = "127.0.0.1"
        self.peer_port = port
        self._scheduler = scheduler
        self._buffer = bytearray()
        self._above_high = False
        self._peer_reads = True
        self.node: Node | None = None
        self.client: Client | None = None
        self.received = bytearray()
        # Bytes that the peer sent while the server was not reading.
        self.unread = bytearray()
        self.writes = 0
        self.reading = True
        # "", "closed" after all was written, or "aborted".
        self.ended = ""

    # --- the server's side ---------------------------------------------------------------------

    def write(self, data: bytes) -> int:
        if self.ended:
            return len(self._buffer)
        self.writes += 1
        if self._peer_reads:
            self.received += data
            return len(self._buffer)
        self._buffer += data
        if len(self._buffer) > WRITE_HIGH_BYTES and not self._above_high:
            self._above_high = True
            self._tell(lambda node, client: node.connections.unwritable(client))
        return len(self._buffer)

    def buffered_bytes(self) -> int:
        return len(self._buffer)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True
        self._scheduler.call_soon(lambda: self.deliver(b""))

    def close(self) -> None:
        if not self.ended:
            self.ended = "closed"
            self.received += self._buffer
            self._lose()

    def abort(self) -> None:
        if not self.ended:
            self.ended = "aborted"
            self._buffer.clear()
            self._lose()

    # --- the test's side -----------------------------------------------------------------------

    def stop_reading(self) -> None:
        """The peer reads no more: all that is written stays in the buffer."""
        self._peer_reads = False

    def start_reading(self) -> None:
        """The peer reads all that waited for it."""
        self._peer_reads = True
        self.received += self._buffer
        self._buffer.clear()
        if self._above_high:
            self._above_high = False
            self._tell(lambda node, client: node.connections.writable(client))

    def deliver(self, data: bytes) -> None:
        """The peer has sent this; the server gets it when it reads."""
        self.unread += data
        if self.unread and self.reading and not self.ended:
            arrived = bytes(self.unread)
            self.unread.clear()
            self._tell(lambda node, client: node.connections.receive(client, arrived))

    def leave(self) -> None:
        """The peer closes the connection."""
        if not self.ended:
            self.ended = "left"
            self._lose()

    def _lose(self) -> None:
        self._scheduler.call_soon(self._lost)

    def _lost(self) -> None:
        self._tell(lambda node, client: node.connections.lost(client))
        # As a real connection: what it leads to leads back to it.
        self.node = self.client = None

    def _tell(self, what: Callable[[Node, Client], None]) -> None:
        if self.node is not None and self.client is not None:
            what(self.node, self.client)


@dataclass
class Peer:
    """One client, seen from outside."""

    connection: FakeConnection
    client: Client
    world: "World"
    _taken: int = 0

    def send(self, data: bytes) -> None:
        """Hand bytes to the server and let the turn end."""
        self.push(data)
        self.world.settle()

    def push(self, data: bytes) -> None:
        """Hand bytes to the server within a turn that goes on."""
        self.connection.deliver(data)

    def take(self) -> bytes:
        """The bytes that arrived since the last call."""
        data = bytes(self.connection.received[self._taken :])
        self._taken = len(self.connection.received)
        return data

    def ask(self, data: bytes) -> bytes:
        """Send, and take what arrives in return."""
        self.take()
        self.send(data)
        return self.take()

    @property
    def reason(self) -> str:
        """Why the server closed the connection; empty while it is open."""
        return self.client.close_reason


class World:
    """One node and its clients; `environment` are parts of it that a test brings along."""

    def __init__(
        self, options: Options | None = None, uptime_ns: int = UPTIME_NS, **environment: Any
    ) -> None:
        self.clock = ManualClock(uptime_ns)
        self.scheduler = ManualScheduler(self.clock)
        self.log_lines: list[str] = []
        log = Log(lambda line: self.log_lines.append(line.decode()), self.clock, pid=7)
        log.time_on = False
        log.trace_on = options is not None and options.trace
        nothing = cast(Any, None)
        parts: dict[str, Any] = {
            "clock": self.clock,
            "entropy": SeededEntropy(),
            "files": nothing,
            "network": nothing,
            "scheduler": self.scheduler,
            "process": nothing,
            "disk": nothing,
            "boot_id": "",
            "marks_in": lambda folder: SimMarks(),
            "find_zone": nothing,
            "load_tls": nothing,
        }
        self.node = Node(options or Options(), Environment(**parts | environment), log)
        self._connections = 0

    def open(self) -> Peer:
        """A connection that has said nothing yet."""
        self._connections += 1
        connection = FakeConnection(self.scheduler, 40_000 + self._connections)
        connection.node = self.node
        client = connection.client = self.node.connections.accept(connection)
        self.settle()
        return Peer(connection, client, self)

    def connect(self, document: bytes = b'{"verbose":false,"pedantic":false}') -> Peer:
        """A connection that has sent CONNECT; what it was told so far is taken."""
        peer = self.open()
        peer.ask(b"CONNECT %b\r\n" % document)
        return peer

    def modern(self, **fields: object) -> Peer:
        """A connection as today's client libraries make them."""
        return self.connect(connect_document(**fields))

    def settle(self) -> None:
        """Let the turn end: what was queued is written."""
        self.scheduler.run_turns()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.scheduler.advance(seconds)

    def finish_checks(self) -> None:
        """Let other threads finish what they were given."""
        self.scheduler.finish_offloaded()


_MODERN: Final = {
    "verbose": False,
    "pedantic": False,
    "protocol": 1,
    "echo": True,
    "headers": True,
    "no_responders": True,
}


def connect_document(**fields: object) -> bytes:
    """CONNECT of a modern client library, with changes; `password` stands for the key `pass`."""
    said = {("pass" if name == "password" else name): value for name, value in fields.items()}
    return msgspec.json.encode(_MODERN | said)


def infos_in(data: bytes) -> list[dict[str, Any]]:
    """Every INFO among the bytes that a client got, decoded."""
    lines = [line for line in data.split(b"\r\n") if line.startswith(b"INFO ")]
    return [msgspec.json.decode(line[5:]) for line in lines]
