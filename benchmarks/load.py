"""Throughput: one process sends prebuilt blobs of messages, another counts the bytes delivered.

Neither inspects single messages while the clock runs, so that both stay far faster than any server,
which has to. Delivery is exact: sizes are known beforehand, and a round in which a byte is missing
or too many fails. The sender stays a few blobs ahead of the receiver and not more, because a server
may cut off a subscriber that does not keep up.
"""

import selectors
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.processes import Line, child, context, report, reports, wait_for_parent
from benchmarks.servers import RELAY, BenchmarkError, Server
from benchmarks.wire import PING, READ_BYTES, STALL_S, dial, subscribe

BLOB_BYTES: Final = 1 << 20
BLOBS_AHEAD: Final = 8
END_SUBJECT: Final = "the.end"
END_BODY: Final = b"END"
TAIL_BYTES: Final = 64
GO: Final = "go"
# The time for a subscription to become known to the other servers of a cluster.
INTEREST_S: Final = 0.3


@dataclass(frozen=True)
class Traffic:
    """The published messages. Message number n goes to `subject.format(n % subjects)`."""

    subject: str
    subscription: str
    sizes: tuple[int, ...]
    subjects: int = 1
    is_distinct: bool = False
    """Every blob has subjects of its own: numbers continue, and `subjects` is the total."""

    @property
    def messages_per_blob(self) -> int:
        """Whole cycles of sizes and, unless they are distinct, of subjects; about a megabyte."""
        cycle = len(self.sizes) if self.is_distinct else max(self.subjects, len(self.sizes))
        average = sum(self.sizes) / len(self.sizes) + len(self.subject) + len("PUB  1024\r\n\r\n")
        return max(1, round(BLOB_BYTES / average / cycle)) * cycle

    def blob(self, index: int, operation: str = "PUB {} {}") -> bytes:
        """The messages of blob `index`, as sent, or with "MSG {} 1 {}" as delivered."""
        count = self.messages_per_blob
        first = index * count if self.is_distinct else 0
        # Bodies differ as real ones do: tricks could speed up equal ones.
        filler = b"x" * max(self.sizes)
        parts = []
        for number in range(first, first + count):
            size = self.sizes[number % len(self.sizes)]
            subject = self.subject.format(number % self.subjects)
            parts.append(operation.format(subject, size).encode())
            parts.append((b"%08d" % number + filler)[:size])
        parts.append(b"")
        return b"\r\n".join(parts)


@dataclass(frozen=True)
class LoadResult:
    """One round."""

    messages: int
    seconds: float
    """From the first byte sent to the last message received, by the slowest subscriber."""
    generator_cpu_s: float
    server_cpu_s: float

    @property
    def per_second(self) -> float:
        return self.messages / self.seconds


@dataclass(frozen=True)
class Plan:
    """The parameters of one round, for both processes."""

    port: int
    subscriber_port: int
    traffic: Traffic
    blob_first: int
    blob_count: int
    subscribers: int
    delivered_blob_bytes: int
    end_bytes: int


def run_round(
    server: Server,
    traffic: Traffic,
    blob_first: int,
    blob_count: int,
    subscribers: int = 1,
    beyond: Server | None = None,
) -> LoadResult:
    """Publish blobs to `subscribers` connections and wait until all have everything.

    The subscribers may be clients of another server `beyond`.
    """
    plan = plan_round(server, traffic, blob_first, blob_count, subscribers)
    credits_in, credits_out = context.Pipe(duplex=False)
    servers = [server] if beyond is None else [server, beyond]
    if beyond is not None:
        plan = replace(plan, subscriber_port=beyond.port)
    cpu_before = sum(each.cpu_s() for each in servers)
    with credits_in, credits_out, child(receive, plan, credits_out) as receiver:
        report(receiver)
        if beyond is not None:
            # The publisher's server has to hear of the subscribers.
            time.sleep(INTEREST_S)
        with child(send, plan, credits_in) as sender:
            report(sender)
            sender.send(GO)
            (started, sender_cpu_s), (ended, receiver_cpu_s) = reports(sender, receiver)
    return LoadResult(
        messages=traffic.messages_per_blob * blob_count,
        seconds=ended - started,
        generator_cpu_s=sender_cpu_s + receiver_cpu_s,
        server_cpu_s=sum(each.cpu_s() for each in servers) - cpu_before,
    )


