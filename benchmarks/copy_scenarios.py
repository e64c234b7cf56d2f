"""Mirrors and sources beside nats-server: bulk copies, and their processor time.

An origin is filled once; each round has another stream copy it from its beginning. The duration is
that from the request for the stream to the moment at which it has all messages. Processor time is
measured besides, because it hardly shows other load on the machine.
"""

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count as count_from
from typing import Final

from benchmarks.copy_lag import lagging
from benchmarks.replica_servers import Member, ReplicaCluster, replica_cluster
from benchmarks.report import Aim, Row
from benchmarks.scenarios import Scenario, Settings
from benchmarks.servers import NATS_SERVER, BenchmarkError, Server
from benchmarks.stream_load import INBOX, Publishing, create_stream, publish_rate, request
from benchmarks.stream_servers import with_streams
from benchmarks.wire import dial

SAME_RATE: Final = Aim("at least 1.00", ratio_min=1.0)
# In a round of a full run; a quick one copies a quarter of them.
MESSAGES: Final = 1_000_000
SIZE: Final = 128
WINDOW: Final = 1000
SOURCES: Final = 100
PAUSE_S: Final = 0.02
WAIT_S_MAX: Final = 600.0
# Mirrors that are made until one is on another server than its origin.
PLACEMENTS_MAX: Final = 12

_numbers: Final = count_from(1)


@dataclass(frozen=True)
class Copy:
    """A way to copy: the number of origins, and whether the copy is a mirror."""

    name: str
    origins: int
    is_mirror: bool

    def config(self, number: int) -> dict[str, object]:
        """The configuration of a copy."""
        names = [{"name": f"O{each}"} for each in range(self.origins)]
        copied = {"mirror": names[0]} if self.is_mirror else {"sources": names}
        return {"name": f"C{number}", **copied}


def copying(copy: Copy) -> Scenario:
    """Messages copied per second, and processor time per message."""

    def measure(settings: Settings) -> list[Row]:
        each = int(MESSAGES * settings.round_s) // copy.origins // WINDOW * WINDOW or WINDOW
        rates: tuple[list[float], list[float]] = ([], [])
        costs: tuple[list[float], list[float]] = ([], [])
        with ExitStack() as stack:
            pair = [
                stack.enter_context(with_streams(name, sync_always=False))
                for name in (settings.ours, NATS_SERVER)
            ]
            for server in pair:
                for number in range(copy.origins):
                    subject = f"o{number}"
                    create_stream(server, {"name": f"O{number}", "subjects": [subject]})
                    publish_rate(server, Publishing(subject, SIZE, WINDOW), each)
            for number in range(settings.rounds):
                for server, rate, cost in zip(pair, rates, costs, strict=True):
                    count = each * copy.origins
                    begin_s, spent_s = time.perf_counter(), server.cpu_s()
                    create_stream(server, copy.config(number))
                    await_messages(server, f"C{number}", count)
                    rate.append(count / (time.perf_counter() - begin_s))
                    cost.append((server.cpu_s() - spent_s) / count * 1e6)
        return [
            Row(f"copy, {copy.name}", "msg/s", *rates, higher_is_better=True, aim=SAME_RATE),
            Row(f"copy, {copy.name}, processor", "us/msg", *costs, higher_is_better=False),
        ]

    return measure


def await_messages(server: Server, stream: str, count: int) -> None:
    """Wait until a stream has so many messages. Raises BenchmarkError if it does not get them."""
    deadline_s = time.monotonic() + WAIT_S_MAX
    while True:
        # A connection of its own: the server pings those that stay.
        with dial(server.port, f"SUB {INBOX}* 1\r\n".encode()) as connection:
            reply = request(connection, f"$JS.API.STREAM.INFO.{stream}", b"")
        body = reply[reply.index(b"{") :].partition(b"\r\n")[0]
        if json.loads(body)["state"]["messages"] >= count:
            return
        if time.monotonic() > deadline_s:
            raise BenchmarkError(f"{server.name} has not copied {count} messages: {body!r}")
        time.sleep(PAUSE_S)


# --- across servers -----------------------------------------------------------------------------


def across_servers(settings: Settings) -> list[Row]:
    """Messages copied per second by a mirror on another server than its origin."""
    count = int(MESSAGES * settings.round_s) // WINDOW * WINDOW or WINDOW
    rates: tuple[list[float], list[float]] = ([], [])
    costs: tuple[list[float], list[float]] = ([], [])
    with ExitStack() as stack:
        pair = [stack.enter_context(replica_cluster(kind)) for kind in (settings.ours, NATS_SERVER)]
        origins = []
        for cluster in pair:
            cluster.create({"name": "O", "subjects": ["o"]})
            origins.append(cluster.leader("O"))
            cluster.wait_until_heard("o")
            publish_rate(origins[-1].server, Publishing("o", SIZE, WINDOW), count)
        for _ in range(settings.rounds):
            for cluster, origin, rate, cost in zip(pair, origins, rates, costs, strict=True):
                begin_s, spent_s, copier = _mirror_elsewhere(cluster, origin, count)
                rate.append(count / (time.perf_counter() - begin_s))
                both = origin.server.cpu_s() + copier.server.cpu_s()
                cost.append((both - spent_s) / count * 1e6)
    return [
        Row("mirror across servers", "msg/s", *rates, higher_is_better=True, aim=SAME_RATE),
        Row("mirror across servers, processor", "us/msg", *costs, higher_is_better=False),
    ]


def _mirror_elsewhere(
    cluster: ReplicaCluster, origin: Member, count: int
) -> tuple[float, float, Member]:
    """Have a server mirror an origin of another one. Returns when that began, the processor time
    of both servers until then, and the server."""
    for number in range(PLACEMENTS_MAX):
        name = f"M{next(_numbers)}"
        spent = {each.name: each.server.cpu_s() for each in cluster.members}
        begin_s = time.perf_counter()
        cluster.create({"name": name, "mirror": {"name": "O"}})
        member = cluster.leader(name)
        if member is not origin:
            await_messages(member.server, name, count)
            return begin_s, spent[origin.name] + spent[member.name], member
        # Servers with more streams are chosen last.
        cluster.create({"name": f"E{number}", "subjects": [f"e{number}"]})
    raise BenchmarkError(f"{origin.name} gets every mirror")


COPY_SCENARIOS: Final[dict[str, Scenario]] = {
    "copy-" + copy.name.replace(" ", "-"): copying(copy)
    for copy in (
        Copy("mirror", 1, is_mirror=True),
        Copy("source", 1, is_mirror=False),
        Copy("100 sources", SOURCES, is_mirror=False),
    )
} | {
    "copy-across-servers": across_servers,
    "copy-lag-mirror": lagging("mirror"),
    "copy-lag-source": lagging("source"),
}
