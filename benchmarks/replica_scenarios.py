"""Streams of three replicas on three servers of each kind, in one run on one machine.

The publisher is a client of the leader's server or of another one. After a failover the time is
measured from the end of the leader to the first ack that a client of another server gets.
"""

import os
import signal
import socket
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from statistics import median
from typing import Any, Final

from benchmarks.consumer_load import STREAM, Pulling, make_consumer, pull_round, remove_consumer
from benchmarks.idle_groups import measure as measure_idle_groups
from benchmarks.replica_servers import (
    Member,
    ReplicaCluster,
    first_ack_s,
    is_whole,
    replica_cluster,
)
from benchmarks.report import Aim, Row, figure
from benchmarks.scenarios import Scenario, Settings
from benchmarks.servers import NATS_SERVER, BenchmarkError
from benchmarks.stream_load import Publishing, create_stream, publish_latency_s, publish_rate
from benchmarks.stream_servers import with_streams
from benchmarks.wire import PING, PONG, dial, read_until

SAME_RATE: Final = Aim("at least 1.00", ratio_min=1.0)
SYNCED: Final = Aim("at least 1.50", ratio_min=1.5)
LATENCY: Final = Aim("at most 1.50", ratio_max=1.5)
PULLED: Final = Aim("at least 0.80", ratio_min=0.8)
FAILOVER: Final = Aim("under 2 s, and sooner", ratio_max=1.0, ours_max=2000.0)
ALONE: Final = Aim("at least 0.95 of alone", ours_min=0.95)
IDLE: Final = Aim("under 2 % of a core", ours_max=2.0)
HEARTBEATS: Final = Aim("at most 10, as with ten groups", ours_max=10.0)
FOLLOWED: Final = Aim("under 1 us", ours_max=1.0)

REPLICAS: Final = 3
IDLE_STREAMS: Final = 1000
FEW_STREAMS: Final = 10
FOLLOWED_MESSAGES: Final = 200_000
ELECTED: Final = b"$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED."
IDLE_S: Final = 10.0
SETTLE_S: Final = 5.0
REFILL_BYTES: Final = 1_000_000_000
REFILL_BYTES_QUICK: Final = 50_000_000
REFILL_MESSAGE_BYTES: Final = 8192
MILLION: Final = 1_000_000

_numbers: Final = count(1)


@dataclass(frozen=True)
class Kind:
    """A way to publish to three replicas; `messages` are about as many as fit into a second."""

    name: str
    publishing: Publishing
    messages: int
    config: dict[str, object] = field(default_factory=dict)
    sync_always: bool = False
    aim: Aim | None = SAME_RATE


BASE: Final = Publishing("b", 128, 1000)
KINDS: Final = (
    Kind("file, 128 B, 1,000 in flight", BASE, 40_000),
    Kind("file, 128 B, 100 in flight", replace(BASE, window=100), 20_000, aim=None),
    Kind("file, 1 KiB, 1,000 in flight", replace(BASE, size=1024), 30_000),
    Kind("file, 1 KiB, 100 in flight", replace(BASE, size=1024, window=100), 15_000, aim=None),
    Kind("memory, 128 B, 1,000 in flight", BASE, 40_000, {"storage": "memory"}, aim=None),
    Kind(
        "memory, 128 B, 100 in flight",
        replace(BASE, window=100),
        20_000,
        {"storage": "memory"},
        aim=None,
    ),
    Kind(
        "memory, 1 KiB, 1,000 in flight",
        replace(BASE, size=1024),
        30_000,
        {"storage": "memory"},
        aim=None,
    ),
    Kind(
        "memory, 1 KiB, 100 in flight",
        replace(BASE, size=1024, window=100),
        15_000,
        {"storage": "memory"},
        aim=None,
    ),
    Kind("sync always, 128 B, 1,000 in flight", BASE, 3_000, sync_always=True, aim=SYNCED),
    Kind(
        "sync always, 1 KiB, 1,000 in flight",
        replace(BASE, size=1024),
        3_000,
        sync_always=True,
        aim=SYNCED,
    ),
    Kind(
        "sync always, 128 B, 100 in flight",
        replace(BASE, window=100),
        2_000,
        sync_always=True,
        aim=None,
    ),
    Kind(
        "sync always, 1 KiB, 100 in flight",
        replace(BASE, size=1024, window=100),
        2_000,
        sync_always=True,
        aim=None,
    ),
)
PLACES: Final = ("at the leader", "elsewhere")


