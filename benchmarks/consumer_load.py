"""Consuming from a stream as fast as the server delivers: pull or push, with acks or without.

The client inspects no single message while the clock runs: it counts reply subjects in the bytes it
has read and, to acknowledge, finds them by one pattern and joins them into one write. The client's
cost is reported beside the server's, so that a round in which the client was the bottleneck shows.

A round with acks ends when the server has answered the last of them: then all are processed.
"""

import json
import re
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Final

from benchmarks.load import LoadResult
from benchmarks.servers import BenchmarkError, Server
from benchmarks.stream_load import INBOX, request
from benchmarks.wire import READ_BYTES, STALL_S, dial

STREAM: Final = "B"
ACK_PREFIX: Final = b"$JS.ACK."
ACK_SUBJECT: Final = re.compile(rb"\$JS\.ACK\.[^ \r]+")
# Also in a heartbeat, which repeats the subject that was not answered.
FLOW_SUBJECT: Final = re.compile(rb"\$JS\.FC\.[^ \r]+")
ACK_END: Final = b" 4\r\n+ACK\r\n"
REFUSAL: Final = re.compile(rb"NATS/1\.0 (?:4|503)[^\r]*")
PULL_EXPIRES_NS: Final = int(STALL_S * 1e9)
ORDERED: Final[dict[str, object]] = {
    "ack_policy": "none",
    "flow_control": True,
    "idle_heartbeat": 5_000_000_000,
    "max_deliver": 1,
    "mem_storage": True,
    "num_replicas": 1,
}

# Requests for consumers that are sent before their answers have come.
MADE_AT_ONCE: Final = 50

_numbers: Final = count(1)


@dataclass(frozen=True)
class Pulling:
    """The pulling clients: workers that each request a batch when half of one is left."""

    batch: int
    acks: bool
    workers: int = 1


class Receiver:
    """One connection on which the messages of a consumer arrive."""

    def __init__(self, connection: socket.socket, acks: bool) -> None:
        self.connection = connection
        self.last_ack = b""
        # Messages that were requested and have not come, if they are counted.
        self.outstanding = 0
        self._acks = acks
        self._tail = b""

    def read(self) -> int:
        """Read and acknowledge messages. Returns their number."""
        chunk = self.connection.recv(READ_BYTES)
        if not chunk:
            raise BenchmarkError(f"the server closed the connection: {self._tail[-200:]!r}")
        data = self._tail + chunk
        # Only complete control lines are processed.
        end = data.rfind(b"\r\n") + 2
        self._tail = data[end:]
        answers = b""
        if b"$JS.FC." in data:
            asked = FLOW_SUBJECT.findall(data, 0, end)
            answers = b"".join(b"PUB %b 0\r\n\r\n" % subject for subject in dict.fromkeys(asked))
        if b"PING\r\n" in data:
            answers += b"PONG\r\n"
        if self._acks:
            subjects = ACK_SUBJECT.findall(data, 0, end)
            if subjects:
                self.last_ack = subjects[-1]
                answers += b"PUB " + (ACK_END + b"PUB ").join(subjects) + ACK_END
            arrived = len(subjects)
        else:
            arrived = data.count(ACK_PREFIX, 0, end)
        if not arrived and (refusal := REFUSAL.search(data, 0, end)):
            raise BenchmarkError(f"the server refuses: {refusal[0]!r}")
        if answers:
            self.connection.sendall(answers)
        return arrived

    def await_acks(self, inbox: str) -> None:
        """Return when the server has processed all sent acknowledgements."""
        if self.last_ack:
            self.connection.sendall(
                b"PUB %b %b 4\r\n+ACK\r\n" % (self.last_ack, f"{inbox}.done".encode())
            )
            answer = f"MSG {inbox}.done ".encode()
            data = b""
            while answer not in data:
                chunk = self.connection.recv(READ_BYTES)
                if not chunk:
                    raise BenchmarkError("the server closed the connection")
                data = data[-len(answer) :] + chunk