def plan_round(
    server: Server, traffic: Traffic, blob_first: int, blob_count: int, subscribers: int
) -> Plan:
    """The plan of a round, with a blob's delivered size: the relay does not turn PUB into MSG."""
    operation, end = "MSG {} 1 {}", f"MSG {END_SUBJECT} 2 {len(END_BODY)}\r\n"
    if server.name == RELAY:
        operation, end = "PUB {} {}", f"PUB {END_SUBJECT} {len(END_BODY)}\r\n"
    return Plan(
        port=server.port,
        subscriber_port=server.port,
        traffic=traffic,
        blob_first=blob_first,
        blob_count=blob_count,
        subscribers=subscribers,
        delivered_blob_bytes=len(traffic.blob(blob_first, operation)),
        end_bytes=len(end) + len(END_BODY) + 2,
    )


def send(parent: Line, plan: Plan, credits_in: Line) -> None:
    """The publishing process: reports the moment of the first byte, and its processor time."""
    indexes = range(plan.blob_first, plan.blob_first + plan.blob_count)
    if plan.traffic.is_distinct:
        blobs = [plan.traffic.blob(index) for index in indexes]
    else:
        blobs = [plan.traffic.blob(0)] * plan.blob_count
    with dial(plan.port) as connection:
        parent.send("built")
        wait_for_parent(parent)
        started, cpu_before = time.monotonic(), time.process_time()
        for number, blob in enumerate(blobs):
            if number >= BLOBS_AHEAD:
                if not credits_in.poll(STALL_S):
                    raise BenchmarkError(f"nothing was delivered for {STALL_S:g} s")
                credits_in.recv_bytes()
            connection.sendall(blob)
        end = f"PUB {END_SUBJECT} {len(END_BODY)}\r\n".encode() + END_BODY + b"\r\n"
        connection.sendall(end)
        parent.send((started, time.process_time() - cpu_before))
        # Held open until the round is over: a server may drop the rest of a closed connection.
        wait_for_parent(parent)


def receive(parent: Line, plan: Plan, credits_out: Line) -> None:
    """The receiving process: reports the moment all had arrived, and its processor time."""
    expected = plan.delivered_blob_bytes * plan.blob_count
    subscription = subscribe((plan.traffic.subscription, END_SUBJECT))
    counters = [
        Counter(dial(plan.subscriber_port, subscription), expected) for _ in range(plan.subscribers)
    ]
    parent.send("subscribed")
    cpu_before = time.process_time()
    buffer = memoryview(bytearray(READ_BYTES))
    credited = 0
    for counter in arrivals(counters):
        counter.read(buffer)
        blobs_done = min(each.received for each in counters) // plan.delivered_blob_bytes
        while credited < min(blobs_done, plan.blob_count - BLOBS_AHEAD):
            credits_out.send_bytes(b"1")
            credited += 1
    ended = time.monotonic()
    for counter in counters:
        counter.verify(plan.end_bytes)
        counter.connection.close()
    parent.send((ended, time.process_time() - cpu_before))


def arrivals(counters: "list[Counter]") -> "Iterator[Counter]":
    """Counters that have bytes to read, until all have seen the end."""
    if len(counters) == 1:
        while not counters[0].is_done:
            yield counters[0]
        return
    with selectors.DefaultSelector() as selector:
        for counter in counters:
            selector.register(counter.connection, selectors.EVENT_READ, counter)
        while not all(counter.is_done for counter in counters):
            ready = selector.select(STALL_S)
            if not ready:
                raise BenchmarkError(f"nothing arrived for {STALL_S:g} s")
            for key, _ in ready:
                yield key.data


class Counter:
    """Counts the bytes of one subscriber, and recognises the end."""

    def __init__(self, connection: socket.socket, expected: int) -> None:
        self.connection = connection
        self.received = 0
        self.is_done = False
        self._expected = expected
        self._tail = b""

    def read(self, buffer: memoryview) -> None:
        """Read and count the bytes that have arrived."""
        size = self.connection.recv_into(buffer)
        if not size:
            raise BenchmarkError(
                f"the server cut the subscriber off after {self.received} of {self._expected} "
                f"bytes, saying {self._tail!r}"
            )
        self.received += size
        self._tail = (self._tail + bytes(buffer[max(0, size - TAIL_BYTES) : size]))[-TAIL_BYTES:]
        if self.received > self._expected and END_BODY + b"\r\n" in self._tail:
            self.is_done = True

    def verify(self, end_bytes: int) -> None:
        """Raises BenchmarkError unless all bytes came exactly once, apart from a server's PINGs."""
        surplus = self.received - self._expected - end_bytes
        if surplus < 0 or surplus % len(PING):
            raise BenchmarkError(f"received {surplus:+} bytes against what was published")
