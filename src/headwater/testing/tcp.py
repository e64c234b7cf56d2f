"""Simulated TCP: the kernels at both ends, and the network between them.

A connection is two `Socket`s joined by two `Lane`s, one per direction. A lane keeps its bytes in
order and loses none while the connection lives: a partition delays them, a cut ends the
connection after a prefix of them. The buffers of asyncio in the process are not part of this; those
of the kernels are, and they are bounded, so that a reader that does not read stops the writer.

```
transport ─ send ─▶ Socket ─▶ Lane: in flight over a Link ─▶ Socket: unread ─ recv ─▶ transport
             ▲                                                           │
             └────────────── room again, over the link back ◀────────────┘
```

Nothing here runs on behalf of a process: kernels work while their host is paused.
"""

import errno
import os
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from headwater.testing.loop import KernelEvent, SimLoop
from headwater.testing.trace import Trace

# On a link with limited bandwidth bytes trickle in pieces of this much transmission time.
_PIECE_S: Final = 0.02
_PIECE_BYTES_MIN: Final = 64


class Control(Enum):
    """Segments that carry no bytes."""

    ESTABLISHED = "established"
    FIN = "fin"
    RST = "rst"


@dataclass(frozen=True)
class NetworkSettings:
    """The behaviour of the network without faults."""

    latency_s: float = 0.0005
    """The least time from one host to another."""

    jitter_s: float = 0.0005
    """The most that is added to each segment's latency."""

    loopback_latency_s: float = 20e-6
    """The time from a host to itself."""

    socket_buffer_bytes: int = 256 * 1024
    """Bytes of one direction in both kernels: sent and not yet read by the process."""

    read_bytes_max: int = 256 * 1024
    """The most that one read returns, as in asyncio."""

    partial_read_chance: float = 0.2
    """The chance that a read returns a random part of the bytes."""

    retransmission_limit_s: float = 924.6
    """The time that unacknowledged bytes keep a connection alive: Linux, tcp_retries2 = 15."""

    connect_limit_s: float = 127.0
    """The time that a connect waits for an answer: Linux, tcp_syn_retries = 6."""

    recovery_s: float = 0.5
    """The most that passes between the end of a partition and the next retransmission."""


class Link:
    """The path from one host to another; the path back is another link."""

    __slots__ = (
        "_busy_until_s",
        "blocks",
        "bytes_per_s",
        "held",
        "jitter_s",
        "lanes",
        "latency_s",
        "source",
        "target",
    )

    def __init__(self, source: str, target: str, latency_s: float, jitter_s: float) -> None:
        self.source = source
        self.target = target
        self.latency_s = latency_s
        self.jitter_s = jitter_s
        self.bytes_per_s: float | None = None
        self._busy_until_s = 0.0
        # Reasons why nothing passes: a partition, a host without power. Insertion-ordered.
        self.blocks: dict[str, None] = {}
        # Lanes and packets to notify when this link is blocked or free again.
        self.lanes: dict[Lane, None] = {}
        self.held: list[Callable[[], object]] = []

    def delay_s(self, rng: random.Random) -> float:
        """The time that the next small packet takes."""
        return self.latency_s + self.jitter_s * rng.random()

    def arrival_s(self, now_s: float, size: int, rng: random.Random) -> float:
        """When `size` bytes sent now arrive, behind all other bytes on the link."""
        if self.bytes_per_s is not None:
            now_s = max(now_s, self._busy_until_s) + size / self.bytes_per_s
            self._busy_until_s = now_s
        return now_s + self.delay_s(rng)

    def piece_bytes(self) -> int | None:
        """The size of pieces on a link with limited bandwidth; None without a limit."""
        if self.bytes_per_s is None:
            return None
        return max(_PIECE_BYTES_MIN, int(self.bytes_per_s * _PIECE_S))


class Wire(Protocol):
    """The loop, random numbers, trace and settings that sockets and lanes share."""

    loop: SimLoop
    rng: random.Random
    trace: Trace
    settings: NetworkSettings


class Reader(Protocol):
    """The process's end of a socket. Calls only announce; the process acts in its own turn."""

    def readable(self) -> None:
        """Bytes, an end of file or an error can be read."""
        ...

    def writable(self) -> None:
        """There is room for more bytes, or an error to fetch."""
        ...

    def orphaned(self) -> None:
        """The process is dead: act no more."""
        ...


