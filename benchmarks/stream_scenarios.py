"""Streams beside nats-server: publishing in every kind of stream, and reading by direct get."""

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final

from benchmarks.report import Aim, Row
from benchmarks.scenarios import Scenario, Settings
from benchmarks.servers import NATS_SERVER
from benchmarks.stream_growth import GROWTH_SCENARIOS
from benchmarks.stream_load import (
    Publishing,
    create_stream,
    publish_latency_s,
    publish_rate,
    request_rate,
)
from benchmarks.stream_servers import with_streams

SAME_RATE: Final = Aim("at least 1.00", ratio_min=1.0)
TWENTY_TIMES: Final = Aim("at least 20", ratio_min=20.0)
LATENCY: Final = Aim("at most 1.20", ratio_max=1.2)
DIRECT_GET: Final = Aim("at least 0.80", ratio_min=0.8)

MILLION: Final = 1_000_000


@dataclass(frozen=True)
class Kind:
    """A way to publish."""

    name: str
    publishing: Publishing
    config: dict[str, object] = field(default_factory=dict)
    sync_always: bool = False
    aim: Aim | None = SAME_RATE
    # nats-server is so much slower with a sync per message that it gets fewer.
    share: float = 1.0


BASE: Final = Publishing("b", 128, 1000)
KINDS: Final = (
    Kind("file, 128 B, 1,000 in flight", BASE),
    Kind("file, 1 KiB, 1,000 in flight", replace(BASE, size=1024)),
    Kind("file, 1,000 subjects", Publishing("b.{}", 128, 1000, 1000)),
    Kind("file, 1 million subjects", Publishing("b.{}", 128, 1000, MILLION)),
    Kind("file, with message ids", replace(BASE, has_ids=True)),
    Kind("file, 100 in flight", replace(BASE, window=100)),
    Kind("memory, 1,000 in flight", BASE, {"storage": "memory"}),
    Kind("async, 1,000 in flight", BASE, {"persist_mode": "async"}),
    Kind("sync always, 1,000 in flight", BASE, sync_always=True, aim=TWENTY_TIMES, share=0.05),
)


def publishing(kind: Kind) -> Scenario:
    """Acked messages per second, ours and theirs in turn, into one growing stream each."""

    def measure(settings: Settings) -> list[Row]:
        # About as many as fit into a second.
        messages = int(150_000 * settings.round_s) // 1000 * 1000
        counts = (messages, max(int(messages * kind.share), 1000))
        rates: tuple[list[float], list[float]] = ([], [])
        with ExitStack() as stack:
            pair = [
                stack.enter_context(with_streams(name, kind.sync_always))
                for name in (settings.ours, NATS_SERVER)
            ]
            for server in pair:
                create_stream(server, {"name": "B", "subjects": ["b", "b.>"], **kind.config})
                publish_rate(server, kind.publishing, 1000)
            for number in range(settings.rounds):
                for server, count, kept in zip(pair, counts, rates, strict=True):
                    first = MILLION + number * count
                    kept.append(publish_rate(server, kind.publishing, count, first))
        name = f"publish, {kind.name}"
        return [Row(name, "msg/s", *rates, higher_is_better=True, aim=kind.aim)]

    return measure


def latency(settings: Settings) -> list[Row]:
    """One publish at a time."""
    alone = replace(BASE, window=1)
    times: tuple[list[float], list[float]] = ([], [])
    with ExitStack() as stack:
        pair = [stack.enter_context(with_streams(n, False)) for n in (settings.ours, NATS_SERVER)]
        for server in pair:
            create_stream(server, {"name": "B", "subjects": ["b"]})
            publish_latency_s(server, alone, 200)
        for _ in range(settings.rounds):
            for server, kept in zip(pair, times, strict=True):
                kept.append(publish_latency_s(server, alone, settings.requests) * 1e6)
    return [Row("publish, 1 in flight, p50", "us", *times, higher_is_better=False, aim=LATENCY)]


def direct_get(settings: Settings) -> list[Row]:
    """The last message of one of a thousand subjects, a hundred requests at a time."""
    rates: tuple[list[float], list[float]] = ([], [])
    requests = int(60_000 * settings.round_s)
    with ExitStack() as stack:
        pair = [stack.enter_context(with_streams(n, False)) for n in (settings.ours, NATS_SERVER)]
        for server in pair:
            create_stream(server, {"name": "B", "subjects": ["b.>"], "allow_direct": True})
            publish_rate(server, Publishing("b.{}", 128, 1000, 1000), 10_000)
        for _ in range(settings.rounds):
            for server, kept in zip(pair, rates, strict=True):
                subject = "$JS.API.DIRECT.GET.B.b.7"
                kept.append(request_rate(server, subject, b"", requests, 100))
    return [Row("direct get", "req/s", *rates, higher_is_better=True, aim=DIRECT_GET)]


def names_of(kind: Kind) -> str:
    """A scenario's name on the command line."""
    return "publish-" + kind.name.replace(", ", "-").replace(",", "").replace(" ", "-").lower()


STREAM_SCENARIOS: Final[dict[str, Scenario]] = {
    **{names_of(kind): publishing(kind) for kind in KINDS},
    "publish-latency": latency,
    "direct-get": direct_get,
    **GROWTH_SCENARIOS,
}
