"""A demo pipeline: a server of its own, the traffic of shops and sensors, and all jobs.

The traffic is the same every time: sizes, values and order come from a seed. Only the clocks that
stamp the messages are real.

The server is a process of its own. It ends with the demo in any case, unless the demo succeeded and
the user asked to keep the server.

Must not know: how anything is shown.
"""

import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import OperatingError
from headwater.client.api.answers import STREAM_NOT_FOUND
from headwater.client.api.requests import stream_create
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.errors import ApiRefusedError
from headwater.client.link.login import Login
from headwater.client.link.publisher import Messages, Publisher
from headwater.spark.jobs.archive.settings import ArchiveSettings
from headwater.spark.jobs.pipeline_file import Job
from headwater.spark.jobs.progress import SILENT, Progress
from headwater.spark.jobs.reading import read_archive
from headwater.spark.jobs.stats.job import StatsSettings
from headwater.spark.jobs.table.job import TableSettings, read_history, read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEED: Final = 20_260_105
ORDERS: Final = 20_000
READINGS: Final = 15_000
PRICE_CHANGES: Final = 4_000
PUBLISHED_AT_ONCE: Final = 500
SAMPLE_ROWS: Final = 5
# When a message was sent, by the publisher's clock; the server has its own.
SENT_HEADER: Final = "Sent"

ORDERS_STREAM: Final = "ORDERS"
SENSORS_STREAM: Final = "SENSORS"
PRICES_BUCKET: Final = "prices"
PRICES_HISTORY: Final = 64

SERVER_READY_S_MAX: Final = 30.0
SERVER_STOP_S_MAX: Final = 10.0
SERVER_LOOK_S: Final = 0.05
_PORT: Final = re.compile(r"Listening for client connections on 127\.0\.0\.1:(\d+)")
_READY: Final = "Server is ready"

REGIONS: Final = ("eu", "us", "asia")
ITEMS: Final = ("espresso", "filter", "grinder", "kettle", "scale", "beans", "cups", "tamper")
SITES: Final = ("roastery", "warehouse", "shop-1", "shop-2")
SENSORS: Final = {"temperature": (21.0, 1.5), "humidity": (45.0, 5.0), "power": (900.0, 250.0)}
SKUS: Final = tuple(f"{item}.{number}" for item in ITEMS for number in range(1, 26))
DISCONTINUED_ODDS: Final = 0.02


@dataclass(frozen=True)
class Message:
    """A message to publish."""

    subject: str
    data: bytes
    headers: tuple[tuple[str, str], ...] = ()


def orders(count: int = ORDERS, seed: int = SEED) -> Iterator[Message]:
    """Orders placed, paid and shipped, on `orders.<region>.<event>`; each with an id of its own."""
    rng = random.Random(seed)
    open_orders: list[tuple[int, str]] = []
    number = 0
    for at in range(count):
        if open_orders and rng.random() < 0.55:
            placed, region = open_orders.pop(rng.randrange(len(open_orders)))
            event = rng.choices(("paid", "shipped", "cancelled"), (60, 30, 10))[0]
            document: dict[str, Any] = {"order": placed, "event": event}
        else:
            number += 1
            region = rng.choices(REGIONS, (55, 35, 10))[0]
            event = "placed"
            lines = rng.choices((1, 2, 3, 5), (60, 25, 10, 5))[0]
            document = {
                "order": number,
                "event": event,
                "customer": f"c{rng.randrange(4_000):04d}",
                "items": [
                    {"item": rng.choice(ITEMS), "count": rng.randint(1, 4)} for _ in range(lines)
                ],
                "total_cents": rng.randint(450, 60_000),
            }
            open_orders.append((number, region))
        yield Message(
            f"orders.{region}.{event}",
            json.dumps(document).encode(),
            (("Nats-Msg-Id", f"order-{at}"), ("Trace", f"{rng.getrandbits(64):016x}")),
        )


def readings(count: int = READINGS, seed: int = SEED) -> Iterator[Message]:
    """Readings on `sensors.<site>.<kind>`, each drifting a little from the one before."""
    rng = random.Random(seed + 1)
    values = {(site, kind): middle for site in SITES for kind, (middle, _) in SENSORS.items()}
    for _ in range(count):
        site, kind = rng.choice(SITES), rng.choice(tuple(SENSORS))
        middle, spread = SENSORS[kind]
        drift = 0.9 * (values[site, kind] - middle) + rng.gauss(0.0, spread / 2)
        values[site, kind] = middle + drift
        yield Message(
            f"sensors.{site}.{kind}", json.dumps({"value": round(middle + drift, 2)}).encode()
        )


