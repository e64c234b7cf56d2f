"""Publishing to a stream with acks: the rate for a window in flight, and the latency of one.

Messages are built before the clock runs. The publisher sends a part of its window and continues
when as many acks have come; it counts them without parsing them, and a reply with an error fails
the round.
"""

import json
import socket
import time
from dataclasses import dataclass
from typing import Final

from benchmarks.latency import percentile
from benchmarks.servers import BenchmarkError, Server
from benchmarks.wire import READ_BYTES, dial

INBOX: Final = "_INBOX.bench."
ACK: Final = b"MSG _INBOX.bench."
ANY_REPLY: Final = b"MSG _INBOX.bench."
# The number of parts of a window, so that the server always has something to do.
PARTS: Final = 4


@dataclass(frozen=True)
class Publishing:
    """The published messages: message n goes to `subject.format(n % subjects)`."""

    subject: str
    size: int
    window: int
    subjects: int = 1
    has_ids: bool = False


def create_stream(server: Server, config: dict[str, object]) -> None:
    """Create a stream. Raises BenchmarkError if the server refuses."""
    name = config["name"]
    with dial(server.port, f"SUB {INBOX}* 1\r\n".encode()) as connection:
        reply = request(connection, f"$JS.API.STREAM.CREATE.{name}", json.dumps(config).encode())
    if b'"error"' in reply:
        raise BenchmarkError(f"{server.name} made no stream {name}: {reply!r}")


def request(connection: socket.socket, subject: str, body: bytes) -> bytes:
    """The reply to one request."""
    connection.sendall(f"PUB {subject} {INBOX}0 {len(body)}\r\n".encode() + body + b"\r\n")
    received = b""
    while not (received.endswith(b"\r\n") and received.count(b"\r\n") >= 2):
        received += _receive(connection)
    return received


def publish_rate(server: Server, publishing: Publishing, messages: int, first: int = 0) -> float:
    """Acked messages per second."""
    part = max(publishing.window // PARTS, 1)
    blobs = [
        _blob(publishing, number, min(part, first + messages - number))
        for number in range(first, first + messages, part)
    ]
    with dial(server.port, f"SUB {INBOX}* 1\r\n".encode()) as connection:
        started = time.perf_counter()
        sent = acked = 0
        tail = b""
        for blob in blobs:
            while sent - acked > publishing.window - part:
                tail, count = _count(tail + _receive(connection))
                acked += count
            connection.sendall(blob)
            sent += part
        while acked < messages:
            tail, count = _count(tail + _receive(connection))
            acked += count
        return messages / (time.perf_counter() - started)


def request_rate(server: Server, subject: str, body: bytes, requests: int, window: int) -> float:
    """Answered requests per second, `window` at a time."""
    line = f"PUB {subject} {INBOX}0 {len(body)}\r\n".encode() + body + b"\r\n"
    part = max(window // PARTS, 1)
    with dial(server.port, f"SUB {INBOX}* 1\r\n".encode()) as connection:
        started = time.perf_counter()
        sent = answered = 0
        tail = b""
        while answered < requests:
            while sent < requests and sent - answered <= window - part:
                connection.sendall(line * part)
                sent += part
            tail, count = _count(tail + _receive(connection))
            answered += count
        return requests / (time.perf_counter() - started)


def publish_latency_s(server: Server, publishing: Publishing, messages: int) -> float:
    """The median time from a publish to its ack, one at a time."""
    return percentile(publish_times_s(server, publishing, messages), 0.5)


def publish_times_s(server: Server, publishing: Publishing, messages: int) -> list[float]:
    """The times from a publish to its ack, one at a time, in order of length."""
    blobs = [_blob(publishing, number, 1) for number in range(messages)]
    return _times_s(server, blobs)


def request_times_s(server: Server, subject: str, body: bytes, requests: int) -> list[float]:
    """The times from a request to its answer, one at a time, in order of length."""
    line = f"PUB {subject} {INBOX}0 {len(body)}\r\n".encode() + body + b"\r\n"
    return _times_s(server, [line] * requests)


def _times_s(server: Server, blobs: list[bytes]) -> list[float]:
    times = []
    with dial(server.port, f"SUB {INBOX}* 1\r\n".encode()) as connection:
        for blob in blobs:
            started = time.perf_counter()
            connection.sendall(blob)
            answer = _receive(connection)
            times.append(time.perf_counter() - started)
            _count(answer)
    return sorted(times)


def _blob(publishing: Publishing, first: int, count: int) -> bytes:
    parts = []
    filler = b"x" * publishing.size
    for number in range(first, first + count):
        subject = publishing.subject.format(number % publishing.subjects)
        body = (b"%08d" % number + filler)[: publishing.size]
        if publishing.has_ids:
            header = b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n" % number
            sizes = f"{len(header)} {len(header) + len(body)}"
            parts.append(f"HPUB {subject} {INBOX}{number} {sizes}".encode())
            parts.append(header + body)
        else:
            parts.append(f"PUB {subject} {INBOX}{number} {len(body)}".encode())
            parts.append(body)
    parts.append(b"")
    return b"\r\n".join(parts)


def _receive(connection: socket.socket) -> bytes:
    chunk = connection.recv(READ_BYTES)
    if not chunk:
        raise BenchmarkError("the server closed the connection")
    return chunk


def _count(data: bytes) -> tuple[bytes, int]:
    """The number of replies in the data, and the end of it that may be the beginning of another."""
    if b'"error"' in data or b"NATS/1.0 503" in data:
        raise BenchmarkError(f"a reply reports an error: {data[:300]!r}")
    keep = len(ANY_REPLY) - 1
    count = data.count(ANY_REPLY)
    # The kept end is shorter than the prefix of a reply, so that nothing counts twice.
    return data[-keep:], count
