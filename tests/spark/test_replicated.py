"""Streams that a cluster of three servers keeps: read at every level, and written exactly once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.kit.replicas import COUNT, Replicas, replicas

MESSAGES = 3000


@pytest.fixture(scope="module")
def headwaters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    with replicas(tmp_path_factory.mktemp("headwaters"), "headwater") as cluster:
        yield cluster


def messages(stream: str, first: int, count: int) -> list[tuple[str, bytes]]:
    return [(f"{stream}.{number % 5}", b"%d" % number) for number in range(first, first + count)]


def publish(cluster: Replicas, sent: list[tuple[str, bytes]]) -> int:
    return cluster.ask(lambda server: server.publish(sent))


def rows(table: DataFrame) -> list[tuple[int, str, bytes]]:
    return [(row.sequence, row.subject, bytes(row.data)) for row in table.collect()]


def test_a_replicated_stream_is_read_and_written(spark: SparkSession, tmp_path: Path) -> None:
    with replicas(tmp_path / "servers") as cluster:
        cluster.create_stream("SOURCE")
        cluster.create_stream("TARGET")
        sent = messages("SOURCE", 0, MESSAGES)
        cluster.ask(lambda server: server.publish(sent))

        options = {"url": cluster.url, "stream": "SOURCE", "minPartitions": "2"}
        table = spark.read.format("headwater").options(**options).load()
        assert rows(table) == [(number, *message) for number, message in enumerate(sent, 1)]

        query = (
            spark.readStream.format("headwater")
            .options(**options)
            .load()
            .selectExpr("concat('TARGET.', subject) as subject", "data")
            .writeStream.format("headwater")
            .options(url=cluster.url, stream="TARGET", markerBucket="markers")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        stored = cluster.ask(lambda server: server.stored("TARGET"))
        assert sorted((each.subject, each.data) for each in stored) == sorted(
            (f"TARGET.{subject}", data) for subject, data in sent
        )
        markers = cluster.ask(lambda server: server.call("STREAM.INFO.KV_markers"))
        assert markers["config"]["num_replicas"] == COUNT


def test_a_linearizable_read_through_any_server_has_all_that_was_acknowledged(
    spark: SparkSession, headwaters: Replicas
) -> None:
    headwaters.create_stream("STRONG", read_consistency="strong", allow_direct=False)
    sent: list[tuple[str, bytes]] = []
    for url in headwaters.url.split(","):
        more = messages("STRONG", len(sent), MESSAGES)
        publish(headwaters, more)
        sent += more
        table = (
            spark.read.format("headwater")
            .options(url=url, stream="STRONG", readConsistency="linearizable", minPartitions="2")
            .load()
        )
        assert rows(table) == [(number, *message) for number, message in enumerate(sent, 1)]


def test_a_session_through_any_server_has_what_it_has_written(
    spark: SparkSession, headwaters: Replicas
) -> None:
    headwaters.create_stream("SESSION", read_consistency="weak")
    sent: list[tuple[str, bytes]] = []
    for url in headwaters.url.split(","):
        more = messages("SESSION", len(sent), MESSAGES)
        last = publish(headwaters, more)
        sent += more
        assert last == len(sent)
        table = (
            spark.read.format("headwater")
            .options(url=url, stream="SESSION", readConsistency="session")
            .options(sessionSequence=str(last), minPartitions="2")
            .load()
        )
        assert rows(table) == [(number, *message) for number, message in enumerate(sent, 1)]


def test_a_weak_read_has_the_first_messages_and_no_hole(
    spark: SparkSession, headwaters: Replicas
) -> None:
    headwaters.create_stream("WEAK", read_consistency="weak")
    sent = messages("WEAK", 0, MESSAGES)
    publish(headwaters, sent)
    for url in headwaters.url.split(","):
        table = (
            spark.read.format("headwater")
            .options(url=url, stream="WEAK", readConsistency="weak", minPartitions="2")
            .load()
        )
        found = rows(table)
        assert found == [(number, *message) for number, message in enumerate(sent, 1)][: len(found)]


@pytest.mark.parametrize("level", ["weak", "session", "linearizable"])
def test_a_query_at_each_level_has_each_message_once_when_the_leader_is_lost(
    spark: SparkSession, headwaters: Replicas, tmp_path: Path, level: str
) -> None:
    stream = f"LOST-{level}"
    headwaters.create_stream(stream, read_consistency="weak")
    source = (
        spark.readStream.format("headwater")
        .options(url=headwaters.url, stream=stream, readConsistency=level)
        .load()
    )

    def run() -> None:
        (
            source.selectExpr("sequence", "cast(data as string) as text")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "found"))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )

    publish(headwaters, messages(stream, 0, MESSAGES))
    run()
    headwaters.kill_leader(stream)
    publish(headwaters, messages(stream, MESSAGES, MESSAGES))
    run()
    headwaters.heal(stream)
    # A weak read may have ended before the last message.
    publish(headwaters, messages(stream, 2 * MESSAGES, 1))
    run()
    found = [
        (row.sequence, row.text) for row in spark.read.parquet(str(tmp_path / "found")).collect()
    ]
    assert len(found) == len({sequence for sequence, _ in found})
    stored = headwaters.ask(lambda server: server.stored(stream))
    expected = [(each.sequence, each.data.decode()) for each in stored]
    assert sorted(found) == expected[: len(found)]
    if level != "weak":
        assert len(found) == len(expected)