def price_changes(count: int = PRICE_CHANGES, seed: int = SEED) -> Iterator[Message]:
    """Prices by article, put again and again; at times an article is discontinued (a delete)."""
    rng = random.Random(seed + 2)
    cents: dict[str, int] = {}
    # Some articles change more often than others, but none so often that the bucket drops entries.
    weights = list(accumulate(1.0 / (rank + 50) for rank in range(len(SKUS))))
    for _ in range(count):
        (sku,) = rng.choices(SKUS, cum_weights=weights)
        subject = f"$KV.{PRICES_BUCKET}.{sku}"
        if sku in cents and rng.random() < DISCONTINUED_ODDS:
            del cents[sku]
            yield Message(subject, b"", (("KV-Operation", "DEL"),))
            continue
        cents[sku] = max(100, cents.get(sku, rng.randint(300, 30_000)) + rng.randint(-90, 100))
        yield Message(subject, json.dumps({"cents": cents[sku], "currency": "EUR"}).encode())


# --- the streams on the server ------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """A stream of the demo, and its messages."""

    stream: str
    config: dict[str, Any]
    count: int
    messages: Callable[[int], Iterator[Message]]


SOURCES: Final = (
    Source(ORDERS_STREAM, {"subjects": ["orders.>"], "allow_direct": True}, ORDERS, orders),
    Source(SENSORS_STREAM, {"subjects": ["sensors.>"], "allow_direct": True}, READINGS, readings),
    Source(
        f"KV_{PRICES_BUCKET}",
        {
            "subjects": [f"$KV.{PRICES_BUCKET}.>"],
            "max_msgs_per_subject": PRICES_HISTORY,
            "discard": "new",
            "allow_rollup_hdrs": True,
            "deny_delete": True,
            "allow_direct": True,
        },
        PRICE_CHANGES,
        price_changes,
    ),
)


def publish_traffic(login: Login, progress: Progress = SILENT) -> dict[str, int]:
    """Create the streams and fill them; existing ones are left as they are.

    Returns the number of messages in each stream.
    """
    held = {}
    with Connection(login) as connection:
        api = ApiClient(connection)
        for source in SOURCES:
            progress.stage(f"publishing to {source.stream}", source.count)
            held[source.stream] = _messages_in(api, source.stream)
            if held[source.stream] == 0:
                config = {"name": source.stream, "storage": "file", **source.config}
                api.call_with_retry(stream_create(config))
                _publish(connection, source, progress)
                held[source.stream] = _messages_in(api, source.stream)
    return held


def _messages_in(api: ApiClient, stream: str) -> int:
    try:
        return api.stream_info(stream).messages
    except ApiRefusedError as error:
        if error.err_code != STREAM_NOT_FOUND:
            raise
        return 0


def _publish(connection: Connection, source: Source, progress: Progress) -> None:
    # Not every message has an id, so each gets an ack of its own.
    publisher = Publisher(connection, source.stream, numbered=True)
    messages = source.messages(source.count)
    while chunk := list(islice(messages, PUBLISHED_AT_ONCE)):
        sent = (SENT_HEADER, datetime.now(UTC).isoformat())
        publisher.publish(
            Messages(
                subjects=[message.subject.encode() for message in chunk],
                headers=[header_block((*message.headers, sent)) for message in chunk],
                payloads=[message.data for message in chunk],
                ids=[b""] * len(chunk),
                rows=range(len(chunk)),
            )
        )
        progress.advance(len(chunk))


def header_block(headers: Iterable[tuple[str, str]]) -> bytes:
    """Headers as they stand in a message."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"NATS/1.0\r\n{lines}\r\n".encode()


# --- the jobs -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Places:
    """The folders of the demo's results."""

    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def archive(self) -> str:
        return str(self.folder / "archive" / "orders")

    @property
    def tables(self) -> str:
        return str(self.folder / "tables" / "prices")

    @property
    def report(self) -> str:
        return str(self.folder / "report")

    @property
    def warm_up(self) -> Path:
        """Removed when Spark has started."""
        return self.folder / "warm-up"


# A new Spark starts its workers, and compiles, during its first job.
SPARK_START: Final = "Starting Spark"


