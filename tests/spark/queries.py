"""Streaming reads: as a query with a checkpoint, and planned as Spark plans them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import LongType, StructField, StructType

from headwater.spark.options import SourceOptions
from headwater.spark.read.source import RangePartition
from headwater.spark.read.stream_source import StreamSourceReader
from tests.kit.stream_servers import Server

SEQUENCES = StructType([StructField("sequence", LongType())])


class Run:
    """A query with a checkpoint, which writes sequences to files; started as often as wanted."""

    def __init__(self, spark: SparkSession, server: Server, directory: Path) -> None:
        self.spark = spark
        self.server = server
        self.directory = directory

    def start(self, **options: object) -> StreamingQuery:
        """Follow the stream until stopped."""
        return self._writing(options).start(str(self.directory / "out"))

    def finish(self, **options: object) -> list[int]:
        """Run until all messages are read. Returns the number of rows of each batch."""
        writing = self._writing(options).trigger(availableNow=True)
        query = writing.start(str(self.directory / "out"))
        query.awaitTermination()
        return [progress.numInputRows for progress in query.recentProgress]

    def _writing(self, options: dict[str, object]) -> DataStreamWriter:
        texts = {name: str(value) for name, value in options.items()}
        rows = self.spark.readStream.format("headwater").option("url", self.server.url)
        writing = rows.options(**texts).load().select("sequence").writeStream.format("parquet")
        return writing.option("checkpointLocation", str(self.directory / "checkpoint"))

    def sequences(self) -> list[int]:
        written = self.spark.read.schema("sequence bigint").parquet(str(self.directory / "out"))
        return sorted(row.sequence for row in written.collect())

    def offsets(self) -> list[dict[str, Any]]:
        """The offsets in the checkpoint, batch by batch."""
        files = sorted((self.directory / "checkpoint" / "offsets").glob("[0-9]*"), key=_number)
        return [json.loads(file.read_text().splitlines()[-1]) for file in files]

    def forget_commit(self, batch: int) -> None:
        """Remove a batch's commits, as if Spark had died before the sink had the batch."""
        for log in ("checkpoint/commits", "out/_spark_metadata"):
            for name in (str(batch), f".{batch}.crc"):
                (self.directory / log / name).unlink(missing_ok=True)


def _number(path: Path) -> int:
    return int(path.name)


class Planner:
    """Drives a reader as Spark's planner does."""

    def __init__(self, server: Server, **options: object) -> None:
        texts = {name: str(value) for name, value in options.items()}
        self.options = SourceOptions.parse({"url": server.url, "stream": "s", **texts})
        self.reader = StreamSourceReader(self.options, SEQUENCES)
        self.offset = self.reader.initialOffset()

    def next(self) -> list[RangePartition]:
        """The partitions of the next batch, none if there is no batch."""
        start = self.offset
        self.offset = self.reader.latestOffset(start, self.reader.getDefaultReadLimit())
        parts = self.reader.partitions(start, self.offset)
        assert parts == self.reader.partitions(start, self.offset)
        return [part for part in parts if isinstance(part, RangePartition)]

    def read(self, parts: list[RangePartition]) -> Iterator[int]:
        for part in parts:
            for batch in self.reader.read(part):
                yield from batch.column("sequence").to_pylist()
