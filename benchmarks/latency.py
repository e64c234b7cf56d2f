"""Latency: one request at a time, each timed from its first byte sent to its reply received.

Requester and responder are processes of their own in tight loops on blocking sockets. Replies come
back on distinct subjects under one wildcard subscription, as every NATS client has it.
"""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from benchmarks.processes import Line, child, report, wait_for_parent
from benchmarks.servers import BenchmarkError, Server
from benchmarks.wire import PING, PONG, READ_BYTES, dial, subscribe

SERVICE: Final = "benchmark.service"
INBOX: Final = "_INBOX.benchmark"
BODY: Final = b"x" * 16
WARM_UP_REQUESTS: Final = 300
# The time for a subscription to become known to the other servers of a cluster.
INTEREST_S: Final = 0.3


@dataclass(frozen=True)
class LatencyResult:
    """One round, in seconds."""

    p50_s: float
    p99_s: float


def run_round(
    server: Server, requests: int, with_responder: bool = True, beyond: Server | None = None
) -> LatencyResult:
    """`requests` requests, one after the other. Without a responder, the relay returns them.

    The responder may be a client of another server `beyond`.
    """
    with ExitStack() as stack:
        if with_responder:
            report(stack.enter_context(child(respond, (beyond or server).port)))
        if beyond is not None:
            # The requester's server has to hear of the responder.
            time.sleep(INTEREST_S)
        requester = stack.enter_context(child(ask, server.port, requests))
        times_s: list[float] = report(requester)
    times_s.sort()
    return LatencyResult(percentile(times_s, 0.50), percentile(times_s, 0.99))


def percentile(ordered: list[float], share: float) -> float:
    """The value below which `share` of the sorted values lie (nearest rank)."""
    if not ordered:
        raise BenchmarkError("no values to take a percentile of")
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def ask(parent: Line, port: int, requests: int) -> None:
    """The requesting process: reports all round-trip times."""
    times_s = []
    with dial(port, subscribe((f"{INBOX}.*",))) as connection:
        frames = [
            f"PUB {SERVICE} {INBOX}.{number:07d} {len(BODY)}\r\n".encode() + BODY + b"\r\n"
            for number in range(WARM_UP_REQUESTS + requests)
        ]
        for frame in frames:
            sent_at = time.perf_counter()
            connection.sendall(frame)
            received = connection.recv(READ_BYTES)
            while not received.endswith(BODY + b"\r\n"):
                # The relay and the servers differ in the bytes before the body, not in the body.
                if received.endswith(PING):
                    connection.sendall(PONG)
                received = connection.recv(READ_BYTES)
                if not received:
                    raise BenchmarkError("the server closed the requester's connection")
            times_s.append(time.perf_counter() - sent_at)
    parent.send(times_s[WARM_UP_REQUESTS:])
    wait_for_parent(parent)


def respond(parent: Line, port: int) -> None:
    """The responding process: echoes until the round is over."""
    with dial(port, subscribe((SERVICE,))) as connection:
        parent.send("subscribed")
        while received := connection.recv(READ_BYTES):
            if received.startswith(PING):
                connection.sendall(PONG)
                received = received[len(PING) :]
                if not received:
                    continue
            # MSG subject sid reply size, or from the relay PUB subject reply size.
            line, _, body = received.partition(b"\r\n")
            reply = line.split(b" ")[-2]
            connection.sendall(b"PUB %b %d\r\n%b" % (reply, len(BODY), body))
