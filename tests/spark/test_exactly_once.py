"""A streaming query writes each row once: retries, replays and crashes, as Spark brings them about.

The duplicate window of the stream is short, and before anything is written again the server has
forgotten the ids of the first time. Attempts that end at every single step are in
tests/unit/spark/write/test_partition_write.py.
"""

import itertools
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.kit.stream_servers import Message, Server

STREAM = "LOG"
WINDOW_NS = 100_000_000
ROWS = 4000
# Large enough that Spark hands rows on before it has all of them.
FILLING = "repeat('x', 1000)"
BATCHES_BEFORE_FAILURE = 6
# The number of times that the tests' session tries a task.
ATTEMPTS_MAX = 4
LOOKS_MAX = 100_000

Rows = Callable[[DataFrame], DataFrame]


def unchanged(rows: DataFrame) -> DataFrame:
    return rows


class Query:
    """A streaming query from files to a stream; each run is another run of the same query."""

    def __init__(self, spark: SparkSession, server: Server, place: Path, **options: str) -> None:
        self._spark = spark
        self._place = place
        self._options = {"url": server.url, "stream": STREAM, "subject": f"{STREAM}.a"} | options
        self._count = 0

    def add(self, partitions: int = 2) -> None:
        """Rows for one more batch: numbers that go on, and something to make them longer."""
        rows = self._spark.range(self._count, self._count + ROWS, 1, partitions)
        rows.selectExpr(f"concat(id, ' ', {FILLING}) data").write.mode("append").parquet(
            str(self._place / "rows")
        )
        self._count += ROWS

    def run(self, change: Rows = unchanged) -> None:
        rows = self._spark.readStream.schema("data string").parquet(str(self._place / "rows"))
        query = (
            change(rows)
            .writeStream.format("headwater")
            .options(**self._options)
            .option("checkpointLocation", str(self._place / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def forget_commit(self, batch: int) -> None:
        """Remove a batch's commit, as if the driver had been killed just before writing it."""
        for name in (f"{batch}", f".{batch}.crc"):
            (self._place / "checkpoint" / "commits" / name).unlink(missing_ok=True)

    def keep_checkpoint(self, name: str) -> None:
        """A copy, as a backup makes it."""
        shutil.copytree(self._place / "checkpoint", self._place / name)

    def restore_checkpoint(self, name: str) -> None:
        shutil.rmtree(self._place / "checkpoint")
        shutil.copytree(self._place / name, self._place / "checkpoint")

    def check(self, server: Server) -> None:
        """Every row is there once."""
        found = Counter(
            int(each.data.split()[0])
            for each in server.stored(STREAM)
            if each.subject == f"{STREAM}.a"
        )
        assert found == dict.fromkeys(range(self._count), 1)


def forget_ids(server: Server) -> None:
    """Return when the server would store a message again whose id it knew when this was called."""
    probe = Message(f"{STREAM}.probe", b"", b"NATS/1.0\r\nNats-Msg-Id: probe\r\n\r\n")
    first = server.publish([probe])
    for _ in itertools.repeat(None, LOOKS_MAX):
        if server.publish([probe]) != first:
            return
    raise AssertionError("ids are never forgotten")


class Fails:
    """A step before the sink that lets some rows of each partition pass, and then fails.

    Only the first `attempts` attempts at a task fail.
    """

    def __init__(self, attempts: int) -> None:
        self._attempts = attempts

    def __call__(self, rows: DataFrame) -> DataFrame:
        return rows.mapInArrow(self._pass, "data string")

    def _pass(self, batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        is_to_fail = context.attemptNumber() < self._attempts
        for number, batch in enumerate(batches):
            if is_to_fail and number == BATCHES_BEFORE_FAILURE:
                raise RuntimeError("a task fails in the middle of its rows")
            yield batch


@pytest.fixture
def query(spark: SparkSession, server: Server, tmp_path: Path) -> Iterator[Query]:
    """With small record batches, so that a partition has several."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    usual = spark.conf.get(name)
    spark.conf.set(name, 200)
    server.create_stream(STREAM, duplicate_window=WINDOW_NS)
    yield Query(spark, server, tmp_path)
    spark.conf.set(name, str(usual))


def test_a_task_that_fails_in_the_middle_is_tried_again(query: Query, server: Server) -> None:
    query.add()
    query.run(Fails(attempts=1))
    query.check(server)


def test_a_query_that_fails_in_the_middle_goes_on_when_it_is_started_again(
    query: Query, server: Server
) -> None:
    query.add()
    with pytest.raises(StreamingQueryException):
        query.run(Fails(attempts=ATTEMPTS_MAX))
    forget_ids(server)
    query.run()
    query.check(server)


def test_a_committed_batch_that_is_replayed_is_not_written_again(
    query: Query, server: Server
) -> None:
    for _ in range(2):
        query.add()
        query.run()
        forget_ids(server)
    query.forget_commit(1)
    query.run()
    query.check(server)
    query.add()
    query.run()
    query.check(server)


def test_an_older_checkpoint_is_refused_and_loses_nothing(query: Query, server: Server) -> None:
    query.add()
    query.run()
    query.keep_checkpoint("older")
    for _ in range(2):
        query.add()
        query.run()
    query.keep_checkpoint("newest")
    query.add()
    query.restore_checkpoint("older")
    with pytest.raises(StreamingQueryException) as caught:
        query.run()
    (line,) = [
        line
        for line in str(caught.value).splitlines()
        if line.startswith("headwater.spark.write.sink.SinkError: ")
    ]
    assert "stream LOG" in line
    assert "batch 1 is not the one that was written before" in line
    assert f"committed with {ROWS} rows in 2 partitions, and has {3 * ROWS} in " in line
    assert "restore the newest checkpoint" in line
    query.restore_checkpoint("newest")
    query.run()
    query.check(server)


def test_a_changed_batch_is_passed_over_where_that_is_asked_for(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    server.create_stream(STREAM)
    query = Query(spark, server, tmp_path, onChangedBatch="skip")
    query.add()
    query.run()
    query.keep_checkpoint("older")
    query.add()
    query.run()
    query.add()
    query.restore_checkpoint("older")
    query.run()
    assert server.state(STREAM)["messages"] == 2 * ROWS


def test_a_committed_batch_is_known_by_its_offsets_where_its_rows_are_never_the_same(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    server.create_stream("FROM")
    server.create_stream(STREAM)
    server.publish([("FROM.a", b"%d" % number) for number in range(100)])
    for _ in range(2):
        rows = spark.readStream.format("headwater").options(url=server.url, stream="FROM").load()
        query = (
            rows.selectExpr("concat(data, ' ', rand()) data")
            .writeStream.format("headwater")
            .options(url=server.url, stream=STREAM, subject=f"{STREAM}.a")
            .option("checkpointLocation", (tmp_path / "checkpoint").as_uri())
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        (tmp_path / "checkpoint" / "commits" / "0").unlink()
    assert server.state(STREAM)["messages"] == 100


def test_a_replay_whose_markers_were_lost_is_within_the_window_not_written_again(
    query: Query, server: Server
) -> None:
    server.call(
        f"STREAM.UPDATE.{STREAM}",
        {"name": STREAM, "subjects": [f"{STREAM}.>"], "storage": "file", "allow_direct": True},
    )
    query.add()
    query.run()
    server.purge("KV_headwater_sinks")
    query.forget_commit(0)
    query.run()
    query.check(server)


def test_a_server_that_is_restarted_between_batches_knows_the_markers(
    query: Query, server: Server
) -> None:
    query.add()
    query.run()
    server.kill()
    server.start()
    query.forget_commit(0)
    query.add()
    query.run()
    query.check(server)


def test_a_batch_that_is_cut_anew_after_a_failure_has_each_row_once(
    query: Query, server: Server
) -> None:
    query.add()
    with pytest.raises(StreamingQueryException):
        query.run(lambda rows: Fails(attempts=ATTEMPTS_MAX)(rows.repartition(2)))
    assert server.state(STREAM)["messages"] > 0
    forget_ids(server)
    query.run(lambda rows: rows.repartition(5))
    query.check(server)


def test_dead_letters_are_put_once_when_a_batch_fails_and_is_cut_anew(
    query: Query, spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    config = server.call(f"STREAM.INFO.{STREAM}")["config"]
    server.call(f"STREAM.UPDATE.{STREAM}", config | {"max_msg_size": 4000})
    server.create_stream("DEAD", duplicate_window=WINDOW_NS)
    options = {"onBadRow": "deadLetter", "deadLetterStream": "DEAD"}
    query = Query(spark, server, tmp_path, **options)

    def some_large(rows: DataFrame) -> DataFrame:
        return rows.selectExpr(
            "if(split(data, ' ')[0] % 50 = 7, concat(data, repeat('y', 5000)), data) data"
        )

    query.add()
    with pytest.raises(StreamingQueryException):
        query.run(lambda rows: Fails(attempts=ATTEMPTS_MAX)(some_large(rows).repartition(2)))
    assert server.state("DEAD")["messages"] > 0
    for stream in (STREAM, "DEAD"):
        server.forget_ids(stream)
    query.run(lambda rows: some_large(rows).repartition(5))
    found = {
        stream: Counter(int(each.data.split()[0]) for each in server.stored(stream) if each.data)
        for stream in (STREAM, "DEAD")
    }
    large = range(7, ROWS, 50)
    assert found["DEAD"] == dict.fromkeys(large, 1)
    assert found[STREAM] == dict.fromkeys(set(range(ROWS)) - set(large), 1)


def test_a_shuffle_in_between_changes_nothing(query: Query, server: Server) -> None:
    def shuffled(rows: DataFrame) -> DataFrame:
        return Fails(attempts=1)(rows.repartition(2, "data"))

    query.add(partitions=3)
    query.run(shuffled)
    query.check(server)
