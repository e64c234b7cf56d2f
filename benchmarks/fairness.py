"""Fairness: how long a client waits for an answer while another connection floods the server.

`python -m benchmarks.fairness [--only NAME] [--seconds N] [--server NAME]`. The flood is one
connection in a process of its own, which sends as fast as the server reads and throws the answers
away. The probes are two connections of another process, one that sends a PING and one that sends an
acked publish, one at a time with a short pause. A probe that waits longer than `PATIENCE_S` gives
up, and that is its worst time. Ours and theirs are measured one after the other, each on a server
of its own.
"""

import argparse
import socket
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from benchmarks.floods import FLOODS, PASS_MARK, Flood, Size
from benchmarks.latency import percentile
from benchmarks.processes import Line, child, report, wait_for_parent
from benchmarks.report import Aim, Row, columns, figure
from benchmarks.scenarios import Scenario, Settings
from benchmarks.servers import HEADWATER, NATS_SERVER, BenchmarkError, Server
from benchmarks.stream_load import create_stream
from benchmarks.stream_servers import with_streams
from benchmarks.wire import PING, PONG, READ_BYTES, dial

SECONDS: Final = 5.0
PAUSE_S: Final = 0.002
PATIENCE_S: Final = 20.0
# By then the probes run at a steady rate.
HEAD_START_S: Final = 0.2
# The interval at which a sender that the server does not read from checks the clock.
SEND_SLICE_BYTES: Final = 1 << 18
SEND_WAIT_S: Final = 0.1
QUICK_SHARE: Final = 0.1

P99_AIM: Final = Aim("p99 under 10 ms", ours_max=10.0)
WORST_AIM: Final = Aim("worst under 100 ms", ours_max=100.0)

PROBE_STREAM: Final = "PROBE"
# Not the inbox of the floods, whose answers would come here too.
PROBE_LISTEN: Final = b"SUB _INBOX.probe.* 1\r\n"
PROBE_PUBLISH: Final = b"PUB probe _INBOX.probe.1 8\r\n01234567\r\n"


@dataclass(frozen=True)
class Delays:
    """The round trips of one kind of probe, in milliseconds."""

    p50_ms: float
    p99_ms: float
    worst_ms: float
    count: int

    @classmethod
    def of(cls, times_s: Sequence[float]) -> "Delays":
        """The figures of all round trips."""
        ordered = sorted(each * 1e3 for each in times_s)
        return cls(percentile(ordered, 0.5), percentile(ordered, 0.99), ordered[-1], len(ordered))


@dataclass(frozen=True)
class Result:
    """One flood against one server."""

    ping: Delays
    publish: Delays
    sent_mb: float
    received_mb: float


def measure(kind: str, flood: Flood, seconds: float, size: Size) -> Result:
    """The probe's delays on a fresh server under `flood`."""
    with with_streams(kind, sync_always=False) as server:
        create_stream(server, {"name": PROBE_STREAM, "subjects": ["probe"]})
        flood.setup(server, size)
        return probe_under(server, flood, seconds, size)


def probe_under(server: Server, flood: Flood, seconds: float, size: Size) -> Result:
    """Start both processes, the probes first, and collect their reports."""
    with (
        child(send_flood, server.port, flood.name, seconds, size) as flooder,
        child(send_probes, server.port, HEAD_START_S + seconds) as prober,
    ):
        report(flooder)
        report(prober)
        prober.send("go")
        time.sleep(HEAD_START_S)
        flooder.send("go")
        pings_s, publishes_s = report(prober)
        sent_mb, received_mb = report(flooder)
    return Result(Delays.of(pings_s), Delays.of(publishes_s), sent_mb, received_mb)


# --- the flood ----------------------------------------------------------------------------------


