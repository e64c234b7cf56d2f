"""Streams and buckets in SQL alone: tables of the catalog, temporary views, INSERT INTO."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.kit.stream_servers import Server

MakeTable = Callable[[str, str], None]


@pytest.fixture
def make_table(spark: SparkSession) -> Iterator[MakeTable]:
    """`CREATE TABLE name USING headwater OPTIONS (options)`."""
    made: list[str] = []

    def make(name: str, options: str) -> None:
        spark.sql(f"CREATE TABLE {name} USING headwater OPTIONS ({options})")
        made.append(name)

    yield make
    for name in made:
        spark.sql(f"DROP TABLE {name}")


def fill(server: Server, count: int) -> None:
    server.create_stream("orders")
    server.publish((f"orders.{n % 2}", b"%d" % n) for n in range(1, count + 1))


def test_a_table_of_a_stream_is_read_and_inserted_into(
    spark: SparkSession, server: Server, make_table: MakeTable, tmp_path: Path
) -> None:
    fill(server, 10)
    # Options for reading and for writing, of which each use takes its own.
    make_table(
        "orders_sql",
        f"url '{server.url}', stream 'orders', subjects 'orders.0', subject 'orders.0'",
    )
    assert spark.sql("SELECT count(*) FROM orders_sql").collect()[0][0] == 5
    spark.sql("INSERT INTO orders_sql (data, subject) VALUES (CAST('a' AS BINARY), 'orders.x')")
    spark.sql("INSERT INTO orders_sql (data) SELECT CAST('b' AS BINARY)")
    spark.sql("INSERT INTO orders_sql BY NAME SELECT 'orders.z' AS subject, data FROM orders_sql")
    stored = [(each.subject, each.data) for each in server.stored("orders", 11)]
    assert stored[:2] == [("orders.x", b"a"), ("orders.0", b"b")]
    assert sorted(stored[2:]) == [
        ("orders.z", data) for data in (b"10", b"2", b"4", b"6", b"8", b"b")
    ]
    query = (
        spark.readStream.table("orders_sql")
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sum(each.numInputRows for each in query.recentProgress) == 6


def test_a_table_of_a_bucket_and_a_temporary_view(
    spark: SparkSession, headwater_server: Server, make_table: MakeTable
) -> None:
    headwater_server.create_bucket("prices")
    options = f"url '{headwater_server.url}', bucket 'prices'"
    make_table("prices_sql", options)
    spark.sql("INSERT INTO prices_sql (key, data) VALUES ('a', CAST('1' AS BINARY))")
    spark.sql(f"CREATE TEMPORARY VIEW prices_view USING headwater OPTIONS ({options})")
    try:
        spark.sql("INSERT INTO prices_view (key, data) VALUES ('b', CAST('2' AS BINARY))")
        rows = spark.sql("SELECT key, operation FROM prices_view ORDER BY key").collect()
    finally:
        spark.catalog.dropTempView("prices_view")
    assert [tuple(row) for row in rows] == [("a", "put"), ("b", "put")]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("token 'hunter2'", "option token has a secret in it"),
        ("user 'ann', password 'hunter2'", "option password has a secret in it"),
        ("subjcts 'a'", "option subjcts is unknown: did you mean subjects"),
        ("maxInFlight 'many'", "option maxInFlight='many' is not valid"),
    ],
)
def test_a_table_with_a_secret_or_a_mistake_in_it_is_refused_when_it_is_made(
    spark: SparkSession,
    headwater_server: Server,
    make_table: MakeTable,
    options: str,
    told: str,
) -> None:
    fill(headwater_server, 1)
    with pytest.raises(PySparkException) as refused:
        make_table("refused_sql", f"url '{headwater_server.url}', stream 'orders', {options}")
    assert told in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_table_with_columns_of_its_own_says_what_to_do_instead(
    spark: SparkSession, headwater_server: Server
) -> None:
    fill(headwater_server, 1)
    options = f"url '{headwater_server.url}', stream 'orders'"
    spark.sql(f"CREATE TABLE columns_sql (data binary) USING headwater OPTIONS ({options})")
    try:
        with pytest.raises(PySparkException, match="make it without columns"):
            spark.sql("SELECT * FROM columns_sql").collect()
    finally:
        spark.sql("DROP TABLE columns_sql")


def test_the_options_of_a_read_are_in_no_column_of_it(
    spark: SparkSession, headwater_server: Server
) -> None:
    fill(headwater_server, 1)
    frame = spark.read.format("headwater").options(url=headwater_server.url, stream="orders").load()
    assert all(not field.metadata for field in frame.schema.fields)
