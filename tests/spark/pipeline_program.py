"""A program as a user writes it: read a stream, stream it into another one, archive it.

Nothing in it depends on where Spark runs. As a program it takes the master, then for each server
its address and a folder:

    python -m tests.spark.pipeline_program MASTER URL FOLDER [URL FOLDER ...]
"""

import json
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headwater.spark.jobs.archive import ArchiveSettings, archive
from headwater.spark.link.login import Login
from headwater.spark.session import session

SOURCE: Final = "SOURCE"
COPY: Final = "COPY"


def run(spark: SparkSession, url: str, folder: Path) -> int:
    """How many messages a batch read finds, after they were copied and archived."""
    source = {"url": url, "stream": SOURCE, "minPartitions": "2"}
    copied = (
        spark.readStream.format("headwater")
        .options(**source)
        .option("maxMessagesPerTrigger", 700)
        .load()
        .select("data", "headers", F.concat(F.lit(f"{COPY}."), "sequence").alias("subject"))
        .writeStream.format("headwater")
        .options(url=url, stream=COPY, checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    copied.awaitTermination()
    archive(spark, ArchiveSettings(Login(url), SOURCE, str(folder / "archive")))
    return spark.read.format("headwater").options(**source).load().count()


def main(arguments: list[str]) -> None:
    master, *places = arguments
    # Small, for a cluster that shares the machine with its driver and with the servers.
    spark = session(master, driver_memory="512m", config={"spark.executor.memory": "512m"})
    pairs = zip(places[::2], places[1::2], strict=True)
    print(json.dumps([run(spark, url, Path(folder)) for url, folder in pairs]))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
