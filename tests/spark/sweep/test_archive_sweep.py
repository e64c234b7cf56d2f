"""The archive holds every message once, whatever is killed and wherever.

Each case archives a stream in a few batches of two partitions and several files, and strikes once
on the way: in the middle of files, between files and the record, between the record and Spark's
own, and in the compaction at the end.
"""

from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from headwater.spark.jobs.archive.reader import read_archive
from tests.kit.stream_servers import KINDS, Server
from tests.spark.sweep.harness import Program, Strike, revived

MESSAGES: Final = 900

SINK: Final = "headwater.spark.jobs.archive.sink:"
FILES: Final = "headwater.spark.jobs.archive.parquet_files:"
DELTA: Final = "headwater.spark.jobs.archive.delta_log:DeltaLog."
PARQUET: Final = "headwater.spark.jobs.archive.parquet_directory:"
COMPACTION: Final = "headwater.spark.jobs.archive.compaction:"
SOURCE: Final = "headwater.spark.read.stream_source:StreamSourceReader."
FETCH: Final = "headwater.client.link.fetch:read_range"

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


def check_archive(
    spark: SparkSession,
    server: Server,
    program: Program,
    strike: Strike,
    file_format: str,
    folder: Path,
) -> None:
    """Archive a stream with one strike, then look at the archive."""
    stream = "ARCHIVED"
    sent = [(f"a.{number % 3}", b"message %d" % number) for number in range(MESSAGES)]
    if stream not in (server.call("STREAM.NAMES", {})["streams"] or ()):
        server.create_stream(stream, "a.>")
        server.publish(sent)
    program.order(strike)
    to = str(folder / "archive")
    try:
        with revived(server, program.folder):
            job = {"job": "archive", "url": server.url, "stream": stream}
            program.run({**job, "to": to, "format": file_format})
        assert program.passings >= strike.nth, "it never came to that point"
        assert program.have_met is (strike.victim == "attempt")
    finally:
        program.withdraw()
    rows = read_archive(spark, to).select("sequence", "subject", "data").collect()
    kept = Counter((row.sequence, row.subject, bytes(row.data)) for row in rows)
    assert kept == Counter((at, subject, data) for at, (subject, data) in enumerate(sent, 1))


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