class _Segment:
    __slots__ = ("arrival_s", "payload", "sent_s")

    def __init__(self, sent_s: float, arrival_s: float, payload: bytearray | Control) -> None:
        self.sent_s = sent_s
        self.arrival_s = arrival_s
        self.payload = payload


class Lane:
    """One direction of a connection."""

    __slots__ = (
        "_give_up",
        "_held_acks",
        "_in_flight",
        "_last_arrival_s",
        "_outstanding",
        "_timer",
        "_wire",
        "ack_link",
        "cut_after",
        "link",
        "receiver",
        "sender",
        "severed",
    )

    sender: "Socket"
    receiver: "Socket"

    def __init__(self, wire: Wire, link: Link, ack_link: Link) -> None:
        self._wire = wire
        self.link = link
        self.ack_link = ack_link
        self._in_flight: deque[_Segment] = deque()
        self._last_arrival_s = 0.0
        self._outstanding = 0
        self._held_acks = 0
        self._timer: KernelEvent | None = None
        self._give_up: KernelEvent | None = None
        self.severed = False
        # Bytes until the connection is cut, counted down as they are sent.
        self.cut_after: int | None = None
        link.lanes[self] = None
        ack_link.lanes[self] = None

    # Sending

    def room(self) -> int:
        """The number of bytes that the kernels still accept."""
        return self._wire.settings.socket_buffer_bytes - self._outstanding

    def send(self, data: bytes) -> None:
        """Send bytes."""
        if self.severed:
            return
        if self.cut_after is not None:
            data = data[: self.cut_after]
            self.cut_after -= len(data)
        if data:
            self._outstanding += len(data)
            piece = self.link.piece_bytes()
            if piece is None or len(data) <= piece:
                self._put_bytes(data)
            else:
                for start in range(0, len(data), piece):
                    self._put_bytes(data[start : start + piece])
        if self.cut_after == 0:
            self.sender.connection.sever(keep=self)

    def control(self, control: Control) -> None:
        """Send a segment without bytes, behind the bytes."""
        if not self.severed:
            self.severed = control is Control.RST
            self._put(control, 0)

    def _put_bytes(self, data: bytes) -> None:
        in_flight = self._in_flight
        if in_flight and in_flight[-1].sent_s == self._wire.loop.now_s():
            last = in_flight[-1].payload
            if isinstance(last, bytearray) and self.link.bytes_per_s is None:
                last += data
                return
        self._put(bytearray(data), len(data))

    def _put(self, payload: bytearray | Control, size: int) -> None:
        now_s = self._wire.loop.now_s()
        arrival_s = self.link.arrival_s(now_s, size, self._wire.rng)
        self._last_arrival_s = max(self._last_arrival_s, arrival_s)
        self._in_flight.append(_Segment(now_s, self._last_arrival_s, payload))
        if self._timer is None:
            self._await_head()
        if self.link.blocks or self.ack_link.blocks:
            self._begin_giving_up()

    # Arriving

    def _await_head(self) -> None:
        if self._in_flight and not self.link.blocks:
            arrival_s = self._in_flight[0].arrival_s
            self._timer = self._wire.loop.call_kernel_at(arrival_s, self._arrive)

    def _arrive(self) -> None:
        self._timer = None
        now_s = self._wire.loop.now_s()
        in_flight = self._in_flight
        while in_flight and in_flight[0].arrival_s <= now_s:
            self.receiver.receive(in_flight.popleft().payload)
        self._await_head()

    def consumed(self, size: int) -> None:
        """Note that the receiving process has read `size` bytes, which makes room."""
        if self.ack_link.blocks:
            self._held_acks += size
        elif self.sender.waits_for_room:
            delay_s = self.ack_link.delay_s(self._wire.rng)
            loop = self._wire.loop
            loop.call_kernel_at(loop.now_s() + delay_s, self._acked, size)
        else:
            self._outstanding -= size

    def _acked(self, size: int) -> None:
        self._outstanding -= size
        self.sender.has_room()

    # Trouble

    def blocked(self) -> None:
        """React to a link that was blocked."""
        if self.link.blocks and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._in_flight:
            self._begin_giving_up()

    def unblocked(self, resumes_s: float) -> None:
        """React to a link that was unblocked; retransmissions begin at `resumes_s`."""
        if not self.link.blocks and self._in_flight and self._timer is None:
            for segment in self._in_flight:
                segment.arrival_s = max(segment.arrival_s, resumes_s)
            self._last_arrival_s = max(self._last_arrival_s, resumes_s)
            self._await_head()
        if not self.ack_link.blocks and self._held_acks:
            size, self._held_acks = self._held_acks, 0
            self._wire.loop.call_kernel_at(resumes_s, self._acked, size)
        if not self.link.blocks and not self.ack_link.blocks and self._give_up is not None:
            self._give_up.cancel()
            self._give_up = None

    def _begin_giving_up(self) -> None:
        if self._give_up is None:
            limit_s = self._wire.settings.retransmission_limit_s
            loop = self._wire.loop
            self._give_up = loop.call_kernel_at(loop.now_s() + limit_s, self._given_up)

    def _given_up(self) -> None:
        self._give_up = None
        self.forget_in_flight()
        self.sender.fail(TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))

    def forget_in_flight(self) -> None:
        """Lose all bytes under way; only for connections that are over at the sending end."""
        self._in_flight.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def truncate(self) -> None:
        """Keep a random prefix of the bytes under way, and nothing else."""
        total = sum(len(s.payload) for s in self._in_flight if isinstance(s.payload, bytearray))
        left = self._wire.rng.randint(0, total)
        kept: deque[_Segment] = deque()
        for segment in self._in_flight:
            if isinstance(segment.payload, bytearray):
                del segment.payload[left:]
                left -= len(segment.payload)
                if segment.payload:
                    kept.append(segment)
            elif segment.payload is Control.ESTABLISHED:
                kept.append(segment)
        self.forget_in_flight()
        self._in_flight = kept
        self._await_head()

    def deliver_now(self) -> None:
        """Let everything under way arrive at this moment."""
        while self._in_flight:
            self.receiver.receive(self._in_flight.popleft().payload)

    def leave_links(self) -> None:
        """Leave the links of a connection that is over at both ends."""
        self.forget_in_flight()
        if self._give_up is not None:
            self._give_up.cancel()
        self.link.lanes.pop(self, None)
        self.ack_link.lanes.pop(self, None)


