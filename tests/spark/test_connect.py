"""Spark Connect: a program without a JVM reads, writes and streams through a server of Spark."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.kit.stream_servers import Server
from tests.spark import pipeline_program
from tests.spark.cluster import connect_server
from tests.spark.pipeline_program import BATCH, COPY, SOURCE

ROOT = Path(__file__).resolve().parents[2]
MESSAGES = 500


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("warehouse")) as address:
        yield address


def test_a_program_reads_writes_streams_and_archives_through_connect(
    remote: str, headwater_server: Server, tmp_path: Path
) -> None:
    server = headwater_server
    for stream in (SOURCE, COPY, BATCH):
        server.create_stream(stream)
    server.publish((f"{SOURCE}.{number % 7}", b"%d" % number) for number in range(1, MESSAGES + 1))
    done = subprocess.run(
        [sys.executable, "-m", pipeline_program.__name__, remote, server.url, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [MESSAGES]
    published = {number: b"%d" % number for number in range(1, MESSAGES + 1)}
    for stream in (COPY, BATCH):
        copies = {
            int(each.subject.removeprefix(f"{stream}.")): each.data
            for each in server.stored(stream)
        }
        assert copies == published
        assert server.state(stream)["messages"] == MESSAGES
    archived = DeltaTable(tmp_path / "archive").to_pyarrow_table(columns=["sequence"])
    assert sorted(archived["sequence"].to_pylist()) == [*published]
