"""Two attempts at one task at once: Spark's speculation, on a cluster of two workers.

The first attempt is held up at a point until a second one, which Spark starts because the first
is slow, has come as far; then both go on, and both believe that the rows are theirs.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from tests.kit.stream_servers import KINDS, Server
from tests.spark.cluster import standalone_cluster
from tests.spark.sweep.harness import Program, Strike
from tests.spark.sweep.sink_copy import MARKERS, PUBLISHER, check_sink
from tests.spark.sweep.struck_archive import FILES, check_archive
from tests.spark.sweep.struck_archive import SINK as ARCHIVE_SINK

# Spark never starts a second attempt on the host of the first.
HOSTS: Final = ("127.0.0.1", "localhost")
SPECULATION: Final = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
}
STRIKES: Final = (
    Strike(MARKERS + "Claim.acquire", "after", 3, "attempt"),
    Strike(PUBLISHER + "Publisher.send", "after", 3, "attempt"),
    Strike(PUBLISHER + "Publisher.finish", "before", 4, "attempt"),
    Strike(PUBLISHER + "Publisher.finish", "after", 3, "attempt"),
)
ARCHIVE_STRIKES: Final = (
    Strike(FILES + "ParquetFile.close", "after", 5, "attempt"),
    Strike(ARCHIVE_SINK + "write_files", "after", 3, "attempt"),
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """One task at a time on each of two hosts."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), HOSTS, cores=1) as cluster:
        running = Program(tmp_path_factory.mktemp("program"), cluster.master, **SPECULATION)
        yield running
        running.stop()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strike", STRIKES, ids=str)
def test_two_attempts_write_each_message_once(
    strike: Strike, kind: str, program: Program, servers: dict[str, Server], tmp_path: Path
) -> None:
    check_sink(servers[kind], program, strike, tmp_path)


@pytest.mark.parametrize("file_format", ["delta", "parquet"])
@pytest.mark.parametrize("strike", ARCHIVE_STRIKES, ids=str)
def test_two_attempts_archive_each_message_once(
    strike: Strike,
    file_format: str,
    spark: SparkSession,
    program: Program,
    servers: dict[str, Server],
    tmp_path: Path,
) -> None:
    check_archive(spark, servers["headwater"], program, strike, file_format, tmp_path)
