"""A minute of hot keys under a ledger: `make hot-keys`, which also the tests run for some batches.

A writer puts the same few keys of a bucket over and over, beside many that are put once, and notes
every put. A streaming query reads the bucket meanwhile. Whatever it gives is compared with the
ledger: every row is an entry that was put, with its value and revision; every batch has each hot
key, with a newer revision than the batch before; and in the end the newest entry of every key has
been seen.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from headwater.spark.session import session
from tests.kit.stream_servers import KINDS, Message, Publish, Server

BUCKET: Final = "hot"
HOT_KEYS: Final = tuple(f"hot{number}" for number in range(10))
COLD_KEYS: Final = tuple(f"cold{number}" for number in range(200))
INTERVAL_S: Final = 0.02
SECONDS: Final = 60.0

Row = tuple[str, int, bytes]
"""A key, a revision and a value."""


class LedgerError(AssertionError):
    """Rows that were read differ from entries that were put."""


@dataclass
class Ledger:
    """Every put, in the order of revisions, which one writer alone makes: 1, 2, 3, …"""

    puts: list[tuple[str, bytes]] = field(default_factory=list)
    newest: dict[str, int] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    batches: int = 0

    def put(self, keys: Sequence[str]) -> list[Message]:
        """The messages that put some keys once more."""
        messages = []
        for key in keys:
            self.puts.append((key, b"%d" % len(self.puts)))
            messages.append(Message(f"$KV.{BUCKET}.{key}", self.puts[-1][1]))
        return messages

    def acknowledge(self, keys: Sequence[str], last: int) -> None:
        """The last of these puts got this revision."""
        if last != len(self.puts):
            raise LedgerError(f"revision {last} was acknowledged for put {len(self.puts)}")
        for place, key in enumerate(reversed(keys)):
            self.newest[key] = last - place

    def take(self, rows: Sequence[Row], hot: Sequence[str] = HOT_KEYS) -> None:
        """A batch of the query. Raises LedgerError."""
        before = dict(self.seen)
        for key, revision, value in rows:
            if self.puts[revision - 1] != (key, value):
                raise LedgerError(f"{key} at revision {revision} was never {value!r}")
            # An entry that was put while a batch was read may come in the next one too.
            if revision < before.get(key, 0):
                raise LedgerError(f"{key} went back to revision {revision}")
            self.seen[key] = revision
        if len({key for key, _, _ in rows}) != len(rows):
            raise LedgerError(f"batch {self.batches} has a key twice")
        starved = [key for key in hot if self.seen.get(key) == before.get(key)]
        if rows and starved:
            raise LedgerError(f"batch {self.batches} has nothing of {starved}")
        self.rows += len(rows)
        self.batches += bool(rows)

    @property
    def is_caught_up(self) -> bool:
        return self.seen == self.newest


class Writer(threading.Thread):
    """Puts a round of keys after the other until it is stopped."""

    def __init__(
        self, server: Server, put_round: Callable[[Publish], object], interval_s: float = 0.0
    ) -> None:
        super().__init__(name="writer")
        self.stopped = threading.Event()
        self._server = server
        self._put_round = put_round
        self._interval_s = interval_s
        self._rounds = 0
        self._changed = threading.Condition()

    def run(self) -> None:
        try:
            with self._server.publishing() as publish:
                while not self.stopped.wait(self._interval_s):
                    self._put_round(publish)
                    self._count(1)
        finally:
            self.stopped.set()
            self._count(0)

    def wait_for_a_round(self) -> None:
        """Wait until every key was put once more from now on, or the writer has stopped."""
        with self._changed:
            wanted = self._rounds + 2
            self._changed.wait_for(lambda: self._rounds >= wanted or self.stopped.is_set())

    def _count(self, rounds: int) -> None:
        with self._changed:
            self._rounds += rounds
            self._changed.notify_all()


@contextmanager
def written_by(writer: Writer) -> Iterator[Writer]:
    """A writer beside whatever is done here."""
    writer.start()
    try:
        yield writer
    finally:
        writer.stopped.set()
        writer.join()


def hot_writer(server: Server, ledger: Ledger, interval_s: float) -> Writer:
    """A bucket with cold keys, and a writer of hot ones that notes its puts."""

    def put(publish: Publish, keys: Sequence[str] = HOT_KEYS) -> None:
        ledger.acknowledge(keys, publish(ledger.put(keys)))

    server.create_bucket(BUCKET)
    with server.publishing() as publish:
        put(publish, COLD_KEYS)
        put(publish)
    return Writer(server, put, interval_s)


@dataclass(frozen=True)
class Result:
    """The figures of a run."""

    server: str
    seconds: float
    puts: int
    batches: int
    rows: int
    newest_seen: int
    keys: int


def run(
    spark: SparkSession,
    server: Server,
    folder: Path,
    seconds: float = SECONDS,
    interval_s: float = INTERVAL_S,
    batches_max: int | None = None,
) -> Result:
    """Read a bucket while it is written for some seconds, or batches. Raises LedgerError.

    With `batches_max` every batch waits for a round of puts before the next one is planned, so that
    the outcome depends on no clock.
    """
    ledger = Ledger()
    failures: list[Exception] = []
    enough = threading.Event()
    began_s = time.monotonic()
    with written_by(hot_writer(server, ledger, interval_s)) as writer:

        def take(frame: DataFrame, batch: int) -> None:
            found = frame.select("key", "revision", "data").collect()
            hot = () if writer.stopped.is_set() else HOT_KEYS
            try:
                ledger.take([(row.key, row.revision, bytes(row.data)) for row in found], hot)
            except LedgerError as error:
                failures.append(error)
                enough.set()
                raise
            if batches_max is not None and not writer.stopped.is_set():
                if ledger.batches >= batches_max:
                    enough.set()
                writer.wait_for_a_round()

        rows = spark.readStream.format("headwater").options(url=server.url, bucket=BUCKET).load()
        stream = rows.writeStream.foreachBatch(take)
        query = stream.option("checkpointLocation", str(folder / "checkpoint")).start()
        try:
            enough.wait(seconds)
            writer.stopped.set()
            writer.join()
            # The entries put last have still to come, unless they came with the batch before.
            if not failures and not ledger.is_caught_up:
                query.processAllAvailable()
        finally:
            query.stop()
    if failures:
        raise failures[0]
    if not ledger.is_caught_up:
        missed = {key for key, at in ledger.newest.items() if ledger.seen.get(key) != at}
        raise LedgerError(f"the newest entries of {sorted(missed)} were never read")
    lasted_s = round(time.monotonic() - began_s, 1)
    seen = sum(ledger.seen[key] == ledger.newest[key] for key in ledger.newest)
    return Result(
        server.kind,
        lasted_s,
        len(ledger.puts),
        ledger.batches,
        ledger.rows,
        seen,
        len(ledger.newest),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the measurement on both servers and print its results."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.hot_keys", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long to write")
    options = parser.parse_args(arguments)
    spark = session("local[2]", app_name="hot-keys")
    try:
        for kind in KINDS:
            with tempfile.TemporaryDirectory() as folder:
                server = Server(kind, Path(folder) / "server")
                try:
                    result = run(spark, server, Path(folder), options.seconds)
                finally:
                    server.stop()
                print(json.dumps(asdict(result)))
    except LedgerError as error:
        print(f"the ledger does not agree: {error}", file=sys.stderr)
        return 1
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
