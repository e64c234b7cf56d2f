"""One DataFrame over an archive and its stream: no gap, no double, whatever goes on meanwhile."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.client.link.login import Login
from headwater.spark.jobs.archive.job import ArchiveSettings, archive
from headwater.spark.jobs.union import union_read
from headwater.spark.read.offsets import DataLossError
from tests.kit.stream_servers import Server


def settings(server: Server, to: Path, **changes: Any) -> ArchiveSettings:
    given = {"partition_by": ("date", "token:2"), "max_messages_per_trigger": 100, **changes}
    return ArchiveSettings(Login(server.url), "orders", str(to), **given)


def publish(server: Server, first: int, last: int) -> None:
    server.publish((f"orders.{n % 3}.x", b"%d" % n) for n in range(first, last + 1))


def sequences(frame: DataFrame) -> list[int]:
    return sorted(row.sequence for row in frame.select("sequence").collect())


@pytest.mark.parametrize("format", ["delta", "parquet"])
def test_each_message_is_there_once(
    spark: SparkSession, server: Server, tmp_path: Path, format: str
) -> None:
    server.create_stream("orders")
    publish(server, 1, 150)
    wanted = settings(server, tmp_path / "archive", format=format)
    login = Login(server.url)
    server.delete_message("orders", 150)
    archive(spark, wanted)
    publish(server, 151, 220)
    # Archived and then deleted: still there. Deleted before it was archived: not there.
    server.delete_message("orders", 3)
    server.delete_message("orders", 200)

    both = union_read(spark, login, wanted.to, "orders")
    expected = [n for n in range(1, 221) if n not in (150, 200)]
    assert sequences(both) == expected
    assert {bytes(row.data) for row in both.collect()} == {b"%d" % n for n in expected}
    assert sequences(both.where("token_2 = '1'")) == [n for n in expected if n % 3 == 1]
    some = union_read(spark, login, wanted.to, "orders", subjects=["orders.2.*"])
    assert sequences(some) == [n for n in expected if n % 3 == 2]
    assert both.columns == [
        *("stream", "subject", "sequence", "timestamp", "headers", "data"),
        *("stream_created", "date", "token_2"),
    ]


def test_the_archive_job_and_its_compaction_do_not_move_what_was_read(
    spark: SparkSession, headwater_server: Server, tmp_path: Path
) -> None:
    headwater_server.create_stream("orders")
    wanted = settings(headwater_server, tmp_path / "archive")
    login = Login(headwater_server.url)
    publish(headwater_server, 1, 150)
    archive(spark, wanted)
    publish(headwater_server, 151, 300)
    before = union_read(spark, login, wanted.to, "orders")
    assert archive(spark, wanted).files_merged > 0
    publish(headwater_server, 301, 310)
    assert sequences(before) == list(range(1, 301))
    assert sequences(union_read(spark, login, wanted.to, "orders")) == list(range(1, 311))


def test_a_gap_between_archive_and_stream_is_told(
    spark: SparkSession, headwater_server: Server, tmp_path: Path
) -> None:
    headwater_server.create_stream("orders")
    wanted = settings(headwater_server, tmp_path / "archive")
    login = Login(headwater_server.url)
    publish(headwater_server, 1, 100)
    archive(spark, wanted)
    publish(headwater_server, 101, 130)
    headwater_server.purge("orders", seq=121)
    with pytest.raises(DataLossError, match="lost 20 sequences, 101 to 120"):
        union_read(spark, login, wanted.to, "orders")
    rest = union_read(spark, login, wanted.to, "orders", fail_on_data_loss=False)
    assert sequences(rest) == [*range(1, 101), *range(121, 131)]


def test_a_stream_that_was_made_anew_is_told(
    spark: SparkSession, headwater_server: Server, tmp_path: Path
) -> None:
    headwater_server.create_stream("orders")
    wanted = settings(headwater_server, tmp_path / "archive")
    login = Login(headwater_server.url)
    publish(headwater_server, 1, 10)
    archive(spark, wanted)
    headwater_server.delete_stream("orders")
    headwater_server.create_stream("orders")
    publish(headwater_server, 1, 3)
    with pytest.raises(DataLossError, match="deleted and created again"):
        union_read(spark, login, wanted.to, "orders")
    both = union_read(spark, login, wanted.to, "orders", fail_on_data_loss=False)
    assert sequences(both) == sorted([*range(1, 11), *range(1, 4)])
