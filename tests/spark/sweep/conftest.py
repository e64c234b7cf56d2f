"""One program for all cases of a file, and a server beside it."""

from collections.abc import Iterator

import pytest

from tests.kit.stream_servers import KINDS, Server
from tests.spark.sweep.harness import Program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Two tasks at a time, each tried up to four times."""
    running = Program(tmp_path_factory.mktemp("program"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """One of each kind, for all cases: streams have names of their own."""
    running = {kind: Server(kind, tmp_path_factory.mktemp(kind)) for kind in KINDS}
    yield running
    for server in running.values():
        server.stop()
