"""The archive job: a stream into Delta or Parquet files, each message exactly once.

A streaming query reads the stream and writes through the archive's own sink. Where a run stops, for
whatever reason, the next one goes on: the query's checkpoint says what was planned, the archive's
record what was committed, and the record decides. The checkpoint is kept inside the archive unless
another place is named; one that is lost is made anew from the record.

This module loads where there is no Spark; `query` is the part that does not.
"""

from typing import TYPE_CHECKING

from headwater.spark.jobs.archive.settings import ArchiveResult, ArchiveSettings
from headwater.spark.jobs.progress import SILENT, Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ArchiveResult", "ArchiveSettings", "archive"]


def archive(
    spark: "SparkSession", settings: ArchiveSettings, progress: Progress = SILENT
) -> ArchiveResult:
    """Archive what the stream has, or, with `follow`, what it gets until somebody interrupts."""
    settings.check()
    # Only now: a pipeline file with this job in it is checked where there is no Spark.
    from headwater.spark.jobs.archive.query import run

    return run(spark, settings, progress)
