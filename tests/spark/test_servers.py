"""The servers of these tests keep what they promise to the tests: store, port and every byte."""

import os

import pytest

from tests.kit.stream_servers import ApiRefusal, Message, Server, Stored, header_block

MESSAGES = [
    Message("S.empty"),
    Message("S.binary", bytes(range(256)), header_block({"A": ["1", "2"], "b": [""]})),
    Message("S.long", b"x" * 100_000),
]


def contents(stored: list[Stored]) -> list[Message]:
    return [Message(each.subject, each.data, each.header) for each in stored]


def test_what_is_published_is_stored(server: Server) -> None:
    server.create_stream("S")
    assert server.publish(MESSAGES) == len(MESSAGES)
    assert contents(server.stored("S")) == MESSAGES
    assert server.consumers("S") == []


def test_a_thousand_messages_are_read_back_without_the_deleted_ones(server: Server) -> None:
    server.create_stream("S")
    server.publish((f"S.{number}", b"%d" % number) for number in range(1, 1001))
    server.delete_message("S", 500)
    assert [each.sequence for each in server.stored("S")] == [*range(1, 500), *range(501, 1001)]
    assert server.state("S")["messages"] == 999


def test_a_restart_keeps_the_store_and_the_port(server: Server) -> None:
    server.create_stream("S")
    server.publish(MESSAGES)
    before, url, pid = server.stored("S"), server.url, server.pid
    server.restart()
    assert (server.stored("S"), server.url) == (before, url)
    assert server.pid != pid


def test_a_killed_server_is_gone_until_it_is_started(server: Server) -> None:
    server.create_stream("S")
    pid = server.pid
    server.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ConnectionRefusedError):
        server.state("S")
    server.start()
    assert server.state("S")["messages"] == 0


def test_an_error_of_the_api_is_raised(server: Server) -> None:
    with pytest.raises(ApiRefusal, match="stream not found"):
        server.state("S")
