"""Direct gets: who answers them, and what servers do to header blocks that are not well-formed."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.login import Login
from headwater.client.link.reads.fetch import SequenceRange, Way, read_range
from headwater.client.link.reads.ranges import Columns
from tests.kit.stream_servers import KINDS, Message, Server

MESSAGES = 50
WAIT_S_MAX = 20.0
# Each read is answered by the origin or by the mirror, at random.
READS = 20


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    server = Server(request.param, tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


def read(connection: Connection, stream: str, way: Way) -> Columns:
    info = ApiClient(connection).stream_info(stream)
    found = Columns.empty()
    for chunk in read_range(connection, info, SequenceRange(1, info.last_seq), (), way):
        found.extend(chunk)
    return found


def rows(columns: Columns) -> list[tuple[int, bytes, bytes, bytes, int]]:
    return [
        *zip(
            columns.sequences,
            columns.subjects,
            columns.headers,
            columns.payloads,
            columns.timestamps_ns,
            strict=True,
        )
    ]


def test_a_mirror_answers_for_its_origin_under_its_own_name(tmp_path: Path) -> None:
    server = Server("nats-server", tmp_path / "server")
    try:
        server.create_stream("ORIGIN")
        server.publish((f"ORIGIN.{number}", b"%d" % number) for number in range(MESSAGES))
        mirror = {"name": "MIRROR", "storage": "file", "allow_direct": True, "mirror_direct": True}
        server.call("STREAM.CREATE.MIRROR", mirror | {"mirror": {"name": "ORIGIN"}})
        wait_until(lambda: server.state("MIRROR")["messages"] == MESSAGES)
        with Connection(Login(url=server.url)) as connection:
            expected = rows(read(connection, "ORIGIN", Way.CONSUMER))
            # The mirror takes its part in answering a moment after it has come up to the origin.
            wait_until(lambda: b"Nats-Stream: MIRROR" in answer_of(connection, "ORIGIN"))
            assert len(expected) == MESSAGES
            for _ in range(READS):
                assert rows(read(connection, "ORIGIN", Way.DIRECT)) == expected
    finally:
        server.stop()


def wait_until(holds: Callable[[], bool]) -> None:
    """Ask, and ask again; each time is a round trip to the server."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not holds():
        assert time.monotonic() < deadline, "it does not come to that"


def answer_of(connection: Connection, stream: str) -> bytes:
    return connection.request(f"$JS.API.DIRECT.GET.{stream}", b'{"seq":1}').header


@pytest.mark.parametrize(
    "block",
    [
        b"NATS/1.0\r\nA: b\r\n",
        b"NATS/1.0\r\nA: b",
        b"NATS/1.0\r\nNats-Stream: other\r\n",
        b"NATS/1.0\r\nA: b\n\r\n",
        b"NATS/1.0",
        b"garbage",
        b"x\r\n",
        b"NATS/1.0 200",
        b"NATS/1.0 204 EOB",
        # Well-formed blocks that are easily taken for something else.
        b"\r\n\r\n",
        b"NATS/1.0\r\nNats-Stream: other\r\nNats-Subject: other\r\n\r\n",
        b"NATS/1.0\r\nA: Nats-Stream: other\r\n\r\n",
    ],
)
def test_a_block_is_read_as_it_is_stored(server: Server, block: bytes) -> None:
    name = f"LOG{block.hex()}"
    server.create_stream(name)
    server.publish([(f"{name}.1", b"1"), Message(f"{name}.2", b"2", block), (f"{name}.3", b"3")])
    with Connection(Login(url=server.url)) as connection:
        found = read(connection, name, Way.DIRECT)
        assert found.headers == [b"", block, b""]
        assert rows(found) == rows(read(connection, name, Way.CONSUMER))
        assert rows(found) == rows(read(connection, name, Way.GETS))