def send_flood(parent: Line, port: int, name: str, seconds: float, size: Size) -> None:
    """The flood's process: reports when it is ready, and then the bytes it sent and received."""
    flood = FLOODS[name]
    buffer = flood.buffer(size)
    with dial(port, flood.prelude(size)) as connection:
        sink = Sink(connection)
        parent.send("ready")
        wait_for_parent(parent)
        ends_at = time.monotonic() + seconds
        sent = send_repeatedly(connection, flood, buffer, ends_at)
        if not flood.leaves:
            time.sleep(max(ends_at - time.monotonic(), 0.0))
        sink.close()
    parent.send((sent / 1e6, sink.received / 1e6))
    wait_for_parent(parent)


def send_repeatedly(connection: socket.socket, flood: Flood, buffer: bytes, ends_at: float) -> int:
    """Send the buffer repeatedly, within its limit and the time. Returns the bytes sent."""
    connection.settimeout(SEND_WAIT_S)
    sent = repetition = 0
    while buffer and (flood.repeats_max is None or repetition < flood.repeats_max):
        view = memoryview(buffer.replace(PASS_MARK, b"%08d" % repetition))
        repetition += 1
        while view:
            if time.monotonic() >= ends_at:
                return sent
            try:
                count = connection.send(view[:SEND_SLICE_BYTES])
            except TimeoutError:
                continue
            except OSError:
                # The server has ended the flood, as it may.
                return sent
            view = view[count:]
            sent += count
    return sent


class Sink:
    """Reads a connection in a thread and discards the bytes."""

    def __init__(self, connection: socket.socket) -> None:
        self.received = 0
        self._connection = connection
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        buffer = bytearray(READ_BYTES)
        while True:
            try:
                count = self._connection.recv_into(buffer)
            except TimeoutError:
                continue
            except OSError:
                return
            if not count:
                return
            self.received += count

    def close(self) -> None:
        """Close the connection; the thread ends with it."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The server closed first.
            pass
        self._thread.join()


# --- the probe ----------------------------------------------------------------------------------


def send_probes(parent: Line, port: int, seconds: float) -> None:
    """The probes' process: reports the round trips of PINGs and of publishes.

    Each kind has a connection and a thread, so that both see a stall.
    """
    with dial(port) as first, dial(port, PROBE_LISTEN) as second, ThreadPoolExecutor() as threads:
        parent.send("ready")
        wait_for_parent(parent)
        ends_at = time.monotonic() + seconds
        pings = threads.submit(round_trips, first, PING, PONG, ends_at)
        publishes = threads.submit(round_trips, second, PROBE_PUBLISH, b"}\r\n", ends_at)
        parent.send((pings.result(), publishes.result()))
        wait_for_parent(parent)


def round_trips(connection: socket.socket, frame: bytes, end: bytes, ends_at: float) -> list[float]:
    """One round trip after the other until the time is over, or until one is not answered."""
    connection.settimeout(PATIENCE_S)
    times_s: list[float] = []
    is_answered = True
    while is_answered and time.monotonic() < ends_at:
        started = time.perf_counter()
        is_answered = round_trip(connection, frame, end)
        times_s.append(time.perf_counter() - started)
        time.sleep(PAUSE_S)
    return times_s


def round_trip(connection: socket.socket, frame: bytes, end: bytes) -> bool:
    """Send a frame and read until its answer; False if none came in time."""
    connection.sendall(frame)
    received = b""
    while end not in received:
        try:
            chunk = connection.recv(READ_BYTES)
        except TimeoutError:
            return False
        if not chunk:
            raise BenchmarkError("the server closed the probe's connection")
        received += chunk
    if b'"error"' in received:
        raise BenchmarkError(f"the probe's publish was refused: {received[:300]!r}")
    return True


# --- as scenarios of `python -m benchmarks` -----------------------------------------------------


def fairness(flood: Flood, settings: Settings) -> list[Row]:
    """The probe's p99 and worst under one flood, both servers in turn."""
    size = Size(min(settings.round_s, 1.0))
    ours, theirs = (
        measure(kind, flood, SECONDS * settings.round_s, size)
        for kind in (settings.ours, NATS_SERVER)
    )
    rows = []
    for probe in ("ping", "publish"):
        mine, other = getattr(ours, probe), getattr(theirs, probe)
        note = f"median {figure(mine.p50_ms)} against {figure(other.p50_ms)} ms"
        for label, aim in (("p99", P99_AIM), ("worst", WORST_AIM)):
            pair = [[getattr(each, f"{label}_ms")] for each in (mine, other)]
            rows.append(
                Row(
                    f"{probe} {label} under {flood.title}",
                    "ms",
                    pair[0],
                    pair[1],
                    higher_is_better=False,
                    aim=aim,
                    notes=[note] if label == "p99" else [],
                )
            )
    return rows


