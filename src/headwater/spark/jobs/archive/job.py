"""The archive job: a stream into Delta or Parquet files, each message exactly once.

A streaming query reads the stream and writes through the archive's own sink. Wherever a run stops,
the next one continues: the query's checkpoint has the planned batches, the archive's record the
committed ones, and the record decides. The checkpoint is kept inside the archive unless another
place is named; a lost one is restored from the record.

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
    """Archive the messages of the stream or, with `follow`, also new ones until interrupted."""
    settings.check()
    # Imported here: a pipeline file with this job is checked without Spark.
    from headwater.spark.jobs.archive.query import run

    return run(spark, settings, progress)
