"""A server inside a program: with a thread of its own, on a running loop, and as a fixture."""

import asyncio
import socket
import tempfile
import threading
from pathlib import Path

import nats
import pytest

from headwater.base.errors import ProgrammerError
from headwater.runtime.loop_thread import LoopThread
from headwater.server.configuration.options import JetStreamOptions, Options, OptionsError
from headwater.server.embedded import EmbeddedServer, running
from headwater.server.lifecycle import StartError


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
        second = EmbeddedServer(options, jetstream=True)
        with pytest.raises(StartError, match=f"127.0.0.1:{server.port}.*address already in use"):
            second.start()
        with pytest.raises(ProgrammerError, match="has not been started"):
            second.url  # noqa: B018


async def store_one(url: str) -> None:
    """Store a message in a new stream, and read it."""
    client = await nats.connect(url)
    streams = client.jetstream()
    await streams.add_stream(name="ORDERS", subjects=["orders.>"])
    await streams.publish("orders.1", b"tea")
    assert (await streams.get_msg("ORDERS", 1)).data == b"tea"
    await client.close()


def test_one_word_gives_streams_in_a_folder_that_goes_with_the_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with EmbeddedServer(jetstream=True) as server:
        assert server.url == f"nats://127.0.0.1:{server.port}"
        asyncio.run(store_one(server.url))
        assert [folder.name.startswith("headwater-") for folder in tmp_path.iterdir()] == [True]
    assert list(tmp_path.iterdir()) == []


def test_streams_on_the_loop_that_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def main() -> None:
        async with running(jetstream=True) as server:
            await store_one(server.url)
            assert list(tmp_path.iterdir())

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == []


def test_a_named_folder_keeps_its_streams_for_the_next_start(tmp_path: Path) -> None:
    server = EmbeddedServer(store_dir=str(tmp_path))
    with server:
        asyncio.run(store_one(server.url))

    async def stored() -> int:
        client = await nats.connect(server.url)
        info = await client.jetstream().stream_info("ORDERS")
        await client.close()
        return info.state.messages

    with server:
        assert asyncio.run(stored()) == 1


def test_keywords_leave_loopback_and_free_port_as_they_are() -> None:
    with EmbeddedServer(max_payload=10, http_port=-1) as server:
        assert server.url == f"nats://127.0.0.1:{server.port}"
        assert server.monitoring_port > 0

        async def refused() -> None:
            client = await nats.connect(server.url)
            assert client.max_payload == 10
            await client.close()

        asyncio.run(refused())


def test_settings_of_the_streams_come_with_jetstream_options() -> None:
    settings = JetStreamOptions(enabled=True, domain="hub")
    with EmbeddedServer(jetstream=settings) as server:

        async def domain() -> str | None:
            client = await nats.connect(server.url)
            account = await client.jetstream(domain="hub").account_info()
            await client.close()
            return account.domain

        assert asyncio.run(domain()) == "hub"


def test_a_keyword_that_is_no_option_is_named() -> None:
    with pytest.raises(TypeError, match="max_paylod"):
        EmbeddedServer(max_paylod=10)


def test_options_that_contradict_one_another_are_refused_before_a_start() -> None:
    with pytest.raises(OptionsError):
        EmbeddedServer(max_payload=2, max_pending=1)


def test_nothing_runs_before_a_server_is_entered() -> None:
    before = threading.active_count()
    server = EmbeddedServer(jetstream=True)
    assert threading.active_count() == before
    with pytest.raises(ProgrammerError, match="use it in a with statement"):
        server.port  # noqa: B018
    server.stop()


def test_a_server_that_runs_cannot_be_started_again() -> None:
    with EmbeddedServer() as server, pytest.raises(ProgrammerError, match="running already"):
        server.start()


def test_the_fixture_with_streams_gives_a_server_of_ones_own(
    headwater_jetstream: EmbeddedServer,
) -> None:
    asyncio.run(store_one(headwater_jetstream.url))


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
