"""Streams that a cluster of three servers keeps: read, and written exactly once."""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.kit.replicas import COUNT, replicas

MESSAGES = 3000


def test_a_replicated_stream_is_read_and_written(spark: SparkSession, tmp_path: Path) -> None:
    with replicas(tmp_path / "servers") as cluster:
        cluster.create_stream("SOURCE")
        cluster.create_stream("TARGET")
        sent = [(f"SOURCE.{number % 5}", b"%d" % number) for number in range(MESSAGES)]
        cluster.ask(lambda server: server.publish(sent))

        options = {"url": cluster.url, "stream": "SOURCE", "minPartitions": "2"}
        rows = spark.read.format("headwater").options(**options).load().collect()
        assert [(row.sequence, row.subject, bytes(row.data)) for row in rows] == [
            (number, *message) for number, message in enumerate(sent, 1)
        ]

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
