"""Two attempts of one task at once: Spark's speculation, on executors of their own.

The first attempt is held up at a point until a second one, which Spark starts because the first
is slow, has come as far; then both go on, and both believe that the rows are theirs.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.servers import Server
from tests.spark.sweep.harness import Program, Strike
from tests.spark.sweep.test_archive_sweep import FILES, check_archive
from tests.spark.sweep.test_archive_sweep import SINK as ARCHIVE_SINK
from tests.spark.sweep.test_sink_sweep import MARKERS, PUBLISHER, check_sink

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Three executors: two for the tasks of a batch, one for a second attempt."""
    folder = tmp_path_factory.mktemp("program")
    running = Program(folder, master="local-cluster[3,1,1024]", **SPECULATION)
    yield running
    running.stop()


@pytest.mark.parametrize(
    "strike",
    [
        Strike(MARKERS + "Claim.take", "after", 1, "attempt"),
        Strike(PUBLISHER + "Publisher.send", "after", 1, "attempt"),
        Strike(PUBLISHER + "Publisher.finish", "after", 1, "attempt"),
    ],
    ids=str,
)
def test_two_attempts_write_each_message_once(
    strike: Strike, program: Program, headwater_server: Server, tmp_path: Path
) -> None:
    check_sink(headwater_server, program, strike, tmp_path)


@pytest.mark.parametrize(
    "strike",
    [
        Strike(FILES + "ParquetFile.close", "after", 1, "attempt"),
        Strike(ARCHIVE_SINK + "write_files", "after", 1, "attempt"),
    ],
    ids=str,
)
def test_two_attempts_archive_each_message_once(
    strike: Strike,
    spark: SparkSession,
    program: Program,
    headwater_server: Server,
    tmp_path: Path,
) -> None:
    check_archive(spark, headwater_server, program, strike, "delta", tmp_path)