class Socket:
    """One end of a connection, in the kernel of its host."""

    __slots__ = (
        "_wire",
        "closed",
        "connection",
        "eof",
        "error",
        "fin_sent",
        "lane_in",
        "lane_out",
        "local",
        "reader",
        "remote",
        "unread",
        "waits_for_room",
    )

    def __init__(
        self,
        wire: Wire,
        connection: "Connection",
        local: tuple[str, int],
        remote: tuple[str, int],
        lane_out: Lane,
        lane_in: Lane,
    ) -> None:
        self._wire = wire
        self.connection = connection
        self.local = local
        self.remote = remote
        self.lane_out = lane_out
        self.lane_in = lane_in
        lane_out.sender = self
        lane_in.receiver = self
        self.reader: Reader | None = None
        self.unread = bytearray()
        self.eof = False
        self.error: OSError | None = None
        self.closed = False
        self.fin_sent = False
        self.waits_for_room = False

    # Calls of the process

    def send(self, data: bytes) -> int:
        """Accept as many bytes as there is room for. Raises the connection's error."""
        if self.error is not None:
            raise self.error
        if self.fin_sent:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        size = min(len(data), self.lane_out.room())
        self.waits_for_room = size < len(data)
        if size:
            self.lane_out.send(data[:size])
        return size

    def receive_size(self) -> int:
        """The size of the next read: all unread bytes, or a random part."""
        settings = self._wire.settings
        size = min(len(self.unread), settings.read_bytes_max)
        rng = self._wire.rng
        if size > 1 and rng.random() < settings.partial_read_chance:
            return rng.randrange(1, size)
        return size

    def take(self, size: int) -> bytes:
        """Read `size` of the unread bytes."""
        data = bytes(self.unread[:size])
        del self.unread[:size]
        self.lane_in.consumed(size)
        connection = self.connection
        trace = self._wire.trace
        trace.note_bytes(self._wire.loop.now_s(), "read", connection.label(self), data)
        return data

    def shutdown(self) -> None:
        """Close the sending direction."""
        if not self.fin_sent and not self.closed and self.error is None:
            self.fin_sent = True
            self.lane_out.control(Control.FIN)

    def close(self) -> None:
        """Close the socket. Unread bytes turn the end into a reset, as in Linux."""
        if self.closed:
            return
        if self.error is None:
            if self.unread:
                self.lane_out.control(Control.RST)
            else:
                self.shutdown()
        self._gone("close")

    # Calls of the network

    def receive(self, payload: bytearray | Control) -> None:
        """Process a segment that arrived."""
        if self.closed or self.error is not None:
            # The socket is closed: the answer to anything but a reset is a reset.
            if payload is not Control.RST:
                self.lane_out.control(Control.RST)
            return
        if isinstance(payload, bytearray):
            self.unread += payload
        elif payload is Control.FIN:
            self.eof = True
        elif payload is Control.RST:
            self.fail(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
            return
        else:
            self.connection.established()
        if self.reader is not None:
            self.reader.readable()

    def has_room(self) -> None:
        """Announce room after the other end has read."""
        if self.waits_for_room and self.reader is not None and not self.closed:
            self.reader.writable()

    def fail(self, error: OSError) -> None:
        """End the connection at this end. Bytes that arrived before stay readable."""
        if self.closed or self.error is not None:
            return
        self.error = error
        self._wire.trace.note(
            self._wire.loop.now_s(), "lost", f"{self.connection.label(self)} {error.errno}"
        )
        if self.reader is not None:
            self.reader.readable()
            self.reader.writable()

    def orphan(self) -> None:
        """Detach the socket from a process that died."""
        if self.reader is not None:
            self.reader.orphaned()
            self.reader = None

    def vanish(self) -> None:
        """Drop the socket of a host that lost power, without a reset to the other end."""
        self.lane_out.truncate()
        if not self.lane_out.link.blocks:
            self.lane_out.deliver_now()
        self.lane_out.forget_in_flight()
        self._gone("vanish")

    def _gone(self, how: str) -> None:
        self.closed = True
        self.reader = None
        self.unread.clear()
        self._wire.trace.note(self._wire.loop.now_s(), how, self.connection.label(self))
        self.connection.end_closed()


class Connection:
    """Two sockets, and the lanes between them."""

    __slots__ = ("_on_established", "_on_over", "_wire", "client", "client_host", "number",
                 "port", "server", "server_host")  # fmt: skip

    def __init__(
        self,
        wire: Wire,
        number: int,
        links: tuple[Link, Link],
        addresses: tuple[tuple[str, int], tuple[str, int]],
        on_established: Callable[["Connection"], object],
        on_over: Callable[["Connection"], object],
    ) -> None:
        """`links` lead to the server and back; `addresses` are the client's and the server's."""
        there, back = links
        client, server = addresses
        to_server, to_client = Lane(wire, there, back), Lane(wire, back, there)
        self._wire = wire
        self.number = number
        self.client_host = there.source
        self.server_host = there.target
        self.port = server[1]
        self.client = Socket(wire, self, client, server, to_server, to_client)
        self.server = Socket(wire, self, server, client, to_client, to_server)
        self._on_established = on_established
        self._on_over = on_over

    def __repr__(self) -> str:
        return f"<Connection #{self.number} {self.client_host} to {self.server_host}:{self.port}>"

    def label(self, end: Socket) -> str:
        """The name of one end in the trace."""
        if end is self.client:
            return f"#{self.number} {self.client_host}<{self.server_host}"
        return f"#{self.number} {self.server_host}<{self.client_host}"

    def established(self) -> None:
        """The last packet of the handshake reached the server."""
        self._on_established(self)

    def sever(self, keep: Lane | None = None) -> None:
        """Cut the connection: a prefix of the bytes arrives, then a reset, at both ends.

        The prefix is random for each direction, except for `keep`, where all sent bytes arrive.
        """
        for lane in (self.client.lane_out, self.server.lane_out):
            if not lane.severed:
                if lane is not keep:
                    lane.truncate()
                lane.control(Control.RST)

    def end_closed(self) -> None:
        """Note a closed end; with both closed the connection is over."""
        if self.client.closed and self.server.closed:
            self.client.lane_out.leave_links()
            self.server.lane_out.leave_links()
            self._on_over(self)
