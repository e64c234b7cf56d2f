"""The scenarios, and the alternation of rounds of the two servers.

Each scenario starts both servers, runs a warm-up on each that does not count, and then rounds in
the order ours, theirs, ours, theirs. The idle one of the two costs nothing. A scenario returns rows
for the report; its notes have the generator's own limit, because a generator that is the bottleneck
makes every server look alike.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Final

from benchmarks import crowd, latency, load
from benchmarks.load import LoadResult, Traffic
from benchmarks.report import Aim, Row, figure
from benchmarks.servers import HEADWATER, NATS_SERVER, RELAY, Server, running

WARM_UP_BLOBS: Final = 4
CONTROL_ROUNDS: Final = 4
BLOBS_MAX: Final = 2000
SETTLE_S: Final = 0.5

HALF_THE_RATE: Final = Aim("at least 0.50", ratio_min=0.5)
LATENCY_AIM: Final = Aim("at most 1.50", ratio_max=1.5)
START_AIM: Final = Aim("under 0.4 s", ours_max=0.4)
IDLE_AIM: Final = Aim("under 60 MB", ours_max=60)
GROWTH_AIM: Final = Aim("no growth (under 10 MB)", ours_max=10)

# Small and large bodies in one stream, 310 bytes on average.
VARIED_SIZES: Final = (16, 900, 40, 128, 1024, 64, 300, 8)


@dataclass(frozen=True)
class Settings:
    """The size of all measurements."""

    rounds: int
    round_s: float
    requests: int
    starts: int
    reply_subjects: int
    crowd_connections: int
    crowd_subscriptions: int
    ours: str = HEADWATER
    """nats-server here measures nats-server against itself, which shows the noise."""


FULL: Final = Settings(5, 1.0, 5000, 5, 1_000_000, 1000, 100_000)
QUICK: Final = Settings(2, 0.25, 1000, 3, 200_000, 200, 20_000)

Scenario = Callable[[Settings], list[Row]]


# --- throughput ---------------------------------------------------------------------------------


def throughput(
    settings: Settings,
    name: str,
    traffic: Traffic,
    subscribers: int = 1,
    aim: Aim | None = HALF_THE_RATE,
    crowd_size: tuple[int, int] | None = None,
) -> list[Row]:
    """Messages delivered per second."""
    with ExitStack() as stack:
        pair = [stack.enter_context(running(kind)) for kind in (settings.ours, NATS_SERVER)]
        if crowd_size:
            for server in pair:
                stack.enter_context(crowd.gathered(server, *crowd_size))
        measure = partial(load.run_round, traffic=traffic, blob_first=0, subscribers=subscribers)
        blobs = [blobs_for(server, measure, settings.round_s) for server in pair]
        rounds = [
            tuple(measure(server, blob_count=n) for server, n in zip(pair, blobs, strict=True))
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
            aim=aim,
            notes=generator_notes(settings, measure, subscribers, ours, theirs),
        )
    ]


def blobs_for(server: Server, measure: Callable[..., LoadResult], round_s: float) -> int:
    """The number of blobs that fill a round, estimated by a warm-up."""
    measure(server, blob_count=WARM_UP_BLOBS)
    probe = measure(server, blob_count=WARM_UP_BLOBS)
    return max(WARM_UP_BLOBS, min(BLOBS_MAX, round(WARM_UP_BLOBS * round_s / probe.seconds)))


def generator_notes(
    settings: Settings,
    measure: Callable[..., LoadResult],
    subscribers: int,
    ours: tuple[LoadResult, ...],
    theirs: tuple[LoadResult, ...],
) -> list[str]:
    """The generator's rate without a server in between, and its cost with one."""
    with running(RELAY) as relay:
        blobs = blobs_for(relay, measure, settings.round_s / 2)
        ceiling = measure(relay, blob_count=blobs).per_second * subscribers
    fastest = max(each.per_second for each in (*ours, *theirs)) * subscribers
    return [
        f"generator alone (through a byte relay): {figure(ceiling)} msg/s, "
        f"{ceiling / fastest:.1f} times the fastest round above",
        "processor use, generator / server: "
        f"{cpu_shares(ours)} ({settings.ours}), {cpu_shares(theirs)} ({NATS_SERVER})",
    ]


def cpu_shares(results: tuple[LoadResult, ...]) -> str:
    """Generator's and server's share of one core, in the median round."""
    generator = median(each.generator_cpu_s / each.seconds for each in results)
    server = median(each.server_cpu_s / each.seconds for each in results)
    return f"{generator:.0%} / {server:.0%}"


def one_to_one(size: int) -> Scenario:
    """One publisher, one subscriber, one subject."""
    traffic = Traffic("benchmark.one", "benchmark.one", (size,))
    return partial(throughput, name=f"1:1, {size} bytes", traffic=traffic)


FAN_OUT: Final = partial(
    throughput,
    name="fan-out 1:4, 128 bytes",
    traffic=Traffic("benchmark.one", "benchmark.one", (128,)),
    subscribers=4,
)

