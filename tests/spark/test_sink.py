"""Rows become messages: what each column means, what is refused and how that is said."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.spark.options import OptionError, SinkOptions
from headwater.spark.write.sink import (
    BATCH_ID_PROPERTY,
    QUERY_ID_PROPERTY,
    RUN_ID_PROPERTY,
    batch_writer,
    stream_writer,
)
from tests.kit.stream_servers import Message, Server
from tests.spark.writing import STREAM, without_ids, write_stream

MARKERS = "KV_headwater_sinks"


def write(frame: DataFrame, server: Server, **options: str) -> None:
    """Write a frame as a batch."""
    writer = frame.write.format("headwater").mode("append")
    writer.options(**({"url": server.url, "stream": STREAM} | options)).save()


def data(server: Server, stream: str = STREAM) -> list[bytes]:
    return [message.data for message in server.stored(stream)]


def error_of(action: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(PySparkException) as caught:
        action(*arguments, **options)
    return str(caught.value)


def test_a_batch_write_publishes_every_row(spark: SparkSession, server: Server) -> None:
    server.create_stream(STREAM)
    frame = spark.range(0, 5000, 1, 3).selectExpr("cast(id as string) data", "'LOG.a' subject")
    write(frame, server)
    assert sorted(data(server), key=int) == [b"%d" % number for number in range(5000)]


def test_a_streaming_write_publishes_every_row_of_every_batch(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    server.create_stream(STREAM)
    for batch in range(3):
        frame = spark.range(batch * 1000, batch * 1000 + 1000, 1, 2).selectExpr(
            "cast(cast(id as string) as binary) data"
        )
        write_stream(spark, frame, server, tmp_path, subject="LOG.fixed")
    assert sorted(data(server), key=int) == [b"%d" % number for number in range(3000)]
    assert {each.subject for each in server.stored(STREAM)} == {"LOG.fixed"}


def test_columns_become_parts_of_messages(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    server.create_stream(STREAM)
    frame = spark.sql(
        """
        select * from values
        ('LOG.a', X'00FF', map('A', array('1', '2'), 'B', array('ø'))),
        ('LOG.b', X'', map()),
        (null, null, null)
        as rows(subject, data, headers)
        """
    ).coalesce(1)
    expected = [
        ("LOG.a", b"\x00\xff", ["A: 1", "A: 2", "B: ø"]),
        ("LOG.b", b"", []),
        ("LOG.fixed", b"", []),
    ]
    write(frame, server, subject="LOG.fixed")
    assert without_ids(server.stored(STREAM)) == expected
    server.purge(STREAM)
    write_stream(spark, frame, server, tmp_path, subject="LOG.fixed")
    assert sorted(without_ids(server.stored(STREAM))) == expected


def test_a_message_id_of_a_row_is_the_one_that_is_published(
    spark: SparkSession, server: Server
) -> None:
    server.create_stream(STREAM)
    write(
        spark.sql(
            "select 'LOG.a' subject, * from values ('x', 'mine'), ('y', 'mine'), ('z', null)"
            " as rows(data, message_id)"
        ).coalesce(1),
        server,
    )
    first, second = server.stored(STREAM)
    assert (first.data, second.data) == (b"x", b"z")
    assert first.header == b"NATS/1.0\r\nNats-Msg-Id: mine\r\n\r\n"
    assert b"Nats-Msg-Id: " in second.header


def test_an_expected_sequence_is_asked_for(spark: SparkSession, server: Server) -> None:
    server.create_stream(STREAM)
    frame = spark.sql(
        "select 'LOG.a' subject, * from values ('x', 0L, null), ('y', null, 1L), ('z', 2L, 2L)"
        " as rows(data, expected_last_sequence, expected_last_subject_sequence)"
    ).coalesce(1)
    write(frame, server)
    assert data(server) == [b"x", b"y", b"z"]
    text = error_of(write, frame, server)
    assert "partition 0: row 0 (subject LOG.a) was refused: wrong last sequence: 3" in text


def test_orders_in_the_headers_of_what_was_read_are_not_given_again(
    spark: SparkSession, server: Server
) -> None:
    server.create_stream(STREAM)
    server.create_stream("COPY")
    block = b"NATS/1.0\r\nNats-Msg-Id: once\r\nNats-Expected-Stream: LOG\r\nKept: yes\r\n\r\n"
    server.publish([Message("LOG.a", b"x", block)])
    rows = spark.read.format("headwater").options(url=server.url, stream=STREAM).load()
    copied = rows.selectExpr("*", "'COPY.a' as renamed").drop("subject")
    write(copied.withColumnRenamed("renamed", "subject"), server, stream="COPY")
    assert without_ids(server.stored("COPY")) == [("COPY.a", b"x", ["Kept: yes"])]


@pytest.mark.parametrize("streaming", [False, True])
def test_atomic_batches_are_used_where_the_stream_allows_them(
    spark: SparkSession, server: Server, tmp_path: Path, streaming: bool
) -> None:
    server.create_stream(STREAM, allow_atomic=True)
    frame = spark.range(0, 2500, 1, 1).selectExpr("cast(id as string) data")
    if streaming:
        write_stream(spark, frame, server, tmp_path, subject="LOG.a")
    else:
        write(frame, server, subject="LOG.a")
    stored = server.stored(STREAM)
    assert [each.data for each in stored] == [b"%d" % number for number in range(2500)]
    assert sum(b"Nats-Batch-Commit: 1" in each.header for each in stored) == 3
    write(spark.sql("select 'more' data, 'LOG.a' subject"), server, atomic="never")
    assert b"Nats-Batch-Id" not in server.stored(STREAM)[-1].header


def test_a_batch_without_rows_is_written_too(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    server.create_stream(STREAM)
    frame = spark.range(0, 10, 1, 2).selectExpr("cast(id as string) data").where("data = 'none'")
    write(frame, server, subject="LOG.a")
    write_stream(spark, frame, server, tmp_path, subject="LOG.a")
    assert server.state(STREAM)["messages"] == 0


def test_a_written_batch_leaves_a_marker_for_each_partition_and_one_for_itself(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    server.create_stream(STREAM)
    frame = spark.range(0, 10, 1, 2).selectExpr("cast(id as string) data")
    query = write_stream(spark, frame, server, tmp_path, subject="LOG.a")
    name = str(query.id).replace("-", "")[:16]
    found = {
        each.subject.removeprefix("$KV.headwater_sinks."): each for each in server.stored(MARKERS)
    }
    marker = json.loads(found[name].data)
    ((batch, partitions, rows, digest, offsets),) = marker["committed"]
    assert (marker["batch"], batch, partitions, rows) == (0, 0, 2, 10)
    assert len(digest) <= 24
    assert offsets == ""
    assert b'"state":"written"' in found[f"{name}.0"].data
    assert b'"batch":0' in found[f"{name}.0"].data
    assert server.consumers(STREAM) == server.consumers(MARKERS) == []


# --- what is refused ---------------------------------------------------------------------------


def test_errors_come_before_a_job_runs(
    spark: SparkSession, headwater_server: Server, tmp_path: Path
) -> None:
    headwater_server.create_stream(STREAM)
    frame = spark.sql("select 'x' data, 1 colour")
    expected = "column 'colour' cannot be written to a stream"
    assert expected in error_of(write, frame, headwater_server)
    assert expected in error_of(write_stream, spark, frame, headwater_server, tmp_path)


def test_a_row_that_cannot_be_a_message_is_named(
    spark: SparkSession, headwater_server: Server
) -> None:
    headwater_server.create_stream(STREAM)
    frame = spark.range(0, 10, 1, 1).selectExpr("'x' data", "if(id = 7, 'a b', 'LOG.a') subject")
    text = error_of(write, frame, headwater_server)
    assert "partition 0: row 7 has the subject 'a b', which is not one to publish to" in text
    assert headwater_server.state(STREAM)["messages"] == 0


def test_what_the_server_refuses_is_told_with_its_row(
    spark: SparkSession, headwater_server: Server
) -> None:
    headwater_server.create_stream(STREAM, max_msg_size=100)
    frame = spark.range(0, 10, 1, 1).selectExpr(
        "if(id = 7, repeat('x', 200), 'x') data", "'LOG.a' subject"
    )
    text = error_of(write, frame, headwater_server)
    assert "partition 0: row 7 (subject LOG.a) was refused: message size exceeds maximum" in text


@pytest.mark.parametrize("streaming", [False, True])
def test_bad_rows_are_dead_letters_where_that_is_asked_for(
    spark: SparkSession, server: Server, tmp_path: Path, streaming: bool
) -> None:
    server.create_stream(STREAM, max_msg_size=100)
    server.create_stream("DEAD")
    frame = spark.range(0, 10, 1, 1).selectExpr(
        "case id when 7 then repeat('x', 200) when 8 then repeat('y', 2000000)"
        " else cast(id as string) end data",
        "if(id = 3, 'a b', 'LOG.a') subject",
        "case id when 2 then map('a:b', 'c') when 5 then map('Nats-Rollup', 'sub') end headers",
    )
    options = {"onBadRow": "deadLetter", "deadLetterStream": "DEAD"}
    if streaming:
        write_stream(spark, frame, server, tmp_path, **options)
    else:
        write(frame, server, **options)
    written = sorted(int(each.data) for each in server.stored(STREAM))
    assert written == [0, 1, 4, 6, 9]
    stored = server.stored("DEAD")
    assert {each.subject for each in stored} == {"DEAD.LOG"}
    reasons = {each.data[:200]: each.header.decode() for each in stored}
    expected = {
        b"2": "Headwater-Reason: row 2 has a header named 'a:b'",
        b"3": "Headwater-Reason: row 3 has the subject 'a b'",
        b"5": "Headwater-Reason: row 5 (subject LOG.a) was refused: rollup not permitted",
        b"x" * 200: "Headwater-Reason: row 7 (subject LOG.a) was refused: message size exceeds",
        b"y" * 200: "Headwater-Bytes: 2000000",
    }
    assert len(stored) == len(expected)
    for payload, line in expected.items():
        assert line in reasons[payload]


REFUSED_STREAMS: dict[str, tuple[dict[str, object], dict[str, str], str]] = {
    "missing": ({}, {"stream": "NONE"}, "option stream='NONE': the server at"),
    "no acks": ({"no_ack": True}, {}, "it sends no acks"),
    "not its subject": ({}, {"subject": "OTHER.a"}, "not a subject of the stream"),
    "not atomic": ({}, {"atomic": "always"}, "does not allow_atomic"),
    "no dead letters": (
        {},
        {"onBadRow": "deadLetter", "deadLetterStream": "NONE"},
        "option deadLetterStream='NONE': the server at",
    ),
    "itself": (
        {},
        {"onBadRow": "deadLetter", "deadLetterStream": STREAM},
        "option deadLetterStream='LOG' is the target itself",
    ),
}


@pytest.mark.parametrize("case", REFUSED_STREAMS)
@pytest.mark.parametrize("make", [batch_writer, stream_writer])
def test_streams_that_cannot_be_written_to_are_refused(
    headwater_server: Server, case: str, make: Callable[..., object]
) -> None:
    config, options, expected = REFUSED_STREAMS[case]
    headwater_server.create_stream(STREAM, **config)
    parsed = SinkOptions.parse({"url": headwater_server.url, "stream": STREAM} | options)
    with pytest.raises(OptionError, match=re.escape(expected)) as caught:
        make(parsed, StructType().add("data", "string").add("subject", "string"))
    assert "\n" not in str(caught.value)


def test_a_copy_of_other_streams_and_a_sealed_one_are_refused(oracle_server: Server) -> None:
    oracle_server.create_stream(STREAM)
    mirror = {"name": "COPY", "storage": "file", "mirror": {"name": STREAM}}
    oracle_server.call("STREAM.CREATE.COPY", mirror)
    schema = StructType().add("data", "string").add("subject", "string")
    copy = SinkOptions.parse({"url": oracle_server.url, "stream": "COPY"})
    with pytest.raises(OptionError, match="it is a copy of other streams"):
        batch_writer(copy, schema)
    config = oracle_server.call(f"STREAM.INFO.{STREAM}")["config"]
    oracle_server.call(f"STREAM.UPDATE.{STREAM}", config | {"sealed": True})
    sealed = SinkOptions.parse({"url": oracle_server.url, "stream": STREAM})
    with pytest.raises(OptionError, match="it is sealed"):
        batch_writer(sealed, schema)


def test_a_stream_cannot_be_overwritten(headwater_server: Server) -> None:
    headwater_server.create_stream(STREAM)
    options = SinkOptions.parse({"url": headwater_server.url, "stream": STREAM})
    with pytest.raises(OptionError, match="mode overwrite is not possible"):
        batch_writer(options, StructType().add("data", "string"), overwrite=True)


# --- what Spark does not promise ---------------------------------------------------------------


def test_spark_tells_tasks_the_query_its_run_and_the_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark does not document the names of these properties: on failure the sink needs others."""
    spark.range(3).write.parquet(str(tmp_path / "rows"))
    rows = spark.readStream.schema("id long").parquet(str(tmp_path / "rows"))

    def told(batches: Any) -> Any:
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            names = {"query": QUERY_ID_PROPERTY, "batch": BATCH_ID_PROPERTY, "run": RUN_ID_PROPERTY}
            for column, name in names.items():
                batch[column] = context.getLocalProperty(name)
            yield batch

    query = (
        rows.mapInPandas(told, "id long, query string, batch string, run string")
        .writeStream.format("memory")
        .queryName("told")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    (found,) = spark.table("told").select("query", "batch", "run").distinct().collect()
    assert tuple(found) == (str(query.id), "0", str(query.runId))
