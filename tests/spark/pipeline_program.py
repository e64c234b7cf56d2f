"""A program as a user writes it: read a stream, write it into others, archive it.

Nothing in it depends on where Spark runs. As a program it takes the master, or the address of a
server of Spark Connect (`sc://host:port`), then for each server its address and a folder:

    python -m tests.spark.pipeline_program MASTER URL FOLDER [URL FOLDER ...]
"""

import json
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from headwater.client.link.login import Login
from headwater.spark.jobs.archive.job import ArchiveSettings, archive
from headwater.spark.session import session

SOURCE: Final = "SOURCE"
COPY: Final = "COPY"
BATCH: Final = "BATCH"


def run(spark: SparkSession, url: str, folder: Path) -> int:
    """The number of messages in a batch read, after they were copied twice and archived."""
    source = {"url": url, "stream": SOURCE, "minPartitions": "2"}
    copied = (
        spark.readStream.format("headwater")
        .options(**source)
        .option("maxMessagesPerTrigger", 700)
        .load()
        .select("data", "headers", subject(COPY))
        .writeStream.format("headwater")
        .options(url=url, stream=COPY, checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    copied.awaitTermination()
    archive(spark, ArchiveSettings(Login(url), SOURCE, str(folder / "archive")))
    rows = spark.read.format("headwater").options(**source).load()
    copies = rows.select("data", "headers", subject(BATCH)).write.format("headwater")
    copies.mode("append").options(url=url, stream=BATCH).save()
    return rows.count()


def subject(stream: str) -> Column:
    """The subject of a message's copy, which ends with the sequence of the original."""
    return F.concat(F.lit(f"{stream}."), "sequence").alias("subject")


def connected(master: str) -> SparkSession:
    if master.startswith("sc://"):
        return SparkSession.builder.remote(master).getOrCreate()
    # Small, for a cluster that shares the machine with its driver and with the servers.
    return session(master, driver_memory="512m", config={"spark.executor.memory": "512m"})


def main(arguments: list[str]) -> None:
    master, *places = arguments
    spark = connected(master)
    pairs = zip(places[::2], places[1::2], strict=True)
    print(json.dumps([run(spark, url, Path(folder)) for url, folder in pairs]))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
