"""Consumers beside nats-server: pulls, pushes, acknowledgements, work queues, replay, latency."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from statistics import median
from typing import Final

from benchmarks.consumer_growth import CONSUMER_GROWTH_SCENARIOS
from benchmarks.consumer_load import (
    ORDERED,
    STREAM,
    Pulling,
    latencies_s,
    make_consumer,
    pull_round,
    push_round,
    remove_consumer,
)
from benchmarks.load import LoadResult
from benchmarks.report import Aim, Row, figure
from benchmarks.scenarios import Scenario, Settings, cpu_shares
from benchmarks.servers import NATS_SERVER, Server
from benchmarks.stream_load import Publishing, create_stream, publish_rate
from benchmarks.stream_servers import with_streams

SHARE_OF_RATE: Final = Aim("at least 0.60", ratio_min=0.6)
LATENCY: Final = Aim("at most 2.00", ratio_max=2.0)
MILLION: Final = 1_000_000

Round = Callable[[Server, int], LoadResult]

_numbers: Final = count(1)


@dataclass(frozen=True)
class Kind:
    """A way to consume. `messages` are about as many as fit into a second."""

    name: str
    consume: Round
    size: int = 128
    messages: int = 100_000
    config: dict[str, object] = field(default_factory=dict)
    is_emptied: bool = False
    """Whether consuming removes the messages, so that each round needs new ones."""
    is_whole: bool = False
    """Whether the number of messages does not depend on the length of a round."""


def pull(pulling: Pulling) -> Round:
    """Pull all messages of the stream."""
    policy = "explicit" if pulling.acks else "none"

    def consume(server: Server, messages: int) -> LoadResult:
        name = f"pull{next(_numbers)}"
        make_consumer(server, name, {"durable_name": name, "ack_policy": policy})
        result = pull_round(server, name, pulling, messages)
        remove_consumer(server, name)
        return result

    return consume


def push(config: dict[str, object]) -> Round:
    """Let all messages of the stream be pushed."""

    def consume(server: Server, messages: int) -> LoadResult:
        return push_round(server, config, messages)

    return consume


def kinds_of(size: int) -> list[Kind]:
    """All ways, with messages of one size."""
    said = f"{size} B" if size < 1024 else f"{size // 1024} KiB"
    kind = partial(Kind, size=size)
    return [
        kind(f"pull, no acks, {said}", pull(Pulling(1000, acks=False)), messages=200_000),
        kind(f"pull, acks, batches of 1, {said}", pull(Pulling(1, acks=True)), messages=5_000),
        kind(f"pull, acks, batches of 100, {said}", pull(Pulling(100, acks=True))),
        kind(f"pull, acks, batches of 1,000, {said}", pull(Pulling(1000, acks=True))),
        kind(f"push, ordered, {said}", push(ORDERED), messages=200_000),
        kind(f"push, no acks, {said}", push({"ack_policy": "none"}), messages=200_000),
        kind(
            f"work queue, 4 workers, {said}",
            pull(Pulling(100, acks=True, workers=4)),
            config={"retention": "workqueue"},
            is_emptied=True,
        ),
    ]


KINDS: Final = (
    *kinds_of(128),
    *kinds_of(1024),
    Kind("replay of 1 million, 128 B", push(ORDERED), messages=MILLION, is_whole=True),
)


def consuming(kind: Kind) -> Scenario:
    """Messages delivered per second, ours and theirs in turn, from one filled stream each."""

    def measure(settings: Settings) -> list[Row]:
        messages = kind.messages
        if not kind.is_whole:
            messages = max(int(messages * settings.round_s), 1000)
        publishing = Publishing("b", kind.size, 1000)
        rounds: list[tuple[LoadResult, ...]] = []
        with ExitStack() as stack:
            pair = [
                stack.enter_context(with_streams(name, sync_always=False))
                for name in (settings.ours, NATS_SERVER)
            ]
            for server in pair:
                create_stream(server, {"name": STREAM, "subjects": ["b"], **kind.config})
            # The first round is the warm-up.
            for number in range(settings.rounds + 1):
                results = []
                for server in pair:
                    if kind.is_emptied or not number:
                        publish_rate(server, publishing, messages)
                    results.append(kind.consume(server, messages))
                if number:
                    rounds.append(tuple(results))
        ours, theirs = zip(*rounds, strict=True)
        return [
            Row(
                kind.name,
                "msg/s",
                [each.per_second for each in ours],
                [each.per_second for each in theirs],
                higher_is_better=True,
                aim=SHARE_OF_RATE,
                notes=notes(settings, ours, theirs),
            )
        ]

    return measure


def notes(
    settings: Settings, ours: tuple[LoadResult, ...], theirs: tuple[LoadResult, ...]
) -> list[str]:
    """The cost of a message for the servers, and the load of the client."""
    return [
        f"processor time of the server for a message: {cost_us(ours)} us ({settings.ours}), "
        f"{cost_us(theirs)} us ({NATS_SERVER})",
        "processor use, client / server: "
        f"{cpu_shares(ours)} ({settings.ours}), {cpu_shares(theirs)} ({NATS_SERVER})",
    ]


def cost_us(results: tuple[LoadResult, ...]) -> str:
    """Processor time of the server for a message, in the median round."""
    return figure(median(each.server_cpu_s / each.messages for each in results) * 1e6)


def idle_latency(settings: Settings) -> list[Row]:
    """One message at a time, from a stream at rest."""
    requests = settings.requests // 5
    rows = []
    for size, said in ((128, "128 B"), (1024, "1 KiB")):
        times: list[list[tuple[float, float]]] = [[], []]
        with ExitStack() as stack:
            pair = [
                stack.enter_context(with_streams(name, sync_always=False))
                for name in (settings.ours, NATS_SERVER)
            ]
            for server in pair:
                create_stream(server, {"name": STREAM, "subjects": ["b"]})
                make_consumer(server, "idle", {"durable_name": "idle", "ack_policy": "none"})
                latencies_s(server, "idle", 100, size)
            for _ in range(settings.rounds):
                for server, kept in zip(pair, times, strict=True):
                    kept.append(latencies_s(server, "idle", requests, size))
        for place, name in enumerate(("publish to delivery", "request to delivery")):
            ours, theirs = ([each[place] * 1e6 for each in kept] for kept in times)
            rows.append(
                Row(
                    f"fetch, {name}, {said}, p50",
                    "us",
                    ours,
                    theirs,
                    higher_is_better=False,
                    aim=LATENCY,
                )
            )
    return rows


def names_of(kind: Kind) -> str:
    """A scenario's name on the command line."""
    return "consume-" + kind.name.replace(", ", "-").replace(",", "").replace(" ", "-").lower()


CONSUMER_SCENARIOS: Final[dict[str, Scenario]] = {
    **{names_of(kind): consuming(kind) for kind in KINDS},
    "fetch-latency": idle_latency,
    **CONSUMER_GROWTH_SCENARIOS,
}
