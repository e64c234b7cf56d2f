"""One Spark for all tests of a process, and a server of its own for each test.

A test that asks for `server` runs once against Headwater and once against nats-server.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import pyspark
import pytest
from pyspark.sql import SparkSession

from headwater.spark.session import session
from tests.kit.stream_servers import KINDS, Server

StartServer: TypeAlias = Callable[..., Server]

# Spark 4.1 has moved some of its classes.
_FOLDER: Final = "" if pyspark.__version__.startswith("4.0.") else ".checkpointing"
SPARK_CONFIG: Final = {
    # Half the time of a small micro-batch goes into checkpoint files that are safe on any file
    # system. These are safe on a local one.
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"org.apache.spark.sql.execution.streaming{_FOLDER}.FileSystemBasedCheckpointFileManager"
    ),
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two tasks at a time, each tried up to four times."""
    # Spark makes a folder here for each table of its catalog.
    warehouse = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    config = SPARK_CONFIG | warehouse
    running = session("local[2,4]", app_name="tests", driver_memory="1g", config=config)
    yield running
    running.stop()


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Any number of servers, with any configuration: see `Server`."""
    started: list[Server] = []
    numbers = itertools.count()

    def start(kind: str, **options: object) -> Server:
        server = Server(kind, tmp_path / f"server-{next(numbers)}", **options)  # type: ignore[arg-type]
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, start_server: StartServer) -> Server:
    """A server of each kind, with JetStream and an empty store."""
    return start_server(request.param)


@pytest.fixture
def headwater_server(start_server: StartServer) -> Server:
    return start_server("headwater")


@pytest.fixture
def oracle_server(start_server: StartServer) -> Server:
    """nats-server."""
    return start_server("nats-server")