def warm_up_job(login: Login, places: Places) -> Job:
    """A small archive job before the real one, whose figures would else include Spark's start."""
    settings = ArchiveSettings(
        login,
        stream=SENSORS_STREAM,
        to=str(places.warm_up),
        subjects=(f"sensors.{SITES[0]}.*",),
        partition_by=("date", "token:2"),
    )
    return Job(SPARK_START, "archive", settings)


def demo_jobs(login: Login, places: Places) -> tuple[Job, ...]:
    """Archive the orders, make tables of the prices, and measure the archive."""
    archive = ArchiveSettings(
        login, stream=ORDERS_STREAM, to=places.archive, partition_by=("date", "token:2")
    )
    table = TableSettings(login, bucket=PRICES_BUCKET, to=places.tables)
    stats = StatsSettings(
        login, to=places.report, archive=places.archive, producer_time=f"header:{SENT_HEADER}"
    )
    return (
        Job("archive", "archive", archive),
        Job("table", "table", table),
        Job("stats", "stats", stats),
    )


@dataclass(frozen=True)
class Sample:
    """The first rows of a result of the demo, as text, and the number of its rows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    count: int


def samples(spark: "SparkSession", places: Places) -> tuple[Sample, ...]:
    """Samples of the results: the archive, the current prices, and their history."""
    archive = read_archive(spark, places.archive).orderBy("sequence")
    latest = read_table(spark, places.tables).orderBy("key")
    history = read_history(spark, places.tables).orderBy("revision")
    return (
        _sample("Archived orders", archive, ("sequence", "timestamp", "subject", "data")),
        _sample("Prices now", latest, ("key", "revision", "timestamp", "value")),
        _sample("History of prices", history, ("key", "revision", "operation", "value")),
    )


def _sample(title: str, frame: "DataFrame", columns: tuple[str, ...]) -> Sample:
    rows = frame.select(*columns).limit(SAMPLE_ROWS).collect()
    return Sample(
        title, columns, tuple(tuple(_text(cell) for cell in row) for row in rows), frame.count()
    )


def _text(cell: Any) -> str:
    if isinstance(cell, bytes | bytearray):
        return bytes(cell).decode("utf-8", "backslashreplace")
    return "" if cell is None else str(cell)


# --- the server ---------------------------------------------------------------------------------


class DemoServerError(OperatingError):
    """The demo's server did not start."""


class DemoServer:
    """The demo's server. It ends with the demo unless it is kept."""

    def __init__(self, process: "subprocess.Popen[bytes]", url: str) -> None:
        self._process = process
        self.url = url
        self.goes_on = False

    @property
    def pid(self) -> int:
        """The process id, for ending the server later."""
        return self._process.pid

    def end(self) -> None:
        """Ask the server to end, and kill it if it does not."""
        self._process.terminate()
        try:
            self._process.wait(SERVER_STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def demo_server(store: Path) -> Iterator[DemoServer]:
    """A `headwater serve` of our own on a free port, with its streams in `store`.

    Its log is a file from the start: a pipe would end with the demo, and the server with the pipe.
    """
    store.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "headwater", "serve"]
    flags = ["-a", "127.0.0.1", "-p", "-1", "-js", "-sd", str(store)]
    path = store / "server.log"
    with path.open("ab") as log:
        begin = log.tell()
        # A group of its own: Ctrl-C at the terminal must not stop the server under a query that is
        # being stopped.
        process = subprocess.Popen(
            [*command, *flags],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    server = DemoServer(process, "")
    goes_on = False
    try:
        server.url = f"nats://127.0.0.1:{_port(process, path, begin)}"
        yield server
        # Not if the demo has failed.
        goes_on = server.goes_on
    finally:
        if goes_on:
            _GOING_ON.append(server)
        else:
            server.end()


# Python warns about a process that still runs when its object is freed; these are to run on.
_GOING_ON: Final[list[DemoServer]] = []


def _port(process: "subprocess.Popen[bytes]", log: Path, begin: int) -> int:
    """The client port, once the log shows that the server is ready. Raises DemoServerError."""
    deadline = time.monotonic() + SERVER_READY_S_MAX
    while time.monotonic() < deadline:
        has_ended = process.poll() is not None
        with log.open("rb") as file:
            file.seek(begin)
            text = file.read().decode("utf-8", "replace")
        found = _PORT.search(text)
        if found and _READY in text:
            return int(found[1])
        if has_ended:
            break
        time.sleep(SERVER_LOOK_S)
    raise DemoServerError(f"the demo's server did not start; its log is {log}")