# A case in which a route cache and equal frame sizes do not help.
VARIED: Final = partial(
    throughput,
    name="1,000 subjects, mixed sizes",
    traffic=Traffic("benchmark.v{:03d}", "benchmark.*", VARIED_SIZES, subjects=1000),
)


def few_of_many(settings: Settings) -> list[Row]:
    """A publish that matches one subscription, without and with a crowd of others around it."""
    traffic = Traffic("few.{:03d}.hot", "few.*.hot", (128,), subjects=1000)
    connections, subscriptions = settings.crowd_connections, settings.crowd_subscriptions
    crowd.raise_file_limit(2 * connections)
    (alone,) = throughput(settings, "matching one subscription", traffic)
    (crowded,) = throughput(
        settings,
        f"matching one among {subscriptions:,} on {connections:,} connections",
        traffic,
        crowd_size=(connections, subscriptions),
    )
    kept = [
        median(getattr(crowded, side)) / median(getattr(alone, side)) for side in ("ours", "theirs")
    ]
    note = f"speed kept in the crowd: {settings.ours} {kept[0]:.0%}, {NATS_SERVER} {kept[1]:.0%}"
    return [alone, replace(crowded, notes=[note, *crowded.notes])]


def reply_subjects(settings: Settings) -> list[Row]:
    """Distinct subjects under one wildcard, as replies have them: rate, and memory kept."""
    traffic = Traffic(
        "_INBOX.benchmark.{:08d}",
        "_INBOX.benchmark.*",
        (16,),
        subjects=100_000_000,
        is_distinct=True,
    )
    blobs = -(-settings.reply_subjects // traffic.messages_per_blob)
    with running(settings.ours) as ours, running(NATS_SERVER) as theirs:
        pair = (ours, theirs)
        # The control: the same subjects again and again, until buffers have reached their size;
        # later growth depends on the number of subjects.
        for _ in range(CONTROL_ROUNDS):
            for server in pair:
                load.run_round(server, traffic, 0, blobs)
        before_mb = [server.resident_mb() for server in pair]
        rates: list[list[float]] = [[], []]
        for number in range(settings.rounds):
            first = (number + 1) * blobs
            for server, kept in zip(pair, rates, strict=True):
                kept.append(load.run_round(server, traffic, first, blobs).per_second)
        growth_mb = [
            server.resident_mb() - before for server, before in zip(pair, before_mb, strict=True)
        ]
    total = settings.rounds * blobs * traffic.messages_per_blob
    return [
        Row(
            "distinct reply subjects",
            "msg/s",
            rates[0],
            rates[1],
            higher_is_better=True,
            aim=HALF_THE_RATE,
        ),
        Row(
            f"memory growth over {total:,} reply subjects",
            "MB",
            [growth_mb[0]],
            [growth_mb[1]],
            higher_is_better=False,
            aim=GROWTH_AIM,
            is_difference=True,
        ),
    ]


# --- latency ------------------------------------------------------------------------------------


def request_reply(settings: Settings) -> list[Row]:
    """Round trip of one request at a time."""
    with running(settings.ours) as ours, running(NATS_SERVER) as theirs, running(RELAY) as relay:
        measure = partial(latency.run_round, requests=settings.requests)
        for server in (ours, theirs):
            measure(server)
        rounds = [(measure(ours), measure(theirs)) for _ in range(settings.rounds)]
        floor = measure(relay, with_responder=False)
    note = (
        "the requester alone, its requests sent straight back by a relay: "
        f"p50 {figure(floor.p50_s * 1e6)} us, p99 {figure(floor.p99_s * 1e6)} us"
    )
    return [
        Row(
            f"request/reply {label}",
            "us",
            [getattr(mine, field) * 1e6 for mine, _ in rounds],
            [getattr(other, field) * 1e6 for _, other in rounds],
            higher_is_better=False,
            aim=LATENCY_AIM,
            notes=[note] if label == "p50" else [],
        )
        for label, field in (("p50", "p50_s"), ("p99", "p99_s"))
    ]


# --- starting -----------------------------------------------------------------------------------


def start_and_idle(settings: Settings) -> list[Row]:
    """From exec to "Server is ready", and the memory of an idle server."""
    kinds = (settings.ours, NATS_SERVER)
    ready_s: tuple[list[float], list[float]] = ([], [])
    idle_mb: tuple[list[float], list[float]] = ([], [])
    # The first start pays for files that the system has not cached yet.
    for number in range(settings.starts + 1):
        for side, kind in enumerate(kinds):
            with running(kind) as server:
                time.sleep(SETTLE_S)
                if number:
                    ready_s[side].append(server.ready_s)
                    idle_mb[side].append(server.resident_mb())
    return [
        Row("exec to ready", "s", *ready_s, higher_is_better=False, aim=START_AIM),
        Row("idle memory", "MB", *idle_mb, higher_is_better=False, aim=IDLE_AIM),
    ]


CORE_SCENARIOS: Final[dict[str, Scenario]] = {
    "start": start_and_idle,
    "core-16": one_to_one(16),
    "core-128": one_to_one(128),
    "core-1024": one_to_one(1024),
    "fan-out": FAN_OUT,
    "varied": VARIED,
    "request": request_reply,
    "few": few_of_many,
    "replies": reply_subjects,
}
