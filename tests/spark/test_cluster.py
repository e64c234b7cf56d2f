"""A program that names no place but its master runs on a standalone cluster as it is."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.kit.stream_servers import KINDS, Message, Server, header_block
from tests.spark import pipeline_program
from tests.spark.cluster import LOOPBACK, Cluster, standalone_cluster
from tests.spark.conftest import StartServer
from tests.spark.pipeline_program import BATCH, COPY, SOURCE

ROOT = Path(__file__).resolve().parents[2]

# Two names, so that Spark counts two hosts.
HOSTS = (LOOPBACK, "localhost")
MESSAGES = [
    Message(f"{SOURCE}.{number % 7}", bytes([number % 256]) * (number % 50), header)
    for number in range(2_000)
    for header in [header_block({"Number": [str(number)]}) if number % 3 else b""]
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), HOSTS, cores=1) as running:
        yield running


def filled(server: Server) -> Server:
    for stream in (SOURCE, COPY, BATCH):
        server.create_stream(stream)
    server.publish(MESSAGES)
    return server


def check_outcome(server: Server, folder: Path) -> None:
    """Every message once in each copy and in the archive, and nothing left on the server."""
    payloads = {number: message.data for number, message in enumerate(MESSAGES, 1)}
    for stream in (COPY, BATCH):
        copies = [
            (int(each.subject.removeprefix(f"{stream}.")), each.data)
            for each in server.stored(stream)
        ]
        assert sorted(copies) == sorted(payloads.items())
    archived = DeltaTable(folder / "archive").to_pyarrow_table(
        columns=["sequence", "subject", "data"]
    )
    assert sorted(
        (row["sequence"], row["subject"], row["data"]) for row in archived.to_pylist()
    ) == [(number, message.subject, message.data) for number, message in enumerate(MESSAGES, 1)]
    assert server.consumers(SOURCE) == []


def test_a_cluster_reads_copies_and_archives_every_message_once(
    cluster: Cluster, start_server: StartServer, tmp_path: Path
) -> None:
    servers = {kind: filled(start_server(kind)) for kind in KINDS}
    places = [word for kind, server in servers.items() for word in (server.url, tmp_path / kind)]
    done = subprocess.run(
        [sys.executable, "-m", pipeline_program.__name__, cluster.master, *map(str, places)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [len(MESSAGES) for _ in KINDS]
    workers = {executor.parts[-3] for executor in cluster.executors()}
    assert len(workers) == len(HOSTS), "each worker has an executor that does the work"
    for kind, server in servers.items():
        check_outcome(server, tmp_path / kind)
