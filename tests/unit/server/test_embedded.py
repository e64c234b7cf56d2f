"""A server inside a program: with a thread of its own, on a running loop, and as a fixture."""

import asyncio
import socket

import nats
import pytest

from headwater.base.errors import ProgrammerError
from headwater.runtime.loop_thread import LoopThread
from headwater.server.embedded import EmbeddedServer, running
from headwater.server.lifecycle import StartError
from headwater.server.options import Options


async def echo_through(url: str) -> bytes:
    """Publish to oneself by way of the server."""
    client = await nats.connect(url)
    inbox = await client.subscribe("greet.*")
    await client.publish("greet.ada", b"hello")
    message = await inbox.next_msg(timeout=5)
    await client.close()
    return message.data


def test_in_a_thread_of_its_own() -> None:
    with EmbeddedServer() as server:
        assert server.url == f"nats://127.0.0.1:{server.port}"
        assert server.monitoring_port == 0
        assert asyncio.run(echo_through(server.url)) == b"hello"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))


def test_on_the_loop_that_runs() -> None:
    async def main() -> bytes:
        async with running() as server:
            return await echo_through(server.url)

    assert asyncio.run(main()) == b"hello"


def test_two_servers_in_one_process_know_nothing_of_each_other() -> None:
    async def main() -> None:
        async with running() as one, running() as other:
            assert one.client_port != other.client_port
            listener = await nats.connect(one.url)
            inbox = await listener.subscribe("x")
            await listener.flush()
            stranger = await nats.connect(other.url)
            await stranger.publish("x", b"lost")
            await stranger.flush()
            await listener.publish("x", b"found")
            assert (await inbox.next_msg(timeout=5)).data == b"found"
            await listener.close()
            await stranger.close()

    asyncio.run(main())


def test_the_log_goes_where_it_is_told() -> None:
    lines: list[bytes] = []
    with EmbeddedServer(log=lines.append):
        pass
    assert any(line.endswith(b"[INF] Server is ready\n") for line in lines)
    assert lines[-1].endswith(b"[INF] Server Exiting..\n")


def test_a_port_in_use_is_an_error_that_names_it() -> None:
    with EmbeddedServer() as server:
        options = Options(host="127.0.0.1", port=server.port)
        with pytest.raises(StartError, match=f"127.0.0.1:{server.port}.*address already in use"):
            EmbeddedServer(options)


def test_the_fixture_gives_a_server_of_ones_own(headwater_server: EmbeddedServer) -> None:
    assert asyncio.run(echo_through(headwater_server.url)) == b"hello"


def test_a_loop_thread_refuses_to_wait_for_itself() -> None:
    thread = LoopThread("test")

    async def nothing() -> None:
        """Never started."""

    async def wait_for_itself() -> None:
        work = nothing()
        try:
            thread.run(work)
        finally:
            work.close()

    with pytest.raises(ProgrammerError, match="await instead"):
        thread.run(wait_for_itself())
    thread.close()
