"""A client's socket, as the loop sees it and as the server does."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headwater.runtime.loop_adapters import LoopNetwork
from headwater.runtime.sockets import client_connection
from headwater.runtime.sockets.client_connection import WRITE_HIGH_BYTES, ClientConnection

Conversation = Callable[["Recorder", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Recorder:
    """A server that writes down what happens to its one client."""

    def __init__(self) -> None:
        self.connection: ClientConnection | None = None
        self.events: list[str] = []
        self.received = bytearray()
        self.changed = asyncio.Event()

    def accept(self, connection: ClientConnection) -> str:
        self.connection = connection
        self._note("accept")
        return "the client"

    def receive(self, client: Any, data: bytes) -> None:
        self.received += data
        self._note("receive", client)

    def lost(self, client: Any, was_broken: bool) -> None:
        self._note("broken" if was_broken else "lost", client)

    def writable(self, client: Any) -> None:
        self._note("writable", client)

    def unwritable(self, client: Any) -> None:
        self._note("unwritable", client)

    def _note(self, event: str, client: Any = "the client") -> None:
        assert client == "the client"
        self.events.append(event)
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), 10)

    @property
    def open(self) -> ClientConnection:
        assert self.connection is not None
        return self.connection


def converse(conversation: Conversation) -> Recorder:
    """Connect a real socket to a recorder and let them talk."""

    async def run() -> Recorder:
        recorder = Recorder()
        listener = await LoopNetwork().listen("127.0.0.1", 0, lambda: ClientConnection(recorder))
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        try:
            await recorder.until(lambda: recorder.connection is not None)
            await conversation(recorder, reader, writer)
        finally:
            writer.close()
            listener.close()
        return recorder

    return asyncio.run(run())


def test_bytes_go_both_ways_and_the_peer_is_known() -> None:
    async def talk(
        server: Recorder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        host, port = writer.get_extra_info("sockname")
        assert (server.open.peer_host, server.open.peer_port) == (host, port)
        server.open.write(b"INFO {}\r\n")
        assert await reader.readline() == b"INFO {}\r\n"
        writer.write(b"PING\r\n")
        await server.until(lambda: server.received == b"PING\r\n")

    assert converse(talk).events[:2] == ["accept", "receive"]


def test_a_peer_that_leaves_is_reported_once_and_writing_goes_nowhere() -> None:
    async def talk(
        server: Recorder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.close()
        await server.until(lambda: "lost" in server.events)
        connection = server.open
        connection.write(b"into the void")
        connection.pause_reading()
        connection.resume_reading()
        connection.close()
        connection.abort()
        assert connection.buffered_bytes() == 0

    assert converse(talk).events == ["accept", "lost"]


def test_a_connection_that_broke_is_told_from_one_that_was_closed() -> None:
    async def talk(
        server: Recorder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        # Closing without lingering sends a reset instead of an end.
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        await server.until(lambda: "broken" in server.events)

    assert converse(talk).events == ["accept", "broken"]


def test_close_sends_what_is_queued() -> None:
    size = 4 * WRITE_HIGH_BYTES

    async def talk(
        server: Recorder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        server.open.write(b"x" * size)
        server.open.close()
        assert len(await reader.read(-1)) == size
        await server.until(lambda: "lost" in server.events)

    converse(talk)


def test_close_does_not_wait_for_ever_for_a_peer_that_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_connection, "LAST_WRITE_S_MAX", 0.001)

    async def talk(
        server: Recorder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        server.open.write(b"x" * 64 * 1024 * 1024)
        server.open.close()
        await server.until(lambda: "lost" in server.events)

    converse(talk)


def test_a_peer_that_does_not_read_fills_the_buffer_and_is_told_when_it_is_empty() -> None:
    size = 64 * 1024 * 1024

    async def talk(
        server: Recorder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        server.open.write(b"x" * size)
        await server.until(lambda: "unwritable" in server.events)
        assert server.open.buffered_bytes() > WRITE_HIGH_BYTES
        assert len(await reader.readexactly(size)) == size
        await server.until(lambda: "writable" in server.events)
        assert server.open.buffered_bytes() == 0

    assert converse(talk).events[:3] == ["accept", "unwritable", "writable"]


def test_what_is_sent_while_reading_is_paused_arrives_later() -> None:
    async def talk(
        server: Recorder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        server.open.pause_reading()
        server.open.pause_reading()
        writer.write(b"PING\r\n")
        await writer.drain()
        for _ in range(20):
            await asyncio.sleep(0)
        assert server.received == b""
        server.open.resume_reading()
        server.open.resume_reading()
        await server.until(lambda: server.received == b"PING\r\n")

    converse(talk)


def test_abort_drops_what_is_queued() -> None:
    size = 64 * 1024 * 1024

    async def talk(
        server: Recorder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        server.open.write(b"x" * size)
        server.open.abort()
        await server.until(lambda: "lost" in server.events)
        try:
            received = len(await reader.read(-1))
        except ConnectionResetError:
            received = 0
        assert received < size

    converse(talk)
