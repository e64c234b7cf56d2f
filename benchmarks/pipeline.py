"""`python -m benchmarks.pipeline`: rows through Spark, beside a loop that consumes with nats-py.

One session on two cores, the server on the same machine. Every figure is taken with Headwater and
with nats-server in turn, so that other load on the machine affects both. Rates include everything
that a user waits for, from the call to its return: planning, the start of a streaming query, its
commits.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final

import nats
from nats.js.api import AckPolicy, ConsumerConfig
from pyspark.sql import DataFrame, SparkSession

from benchmarks.__main__ import machine
from benchmarks.report import figure
from benchmarks.servers import BYTES_PER_MB, HEADWATER, NATS_SERVER
from benchmarks.stream_servers import with_streams
from headwater.client.api.requests import stream_create
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.login import Login
from headwater.spark.jobs.archive.job import ArchiveSettings, archive
from headwater.spark.jobs.archive.reader import read_archive
from headwater.spark.jobs.replay.job import ReplaySettings, replay
from headwater.spark.session import session
from headwater.wire.frames import publish_frame

SIZES_BYTES: Final = (100, 1024)
PARTITIONS: Final = (1, 2)
SUBJECTS: Final = 100
PUBLISHED_AT_ONCE: Final = 1000
NATS_PY_SHARE: Final = 10
"""The nats-py loop gets one message in this many, or it would take most of the time."""
NATS_PY_BATCH: Final = 1000
MS_PER_S: Final = 1000

NOOP: Final = "source to noop"
DELTA: Final = "source to Delta"
SINK: Final = "files to sink, exactly once"
SINK_BATCHES: Final = "the same, batches alone"
REPLAY: Final = "Delta to stream, replay"
LOOP: Final = "nats-py, pull and no acks"
AIM_ROWS: Final = {NOOP: 250_000, SINK: 100_000, SINK_BATCHES: 100_000}


Rates = dict[str, float]
"""Rows per second, by scenario."""


@dataclass(frozen=True)
class Figure:
    """The rows per second of one way, in each round."""

    way: str
    server: str
    size_bytes: int
    partitions: int
    rows: int
    rows_per_s: list[float]

    @property
    def megabytes_per_s(self) -> float:
        return median(self.rows_per_s) * self.size_bytes / BYTES_PER_MB


@dataclass(frozen=True)
class Place:
    """A server with a filled stream, and a folder to write to."""

    spark: SparkSession
    url: str
    size_bytes: int
    rows: int
    folder: Path

    @property
    def login(self) -> Login:
        return Login(url=self.url)

    def create(self, name: str, subject: str) -> None:
        """Create an empty stream of this name."""
        with Connection(self.login) as connection:
            config = {"name": name, "subjects": [subject], "storage": "file"}
            ApiClient(connection).call(stream_create(config))

    def messages_in(self, name: str) -> int:
        with Connection(self.login) as connection:
            return ApiClient(connection).stream_info(name).messages


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, and list the missed aims."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds per figure")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    options = parser.parse_args(arguments)
    rows = {100: 1_000_000, 1024: 300_000}
    rounds = options.rounds
    if options.quick:
        rows, rounds = {size: count // 10 for size, count in rows.items()}, 1
    print(f"{machine()}; {rounds} rounds, Headwater and nats-server in turn; local[2]")
    spark = session("local[2]", app_name="benchmark")
    try:
        figures = [
            figure for size in SIZES_BYTES for figure in measured(spark, size, rows[size], rounds)
        ]
    finally:
        spark.stop()
    print(f"\n{table(figures)}\n")
    for each in figures:
        aim = AIM_ROWS.get(each.way, 0)
        if each.server == HEADWATER and each.size_bytes == SIZES_BYTES[0] and each.partitions == 2:
            rate = median(each.rows_per_s)
            if aim:
                verdict = "met" if rate >= aim else "MISSED"
                print(f"{each.way}: {figure(rate)} rows/s, aim {figure(aim)}: {verdict}")
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in figures], indent=2) + "\n")
    return 0


def measured(spark: SparkSession, size: int, rows: int, rounds: int) -> list[Figure]:
    """All figures for one size of message."""
    rates: dict[tuple[str, str, int], list[float]] = {}
    with (
        filled(spark, HEADWATER, size, rows) as ours,
        filled(spark, NATS_SERVER, size, rows) as theirs,
    ):
        for name, way, partitions in ways():
            print(f"{name}, {size} B, {partitions} partitions ...", file=sys.stderr)
            way(ours, partitions, "warm-up")
            for number in range(rounds):
                for server, place in ((HEADWATER, ours), (NATS_SERVER, theirs)):
                    for figure_name, rate in way(place, partitions, f"{number}").items():
                        rates.setdefault((figure_name, server, partitions), []).append(rate)
    return [
        Figure(name, server, size, partitions, rows, each)
        for (name, server, partitions), each in rates.items()
    ]


def ways() -> Iterator[tuple[str, Callable[[Place, int, str], Rates], int]]:
    """The ways to measure, in an order in which later ones find the files of earlier ones."""
    for partitions in PARTITIONS:
        yield NOOP, to_noop, partitions
    for partitions in PARTITIONS:
        yield DELTA, to_delta, partitions
    for partitions in PARTITIONS:
        yield SINK, to_sink, partitions
    yield REPLAY, to_replay, max(PARTITIONS)
    yield LOOP, by_nats_py, 1


# --- one way each: rows per second ---------------------------------------------------------------


def rate_of(rows: int, action: Callable[[], object]) -> float:
    started_s = time.monotonic()
    action()
    return rows / (time.monotonic() - started_s)


def source(place: Place, partitions: int) -> DataFrame:
    """The whole stream."""
    options = {"url": place.url, "stream": "SOURCE", "minPartitions": str(partitions)}
    return place.spark.read.format("headwater").options(**options).load()


def to_noop(place: Place, partitions: int, label: str) -> Rates:
    """Read without using any row."""

    def run() -> None:
        source(place, partitions).write.format("noop").mode("overwrite").save()

    return {NOOP: rate_of(place.rows, run)}


def to_delta(place: Place, partitions: int, label: str) -> Rates:
    """The archive job, into a table of its own."""
    settings = ArchiveSettings(
        login=place.login,
        stream="SOURCE",
        to=str(place.folder / f"delta-{partitions}-{label}"),
        min_partitions=partitions,
        compact=False,
    )
    return {DELTA: rate_of(place.rows, lambda: archive(place.spark, settings))}


def to_sink(place: Place, partitions: int, label: str) -> Rates:
    """A streaming query from files into a stream, exactly once."""
    files = place.folder / f"files-{partitions}"
    if not files.exists():
        frame = source(place, partitions).select("subject", "data")
        frame.write.parquet(str(files))
    name = f"SINK-{partitions}-{label}"
    prefix = f"sink{partitions}{label}".replace("-", "")
    place.create(name, f"{prefix}.>")

    batches_ms = 0

    def run() -> None:
        nonlocal batches_ms
        rows = place.spark.readStream.schema("subject string, data binary").parquet(str(files))
        query = (
            rows.selectExpr(f"concat('{prefix}.', subject) as subject", "data")
            .writeStream.format("headwater")
            .option("url", place.url)
            .option("stream", name)
            .option("checkpointLocation", str(place.folder / f"checkpoint-{name}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        batches_ms = sum(each.durationMs.get("addBatch", 0) for each in query.recentProgress)

    rate = rate_of(place.rows, run)
    written = place.messages_in(name)
    if written != place.rows:
        raise SystemExit(f"{written} messages in {name}, not {place.rows}")
    return {SINK: rate, SINK_BATCHES: place.rows / batches_ms * MS_PER_S}


def to_replay(place: Place, partitions: int, label: str) -> Rates:
    """The replay job, from the table that `to_delta` has written."""
    name = f"REPLAY-{label}"
    place.create(name, f"replay{label}.>".replace("-", ""))
    settings = ReplaySettings(
        login=place.login,
        to_stream=name,
        archive=str(place.folder / f"delta-{partitions}-0"),
        subject_from="source.*",
        subject_to=f"replay{label}.$1".replace("-", ""),
        name=name,
    )
    if not Path(str(settings.archive)).exists():
        to_delta(place, partitions, "0")
    read_archive(place.spark, str(settings.archive))
    return {REPLAY: rate_of(place.rows, lambda: replay(place.spark, settings))}


def by_nats_py(place: Place, partitions: int, label: str) -> Rates:
    """The loop of a program without Spark."""
    rows = place.rows // NATS_PY_SHARE

    async def consume() -> None:
        client = await nats.connect(place.url)
        context = client.jetstream()
        config = ConsumerConfig(ack_policy=AckPolicy.NONE)
        subscription = await context.pull_subscribe(
            "source.>", durable=f"loop-{label}", stream="SOURCE", config=config
        )
        taken = 0
        while taken < rows:
            taken += len(await subscription.fetch(NATS_PY_BATCH))
        await context.delete_consumer("SOURCE", f"loop-{label}")
        await client.close()

    return {LOOP: rate_of(rows, lambda: asyncio.run(consume()))}


# --- the source ----------------------------------------------------------------------------------


@contextmanager
def filled(spark: SparkSession, kind: str, size: int, rows: int) -> Iterator[Place]:
    """A server whose stream SOURCE has this many messages."""
    folder = Path(tempfile.mkdtemp(prefix="bench-pipeline-"))
    try:
        with with_streams(kind, sync_always=False) as server:
            place = Place(spark, f"nats://127.0.0.1:{server.port}", size, rows, folder)
            place.create("SOURCE", "source.>")
            fill(place)
            yield place
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fill(place: Place) -> None:
    """Publish messages that differ, so that compression does not help."""
    rng = random.Random(place.size_bytes)
    noise = rng.randbytes(place.size_bytes * 8)
    with Connection(place.login) as connection:
        for first in range(0, place.rows, PUBLISHED_AT_ONCE):
            frames = []
            for number in range(first, min(first + PUBLISHED_AT_ONCE, place.rows)):
                start = number % (place.size_bytes * 7)
                payload = b"%08d" % number + noise[start : start + place.size_bytes - 8]
                subject = b"source.%d" % (number % SUBJECTS)
                frames.append(publish_frame(subject, b"", b"", payload))
            connection.send(b"".join(frames[:-1]))
            # The other publishes ask for no ack; nats-server may drop some of them.
            connection.request(subject.decode(), payload)


def table(figures: Sequence[Figure]) -> str:
    """The figures as a table."""
    cells = [("", "server", "bytes", "partitions", "rows/s", "MB/s", "lowest", "highest")]
    cells += [
        (
            each.way,
            each.server,
            str(each.size_bytes),
            str(each.partitions),
            figure(median(each.rows_per_s)),
            f"{each.megabytes_per_s:.1f}",
            figure(min(each.rows_per_s)),
            figure(max(each.rows_per_s)),
        )
        for each in figures
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column < 2 else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )


if __name__ == "__main__":
    # The generated load is the same in every run.
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
