"""Clusters of three servers of each kind: messages and requests across a link, and elections."""

import http.client
import json
import os
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from benchmarks import latency, load
from benchmarks.load import Traffic
from benchmarks.report import Row
from benchmarks.scenarios import (
    HALF_THE_RATE,
    LATENCY_AIM,
    Scenario,
    Settings,
    blobs_for,
    cpu_shares,
)
from benchmarks.servers import NATS_SERVER, BenchmarkError, Server, running

COUNT: Final = 3
# The time for the servers of a cluster to find each other.
MEETING_S: Final = 2.0
ELECTION_S_MAX: Final = 60.0
# The time between two looks at the leader.
LOOK_S: Final = 0.005


@contextmanager
def cluster(kind: str) -> Iterator[list[Server]]:
    """Three servers that know each other, for the length of a block."""
    ports = [free_port() for _ in range(COUNT)]
    routes = ",".join(f"nats://127.0.0.1:{port}" for port in ports)
    with ExitStack() as stack:
        servers = [
            stack.enter_context(
                running(
                    kind,
                    "--cluster",
                    f"nats://127.0.0.1:{port}",
                    "--cluster_name",
                    "benchmark",
                    "--routes",
                    routes,
                )
            )
            for port in ports
        ]
        time.sleep(MEETING_S)
        yield servers


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def across_a_link(settings: Settings, name: str, subscribers: int) -> list[Row]:
    """Messages delivered per second to clients of another server."""
    traffic = Traffic("benchmark.one", "benchmark.one", (128,))
    with ExitStack() as stack:
        kinds = (settings.ours, NATS_SERVER)
        pairs = [stack.enter_context(cluster(kind)) for kind in kinds]
        measures = [
            partial(
                load.run_round,
                traffic=traffic,
                blob_first=0,
                subscribers=subscribers,
                beyond=servers[1],
            )
            for servers in pairs
        ]
        blobs = [
            blobs_for(servers[0], measure, settings.round_s)
            for servers, measure in zip(pairs, measures, strict=True)
        ]
        rounds = [
            tuple(
                measure(servers[0], blob_count=count)
                for servers, measure, count in zip(pairs, measures, blobs, strict=True)
            )
            for _ in range(settings.rounds)
        ]
    ours, theirs = zip(*rounds, strict=True)
    return [
        Row(
            name,
            "msg/s",
            [each.per_second * subscribers for each in ours],
            [each.per_second * subscribers for each in theirs],
            higher_is_better=True,
            aim=HALF_THE_RATE,
            notes=[
                "processor use, generator / both servers: "
                f"{cpu_shares(ours)} ({settings.ours}), {cpu_shares(theirs)} ({NATS_SERVER})"
            ],
        )
    ]


def requests_across_a_link(settings: Settings) -> list[Row]:
    """The time of a request to a responder on another server."""
    with ExitStack() as stack:
        ours, theirs = (stack.enter_context(cluster(kind)) for kind in (settings.ours, NATS_SERVER))

        def measure(servers: list[Server]) -> latency.LatencyResult:
            return latency.run_round(servers[0], settings.requests, beyond=servers[1])

        rounds = [(measure(ours), measure(theirs)) for _ in range(settings.rounds)]
    return [
        Row(
            f"request/reply across a link {label}",
            "us",
            [getattr(mine, field) * 1e6 for mine, _ in rounds],
            [getattr(other, field) * 1e6 for _, other in rounds],
            higher_is_better=False,
            aim=LATENCY_AIM,
            notes=[],
        )
        for label, field in (("p50", "p50_s"), ("p99", "p99_s"))
    ]


@dataclass(frozen=True)
class StoredServer:
    """A running server with streams, and the port of its monitoring pages."""

    name: str
    server: Server
    http_port: int

    def leader(self) -> str:
        """The leader of the meta group, as this server knows it."""
        found: str = self.meta().get("leader", "")
        return found

    def meta(self) -> dict[str, Any]:
        """The meta group, as this server knows it."""
        found: dict[str, Any] = self.page("/jsz").get("meta_cluster", {})
        return found

    def page(self, path: str) -> dict[str, Any]:
        """A monitoring page."""
        link = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=5)
        try:
            link.request("GET", path)
            found: dict[str, Any] = json.loads(link.getresponse().read())
        finally:
            link.close()
        return found

    def leads_all(self) -> bool:
        """Whether this server leads a group to which all servers belong and have the whole log."""
        meta = self.meta()
        replicas = meta.get("replicas", [])
        return (
            meta.get("leader") == self.name
            and len(replicas) == COUNT - 1
            and meta["cluster_size"] == COUNT
            and all(replica["current"] for replica in replicas)
        )


@contextmanager
def stored_cluster(kind: str) -> Iterator[list[StoredServer]]:
    """Three servers with streams, for the length of a block."""
    ports = [free_port() for _ in range(COUNT)]
    routes = ",".join(f"nats://127.0.0.1:{port}" for port in ports)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        servers = []
        for number, port in enumerate(ports):
            name, http_port = f"s{number}", free_port()
            flags = ("-js", "-sd", f"{folder}/{name}", "-m", str(http_port), "-n", name)
            links = ("--cluster", f"nats://127.0.0.1:{port}", "--cluster_name", "benchmark")
            server = stack.enter_context(running(kind, *flags, *links, "--routes", routes))
            servers.append(StoredServer(name, server, http_port))
        yield servers


def _looks() -> Iterator[None]:
    """Time for another look at the servers of a cluster. Raises BenchmarkError in the end."""
    deadline = time.monotonic() + ELECTION_S_MAX
    while time.monotonic() < deadline:
        yield
        time.sleep(LOOK_S)
    raise BenchmarkError("the servers of a cluster have elected no leader")


def _whole_leader(servers: list[StoredServer]) -> StoredServer:
    """The leader, as soon as it leads all servers."""
    for _ in _looks():
        for server in servers:
            if server.leads_all():
                return server
    raise AssertionError("looks end with an error")


def _agree_on_another(servers: list[StoredServer], before: str) -> None:
    """Return as soon as all servers name one leader that is another than before."""
    for _ in _looks():
        leaders = {server.leader() for server in servers}
        if len(leaders) == 1 and not leaders & {"", before}:
            return


def _election_s(kind: str) -> float:
    """The time from the end of a leader until the others have another one."""
    with stored_cluster(kind) as servers:
        leader = _whole_leader(servers)
        rest = [server for server in servers if server is not leader]
        began = time.monotonic()
        os.kill(leader.server.pid, signal.SIGKILL)
        _agree_on_another(rest, leader.name)
        return time.monotonic() - began


def elections(settings: Settings) -> list[Row]:
    """The time without a leader after kill -9."""
    rounds = [
        (_election_s(settings.ours), _election_s(NATS_SERVER)) for _ in range(settings.rounds)
    ]
    return [
        Row(
            "election after kill -9",
            "ms",
            [ours * 1e3 for ours, _ in rounds],
            [theirs * 1e3 for _, theirs in rounds],
            higher_is_better=False,
            aim=None,
            notes=["until both other servers tell of another leader of the meta group"],
        )
    ]


CLUSTER_SCENARIOS: Final[dict[str, Scenario]] = {
    "link-128": partial(across_a_link, name="across a link 1:1, 128 bytes", subscribers=1),
    "link-fan-out": partial(across_a_link, name="across a link 1:4, 128 bytes", subscribers=4),
    "link-request": requests_across_a_link,
    "election": elections,
}
