"""The cost of a publish as messages, subjects or streams grow: it should stay the same.

The processor time of the server per publish is measured, not the duration: so other load on the
machine hardly shows. nats-server is measured beside ours.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from benchmarks.report import Aim, Row, figure
from benchmarks.scenarios import Scenario, Settings
from benchmarks.servers import NATS_SERVER, Server
from benchmarks.stream_load import Publishing, create_stream, publish_rate
from benchmarks.stream_servers import with_streams

# The factor allowed for eight times the size; caches explain less.
FLAT: Final = Aim("at most 2.0 times", ours_max=2.0)
STEPS: Final = (1, 2, 4, 8)
# Per second of a round.
MESSAGES: Final = 50_000
STREAMS: Final = 50
PROBES: Final = 50_000

ONE_SUBJECT: Final = Publishing("b", 128, 1000)


@dataclass(frozen=True)
class Stage:
    """A size that was reached, and the publishes to measure there."""

    size: int
    probe: Publishing


# Brings a server from one stage to the next.
Growing = Callable[[Server, Settings], Iterator[Stage]]


def messages(server: Server, settings: Settings) -> Iterator[Stage]:
    """More messages on one subject."""
    unit = int(MESSAGES * settings.round_s)
    stored = 0
    for step in STEPS:
        publish_rate(server, ONE_SUBJECT, step * unit - stored)
        stored = step * unit
        yield Stage(stored, ONE_SUBJECT)


def subjects(server: Server, settings: Settings) -> Iterator[Stage]:
    """More subjects, with a message each; the measured publishes go to existing subjects."""
    unit = int(MESSAGES * settings.round_s)
    stored = 0
    for step in STEPS:
        size = step * unit
        publishing = replace(ONE_SUBJECT, subject="b.{}", subjects=size)
        publish_rate(server, publishing, size - stored, stored)
        stored = size
        yield Stage(stored, publishing)


def streams(server: Server, settings: Settings) -> Iterator[Stage]:
    """More streams beside the one that is published to."""
    unit = max(int(STREAMS * settings.round_s), 1)
    made = 1
    for step in STEPS:
        for number in range(made, step * unit):
            create_stream(server, {"name": f"S{number}", "subjects": [f"s.{number}"]})
        made = step * unit
        yield Stage(made, ONE_SUBJECT)


def growth(name: str, growing: Growing) -> Scenario:
    """The factor between the costs of a publish at the largest and at the smallest size."""

    def measure(settings: Settings) -> list[Row]:
        factors: list[float] = []
        notes: list[str] = []
        for kind in (settings.ours, NATS_SERVER):
            with ExitStack() as stack:
                server = stack.enter_context(with_streams(kind, sync_always=False))
                create_stream(server, {"name": "B", "subjects": ["b", "b.>"]})
                costs = {
                    stage.size: publish_cost_us(server, stage.probe, settings)
                    for stage in growing(server, settings)
                }
            first, *_, last = costs.values()
            factors.append(last / first)
            each = " / ".join(figure(cost) for cost in costs.values())
            notes.append(f"{kind}: {each} us at {', '.join(map(figure, costs))} {name}")
        ours, theirs = factors
        return [
            Row(
                f"publish, eight times the {name}",
                "times",
                [ours],
                [theirs],
                higher_is_better=False,
                aim=FLAT,
                notes=notes,
                # A ratio of two factors would have no meaning.
                is_difference=True,
            )
        ]

    return measure


def publish_cost_us(server: Server, publishing: Publishing, settings: Settings) -> float:
    """Processor time of the server for one publish."""
    probes = int(PROBES * settings.round_s)
    spent = []
    for _ in range(settings.rounds):
        before_s = server.cpu_s()
        publish_rate(server, publishing, probes)
        spent.append((server.cpu_s() - before_s) / probes * 1e6)
    return median(spent)


GROWTH_SCENARIOS: Final[dict[str, Scenario]] = {
    "publish-growth-messages": growth("messages", messages),
    "publish-growth-subjects": growth("subjects", subjects),
    "publish-growth-streams": growth("streams", streams),
}