FAIRNESS_SCENARIOS: Final[dict[str, Scenario]] = {
    f"fairness-{name}": partial(fairness, flood) for name, flood in FLOODS.items()
}


# --- alone --------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the named floods and print a table. Returns 1 if Headwater misses an aim."""
    options = parse(arguments)
    kinds = (HEADWATER, NATS_SERVER) if options.server == "both" else (options.server,)
    size = Size(QUICK_SHARE if options.quick else 1.0)
    lines: list[tuple[str, ...]] = []
    is_missed = False
    for name in options.only or FLOODS:
        print(f"{name} ...", file=sys.stderr)
        results: dict[str, Result] = {}
        for kind in kinds:
            try:
                results[kind] = measure(kind, FLOODS[name], options.seconds, size)
            except BenchmarkError as error:
                print(f"{name}, {kind}: no figure, {error}", file=sys.stderr)
                is_missed = True
        lines += table_lines(FLOODS[name].title, kinds, results)
    is_missed |= any("MISSED" in line[-1] for line in lines)
    print(columns([heading(kinds), *lines], right_aligned=range(2, len(heading(kinds)) - 1)))
    print(f"\nMilliseconds. Aims for headwater: {P99_AIM.text}, {WORST_AIM.text}.")
    return 1 if is_missed else 0


def heading(kinds: Sequence[str]) -> tuple[str, ...]:
    """The head of the table: one group of columns for each server."""
    groups = [column for kind in kinds for column in (f"{kind} p50", "p99", "worst", "sent MB")]
    return ("flood", "probe", *groups, "worst, ratio", "aims")


def table_lines(
    title: str, kinds: Sequence[str], results: dict[str, Result]
) -> list[tuple[str, ...]]:
    """Two lines of the table: PING and publish. A server without a result has dashes."""
    lines = []
    for probe in ("ping", "publish"):
        delays: dict[str, Delays] = {kind: getattr(each, probe) for kind, each in results.items()}
        cells: list[str] = []
        for kind in kinds:
            if kind in results:
                each = delays[kind]
                values = (each.p50_ms, each.p99_ms, each.worst_ms, results[kind].sent_mb)
                cells += map(figure, values)
            else:
                cells += ["-"] * 4
        ratio = ""
        if len(delays) == 2:
            ratio = figure(delays[HEADWATER].worst_ms / delays[NATS_SERVER].worst_ms)
        lines.append((title, probe, *cells, ratio, verdict(delays.get(HEADWATER))))
    return lines


def verdict(ours: Delays | None) -> str:
    """Whether both aims hold, or which of them does not."""
    if ours is None:
        return ""
    missed = [
        label
        for label, value, aim in (
            ("p99", ours.p99_ms, P99_AIM),
            ("worst", ours.worst_ms, WORST_AIM),
        )
        if value > (aim.ours_max or 0.0)
    ]
    return f"MISSED: {', '.join(missed)}" if missed else "met"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fairness", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=FLOODS,
        metavar="NAME",
        help=f"a flood, more than once for several: {', '.join(FLOODS)}",
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long each flood lasts")
    parser.add_argument("--server", choices=(HEADWATER, NATS_SERVER, "both"), default="both")
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the subjects, tokens and subscriptions"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
