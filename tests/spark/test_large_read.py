"""A stream of two million messages, compared with what was published without leaving Spark.

Each message says its own sequence, in its subject and in its payload, so every row can be judged by
itself, and none has to come to the driver.
"""

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.kit.stream_servers import Server

MESSAGES = 2_000_000
SUBJECTS = 1_000
PARTITIONS_MIN = 4


def test_two_million_messages_bit_for_bit(spark: SparkSession, server: Server) -> None:
    server.create_stream("s")
    last = server.publish(
        (f"s.{sequence % SUBJECTS}", b"m%d" % sequence) for sequence in range(1, MESSAGES + 1)
    )
    assert last == MESSAGES
    rows = (
        spark.read.format("headwater")
        .options(url=server.url, stream="s", minPartitions=PARTITIONS_MIN)
        .load()
    )
    is_as_published = f.expr(
        f"stream <=> 's' and subject <=> concat('s.', sequence % {SUBJECTS})"
        " and data <=> cast(concat('m', sequence) as binary)"
        " and headers is null and timestamp is not null"
    )
    [found] = rows.agg(
        f.count("*").alias("rows"),
        f.count_distinct("sequence").alias("sequences"),
        f.min("sequence").alias("first"),
        f.max("sequence").alias("last"),
        f.count_if(~is_as_published).alias("others"),
    ).collect()
    assert found.asDict() == {
        "rows": MESSAGES,
        "sequences": MESSAGES,
        "first": 1,
        "last": MESSAGES,
        "others": 0,
    }
    assert rows.rdd.getNumPartitions() >= PARTITIONS_MIN
    assert server.consumers("s") == []
