"""Batch reads: as a DataFrame, and by the reader alone."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.spark.options import SourceOptions
from headwater.spark.read.source import SourceReader
from tests.kit.stream_servers import Server

COLUMNS = ["stream", "subject", "sequence", "timestamp", "headers", "data"]


def table(spark: SparkSession, server: Server, **options: object) -> DataFrame:
    texts = {name: str(value) for name, value in options.items()}
    return spark.read.format("headwater").option("url", server.url).options(**texts).load()


TYPES: dict[str, DataType] = {
    "stream": StringType(),
    "subject": StringType(),
    "sequence": LongType(),
    "timestamp": TimestampType(),
    "headers": MapType(StringType(), ArrayType(StringType())),
    "data": BinaryType(),
    "key": StringType(),
    "operation": StringType(),
    "name": StringType(),
    "content": BinaryType(),
}


def read(
    server: Server, columns: Sequence[str] = COLUMNS, **options: object
) -> list[dict[str, Any]]:
    """The rows of a table in their order, read by the reader alone: no Spark, no waiting."""
    texts = {name: str(value) for name, value in options.items()}
    parsed_options = SourceOptions.parse({"url": server.url, **texts})
    schema = StructType([StructField(name, TYPES[name]) for name in columns])
    reader = SourceReader(parsed_options, schema)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


def sequences(rows: DataFrame) -> list[int]:
    return sorted(row.sequence for row in rows.select("sequence").collect())
