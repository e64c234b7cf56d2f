"""Each supported Spark does what it can, and what it lacks is refused by name.

These tests, and all others that the target of the oldest Spark names, pass with every version.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from headwater.client.link.login import Login
from headwater.spark import versions
from headwater.spark.jobs.archive.job import ArchiveSettings, archive
from headwater.spark.jobs.archive.manifest import Format
from headwater.spark.jobs.archive.reader import read_archive
from headwater.spark.options import OptionError, SourceOptions
from headwater.spark.read.offsets import DataLossError
from headwater.spark.read.stream_source import RefusedStreamReader, StreamSourceReader
from headwater.spark.read.unplanned_source import UnplannedStreamReader
from headwater.spark.versions import (
    HAS_FILTERS,
    HAS_READ_LIMITS,
    ReadAllAvailable,
    check_filters,
    check_read_limits,
)
from tests.kit.stream_servers import Server

SEQUENCES = StructType([StructField("sequence", LongType())])


def options_of(server: Server, **options: str) -> SourceOptions:
    return SourceOptions.parse({"url": server.url, "stream": "s", **options})


def publish(server: Server, count: int) -> None:
    server.publish([("s.a", b"x")] * count)


# --- what every version does --------------------------------------------------------------------


def test_a_streaming_query_reads_each_message_once_and_goes_on(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    server.create_stream("s")
    out = str(tmp_path / "out")
    for _ in range(2):
        publish(server, 10)
        query = (
            spark.readStream.format("headwater")
            .options(url=server.url, stream="s")
            .load()
            .select("sequence")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(out)
        )
        query.awaitTermination()
    rows = spark.read.schema("sequence bigint").parquet(out).collect()
    assert sorted(row.sequence for row in rows) == [*range(1, 21)]


def test_a_filter_is_pushed_down_or_the_option_is_refused(
    spark: SparkSession, headwater_server: Server
) -> None:
    headwater_server.create_stream("s")
    publish(headwater_server, 10)
    reading = spark.read.format("headwater").options(url=headwater_server.url, stream="s")
    rows = reading.option("pushdown", "true").load().where("sequence > 7")
    if HAS_FILTERS:
        assert rows.count() == 3
    else:
        with pytest.raises(PySparkException, match=r"option pushdown needs Spark 4\.1 or newer"):
            rows.count()


def test_a_limit_per_trigger_is_kept_or_the_option_is_refused(
    spark: SparkSession, headwater_server: Server, tmp_path: Path
) -> None:
    headwater_server.create_stream("s")
    publish(headwater_server, 10)
    query = (
        spark.readStream.format("headwater")
        .options(url=headwater_server.url, stream="s", maxMessagesPerTrigger="4")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    if HAS_READ_LIMITS:
        query.awaitTermination()
        assert [each.numInputRows for each in query.recentProgress] == [4, 4, 2]
    else:
        with pytest.raises(PySparkException, match=r"option maxMessagesPerTrigger needs Spark 4"):
            query.awaitTermination()


@pytest.mark.parametrize("format", ["delta", "parquet"])
def test_an_archive_has_each_message_once_and_goes_on(
    spark: SparkSession, server: Server, tmp_path: Path, format: Format
) -> None:
    server.create_stream("s")
    wanted = ArchiveSettings(Login(server.url), "s", str(tmp_path / "archive"), format=format)
    for last in (10, 20):
        publish(server, 10)
        result = archive(spark, wanted)
        assert (result.messages, result.next_sequence) == (10, last + 1)
    # As if Spark had died before it noted that the second batch was done.
    for path in (wanted.checkpoint_directory / "commits").glob("*1*"):
        path.unlink()
    publish(server, 5)
    if not HAS_READ_LIMITS:
        # A run that finishes the batch of an earlier one ends there.
        assert archive(spark, wanted).next_sequence == 21
    assert archive(spark, wanted).next_sequence == 26
    rows = read_archive(spark, wanted.to).collect()
    assert sorted(row.sequence for row in rows) == [*range(1, 26)]


# --- substitutes for features that a version lacks ----------------------------------------------


def test_options_that_need_a_newer_spark_are_refused_by_name(
    headwater_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "HAS_FILTERS", False)
    monkeypatch.setattr(versions, "HAS_READ_LIMITS", False)
    with pytest.raises(OptionError, match=r"option pushdown needs Spark 4\.1 or newer: this is"):
        check_filters(options_of(headwater_server, pushdown="true"))
    for name in ("maxMessagesPerTrigger", "maxBytesPerTrigger"):
        with pytest.raises(OptionError, match=rf"option {name} needs Spark 4\.2 or newer"):
            check_read_limits(options_of(headwater_server, **{name: "5"}))
    plain = options_of(headwater_server)
    check_filters(plain)
    check_read_limits(plain)


def unplanned(server: Server, **options: str) -> UnplannedStreamReader:
    return UnplannedStreamReader(options_of(server, **options), SEQUENCES)


def sequences(
    reader: StreamSourceReader, start: dict[str, Any], end: dict[str, Any]
) -> Sequence[int]:
    """The rows of a batch, part after part."""
    return [
        sequence
        for part in reader.partitions(start, end)
        for batch in reader.read(part)
        for sequence in batch["sequence"].to_pylist()
    ]


def test_a_batch_whose_start_is_told_late_has_all_there_is_each_time(server: Server) -> None:
    server.create_stream("s")
    publish(server, 10)
    reader = unplanned(server)
    start, end = reader.initialOffset(), reader.latestOffset()
    publish(server, 5)
    for _ in range(2):
        assert sequences(reader, start, end) == [*range(1, 11)]
    # A message that has gone since is not there when the batch is run again.
    server.delete_message("s", 3)
    assert sequences(unplanned(server), start, end) == [1, 2, *range(4, 11)]
    assert sequences(reader, end, reader.latestOffset()) == [*range(11, 16)]
    # A newer Spark goes on with the checkpoint, also in the middle of a batch.
    newer = StreamSourceReader(options_of(server), SEQUENCES)
    assert sequences(newer, start, end) == [1, 2, *range(4, 11)]
    following = newer.latestOffset(end, ReadAllAvailable())
    assert sequences(newer, end, following) == [*range(11, 16)]
    assert sequences(reader, end, following) == [*range(11, 16)]


def test_a_batch_whose_start_is_told_late_finds_losses(headwater_server: Server) -> None:
    server = headwater_server
    server.create_stream("s")
    publish(server, 10)
    reader = unplanned(server)
    start, end = reader.initialOffset(), reader.latestOffset()
    server.purge("s", seq=4)
    with pytest.raises(DataLossError, match="stream s lost 3 sequences"):
        reader.partitions(start, end)
    tolerant = unplanned(server, failOnDataLoss="false")
    assert sequences(tolerant, start, end) == [*range(4, 11)]
    server.delete_stream("s")
    server.create_stream("s")
    publish(server, 2)
    with pytest.raises(DataLossError, match="created again"):
        reader.partitions(start, end)
    assert sequences(tolerant, start, end) == []
    assert sequences(tolerant, end, tolerant.latestOffset()) == [1, 2]


def test_a_start_behind_the_end_needs_a_newer_spark(headwater_server: Server) -> None:
    headwater_server.create_stream("s")
    publish(headwater_server, 3)
    assert unplanned(headwater_server, startingSequence="4").initialOffset()["next"] == 4
    with pytest.raises(OptionError, match="option startingSequence behind the end of a stream"):
        unplanned(headwater_server, startingSequence="5").initialOffset()


def test_a_refusal_is_told_however_spark_asks() -> None:
    refused = RefusedStreamReader(OptionError("option x is not valid"))
    asked: list[tuple[Any, ...]] = [(), ({}, ReadAllAvailable())]
    for arguments in asked:
        with pytest.raises(OptionError, match="option x is not valid"):
            refused.latestOffset(*arguments)
