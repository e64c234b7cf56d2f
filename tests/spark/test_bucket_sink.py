"""Rows put, delete and purge keys of a bucket."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.kit.stream_servers import Message, Server
from tests.spark.writing import without_ids, write_stream

BUCKET = "prices"
STREAM = f"KV_{BUCKET}"


def write(frame: DataFrame, server: Server) -> None:
    writer = frame.write.format("headwater").mode("append")
    writer.options(url=server.url, bucket=BUCKET).save()


def changes(spark: SparkSession, *rows: tuple[str, str | None, str | None]) -> DataFrame:
    """Keys, values and operations, in this order."""
    schema = "key string, value string, operation string"
    return spark.createDataFrame([*rows], schema).coalesce(1)


def entries(server: Server) -> list[tuple[str, bytes, list[str]]]:
    return [
        (subject.removeprefix(f"$KV.{BUCKET}."), data, lines)
        for subject, data, lines in without_ids(server.stored(STREAM))
    ]


def test_rows_put_values(spark: SparkSession, server: Server) -> None:
    server.create_bucket(BUCKET)
    write(spark.sql("select 'a.b' key, 'one' value union all select 'c', 'two'"), server)
    assert sorted(entries(server)) == [("a.b", b"one", []), ("c", b"two", [])]


def test_operations_are_those_that_clients_know(spark: SparkSession, server: Server) -> None:
    server.create_bucket(BUCKET, history=5)
    frame = changes(
        spark,
        ("a", "1", "put"),
        ("a", "2", None),
        ("a", None, "delete"),
        ("b", "1", "put"),
        ("b", None, "purge"),
    )
    write(frame, server)
    assert entries(server) == [
        ("a", b"1", []),
        ("a", b"2", []),
        ("a", b"", ["KV-Operation: DEL"]),
        ("b", b"", ["KV-Operation: PURGE", "Nats-Rollup: sub"]),
    ]


def test_a_streaming_query_leaves_the_last_value_of_each_key(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    server.create_bucket(BUCKET)
    frame = spark.range(0, 3000, 1, 1).selectExpr(
        "concat('key-', id % 10) key", "cast(id as string) value"
    )
    write_stream(spark, frame, server, tmp_path, bucket=BUCKET)
    assert sorted(data for _, data, _ in entries(server)) == [
        b"%d" % number for number in range(2990, 3000)
    ]


def test_what_was_read_from_a_bucket_can_be_written_to_one(
    spark: SparkSession, server: Server
) -> None:
    server.create_bucket("source", history=3)
    server.create_bucket(BUCKET, history=3)
    server.publish([("$KV.source.a", b"1"), ("$KV.source.a", b"2"), ("$KV.source.b", b"3")])
    read = spark.read.format("headwater").options(url=server.url, bucket="source").load()
    write(read.orderBy("revision").coalesce(1), server)
    assert entries(server) == [("a", b"1", []), ("a", b"2", []), ("b", b"3", [])]


MARKERS = [
    Message("$KV.source.a", b"1", b"NATS/1.0\r\nColour: red\r\n\r\n"),
    Message("$KV.source.a", b"", b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"),
    Message("$KV.source.b", b"2"),
    Message("$KV.source.b", b"", b"NATS/1.0\r\nKV-Operation: PURGE\r\nNats-Rollup: sub\r\n\r\n"),
    Message("$KV.source.b", b"3"),
]


def test_a_copy_of_a_bucket_has_each_header_once(spark: SparkSession, server: Server) -> None:
    server.create_bucket("source", history=3)
    server.create_bucket(BUCKET, history=3)
    server.publish(MARKERS)
    read = spark.read.format("headwater").options(url=server.url, bucket="source").load()
    write(read.orderBy("revision").coalesce(1), server)
    assert entries(server) == [
        ("a", b"1", ["Colour: red"]),
        ("a", b"", ["KV-Operation: DEL"]),
        ("b", b"", ["KV-Operation: PURGE", "Nats-Rollup: sub"]),
        ("b", b"3", []),
    ]


def test_the_history_of_a_bucket_can_be_written_to_a_stream(
    spark: SparkSession, server: Server
) -> None:
    server.create_bucket("source", history=3)
    server.create_stream("LOG", allow_rollup_hdrs=True)
    server.publish([("LOG.b", b"before"), ("LOG.b", b"before")])
    server.publish(MARKERS)
    read = spark.read.format("headwater").options(url=server.url, bucket="source").load()
    rows = read.orderBy("revision").coalesce(1)
    copied = rows.selectExpr("concat('LOG.', key) subject", "headers", "data")
    copied.write.format("headwater").mode("append").options(url=server.url, stream="LOG").save()
    assert without_ids(server.stored("LOG"))[2:] == [
        ("LOG.a", b"1", ["Colour: red"]),
        ("LOG.a", b"", ["KV-Operation: DEL"]),
        ("LOG.b", b"", ["KV-Operation: PURGE"]),
        ("LOG.b", b"3", []),
    ]
