"""Filters pushed to the server: the same rows, fewer of them read."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.types import LongType, StructField, StructType

from headwater.spark.options import SourceOptions
from headwater.spark.read.pushdown import Narrowing, PushdownReader, meet, narrowed
from headwater.spark.read.source import RangePartition
from tests.kit.stream_servers import Server
from tests.spark.reading import sequences, table

SEQUENCES = StructType([StructField("sequence", LongType())])
STREAM = SourceOptions.parse({"stream": "s"})
BUCKET = SourceOptions.parse({"bucket": "b"})
OBJECTS = SourceOptions.parse({"objects": "o"})
NOTHING = Narrowing(patterns=())
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
NOON_NS = int(NOON.timestamp()) * 10**9


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("sequence",), 5)], Narrowing(5, 6)),
        ([GreaterThan(("sequence",), 5), LessThanOrEqual(("sequence",), 9)], Narrowing(6, 10)),
        ([GreaterThanOrEqual(("sequence",), 5), LessThan(("sequence",), 9)], Narrowing(5, 9)),
        ([In(("sequence",), (7, 3))], Narrowing(3, 8)),
        ([In(("sequence",), ())], Narrowing()),
        (
            [GreaterThanOrEqual(("timestamp",), NOON), LessThanOrEqual(("timestamp",), NOON)],
            Narrowing(time_min_ns=NOON_NS, time_end_ns=NOON_NS + 1000),
        ),
        (
            [GreaterThan(("timestamp",), NOON), LessThan(("timestamp",), NOON)],
            Narrowing(time_min_ns=NOON_NS, time_end_ns=NOON_NS),
        ),
        ([EqualTo(("subject",), "a.b")], Narrowing(patterns=("a.b",))),
        ([In(("subject",), ("a", "b"))], Narrowing(patterns=("a", "b"))),
        ([StringStartsWith(("subject",), "a.b")], Narrowing(patterns=("a.>",))),
        ([StringStartsWith(("subject",), "a")], Narrowing()),
        ([StringStartsWith(("subject",), "a."), EqualTo(("subject",), "c")], NOTHING),
        # Wildcards in a row's text are plain characters; an invalid subject cannot be asked for.
        ([EqualTo(("subject",), "a.*")], Narrowing()),
        ([EqualTo(("subject",), "a\\xff")], Narrowing()),
        ([EqualTo(("subject",), "a b")], Narrowing()),
        # Filters that are not understood narrow nothing.
        ([Not(EqualTo(("sequence",), 5)), IsNotNull(("sequence",))], Narrowing()),
        ([EqualTo(("headers", "x"), "y"), EqualTo(("data",), b"")], Narrowing()),
    ],
)  # fmt: skip
def test_what_is_left_to_read(filters: list[Filter], expected: Narrowing) -> None:
    assert narrowed(STREAM, filters) == expected


def test_keys_revisions_and_names() -> None:
    assert narrowed(BUCKET, [EqualTo(("key",), "a.b")]) == Narrowing(patterns=("$KV.b.a.b",))
    assert narrowed(BUCKET, [StringStartsWith(("key",), "a")]) == Narrowing(patterns=("$KV.b.>",))
    assert narrowed(BUCKET, [EqualTo(("revision",), 3)]) == Narrowing(3, 4)
    assert narrowed(OBJECTS, [EqualTo(("name",), "x y")]) == Narrowing(patterns=("$O.o.M.eCB5",))


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (("a.*",), ("a.b",), ("a.b",)),
        (("a.b",), ("a.*",), ("a.b",)),
        (("a.*",), ("b",), ()),
        (("a.*.c",), ("a.b.*",), ("a.*.c",)),
        (("a.>", "b"), ("b", "a.x"), ("a.x", "b")),
        (("a.>",), ("a.*", "a.b"), ("a.*",)),
    ],
)
def test_patterns_that_both_cover(
    one: tuple[str, ...], other: tuple[str, ...], both: tuple[str, ...]
) -> None:
    assert meet(one, other) == both


def planned(server: Server, filters: list[Filter], **options: str) -> list[tuple[int, int, int]]:
    parsed = SourceOptions.parse({"url": server.url, "stream": "s", **options})
    reader = PushdownReader(parsed, SEQUENCES)
    assert list(reader.pushFilters(filters)) == filters
    parts = [part for part in reader.partitions() if isinstance(part, RangePartition)]
    return [(part.range.first, part.range.last, part.range.count or 0) for part in parts]


def test_only_what_can_match_is_read(server: Server) -> None:
    server.create_stream("s")
    for number in range(10):
        server.publish([(f"s.{number % 2}", b"")])
    assert planned(server, []) == [(1, 10, 10)]
    assert planned(server, [GreaterThan(("sequence",), 7)]) == [(8, 10, 3)]
    assert planned(server, [GreaterThan(("sequence",), 10)]) == []
    assert planned(server, [EqualTo(("subject",), "s.1")]) == [(1, 10, 5)]
    assert planned(server, [EqualTo(("subject",), "s.1")], subjects="s.0") == []
    ago = datetime.now(UTC) - timedelta(days=1)
    assert planned(server, [LessThan(("timestamp",), ago)]) == []
    assert planned(server, [GreaterThan(("timestamp",), ago)]) == [(1, 10, 10)]


def test_the_rows_are_the_same(spark: SparkSession, headwater_server: Server) -> None:
    server = headwater_server
    server.create_stream("s")
    for number in range(10):
        server.publish([(f"s.{number % 3}", b"")])
    third = table(spark, server, stream="s").where("sequence = 3").collect()[0].timestamp
    conditions = [
        "sequence >= 4 and sequence < 8",
        "subject = 's.1' and sequence > 2",
        "subject in ('s.0', 's.2') or sequence = 2",
        "subject like 's.1%'",
        f"timestamp > timestamp '{third}+00:00'",
        f"timestamp = timestamp '{third}+00:00'",
    ]
    plain = table(spark, server, stream="s")
    for condition in conditions:
        expected = sequences(plain.where(condition))
        assert expected
        # A table is loaded for one query: see the module.
        pushed = table(spark, server, stream="s", pushdown="true")
        assert sequences(pushed.where(condition)) == expected


def test_times_of_filters_mean_the_same_whatever_the_zone(
    spark: SparkSession, headwater_server: Server
) -> None:
    headwater_server.create_stream("s")
    headwater_server.publish([("s.a", b"")])

    def count(condition: str) -> int:
        pushed = table(spark, headwater_server, stream="s", pushdown="true")
        return pushed.where(condition).count()

    assert count("timestamp > timestamp '2120-01-01 00:00:00Z'") == 0
    assert count("timestamp > timestamp '2020-01-01 00:00:00Z'") == 1
