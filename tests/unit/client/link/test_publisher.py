"""Publishing in bulk: every message acknowledged, every refusal told with its row and reason."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.client.link.connection import Connection
from headwater.client.link.errors import ConnectionLostError, LinkError
from headwater.client.link.login import Login
from headwater.client.link.publisher import (
    FLIGHT_MESSAGES_MAX,
    MessageRefusedError,
    Messages,
    NotServedError,
    Publisher,
)
from tests.kit.link_peers import Responder
from tests.kit.stream_servers import KINDS, Server

STREAM = "LOG"


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    server = Server(request.param, tmp_path / "server")
    yield server
    server.stop()


@pytest.fixture
def connection(server: Server) -> Iterator[Connection]:
    with Connection(Login(url=server.url, request_timeout_s=5.0)) as connection:
        yield connection


def messages(count: int, subject: str = "LOG.a", ids: str = "id", size: int = 0) -> Messages:
    """Messages with distinct ids; the payload is the number, followed by zeros up to `size`."""
    row_ids = [f"{ids}-{number}".encode() for number in range(count)]
    return Messages(
        [subject.encode()] * count,
        [b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % row_id for row_id in row_ids],
        [(b"%d" % number).ljust(size, b"\0") for number in range(count)],
        row_ids,
        range(count),
    )


def payloads(server: Server) -> list[bytes]:
    return [message.data for message in server.stored(STREAM)]


@pytest.mark.parametrize("atomic", [False, True])
def test_all_messages_arrive_once_and_in_order(
    server: Server, connection: Connection, atomic: bool
) -> None:
    server.create_stream(STREAM, allow_atomic=atomic)
    stored: list[bytes] = []
    for count in (0, 1, 2, FLIGHT_MESSAGES_MAX + 1):
        sent = messages(count, ids=f"{count} messages")
        publisher = Publisher(connection, STREAM, atomic=atomic)
        publisher.publish(sent)
        stored += sent.payloads
        assert payloads(server) == stored
        assert publisher.acknowledged == count
        assert publisher.last_sequence == (len(stored) if count else 0)
        assert publisher.duplicates == 0


@pytest.mark.parametrize("numbered", [False, True])
def test_no_more_than_allowed_is_under_way(
    server: Server, connection: Connection, numbered: bool
) -> None:
    server.create_stream(STREAM)
    publisher = Publisher(connection, STREAM, in_flight_max=7, numbered=numbered)
    sent = messages(50)
    parts = publisher.cut(sent)
    assert [len(part) for part in parts] == [7] * 7 + [1]
    for part in parts:
        publisher.make_room(part)
        publisher.send(part)
        assert len(publisher.take_unacknowledged()) <= 7
        publisher.make_room(part)
    publisher.publish(sent)
    assert payloads(server) == sent.payloads


def test_parts_are_bounded_by_bytes_too(server: Server, connection: Connection) -> None:
    server.create_stream(STREAM)
    sent = messages(20, size=300_000)
    publisher = Publisher(connection, STREAM)
    assert all(sum(map(len, part.payloads)) <= 1 << 20 for part in publisher.cut(sent))
    publisher.publish(sent)
    assert payloads(server) == sent.payloads


@pytest.mark.parametrize("atomic", [False, True])
def test_what_is_sent_again_is_stored_once(
    server: Server, connection: Connection, atomic: bool
) -> None:
    server.create_stream(STREAM, allow_atomic=atomic)
    publisher = Publisher(connection, STREAM, atomic=atomic)
    publisher.publish(messages(10))
    publisher.publish(messages(20))
    assert payloads(server) == messages(20).payloads
    assert publisher.duplicates == 10


@pytest.mark.parametrize("atomic", [False, True])
def test_a_refusal_names_row_subject_and_reason(
    server: Server, connection: Connection, atomic: bool
) -> None:
    server.create_stream(STREAM, max_msg_size=100, allow_atomic=atomic)
    sent = messages(50)
    sent.payloads[33] = b"x" * 200
    sent.subjects[33] = b"LOG.large"
    with pytest.raises(MessageRefusedError, match=r"row 33 \(subject LOG.large\).*10054"):
        Publisher(connection, STREAM, atomic=atomic).publish(sent)


def test_rows_that_are_refused_for_what_they_are_hold_nothing_up(
    server: Server, connection: Connection
) -> None:
    server.create_stream(STREAM, max_msg_size=100)
    sent = messages(50)
    large = [3, 4, 33, 49]
    for at in large:
        sent.payloads[at] = b"x" * 200
    publisher = Publisher(connection, STREAM, in_flight_max=20, numbered=True)
    refused: list[tuple[int, bytes]] = []
    queue = publisher.cut(sent)
    while queue or len(refused) < len(large):
        try:
            if not queue:
                publisher.finish()
                break
            publisher.make_room(queue[0])
            publisher.send(queue.pop(0))
        except MessageRefusedError:
            for message, each in publisher.take_refused():
                assert "message size exceeds maximum" in str(each)
                assert each.is_its_fault
                refused.append((each.row, message.payloads[0]))
    assert refused == [(at, b"x" * 200) for at in large]
    assert publisher.acknowledged == len(sent) - len(large)
    assert len(publisher.take_unacknowledged()) == 0
    assert payloads(server) == [each for each in sent.payloads if len(each) < 200]


def test_a_full_stream_says_so(server: Server, connection: Connection) -> None:
    server.create_stream(STREAM, max_msgs=5, discard="new")
    with pytest.raises(MessageRefusedError, match=r"row 5 .*maximum messages exceeded"):
        Publisher(connection, STREAM).publish(messages(8))


def test_what_no_server_would_take_is_not_sent(server: Server, connection: Connection) -> None:
    server.create_stream(STREAM)
    sent = messages(3, size=1 << 20)
    with pytest.raises(MessageRefusedError, match=r"row 0 .*max_payload"):
        Publisher(connection, STREAM).publish(sent)
    assert payloads(server) == []


def test_an_ack_of_another_stream_is_a_refusal(server: Server, connection: Connection) -> None:
    server.create_stream(STREAM)
    server.create_stream("OTHER")
    sent = messages(4)
    sent.subjects[2] = b"OTHER.a"
    with pytest.raises(MessageRefusedError, match=r"row 2 .*stream OTHER has stored it"):
        Publisher(connection, STREAM).publish(sent)


@pytest.mark.parametrize("code", [10008, 10901])
def test_messages_whose_quorum_is_silent_are_in_doubt(
    server: Server, connection: Connection, code: int
) -> None:
    error = {"code": 503, "err_code": code, "description": "unknown"}
    answer = json.dumps({"error": error, "stream": STREAM, "seq": 0}).encode()
    publisher = Publisher(connection, STREAM)
    with (
        Responder(connection.login, f"{STREAM}.>", payload=answer),
        pytest.raises(NotServedError, match="unknown"),
    ):
        publisher.publish(messages(3))
    left = publisher.take_unacknowledged()
    server.create_stream(STREAM)
    publisher.publish(left)
    assert payloads(server) == messages(3).payloads


def test_a_subject_of_no_stream_may_have_one_later(server: Server, connection: Connection) -> None:
    publisher = Publisher(connection, STREAM)
    with pytest.raises(NotServedError):
        publisher.publish(messages(3))
    left = publisher.take_unacknowledged()
    assert left.ids == messages(3).ids
    server.create_stream(STREAM)
    publisher.publish(left)
    assert payloads(server) == messages(3).payloads


@pytest.mark.parametrize("atomic", [False, True])
def test_what_is_in_doubt_after_a_crash_is_known(server: Server, atomic: bool) -> None:
    """Kill the server with messages under way; send what is in doubt to the next one."""
    server.create_stream(STREAM, allow_atomic=atomic)
    sent = messages(5000)
    with Connection(Login(url=server.url, retries=20)) as connection:
        publisher = Publisher(connection, STREAM, atomic=atomic)
        parts = iter(publisher.cut(sent))
        for part in itertools.islice(parts, 3):
            publisher.make_room(part)
            publisher.send(part)
        server.kill()
        with pytest.raises(LinkError):
            publisher.finish()
        assert not connection.is_open
        left = publisher.take_unacknowledged()
        assert publisher.acknowledged + len(left) == 3000
        assert publisher.floor <= publisher.last_sequence
        server.start()
        connection.reconnect()
        publisher.publish(left)
        for part in parts:
            publisher.make_room(part)
            publisher.send(part)
        publisher.finish()
    assert payloads(server) == sent.payloads


def test_a_closed_connection_is_lost(server: Server, connection: Connection) -> None:
    server.create_stream(STREAM)
    publisher = Publisher(connection, STREAM)
    connection.close()
    with pytest.raises(ConnectionLostError):
        publisher.publish(messages(1))


def test_messages_without_headers_are_published_too(server: Server, connection: Connection) -> None:
    server.create_stream(STREAM)
    sent = messages(3)
    sent.headers[1] = b""
    Publisher(connection, STREAM).publish(sent)
    assert [message.header for message in server.stored(STREAM)] == sent.headers