def pair(settings: Settings, stack: ExitStack, sync_always: bool = False) -> list[ReplicaCluster]:
    """A cluster of ours and one of theirs."""
    kinds = (settings.ours, NATS_SERVER)
    return [stack.enter_context(replica_cluster(kind, sync_always)) for kind in kinds]


def make_stream(cluster: ReplicaCluster, **config: object) -> Member:
    """Create a stream of three replicas on the subjects `b` and below. Returns its leader."""
    document = {"name": STREAM, "subjects": ["b", "b.>"], "num_replicas": REPLICAS, **config}
    cluster.create(document)
    leader = cluster.leader(STREAM)
    cluster.wait_until_heard("b")
    return leader


def publishers(cluster: ReplicaCluster, leader: Member) -> tuple[Member, Member]:
    """The servers of the two places of a publisher."""
    return leader, cluster.others(leader)[0]


def publishing(kind: Kind) -> Scenario:
    """Acked messages per second, ours and theirs in turn, from both places."""

    def measure(settings: Settings) -> list[Row]:
        messages = max(int(kind.messages * settings.round_s) // 1000, 1) * 1000
        rates: dict[str, tuple[list[float], list[float]]] = {each: ([], []) for each in PLACES}
        with ExitStack() as stack:
            clusters = pair(settings, stack, kind.sync_always)
            leaders = [make_stream(each, **kind.config) for each in clusters]
            for number in range(settings.rounds):
                for side, (cluster, leader) in enumerate(zip(clusters, leaders, strict=True)):
                    for place, member in zip(PLACES, publishers(cluster, leader), strict=True):
                        first = MILLION + number * messages
                        rate = publish_rate(member.server, kind.publishing, messages, first)
                        rates[place][side].append(rate)
        return [
            Row(
                f"publish R3, {kind.name}, {place}",
                "msg/s",
                *rates[place],
                higher_is_better=True,
                aim=kind.aim,
            )
            for place in PLACES
        ]

    return measure


def latency(settings: Settings, name: str, size: int, **options: Any) -> list[Row]:
    """One publish at a time, from both places."""
    alone = replace(BASE, size=size, window=1)
    times: dict[str, tuple[list[float], list[float]]] = {each: ([], []) for each in PLACES}
    requests = max(settings.requests // 5, 200)
    with ExitStack() as stack:
        clusters = pair(settings, stack, options.pop("sync_always", False))
        leaders = [make_stream(each, **options) for each in clusters]
        for _ in range(settings.rounds):
            for side, (cluster, leader) in enumerate(zip(clusters, leaders, strict=True)):
                for place, member in zip(PLACES, publishers(cluster, leader), strict=True):
                    seconds = publish_latency_s(member.server, alone, requests)
                    times[place][side].append(seconds * 1e6)
    return [
        Row(
            f"publish R3, {name}, 1 in flight, p50, {place}",
            "us",
            *times[place],
            higher_is_better=False,
            aim=LATENCY,
        )
        for place in PLACES
    ]


def pulling(settings: Settings) -> list[Row]:
    """Messages of a durable of three replicas, pulled and acknowledged."""
    rows = []
    messages = max(int(20_000 * settings.round_s) // 1000, 1) * 1000
    with ExitStack() as stack:
        clusters = pair(settings, stack)
        leaders = [make_stream(each) for each in clusters]
        for leader in leaders:
            publish_rate(leader.server, BASE, messages, MILLION)
        for batch in (100, 1000):
            rates: tuple[list[float], list[float]] = ([], [])
            for _ in range(settings.rounds):
                for leader, kept in zip(leaders, rates, strict=True):
                    kept.append(_pull(leader, Pulling(batch, acks=True), messages))
            name = f"pull R3, acks, batches of {batch:,}"
            rows.append(Row(name, "msg/s", *rates, higher_is_better=True, aim=PULLED))
    return rows


def _pull(leader: Member, way: Pulling, messages: int) -> float:
    name = f"pull{next(_numbers)}"
    config: dict[str, object] = {"durable_name": name, "ack_policy": "explicit"}
    make_consumer(leader.server, name, {**config, "max_ack_pending": 10_000})
    result = pull_round(leader.server, name, way, messages)
    remove_consumer(leader.server, name)
    return result.per_second


def failover(settings: Settings, how: str) -> list[Row]:
    """The time without acks after the end of a leader."""
    times = [
        [_failover_s(kind, how) * 1e3 for _ in range(settings.rounds)]
        for kind in (settings.ours, NATS_SERVER)
    ]
    return [
        Row(
            f"first ack after {how} of the leader",
            "ms",
            times[0],
            times[1],
            higher_is_better=False,
            aim=FAILOVER,
            notes=["from the signal to the first ack to a client of another server"],
        )
    ]


def _failover_s(kind: str, how: str) -> float:
    with replica_cluster(kind) as cluster:
        leader = make_stream(cluster)
        rest = cluster.others(leader)[0]
        for _ in range(20):
            first_ack_s(rest.server, "b")
        number = signal.SIGKILL if how == "kill -9" else signal.SIGSTOP
        os.kill(leader.server.pid, number)
        found = first_ack_s(rest.server, "b")
        if found is None:
            raise BenchmarkError("no publish was acknowledged after the end of the leader")
        return found


def alone_and_in_a_cluster(settings: Settings) -> list[Row]:
    """The rate of a stream of one replica in a cluster, as a part of that of a lone server."""
    messages = max(int(100_000 * settings.round_s) // 1000, 1) * 1000
    parts: tuple[list[float], list[float]] = ([], [])
    notes = []
    for kind, kept in zip((settings.ours, NATS_SERVER), parts, strict=True):
        together: list[float] = []
        with with_streams(kind, False) as lone, replica_cluster(kind) as cluster:
            create_stream(lone, {"name": STREAM, "subjects": ["b"]})
            leader = make_stream(cluster, num_replicas=1)
            publish_rate(lone, BASE, 1000)
            for number in range(settings.rounds):
                first = MILLION + number * messages
                alone = publish_rate(lone, BASE, messages, first)
                together.append(publish_rate(leader.server, BASE, messages, first))
                kept.append(together[-1] / alone)
        notes.append(f"{figure(median(together))} msg/s in a cluster ({kind})")
    return [
        Row(
            "publish R1 in a cluster",
            "of alone",
            *parts,
            higher_is_better=True,
            aim=ALONE,
            notes=notes,
        )
    ]


def followers(settings: Settings) -> list[Row]:
    """Processor time that a follower without clients takes for a message."""
    messages = int(FOLLOWED_MESSAGES * min(settings.round_s, 1.0)) // 1000 * 1000
    times: tuple[list[float], list[float]] = ([], [])
    with ExitStack() as stack:
        clusters = pair(settings, stack)
        leaders = [make_stream(each) for each in clusters]
        for number in range(settings.rounds):
            first = MILLION + number * messages
            for cluster, leader, kept in zip(clusters, leaders, times, strict=True):
                servers = [each.server for each in cluster.others(leader)]
                before = [each.cpu_s() for each in servers]
                publish_rate(leader.server, BASE, messages, first)
                cluster.info_when(leader, STREAM, is_whole)
                spent = [each.cpu_s() - at for each, at in zip(servers, before, strict=True)]
                kept.append(sum(spent) / len(spent) / messages * 1e6)
    return [
        Row(
            "processor time of a follower, 128 B, 1,000 in flight",
            "us per message",
            *times,
            higher_is_better=False,
            aim=FOLLOWED,
            notes=["the mean of both followers, which have no clients"],
        )
    ]


def idle_streams(settings: Settings, load_per_s: int = 0, streams: int = IDLE_STREAMS) -> list[Row]:
    """Processor time of servers with many replicated streams, idle or lightly loaded."""
    if settings.round_s < 1:
        streams = max(streams // 10, FEW_STREAMS)
    shares, frames = [], []
    for kind in (settings.ours, NATS_SERVER):
        with replica_cluster(kind) as cluster:
            make_many(cluster, streams)
            time.sleep(SETTLE_S)
            share, rate = usage(cluster, streams, load_per_s)
            shares.append(share)
            frames.append(rate)
    what = f"{streams:,} R3 streams, " + (f"{load_per_s} msg/s" if load_per_s else "idle")
    return [
        Row(
            f"{what}: processor time of a server",
            "% of a core",
            [shares[0]],
            [shares[1]],
            higher_is_better=False,
            aim=None if load_per_s else IDLE,
        ),
        Row(
            f"{what}: messages between two servers",
            "per second",
            [frames[0]],
            [frames[1]],
            higher_is_better=False,
            notes=[
                "as /routez counts them: without the frames of Headwater's consensus, which",
                "`python -m benchmarks.idle_groups` counts",
            ],
        ),
    ]


def idle_groups(settings: Settings) -> list[Row]:
    """Members of many idle groups beside nats-servers with as many idle streams.

    A group of the core has no stream, so this is the part of an idle stream that consensus takes.
    """
    count, seconds = (IDLE_STREAMS, IDLE_S) if settings.round_s >= 1 else (IDLE_STREAMS // 10, 3.0)
    few, many = measure_idle_groups(FEW_STREAMS, seconds), measure_idle_groups(count, seconds)
    with replica_cluster(NATS_SERVER) as cluster:
        make_many(cluster, count)
        time.sleep(SETTLE_S)
        share, rate = usage(cluster, count, 0)
    frames = [max(each.frames_per_s for each in found) / 2 for found in (few, many)]
    others = [max(each.others_per_s for each in found) for found in (few, many)]
    return [
        Row(
            f"{count:,} idle groups: processor time of a server",
            "% of a core",
            [max(each.cpu_percent for each in many)],
            [share],
            higher_is_better=False,
            aim=IDLE,
        ),
        Row(
            f"{count:,} idle groups: frames from one server to another",
            "per second",
            [frames[1]],
            [rate],
            higher_is_better=False,
            aim=HEARTBEATS,
            notes=[
                f"with {FEW_STREAMS} groups {frames[0]:.1f}; of both servers together, frames that "
                f"are no heartbeats: {others[0]:.1f} with {FEW_STREAMS}, {others[1]:.1f} with "
                f"{count:,}",
                "of nats-server the messages that /routez counts",
            ],
        ),
    ]


def make_many(cluster: ReplicaCluster, streams: int, **config: object) -> None:
    """Create streams of three replicas on the subjects `b.<number>`."""
    for number in range(streams):
        name = f"IDLE-{number}"
        place = {"name": name, "subjects": [f"b.{number}"], "num_replicas": REPLICAS}
        cluster.create(place | config)


def usage(cluster: ReplicaCluster, streams: int, load_per_s: int) -> tuple[float, float]:
    """Processor time of the busiest server in percent, and messages between two per second."""
    before = [member.server.cpu_s() for member in cluster.members]
    heard = _route_messages(cluster)
    started = time.monotonic()
    number = 0
    while (passed := time.monotonic() - started) < IDLE_S:
        while load_per_s and number < passed * load_per_s:
            first_ack_s(cluster.members[0].server, f"b.{number % streams}")
            number += 1
        time.sleep(0.01)
    spent = [member.server.cpu_s() - at for member, at in zip(cluster.members, before, strict=True)]
    return max(spent) / passed * 100, (_route_messages(cluster) - heard) / passed / 2


def _route_messages(cluster: ReplicaCluster) -> float:
    """Messages that the first server has got from the two others."""
    page = cluster.members[0].stored.page("/routez")
    return float(sum(route["in_msgs"] for route in page["routes"]))


def refill(settings: Settings) -> list[Row]:
    """An emptied server gets a large stream again, while clients publish."""
    size = REFILL_BYTES if settings.round_s >= 1 else REFILL_BYTES_QUICK
    rates, loads = [], []
    for kind in (settings.ours, NATS_SERVER):
        refilled_s, load = _refill(kind, size)
        rates.append(size / 1e6 / refilled_s)
        loads.append(load)
    said = f"{size // MILLION:,} MB"
    return [
        Row(f"refill of {said}", "MB/s", [rates[0]], [rates[1]], higher_is_better=True),
        Row(
            f"publish R3 during a refill of {said}, 100 in flight",
            "msg/s",
            [loads[0]],
            [loads[1]],
            higher_is_better=True,
        ),
    ]


def _refill(kind: str, size: int) -> tuple[float, float]:
    """The time until an emptied replica has everything, and the rate of publishes meanwhile."""
    large = replace(BASE, size=REFILL_MESSAGE_BYTES, window=200)
    with ExitStack() as stack:
        cluster = stack.enter_context(replica_cluster(kind))
        leader = make_stream(cluster)
        gone = cluster.others(leader)[0]
        gone.kill()
        gone.stop()
        gone.empty()
        publish_rate(leader.server, large, size // REFILL_MESSAGE_BYTES, MILLION)
        ear = stack.enter_context(dial(leader.server.port, b"SUB %b> 1\r\n" % ELECTED))
        rates: list[float] = []
        stopped = threading.Event()
        load = threading.Thread(target=_publish_until, args=(leader, stopped, rates))
        started = time.monotonic()
        gone.start()
        load.start()
        try:
            cluster.info_when(leader, STREAM, is_whole)
        finally:
            seconds = time.monotonic() - started
            stopped.set()
            load.join()
        if elections := _elections_heard(ear):
            raise BenchmarkError(f"there were {elections} elections during the refill")
        return seconds, median(rates)


def _elections_heard(ear: socket.socket) -> int:
    """The advisories of elections that a connection has got by now."""
    ear.sendall(PING)
    return read_until(ear, PONG).count(b"MSG " + ELECTED)


def _publish_until(leader: Member, stopped: threading.Event, rates: list[float]) -> None:
    light = replace(BASE, window=100)
    while not stopped.is_set() or not rates:
        rates.append(publish_rate(leader.server, light, 1000))


def name_of(kind: Kind) -> str:
    """A scenario's name on the command line."""
    return "replicas-" + kind.name.replace(", ", "-").replace(",", "").replace(" ", "-").lower()


REPLICA_SCENARIOS: Final[dict[str, Scenario]] = {
    **{name_of(kind): publishing(kind) for kind in KINDS},
    "replicas-latency-128": partial(latency, name="file, 128 B", size=128),
    "replicas-latency-1024": partial(latency, name="file, 1 KiB", size=1024),
    "replicas-latency-memory": partial(latency, name="memory", size=128, storage="memory"),
    "replicas-latency-memory-1024": partial(
        latency, name="memory, 1 KiB", size=1024, storage="memory"
    ),
    "replicas-latency-always": partial(latency, name="sync always", size=128, sync_always=True),
    "replicas-latency-always-1024": partial(
        latency, name="sync always, 1 KiB", size=1024, sync_always=True
    ),
    "replicas-pull": pulling,
    "replicas-failover-kill": partial(failover, how="kill -9"),
    "replicas-failover-pause": partial(failover, how="pause"),
    "replicas-r1": alone_and_in_a_cluster,
    "replicas-followers": followers,
    "replicas-idle": idle_streams,
    "idle-groups": idle_groups,
    "replicas-idle-few": partial(idle_streams, streams=FEW_STREAMS),
    "replicas-light": partial(idle_streams, load_per_s=50),
    "replicas-refill": refill,
}
