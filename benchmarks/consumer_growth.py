"""The cost of publishes, acknowledgements and pulls as consumers, pending acks and pulls grow.

Whatever the number of consumers on a stream, of messages without an acknowledgement, or of waiting
requests: a message should cost the same. As in `stream_growth`, the processor time of the server is
measured, and nats-server is measured beside ours.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Final

from benchmarks.consumer_load import (
    STREAM,
    Pulling,
    make_consumer,
    make_consumers,
    measured,
    pull_round,
    waiting_pulls,
)
from benchmarks.load import LoadResult
from benchmarks.report import Row, figure
from benchmarks.scenarios import Scenario, Settings
from benchmarks.servers import NATS_SERVER, Server
from benchmarks.stream_growth import FLAT
from benchmarks.stream_load import Publishing, create_stream, publish_rate
from benchmarks.stream_servers import with_streams

CONSUMERS: Final = (10, 100, 1_000, 10_000)
# With ten thousand an acknowledgement costs nats-server milliseconds, and rounds take too long.
QUEUES: Final = (10, 100, 1_000)
PENDING: Final = (100, 1_000, 10_000, 100_000)
WAITING: Final = (1, 10, 100, 1_000)
PROBES: Final = 20_000
# Single publishes take longer.
SINGLE_PROBES: Final = 2_000

HOUR_NS: Final = 3_600_000_000_000
PUBLISHING: Final = Publishing("b", 128, 1000)
PULLING: Final = Pulling(100, acks=True)
WORKER: Final = "worker"
# The first token of subjects that the worker's filter does not match.
OTHERS: Final = "others"
WORKER_CONFIG: Final[dict[str, object]] = {
    "durable_name": WORKER,
    "filter_subject": "b",
    "ack_policy": "explicit",
    "ack_wait": HOUR_NS,
    "max_ack_pending": -1,
    "max_waiting": 2 * WAITING[-1],
}

# The cost of a message for the server, in microseconds, by operation.
Costs = dict[str, float]


@dataclass(frozen=True)
class Stage:
    """A size that was reached, and its measurement."""

    size: int
    measure: Callable[[], Costs]


# Brings a server from one stage to the next.
Growing = Callable[[Server, Settings], Iterator[Stage]]


def publish_and_consume(server: Server, messages: int) -> Costs:
    """Publish messages, and have the worker acknowledge them."""
    published = measured(server, messages, lambda: publish_all(server, messages))
    consumed = pull_round(server, WORKER, PULLING, messages)
    return {"publish": cost_us(published), "deliver and ack": cost_us(consumed)}


def publish_all(server: Server, messages: int) -> None:
    """Publish messages and wait for their acks."""
    publish_rate(server, PUBLISHING, messages)


def cost_us(result: LoadResult) -> float:
    """Processor time of the server for a message."""
    return result.server_cpu_s / result.messages * 1e6


def consumers(
    server: Server, settings: Settings, sizes: tuple[int, ...] = CONSUMERS, below: str = ""
) -> Iterator[Stage]:
    """More consumers that request no messages: of every subject, or of other subjects."""
    probes = int(PROBES * settings.round_s)
    made = 0
    for size in sizes:
        names = [f"c{number}" for number in range(made, size)]
        make_consumers(server, names, below)
        made = size
        yield Stage(size, partial(publish_and_consume, server, probes))


def pending(server: Server, settings: Settings) -> Iterator[Stage]:
    """More messages that the worker got before and did not acknowledge."""
    probes = int(PROBES * settings.round_s)
    held = 0
    for size in PENDING:
        publish_all(server, size - held)
        pull_round(server, WORKER, Pulling(100, acks=False), size - held)
        held = size
        yield Stage(size, partial(publish_and_consume, server, probes))


def waiting(server: Server, settings: Settings) -> Iterator[Stage]:
    """More requests that wait at the worker; a served client requests again."""
    probes = int(SINGLE_PROBES * settings.round_s)
    for size in WAITING:
        with waiting_pulls(server, WORKER, size) as publish_each:
            yield Stage(size, partial(publish_singly, publish_each, probes))


def publish_singly(publish_each: Callable[[int], LoadResult], messages: int) -> Costs:
    """Publish messages, one at a time, to requests that wait for them."""
    return {"publish to who waits": cost_us(publish_each(messages))}


def growth(name: str, growing: Growing, **config: object) -> Scenario:
    """The factor between the costs of a message at the largest and at the smallest size."""

    def measure(settings: Settings) -> list[Row]:
        ours, theirs = (
            measure_growth(kind, growing, config, settings) for kind in (settings.ours, NATS_SERVER)
        )
        rows = []
        for done in ours:
            sides = {settings.ours: ours[done], NATS_SERVER: theirs[done]}
            notes = [
                f"{kind}: {' / '.join(map(figure, costs.values()))} us "
                f"at {', '.join(map(figure, costs))} {name}"
                for kind, costs in sides.items()
            ]
            title = f"{done}, {figure(max(ours[done]))} {name}"
            rows.append(
                Row(
                    title,
                    "times",
                    [factor(ours[done])],
                    [factor(theirs[done])],
                    higher_is_better=False,
                    aim=FLAT,
                    notes=notes,
                    # A ratio of two factors would have no meaning.
                    is_difference=True,
                )
            )
        return rows

    return measure


def measure_growth(
    kind: str, growing: Growing, config: dict[str, object], settings: Settings
) -> dict[str, dict[int, float]]:
    """The cost of a message for a server at each size, by operation."""
    found: dict[str, dict[int, float]] = {}
    with with_streams(kind, sync_always=False) as server:
        subjects = ["b", f"{OTHERS}.>"]
        limit = 2 * CONSUMERS[-1]
        stream = {"name": STREAM, "subjects": subjects, "max_consumers": limit, **config}
        create_stream(server, stream)
        make_consumer(server, WORKER, WORKER_CONFIG)
        for stage in growing(server, settings):
            rounds = [stage.measure() for _ in range(settings.rounds)]
            for done in rounds[0]:
                found.setdefault(done, {})[stage.size] = median(each[done] for each in rounds)
    return found


def factor(costs: dict[int, float]) -> float:
    """The cost at the largest size divided by that at the smallest."""
    return costs[max(costs)] / costs[min(costs)]


CONSUMER_GROWTH_SCENARIOS: Final[dict[str, Scenario]] = {
    "consumer-growth-consumers": growth("consumers", consumers),
    "consumer-growth-queues": growth(
        "consumers of a work queue",
        partial(consumers, sizes=QUEUES, below=OTHERS),
        retention="workqueue",
    ),
    "consumer-growth-pending": growth("pending acks", pending),
    "consumer-growth-waiting": growth("waiting pulls", waiting),
}
