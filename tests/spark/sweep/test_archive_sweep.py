"""The archive holds every message once, whatever is killed and wherever.

Each case archives a stream in a few batches of two partitions and several files, and strikes once
on the way: in the middle of files, between files and the record, between the record and Spark's
own, and in the compaction at the end.
"""

from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from tests.kit.stream_servers import KINDS, Server
from tests.spark.sweep.harness import Program, Strike
from tests.spark.sweep.struck_archive import FILES, SINK, check_archive

DELTA: Final = "headwater.spark.jobs.archive.files.delta_log:DeltaLog."
PARQUET: Final = "headwater.spark.jobs.archive.files.parquet_directory:"
COMPACTION: Final = "headwater.spark.jobs.archive.compaction:"
SOURCE: Final = "headwater.spark.read.stream_source:StreamSourceReader."
FETCH: Final = "headwater.client.link.reads.fetch:read_range"

BOTH: Final = ("delta", "parquet")
STRIKES: Final = (
    # kill -9 of the worker that writes files
    (BOTH, Strike(SINK + "write_files", "before", 2, "worker")),
    (BOTH, Strike(FILES + "PartitionedFiles.append", "after", 3, "worker")),
    (BOTH, Strike(FILES + "ParquetFile.close", "after", 3, "worker")),
    (("delta",), Strike(SINK + "write_files", "after", 3, "worker")),
    (("parquet",), Strike(FETCH, "before", 4, "worker")),
    # kill -9 of the process that plans or commits for the driver
    (("parquet",), Strike(SOURCE + "latestOffset", "after", 2, "worker")),
    (BOTH, Strike(SINK + "commit_files", "before", 2, "worker")),
    (BOTH, Strike(SINK + "commit_files", "after", 3, "worker")),
    (("delta",), Strike(DELTA + "_write", "before", 2, "worker")),
    (("delta",), Strike(DELTA + "_write", "after", 2, "worker")),
    (("parquet",), Strike(PARQUET + "ParquetDirectory._publish", "after", 2, "worker")),
    (("parquet",), Strike(PARQUET + "State.write", "after", 2, "worker")),
    # kill -9 of the driver, its JVM and all that belongs to it
    (("delta",), Strike(FILES + "ParquetFile.close", "after", 4, "driver")),
    (("delta",), Strike(DELTA + "_write", "after", 1, "driver")),
    (("parquet",), Strike(PARQUET + "ParquetDirectory._publish", "after", 1, "driver")),
    (("parquet",), Strike(PARQUET + "ParquetDirectory.replace", "after", 1, "driver")),
    (("delta",), Strike(DELTA + "replace", "before", 1, "driver")),
    # kill -9 of the server, which comes back
    (("delta",), Strike(FETCH, "after", 2, "server")),
    (("parquet",), Strike(FILES + "PartitionedFiles.append", "before", 3, "server")),
    (("delta",), Strike(SOURCE + "latestOffset", "before", 2, "server")),
    # a task that fails and is tried again
    (BOTH, Strike(SINK + "write_files", "after", 4, "task")),
    (("delta",), Strike(FILES + "ParquetFile.close", "before", 2, "task")),
)


CASES: Final = [(file_format, strike) for formats, strike in STRIKES for file_format in formats]


@pytest.mark.parametrize(
    ("file_format", "strike", "kind"),
    [(*case, KINDS[at % len(KINDS)]) for at, case in enumerate(CASES)],
    ids=lambda value: str(value),
)
def test_each_message_is_archived_once(
    spark: SparkSession,
    file_format: str,
    strike: Strike,
    kind: str,
    servers: dict[str, Server],
    program: Program,
    tmp_path: Path,
) -> None:
    check_archive(spark, servers[kind], program, strike, file_format, tmp_path)
