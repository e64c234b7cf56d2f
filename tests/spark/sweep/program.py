"""The program under the sweep: a Spark session that runs the jobs of its input, one line each.

    {"job": "sink", "url": …, "source": …, "target": …, "checkpoint": …, "cuts": "2,5"}
    {"job": "archive", "url": …, "stream": …, "to": …, "format": …}

Each job is answered by a line: `{"failed": ""}` if it succeeded, or with its error. A job that has
failed, or whose program was killed, is sent again and goes on where it stopped.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.client.link.login import Login
from headwater.spark.jobs.archive.job import ArchiveSettings, archive
from headwater.spark.session import session
from tests.spark.conftest import SPARK_CONFIG
from tests.spark.sweep.hook.sitecustomize import ORDERS

MESSAGES_PER_BATCH = 250
FAILURE_CHARACTERS_MAX = 10_000


def cut_of_this_run(order: dict[str, str]) -> int | None:
    """The number of partitions of this run of the job: each run has another, as long as there are.

    Runs are counted by the length of a file, which outlives this process.
    """
    if not order.get("cuts"):
        return None
    cuts = [int(cut) for cut in order["cuts"].split(",")]
    runs = Path(order["checkpoint"] + ".runs")
    with runs.open("ab") as file:
        file.write(b".")
    return cuts[min(runs.stat().st_size, len(cuts)) - 1]


def sink(spark: SparkSession, order: dict[str, str]) -> None:
    """From one stream into another."""
    cut = cut_of_this_run(order)
    rows = (
        spark.readStream.format("headwater")
        .options(url=order["url"], stream=order["source"], minPartitions="2")
        .option("maxMessagesPerTrigger", str(MESSAGES_PER_BATCH))
        .load()
    )
    rows = rows.selectExpr("concat('to.', subject) as subject", "data")
    query = (
        (rows if cut is None else rows.repartition(cut))
        .writeStream.format("headwater")
        .options(url=order["url"], stream=order["target"], maxInFlight="40")
        .option("checkpointLocation", order["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()


def archived(spark: SparkSession, order: dict[str, str]) -> None:
    """From a stream into files."""
    settings = ArchiveSettings(
        login=Login(url=order["url"]),
        stream=order["stream"],
        to=order["to"],
        format="delta" if order["format"] == "delta" else "parquet",
        partition_by=("token:2",),
        max_messages_per_trigger=MESSAGES_PER_BATCH,
        min_partitions=2,
    )
    archive(spark, settings)


def main(master: str, conf: str) -> None:
    """Run the jobs of the input until it ends."""
    Path(os.environ[ORDERS], "program.pgid").write_text(str(os.getpgrp()))
    config = {**SPARK_CONFIG, **json.loads(conf)}
    spark = session(master, app_name="sweep", driver_memory="1g", config=config)
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        failed = ""
        try:
            {"sink": sink, "archive": archived}[order["job"]](spark, order)
        except Exception as error:
            # Any error is passed on: the test decides whether it may have happened.
            failed = (str(error) or repr(error))[:FAILURE_CHARACTERS_MAX]
        print(json.dumps({"failed": failed}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
