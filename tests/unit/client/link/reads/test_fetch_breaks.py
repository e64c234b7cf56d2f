"""A broken range read goes on behind the last message it has yielded, or says why it cannot."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.errors import UnreachableError
from headwater.client.link.login import Login
from headwater.client.link.reads.fetch import SequenceRange, StreamReplacedError, Way, read_range
from headwater.client.link.reads.ranges import CHUNK_ROWS
from tests.kit.stream_servers import KINDS, Message, Server

STREAM = "LOG"
# More messages than can be on their way when the first chunk has been yielded.
COUNT = 4 * CHUNK_ROWS
# Gets are slow, and give chunks by their size: these have few messages to a chunk.
LARGE_COUNT = 40
LARGE_BYTES = 500_000


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    server = Server(request.param, tmp_path / "server")
    yield server
    server.stop()


@pytest.fixture
def connection(server: Server) -> Iterator[Connection]:
    with Connection(Login(url=server.url, request_timeout_s=5.0)) as connection:
        yield connection


def fill(server: Server, way: Way) -> int:
    """A stream that is read in several chunks; how many messages it has."""
    server.create_stream(STREAM)
    if way is Way.GETS:
        data = bytes(LARGE_BYTES)
        return server.publish(("LOG.a", data) for _ in range(LARGE_COUNT))
    return server.publish((f"LOG.{number % 7}", b"%d" % number) for number in range(COUNT))


def read_with(
    connection: Connection,
    count: int,
    way: Way,
    subjects: tuple[str, ...],
    event: Callable[[], None],
) -> list[int]:
    """The sequences read, if something happens after the first chunk."""
    info = ApiClient(connection).stream_info(STREAM)
    chunks = read_range(connection, info, SequenceRange(1, count), subjects, way)
    found = [*next(chunks).sequences]
    assert 0 < len(found) < count
    event()
    for chunk in chunks:
        found += chunk.sequences
    return found


@pytest.mark.parametrize("way", [Way.CONSUMER, Way.DIRECT, Way.GETS])
def test_a_server_that_comes_back_is_read_on(
    server: Server, connection: Connection, way: Way
) -> None:
    count = fill(server, way)

    def crash() -> None:
        server.kill()
        server.start()

    assert read_with(connection, count, way, (), crash) == [*range(1, count + 1)]
    assert server.state(STREAM)["consumer_count"] == 0


@pytest.mark.parametrize("way", [Way.CONSUMER, Way.DIRECT, Way.GETS])
def test_a_lost_connection_is_made_anew(server: Server, connection: Connection, way: Way) -> None:
    count = fill(server, way)
    found = read_with(connection, count, way, (), connection.close)
    assert found == [*range(1, count + 1)]
    assert server.state(STREAM)["consumer_count"] == 0, "also the consumer of the first connection"


def test_a_filtered_read_goes_on_behind_what_it_has_yielded(
    server: Server, connection: Connection
) -> None:
    count = fill(server, Way.CONSUMER)
    patterns = tuple(f"LOG.{number}" for number in range(6))
    found = read_with(connection, count, Way.CONSUMER, patterns, connection.close)
    assert found == [each for each in range(1, count + 1) if (each - 1) % 7 < 6]


def test_a_consumer_that_somebody_deletes_is_made_anew(
    server: Server, connection: Connection
) -> None:
    count = fill(server, Way.CONSUMER)

    def delete() -> None:
        names = server.call(f"CONSUMER.NAMES.{STREAM}")["consumers"]
        assert len(names) == 1
        server.call(f"CONSUMER.DELETE.{STREAM}.{names[0]}")

    assert read_with(connection, count, Way.CONSUMER, (), delete) == [*range(1, count + 1)]
    assert server.state(STREAM)["consumer_count"] == 0


def test_a_stream_that_is_made_again_is_not_read_on(server: Server, connection: Connection) -> None:
    count = fill(server, Way.CONSUMER)

    def make_again() -> None:
        server.delete_stream(STREAM)
        fill(server, Way.CONSUMER)

    with pytest.raises(StreamReplacedError):
        read_with(connection, count, Way.CONSUMER, (), make_again)


def test_a_server_that_does_not_come_back_ends_the_read(server: Server) -> None:
    count = fill(server, Way.CONSUMER)
    with (
        Connection(Login(url=server.url, retries=1)) as connection,
        pytest.raises(UnreachableError, match="no server answers at url"),
    ):
        read_with(connection, count, Way.CONSUMER, (), server.kill)


def test_messages_that_grow_suddenly_do_not_break_the_read(tmp_path: Path) -> None:
    """A request sized for small messages may ask for more bytes than the server will buffer."""
    for kind in KINDS:
        server = Server(kind, tmp_path / kind, "max_pending: 8MB\n")
        try:
            server.create_stream(STREAM)
            server.publish(("LOG.a", b"x") for _ in range(CHUNK_ROWS + 1000))
            large = itertools.repeat(Message("LOG.a", bytes(1_000_000)), 30)
            count = server.publish(large)
            with Connection(Login(url=server.url)) as connection:
                info = ApiClient(connection).stream_info(STREAM)
                chunks = [*read_range(connection, info, SequenceRange(1, count))]
            found = [each for chunk in chunks for each in chunk.sequences]
            assert found == [*range(1, count + 1)]
        finally:
            server.stop()