def make_consumer(server: Server, name: str, config: dict[str, object]) -> None:
    """Create a consumer. Raises BenchmarkError if the server refuses."""
    document: dict[str, object] = {"stream_name": STREAM, "config": {"name": name, **config}}
    call(server, f"CONSUMER.CREATE.{STREAM}.{name}", document)


def make_consumers(server: Server, names: list[str], below: str = "") -> None:
    """Create many durable consumers, a few at a time, each with a filter of its own or none.

    Their filters are `below` one token, if that is given.
    """
    with dial(server.port, f"SUB {INBOX}* 1\r\n".encode()) as connection:
        for begin in range(0, len(names), MADE_AT_ONCE):
            some = names[begin : begin + MADE_AT_ONCE]
            frames = []
            for name in some:
                config = {"durable_name": name, "ack_policy": "explicit"}
                if below:
                    config["filter_subject"] = f"{below}.{name}"
                body = json.dumps({"stream_name": STREAM, "config": config}).encode()
                subject = f"$JS.API.CONSUMER.CREATE.{STREAM}.{name}"
                frames.append(f"PUB {subject} {INBOX}0 {len(body)}\r\n".encode() + body + b"\r\n")
            connection.sendall(b"".join(frames))
            data = b""
            while data.count(b"MSG " + INBOX.encode()) < len(some) or not data.endswith(b"\r\n"):
                data += connection.recv(READ_BYTES)
            if b'"error"' in data:
                raise BenchmarkError(f"{server.name} refuses consumers: {data[:300]!r}")


def remove_consumer(server: Server, name: str) -> None:
    """Remove a consumer."""
    call(server, f"CONSUMER.DELETE.{STREAM}.{name}", None)


def call(server: Server, subject: str, document: dict[str, object] | None) -> bytes:
    """The answer of the API. Raises BenchmarkError for an error."""
    with dial(server.port, f"SUB {INBOX}* 1\r\n".encode()) as connection:
        body = b"" if document is None else json.dumps(document).encode()
        reply = request(connection, f"$JS.API.{subject}", body)
    if b'"error"' in reply:
        raise BenchmarkError(f"{server.name} refuses {subject}: {reply!r}")
    return reply


def measured(server: Server, messages: int, run: Callable[[], None]) -> LoadResult:
    """The cost of running something that moves this many messages."""
    server_s, own_s, started = server.cpu_s(), time.process_time(), time.perf_counter()
    run()
    seconds = time.perf_counter() - started
    return LoadResult(messages, seconds, time.process_time() - own_s, server.cpu_s() - server_s)


def pull_round(server: Server, consumer: str, pulling: Pulling, messages: int) -> LoadResult:
    """Pull and acknowledge messages of a consumer that has this many."""
    inbox = f"_INBOX.pull{next(_numbers)}"
    body = json.dumps({"batch": pulling.batch, "expires": PULL_EXPIRES_NS}).encode()
    with ExitStack() as stack:
        receivers = []
        asks = {}
        for number in range(pulling.workers):
            own = f"{inbox}.{number}"
            connection = dial(server.port, f"SUB {own} 1\r\nSUB {own}.done 2\r\n".encode())
            receivers.append(Receiver(stack.enter_context(connection), pulling.acks))
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{consumer}"
            asks[receivers[-1]] = f"PUB {subject} {own} {len(body)}\r\n".encode() + body + b"\r\n"

        def ask(receiver: Receiver) -> None:
            if receiver.outstanding <= pulling.batch // 2:
                receiver.outstanding += pulling.batch
                receiver.connection.sendall(asks[receiver])

        def run() -> None:
            for receiver in receivers:
                ask(receiver)
            left = messages
            arriving = arrivals(receivers)
            while left:
                receiver = next(arriving)
                arrived = receiver.read()
                left -= arrived
                receiver.outstanding -= arrived
                if left:
                    ask(receiver)
            for number, receiver in enumerate(receivers):
                receiver.await_acks(f"{inbox}.{number}")

        return measured(server, messages, run)


