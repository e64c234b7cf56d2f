"""A batch read gives what was published: every byte, every bound, every column."""

from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    StructField,
    StructType,
)

from headwater.go.times import parse_time
from headwater.spark.options import SourceOptions
from headwater.spark.read.source import SourceReader
from tests.kit.stream_servers import Message, Server, Stored, header_block
from tests.spark.reading import COLUMNS, TYPES, read, sequences, table


def parsed(header: bytes) -> dict[str, list[str]] | None:
    """The headers of a block, the obvious way."""
    if not header:
        return None
    found: dict[str, list[str]] = {}
    for line in header.decode().split("\r\n")[1:-2]:
        name, value = line.split(":", 1)
        found.setdefault(name, []).append(value.strip())
    return found


def as_told_by_the_server(stream: str, messages: Iterable[Stored]) -> list[tuple[Any, ...]]:
    return [
        (m.sequence, stream, m.subject, parse_time(m.time) // 1000, parsed(m.header), m.data)
        for m in messages
    ]


def as_told_by_spark(rows: DataFrame) -> list[tuple[Any, ...]]:
    found = rows.selectExpr(
        "sequence", "stream", "subject", "unix_micros(timestamp)", "headers", "data"
    ).collect()
    return sorted(
        ((r[0], r[1], r[2], r[3], r[4], bytes(r[5])) for r in found), key=lambda row: row[0]
    )


def a_bit_of_everything(subjects: int) -> list[Message]:
    """Empty, binary and large payloads; no headers, one, many, repeated and empty ones."""
    blocks = [
        b"",
        header_block({"A": ["1"]}),
        b"",
        header_block({"Trace": ["x", "y"], "Empty": [""], "trace": ["lower"]}),
        header_block({"Ünicode": ["ø", "with: colon"]}),
    ]
    payloads = [b"", bytes(range(256)), b"text", b"\xff\xfe\x00", b"x" * 70_000]
    return [
        # The one does not go with the other: each payload comes with each of the headers.
        Message(f"all.{i % subjects}.{i % 3}", payloads[i % 5], blocks[i // 5 % 5])
        for i in range(subjects * 2 + 40)
    ]


@pytest.mark.parametrize("subjects", [1, 1_000])
def test_every_message_bit_for_bit(spark: SparkSession, server: Server, subjects: int) -> None:
    server.create_stream("all")
    last = server.publish(a_bit_of_everything(subjects))
    for gap in (1, 2, 5, 6, 7, last // 2, last):
        server.delete_message("all", gap)
    rows = table(spark, server, stream="all", minPartitions=3)
    assert rows.columns == COLUMNS
    assert rows.rdd.getNumPartitions() == 3
    expected = as_told_by_the_server("all", server.stored("all"))
    assert as_told_by_spark(rows) == expected
    assert server.consumers("all") == []


@pytest.mark.parametrize("config", [{}, {"allow_direct": False}, {"retention": "workqueue"}])
def test_gaps_longer_than_a_partition(server: Server, config: dict[str, object]) -> None:
    server.create_stream("gaps", **config)
    kept = [sequence for sequence in range(1, 3001) if sequence % 1000 < 10]
    names = ["gaps.kept" if each % 1000 < 10 else "gaps.gone" for each in range(1, 3001)]
    server.publish((name, b"%d" % sequence) for sequence, name in enumerate(names, 1))
    server.purge("gaps", filter="gaps.gone")
    server.delete_message("gaps", 3000)
    rows = read(server, ["subject", "sequence", "data"], stream="gaps", minPartitions=8)
    assert [row["sequence"] for row in rows] == kept[:-1]
    assert all(row["data"] == b"%d" % row["sequence"] for row in rows)
    assert {row["subject"] for row in rows} == {"gaps.kept"}


@pytest.mark.parametrize("config", [{"allow_direct": False}, {"retention": "workqueue"}])
def test_whatever_the_stream_allows(server: Server, config: dict[str, object]) -> None:
    server.create_stream("all", **config)
    server.publish(a_bit_of_everything(7))
    before = server.state("all")
    rows = read(server, stream="all", minPartitions=2)
    expected = [(m.sequence, m.subject, m.data) for m in server.stored("all")]
    assert [(row["sequence"], row["subject"], row["data"]) for row in rows] == expected
    assert [dict(row["headers"]) if row["headers"] is not None else None for row in rows] == [
        parsed(m.header) for m in server.stored("all")
    ]
    assert server.state("all") == before


def test_a_read_that_is_given_up_leaves_nothing_behind(server: Server) -> None:
    """`limit` and `show` give reads up; the next read of the process has a good connection."""
    server.create_stream("s")
    server.publish([("s.a", b"x" * 100)] * 30_000)
    schema = StructType([StructField(name, TYPES[name]) for name in COLUMNS])
    reader = SourceReader(SourceOptions.parse({"url": server.url, "stream": "s"}), schema)
    rows = reader.read(reader.partitions()[0])
    assert next(rows).num_rows
    rows.close()  # type: ignore[attr-defined]
    assert server.consumers("s") == []
    assert len(read(server, ["sequence"], stream="s")) == 30_000


def test_an_empty_stream_is_an_empty_table(spark: SparkSession, server: Server) -> None:
    server.create_stream("empty")
    assert table(spark, server, stream="empty").collect() == []
    server.publish([("empty.a", b"1")])
    server.purge("empty")
    assert read(server, stream="empty") == []


def test_a_table_is_as_of_its_first_use(spark: SparkSession, headwater_server: Server) -> None:
    headwater_server.create_stream("s")
    headwater_server.publish([("s.a", b"")])
    loaded = table(spark, headwater_server, stream="s")
    assert sequences(loaded) == [1]
    headwater_server.publish([("s.a", b"")])
    assert sequences(loaded) == [1]
    assert sequences(table(spark, headwater_server, stream="s")) == [1, 2]


def test_starts_and_ends(server: Server) -> None:
    server.create_stream("bounds")
    for number in range(10):
        server.publish([("bounds.a", b"%d" % number)])
    times = {message.sequence: message.time for message in server.stored("bounds")}

    def found(**options: object) -> list[int]:
        return [row["sequence"] for row in read(server, COLUMNS, stream="bounds", **options)]

    assert found(startingSequence=4, endingSequence=6) == [4, 5, 6]
    assert found(starting="earliest", ending="latest") == list(range(1, 11))
    assert found(startingSequence=11) == []
    assert found(endingSequence=99) == list(range(1, 11))
    # A start is included, an end in time is not: neighbouring intervals do not overlap.
    assert found(startingTime=times[4], endingTime=times[7]) == [4, 5, 6]
    assert found(startingTime="2020-01-01") == list(range(1, 11))
    assert found(startingTime="2120-01-01") == []
    assert found(endingTime="2020-01-01") == []


def test_subjects_with_wildcards(server: Server) -> None:
    server.create_stream("f")
    server.publish([(f"f.{i % 3}.{i % 2}", b"") for i in range(12)])
    subjects = [message.subject for message in server.stored("f")]

    def found(patterns: str) -> list[str]:
        rows = read(server, stream="f", subjects=patterns, minPartitions=2)
        assert [subjects[row["sequence"] - 1] for row in rows] == [row["subject"] for row in rows]
        return [row["subject"] for row in rows]

    assert found("f.0.0") == ["f.0.0"] * 2
    assert found("f.*.1,f.2.0") == [s for s in subjects if s.endswith("1") or s == "f.2.0"]
    assert found("f.1.>") == [s for s in subjects if s.startswith("f.1.")]
    # A subject may match two of them, and comes once.
    assert found("f.*.0,f.1.*") == [s for s in subjects if s[-1] == "0" or s[2] == "1"]
    assert found("g.>") == []


def test_a_schema_of_the_user_is_what_is_read(spark: SparkSession, server: Server) -> None:
    server.create_stream("s")
    server.publish([Message("s.a", b"x", header_block({"A": ["1"]}))])
    reader = spark.read.format("headwater").options(url=server.url, stream="s")
    rows = reader.schema("data binary, sequence bigint").load()
    assert [tuple(row) for row in rows.collect()] == [(bytearray(b"x"), 1)]
    assert read(server, ["headers"], stream="s") == [{"headers": [("A", ["1"])]}]
    assert read(server, ["subject"], stream="s") == [{"subject": "s.a"}]
    without = read(server, stream="s", includeHeaders="false")
    assert [(row["headers"], row["data"]) for row in without] == [(None, b"x")]


def test_what_is_not_a_text_shows_as_escapes(server: Server) -> None:
    server.create_stream("t")
    frame = b"NATS/1.0\r\nA: \xff\r\n\r\n"
    server.publish([Message("t.a", b"", frame), Message("t.b")])
    headers = [row["headers"] for row in read(server, stream="t")]
    assert headers == [[("A", ["\\xff"])], None]
