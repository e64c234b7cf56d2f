"""The lag of a copy under steady load, beside nats-server: from publish to a consumer of the copy.

A publisher writes the time into each message, at an even pace. A consumer on the copy reads it, so
that the lag is that of origin, copy and delivery together. The pace is that of 50,000 messages per
second, or the highest of a few lower ones at which both servers keep up.
"""

import json
import re
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from benchmarks.latency import percentile
from benchmarks.processes import Line, child, report, wait_for_parent
from benchmarks.report import Aim, Row
from benchmarks.scenarios import Scenario, Settings
from benchmarks.servers import NATS_SERVER, BenchmarkError, Server
from benchmarks.stream_load import INBOX, create_stream, request
from benchmarks.stream_servers import with_streams
from benchmarks.wire import PING, PONG, READ_BYTES, dial, read_until

LAG_AIM: Final = Aim("at most 2.00", ratio_max=2.0)
PACES: Final = (50_000, 30_000, 20_000, 10_000, 5_000, 2_000)
SIZE: Final = 128
TICK_S: Final = 0.002
ROUND_S: Final = 4.0
PROBE_S: Final = 1.0
# A server keeps up if its publisher does, and the last message is read so soon.
BEHIND_S_MAX: Final = 0.5
# The beginning of a round does not count: the copy asks its origin then.
SKIPPED: Final = 0.25
STAMP: Final = re.compile(rb"T(\d{19})x")


@dataclass(frozen=True)
class LagResult:
    """One round, in seconds."""

    p50_s: float
    p99_s: float
    # Between the end of the pace and the last message at the consumer.
    behind_s: float


def publish_paced(parent: Line, port: int, pace: int, count: int) -> None:
    """The publishing process: reports the time for which it published."""
    per_tick = round(pace * TICK_S)
    filler = b"x" * (SIZE - 20)
    with dial(port) as connection:
        parent.send("ready")
        wait_for_parent(parent)
        began = time.monotonic()
        for number in range(count // per_tick):
            wait_s = began + number * TICK_S - time.monotonic()
            if wait_s > 0:
                time.sleep(wait_s)
            frame = b"PUB o %d\r\nT%019d%b\r\n" % (SIZE, time.monotonic_ns(), filler)
            connection.sendall(frame * per_tick)
        connection.sendall(PING)
        read_until(connection, PONG)
        parent.send(time.monotonic() - began)


def measure_lag(server: Server, copy: str, pace: int, seconds: float) -> LagResult:
    """One round: messages at a pace into the origin, and their lag at a consumer of the copy."""
    per_tick = round(pace * TICK_S)
    count = int(seconds * pace) // per_tick * per_tick
    config = {"deliver_subject": "lag", "ack_policy": "none", "deliver_policy": "new"}
    body = json.dumps({"stream_name": copy, "config": config}).encode()
    lags_ns: list[int] = []
    with ExitStack() as stack:
        publisher = stack.enter_context(child(publish_paced, server.port, pace, count))
        report(publisher)
        reader = stack.enter_context(dial(server.port, b"SUB lag 2\r\n"))
        caller = stack.enter_context(dial(server.port, f"SUB {INBOX}* 1\r\n".encode()))
        made = request(caller, f"$JS.API.CONSUMER.CREATE.{copy}", body)
        if b'"error"' in made:
            raise BenchmarkError(f"{server.name} made no consumer: {made!r}")
        name = json.loads(made[made.index(b"{") :].partition(b"\r\n")[0])["name"]
        publisher.send("go")
        tail = b""
        while len(lags_ns) < count:
            chunk = reader.recv(READ_BYTES)
            now_ns = time.monotonic_ns()
            if not chunk:
                raise BenchmarkError("the server closed the connection")
            data = tail + chunk
            if PING in chunk:
                reader.sendall(PONG)
            end = 0
            for found in STAMP.finditer(data):
                lags_ns.append(now_ns - int(found[1]))
                end = found.end()
            tail = data[end:][-20:]
        spent_s = report(publisher)
        request(caller, f"$JS.API.CONSUMER.DELETE.{copy}.{name}", b"")
    counted = sorted(lag_ns / 1e9 for lag_ns in lags_ns[int(count * SKIPPED) :])
    behind_s = max(spent_s - seconds, 0.0) + lags_ns[-1] / 1e9
    p50_s, p99_s = (percentile(counted, share) for share in (0.5, 0.99))
    return LagResult(p50_s, p99_s, behind_s)


def _highest_pace(pair: list[Server], copy: str) -> int:
    """The highest pace at which both servers keep up."""
    for pace in PACES:
        results = [measure_lag(server, copy, pace, PROBE_S) for server in pair]
        if all(each.behind_s < BEHIND_S_MAX for each in results):
            return pace
    raise BenchmarkError(f"a copy does not keep up with {PACES[-1]} messages per second")


def lagging(kind: str) -> Scenario:
    """The lag of a mirror, or of a stream with one source."""

    def measure(settings: Settings) -> list[Row]:
        medians: tuple[list[float], list[float]] = ([], [])
        highs: tuple[list[float], list[float]] = ([], [])
        copied = {"mirror": {"name": "O"}} if kind == "mirror" else {"sources": [{"name": "O"}]}
        with ExitStack() as stack:
            pair = [
                stack.enter_context(with_streams(name, sync_always=False))
                for name in (settings.ours, NATS_SERVER)
            ]
            for server in pair:
                create_stream(server, {"name": "O", "subjects": ["o"]})
                create_stream(server, {"name": "C", **copied})
            pace = _highest_pace(pair, "C")
            for _ in range(settings.rounds):
                for server, middle, high in zip(pair, medians, highs, strict=True):
                    result = measure_lag(server, "C", pace, ROUND_S * settings.round_s)
                    middle.append(result.p50_s * 1e3)
                    high.append(result.p99_s * 1e3)
        name = f"lag of a {kind} at {pace:,} msg/s"
        note = "from publish to a consumer of the copy, which generator and servers share cores for"
        return [
            Row(f"{name}, median", "ms", *medians, higher_is_better=False, notes=[note]),
            Row(f"{name}, p99", "ms", *highs, higher_is_better=False, aim=LAG_AIM),
        ]

    return measure
