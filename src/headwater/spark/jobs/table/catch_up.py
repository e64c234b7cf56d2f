"""The newest entries of a bucket, read by the driver of the job `table` in a few milliseconds.

A job of Spark takes longer to start than a busy bucket takes to replace its entries, so no number
of jobs catches up with one. The few entries that are left when the jobs have read most are read
here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
from pyspark.sql.types import StructType

from headwater.client.api.answers import StreamInfo
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.reads.fetch import read_range
from headwater.client.link.reads.ranges import Columns, SequenceRange
from headwater.spark import buckets
from headwater.spark.buckets import CatchUp
from headwater.spark.options import Kind
from headwater.spark.read.batches import BatchBuilder
from headwater.spark.schema import ddl


@dataclass(frozen=True)
class CaughtUp:
    """The entries behind a revision, with the columns of a bucket's table.

    `is_complete`: the newest entry of every key as of `revision` is among them, or older than them.
    """

    entries: pa.Table
    revision: int
    is_complete: bool

    @classmethod
    def of(cls, connection: Connection, info: StreamInfo, after: int) -> "CaughtUp":
        """Read everything behind `after`. Raises LinkError."""

        def read(wanted: SequenceRange) -> Iterator[Columns]:
            return read_range(connection, info, wanted)

        def newest() -> int:
            return ApiClient(connection).stream_info(info.name).last_seq

        reading = CatchUp(read, newest, after)
        chunks = list(reading.chunks())
        schema = cast(StructType, StructType.fromDDL(ddl(Kind.BUCKET)))
        builder = BatchBuilder(schema, info.name, more=buckets.COLUMNS)
        within = SequenceRange(after + 1, reading.revision)
        batches = [builder.batch(chunk.between(within)) for chunk in chunks]
        return cls(
            pa.Table.from_batches(batches, builder.arrow_schema),
            reading.revision,
            reading.is_complete,
        )
