"""Batch writes that an application numbers: each version is written once, however often it runs."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.spark.options import OptionError, SinkOptions
from headwater.spark.write.sink import stream_writer
from tests.kit.stream_servers import Server

STREAM = "LOG"
ROWS = 100


@pytest.fixture
def target(server: Server) -> Server:
    server.create_stream(STREAM)
    return server


def write(spark: SparkSession, server: Server, version: int, rows: int = ROWS, **more: str) -> None:
    options = {"stream": STREAM, "subject": f"{STREAM}.a", "txnAppId": "app"} | more
    frame = spark.range(0, rows, 1, 2).selectExpr("cast(id as string) data")
    writer = frame.write.format("headwater").mode("append").options(url=server.url, **options)
    writer.option("txnVersion", version).save()


def counts(server: Server, stream: str = STREAM) -> Counter[int]:
    """The number of times that each row is there."""
    return Counter(Counter(each.data for each in server.stored(stream)).values())


def test_a_version_is_written_once(spark: SparkSession, target: Server) -> None:
    for version in (4, 4, 5, 4, 5):
        write(spark, target, version)
    assert counts(target) == {2: ROWS}


def test_each_application_and_each_target_counts_by_itself(
    spark: SparkSession, target: Server
) -> None:
    target.create_stream("OTHER")
    for _ in range(2):
        write(spark, target, 0)
        write(spark, target, 0, stream="OTHER", subject="OTHER.a")
        write(spark, target, 0, txnAppId="another")
    assert counts(target) == {2: ROWS}
    assert counts(target, "OTHER") == {1: ROWS}


def test_a_version_with_other_rows_is_refused_or_skipped(
    spark: SparkSession, target: Server
) -> None:
    write(spark, target, 4)
    for version in (3, 4):
        with pytest.raises(PySparkException, match=f"batch {version} is not the one") as caught:
            write(spark, target, version, rows=ROWS + 1)
        assert "give other rows a higher txnVersion" in str(caught.value)
        write(spark, target, version, rows=ROWS + 1, onChangedBatch="skip")
    assert counts(target) == {1: ROWS}


def test_foreach_batch_is_exactly_once(spark: SparkSession, target: Server, tmp_path: Path) -> None:
    target.create_stream("FROM")
    target.publish([("FROM.a", b"%d" % number) for number in range(1000)])
    fails = iter([True, False, False])

    def copy(rows: DataFrame, batch: int) -> None:
        writer = rows.select("data").write.format("headwater").mode("append")
        writer = writer.options(url=target.url, stream=STREAM, subject=f"{STREAM}.a")
        writer.option("txnAppId", "copy").option("txnVersion", batch).save()
        if next(fails):
            raise RuntimeError("the driver fails after the write")

    for is_to_fail in (True, False):
        rows = spark.readStream.format("headwater").options(url=target.url, stream="FROM").load()
        query = (
            rows.writeStream.foreachBatch(copy)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        if is_to_fail:
            with pytest.raises(PySparkException, match="fails after the write"):
                query.awaitTermination()
        else:
            query.awaitTermination()
    assert counts(target) == {1: 1000}


SCHEMA = StructType().add("data", "string").add("subject", "string")


def test_versions_are_for_batch_writes(headwater_server: Server) -> None:
    headwater_server.create_stream(STREAM)
    options = {"url": headwater_server.url, "stream": STREAM, "txnAppId": "a", "txnVersion": "1"}
    with pytest.raises(OptionError, match="txnAppId and txnVersion are for batch writes"):
        stream_writer(SinkOptions.parse(options), SCHEMA)