@contextmanager
def waiting_pulls(
    server: Server, consumer: str, waiting: int
) -> Iterator[Callable[[int], LoadResult]]:
    """Let requests wait; yields a function that publishes messages, one at a time.

    Each message goes to a request, and the client requests again and acknowledges the message.
    """
    inbox = f"_INBOX.wait{next(_numbers)}"
    body = b'{"batch":1,"expires":%d}' % PULL_EXPIRES_NS
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{consumer}"
    ask = f"PUB {subject} {inbox} {len(body)}\r\n".encode() + body + b"\r\n"
    message = b"PUB b 128\r\n%b\r\n" % (b"x" * 128)
    with dial(server.port, f"SUB {inbox} 1\r\n".encode()) as connection:
        connection.sendall(ask * waiting)
        _settle(connection)
        receiver = Receiver(connection, acks=True)

        def run(messages: int) -> None:
            for _ in range(messages):
                connection.sendall(message)
                _read_one(receiver)
                connection.sendall(ask)

        yield lambda messages: measured(server, messages, lambda: run(messages))


def push_round(
    server: Server, config: dict[str, object], messages: int, acks: bool = False
) -> LoadResult:
    """Let a new consumer push a stream's messages."""
    number = next(_numbers)
    name, inbox = f"push{number}", f"_INBOX.push{number}"
    with dial(server.port, f"SUB {inbox} 1\r\nSUB {inbox}.done 2\r\n".encode()) as connection:
        receiver = Receiver(connection, acks)

        def run() -> None:
            make_consumer(server, name, {"deliver_subject": inbox, **config})
            left = messages
            while left > 0:
                left -= receiver.read()
            receiver.await_acks(inbox)

        result = measured(server, messages, run)
    remove_consumer(server, name)
    return result


def arrivals(receivers: list[Receiver]) -> Iterator[Receiver]:
    """Receivers that have bytes to read, for ever."""
    if len(receivers) == 1:
        while True:
            yield receivers[0]
    with selectors.DefaultSelector() as selector:
        for receiver in receivers:
            selector.register(receiver.connection, selectors.EVENT_READ, receiver)
        while True:
            ready = selector.select(STALL_S)
            if not ready:
                raise BenchmarkError(f"nothing arrived for {STALL_S:g} s")
            for key, _ in ready:
                yield key.data


def latencies_s(server: Server, consumer: str, requests: int, size: int) -> tuple[float, float]:
    """Medians of a stream at rest: from publish to delivery, and from request to delivery.

    In the first a request waits, in the second a message. Messages are not acknowledged.
    """
    inbox = f"_INBOX.idle{next(_numbers)}"
    ask = f"PUB $JS.API.CONSUMER.MSG.NEXT.{STREAM}.{consumer} {inbox} 1\r\n1\r\n".encode()
    message = f"PUB b {size}\r\n".encode() + b"x" * size + b"\r\n"
    published: list[float] = []
    requested: list[float] = []
    with (
        dial(server.port) as publisher,
        dial(server.port, f"SUB {inbox} 1\r\n".encode()) as connection,
    ):
        receiver = Receiver(connection, acks=False)
        for _ in range(requests):
            connection.sendall(ask)
            _settle(connection)
            started = time.perf_counter()
            publisher.sendall(message)
            _read_one(receiver)
            published.append(time.perf_counter() - started)
            publisher.sendall(message)
            _settle(publisher)
            started = time.perf_counter()
            connection.sendall(ask)
            _read_one(receiver)
            requested.append(time.perf_counter() - started)
    return sorted(published)[requests // 2], sorted(requested)[requests // 2]


def _read_one(receiver: Receiver) -> None:
    while not receiver.read():
        pass


def _settle(connection: socket.socket) -> None:
    """Return when the server has processed all sent bytes."""
    connection.sendall(b"PING\r\n")
    data = b""
    while b"PONG\r\n" not in data:
        chunk = connection.recv(READ_BYTES)
        if not chunk:
            raise BenchmarkError("the server closed the connection")
        data += chunk
