"""Counts of the messages in a range: right or unknown, and no consumer is left behind."""

import itertools
import threading
from collections.abc import Iterator

import pytest

from headwater.client.api.answers import StreamInfo
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.login import Login
from headwater.client.link.reads.counts import count_messages, sequence_at
from headwater.go.times import parse_time
from headwater.subjects.grammar import matches
from tests.kit.stream_servers import KINDS, Message, Server, Stored, header_block

_NUMBERS = itertools.count(1)
RANGES = [(1, 300), (1, 1), (300, 300), (50, 250), (0, 10), (290, 400), (301, 400), (20, 10)]
FILTERS: list[tuple[str, ...]] = [
    (),
    ("LOG.1",),
    ("LOG.*",),
    ("LOG.1", "LOG.2"),
    ("LOG.1", "LOG.1"),
    ("LOG.nobody",),
]


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    server = Server(request.param, tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


@pytest.fixture
def connection(server: Server) -> Iterator[Connection]:
    with Connection(Login(url=server.url)) as connection:
        yield connection


@pytest.fixture
def stream(server: Server) -> Iterator[str]:
    name = f"LOG{next(_NUMBERS)}"
    yield name
    server.delete_stream(name)


def info_of(connection: Connection, stream: str) -> StreamInfo:
    return ApiClient(connection).stream_info(stream)


def numbered(count: int) -> Iterator[Message]:
    headers = header_block({"Nats-Num-Pending": ["77"]})
    for number in range(count):
        yield Message(f"LOG.{number % 5}", b"%d" % number, headers if number % 2 else b"")


def expected(stored: list[Stored], first: int, last: int, filters: tuple[str, ...]) -> int:
    return sum(
        first <= message.sequence <= last
        and (not filters or any(matches(f.encode(), message.subject.encode()) for f in filters))
        for message in stored
    )


def check_all(server: Server, connection: Connection, stream: str) -> None:
    info, stored = info_of(connection, stream), server.stored(stream)
    for (first, last), filters in itertools.product(RANGES, FILTERS):
        count = count_messages(connection, info, first, last, filters)
        assert count == expected(stored, first, last, filters), (first, last, filters)
    assert server.state(stream)["consumer_count"] == 0


def test_a_stream_without_holes(server: Server, connection: Connection, stream: str) -> None:
    server.create_stream(stream, "LOG.>")
    server.publish(numbered(300))
    check_all(server, connection, stream)


def test_a_stream_with_holes(server: Server, connection: Connection, stream: str) -> None:
    server.create_stream(stream, "LOG.>")
    server.publish(numbered(300))
    for gone in (1, 2, 50, 51, 130, 249, 250, 300):
        server.delete_message(stream, gone)
    check_all(server, connection, stream)
    server.purge(stream, seq=60)
    check_all(server, connection, stream)
    server.purge(stream)
    check_all(server, connection, stream)


def test_a_stream_that_never_had_a_message(
    server: Server, connection: Connection, stream: str
) -> None:
    server.create_stream(stream, "LOG.>")
    check_all(server, connection, stream)


@pytest.mark.parametrize("filters", [(), ("LOG.1",), ("LOG.nobody",)])
def test_a_work_queue_is_counted_without_a_consumer(
    server: Server, connection: Connection, stream: str, filters: tuple[str, ...]
) -> None:
    server.create_stream(stream, "LOG.>", retention="workqueue")
    server.publish(numbered(300))
    for gone in (1, 130, 300):
        server.delete_message(stream, gone)
    info, stored = info_of(connection, stream), server.stored(stream)
    for first, last in RANGES:
        count = count_messages(connection, info, first, last, filters)
        assert count == expected(stored, first, last, filters)


def test_what_can_not_be_counted_is_not_known(
    server: Server, connection: Connection, stream: str
) -> None:
    server.create_stream(stream, "LOG.>", retention="workqueue", allow_direct=False)
    server.publish(numbered(300))
    info = info_of(connection, stream)
    assert count_messages(connection, info, 10, 20) == 11
    assert count_messages(connection, info, 10, 20, ("LOG.1",)) is None
    server.delete_message(stream, 15)
    assert count_messages(connection, info_of(connection, stream), 10, 20) is None


def test_patterns_that_overlap_are_not_counted(
    server: Server, connection: Connection, stream: str
) -> None:
    server.create_stream(stream, "LOG.>")
    server.publish([("LOG.a.b", b""), ("LOG.a.c", b"")])
    info = info_of(connection, stream)
    assert count_messages(connection, info, 1, 2, ("LOG.a.*", "LOG.*.b")) is None
    assert count_messages(connection, info, 1, 2, ("LOG.a.*", "LOG.a.b")) == 2


def test_a_stream_that_takes_no_consumers_is_not_counted(
    server: Server, connection: Connection, stream: str
) -> None:
    server.create_stream(stream, "LOG.>", max_consumers=1)
    config = {"durable_name": "mine", "ack_policy": "explicit"}
    document = {"stream_name": stream, "config": config}
    server.call(f"CONSUMER.CREATE.{stream}.mine", document)
    server.publish(numbered(10))
    info = info_of(connection, stream)
    assert count_messages(connection, info, 1, 10) == 10
    assert count_messages(connection, info, 1, 10, ("LOG.1",)) is None


def test_others_may_publish_meanwhile(server: Server, connection: Connection, stream: str) -> None:
    server.create_stream(stream, "LOG.>")
    server.publish(numbered(300))
    server.delete_message(stream, 100)
    info = info_of(connection, stream)
    is_over = threading.Event()

    def publish() -> None:
        while not is_over.is_set():
            server.publish(numbered(20))

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        counts = {count_messages(connection, info, 1, 300) for _ in range(50)}
    finally:
        is_over.set()
        publisher.join()
    assert counts <= {299, None}


def test_where_a_time_is(server: Server, connection: Connection, stream: str) -> None:
    server.create_stream(stream, "LOG.>")
    assert sequence_at(connection, info_of(connection, stream), 0) == 1
    for number in range(20):
        server.publish([("LOG.a", b"%d" % number)])
    server.delete_message(stream, 1)
    server.delete_message(stream, 7)
    server.delete_message(stream, 20)
    info = info_of(connection, stream)
    times = {message.sequence: parse_time(message.time) for message in server.stored(stream)}
    latest = max(times.values())
    for time_ns in {0, latest + 1, *times.values(), *(each + 1 for each in times.values())}:
        found = min((seq for seq, stored_ns in times.items() if stored_ns >= time_ns), default=21)
        assert sequence_at(connection, info, time_ns) == found
    assert server.state(stream)["consumer_count"] == 0
