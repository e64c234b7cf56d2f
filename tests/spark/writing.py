"""Streaming writes, and the messages they leave."""

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.kit.stream_servers import Server, Stored

STREAM = "LOG"


def write_stream(
    spark: SparkSession, frame: DataFrame, server: Server, place: Path, **options: str
) -> Any:
    """The rows of a frame as the next batch of a streaming query; `place` is its folder."""
    target = {} if "bucket" in options else {"stream": STREAM}
    frame.write.mode("append").parquet(str(place / "rows"))
    rows = spark.readStream.schema(frame.schema).parquet(str(place / "rows"))
    query = (
        rows.writeStream.format("headwater")
        .options(**({"url": server.url} | target | options))
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def without_ids(stored: list[Stored]) -> list[tuple[str, bytes, list[str]]]:
    """Subject, data and the header lines other than those of ids, in their order."""
    found = []
    for each in stored:
        lines = each.header.decode().split("\r\n")[1:-2]
        kept = [line for line in lines if not line.startswith("Nats-Msg-Id:")]
        found.append((each.subject, each.data, kept))
    return found
