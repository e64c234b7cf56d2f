"""Streams, protocols and flow control behave on simulated sockets as on real ones."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from headwater.testing import NetworkSettings, UnhandledException, World

Log = list[str]
Program = Callable[[Log], Coroutine[Any, Any, None]]


class Recorder(asyncio.Protocol):
    """A protocol that writes down its calls."""

    def __init__(self, name: str, log: Log, *, keep_open: bool = False) -> None:
        self.name = name
        self.log = log
        self.received = bytearray()
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.eof: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.keep_open = keep_open
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.log.append(f"{self.name} made")

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> bool:
        self.log.append(f"{self.name} eof after {bytes(self.received)!r}")
        self.eof.set_result(None)
        return self.keep_open

    def connection_lost(self, exc: Exception | None) -> None:
        self.log.append(f"{self.name} lost {type(exc).__name__}")
        if not self.lost.done():
            self.lost.set_result(None)

    def pause_writing(self) -> None:
        self.log.append(f"{self.name} pause")

    def resume_writing(self) -> None:
        self.log.append(f"{self.name} resume")


async def joined(log: Log, **server_options: Any) -> tuple[Recorder, Recorder]:
    """A connected pair on whatever loop runs: the client's end and the server's."""
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[Recorder] = loop.create_future()

    class Accepted(Recorder):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            accepted.set_result(self)

    server = await loop.create_server(
        lambda: Accepted("server", log, **server_options), "127.0.0.1", 0
    )
    port = server.sockets[0].getsockname()[1]
    _, client = await loop.create_connection(lambda: Recorder("client", log), "127.0.0.1", port)
    far = await accepted
    server.close()
    # Either of the two ends may be told first that they are connected.
    log[:] = sorted(log)
    return client, far


def forget_flow_control(log: Log) -> None:
    """Remove the calls of flow control: each kernel has a limit of its own."""
    log[:] = [line for line in log if not line.endswith(("pause", "resume"))]


async def echo_by_streams(log: Log) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line.upper())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.writelines([b"one\n", b"two\n"])
    log.append(repr(await reader.readline()))
    log.append(repr(await reader.readexactly(4)))
    writer.write(b"three\n")
    writer.write_eof()
    log.append(repr(await reader.read()))
    writer.close()
    await writer.wait_closed()
    server.close()


async def close_flushes(log: Log) -> None:
    client, far = await joined(log)
    client.transport.write(b"x" * 1_000_000)
    client.transport.close()
    client.transport.close()
    log.append(str(client.transport.is_closing()))
    await asyncio.gather(client.lost, far.lost)
    log.append(str(len(far.received)))
    forget_flow_control(log)
    log[:] = sorted(line.replace(repr(bytes(far.received)), "all") for line in log)


async def abort_loses_what_is_buffered(log: Log) -> None:
    client, far = await joined(log)
    far.transport.pause_reading()
    client.transport.write(b"x" * 20_000_000)
    client.transport.abort()
    client.transport.abort()
    log.append(str(client.transport.get_write_buffer_size()))
    await client.lost
    far.transport.resume_reading()
    await far.lost
    log.append(str(0 < len(far.received) < 20_000_000))
    forget_flow_control(log)
    log[:] = [line for line in log if "eof" not in line]


async def half_close(log: Log) -> None:
    client, far = await joined(log, keep_open=True)
    client.transport.write(b"question")
    client.transport.write_eof()
    with pytest.raises(RuntimeError, match="write_eof"):
        client.transport.write(b"more")
    await far.eof
    far.transport.write(b"answer")
    far.transport.close()
    await asyncio.gather(client.lost, far.lost)
    log.append(repr(bytes(client.received)))


async def unread_bytes_reset_the_peer(log: Log) -> None:
    client, far = await joined(log)
    far.transport.pause_reading()
    client.transport.write(b"never read")
    await asyncio.sleep(0.05)
    far.transport.close()
    await asyncio.gather(client.lost, far.lost)
    log[:] = sorted(log)


async def writing_to_the_closed(log: Log) -> None:
    client, far = await joined(log)
    client.transport.close()
    await client.lost
    client.transport.write(b"into the void")
    await far.lost
    log.append(repr(bytes(far.received)))


async def refused(log: Log) -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    try:
        await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError as error:
        log.append(f"refused {error.errno}")


async def address_in_use(log: Log) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        await loop.create_server(asyncio.Protocol, "127.0.0.1", port)
    except OSError as error:
        log.append(f"bound {error.errno}")
    server.close()
    log.append(f"{server.is_serving()} {len(server.sockets)}")


async def names_of_both_ends(log: Log) -> None:
    client, far = await joined(log)
    near_socket, far_socket = client.transport.get_extra_info, far.transport.get_extra_info
    log.append(str(near_socket("peername") == far_socket("sockname")))
    log.append(str(near_socket("sockname") == far_socket("peername")))
    log.append(str(near_socket("nothing", "default")))
    client.transport.close()
    await asyncio.gather(client.lost, far.lost)


PROGRAMS: tuple[Program, ...] = (
    echo_by_streams,
    close_flushes,
    abort_loses_what_is_buffered,
    half_close,
    unread_bytes_reset_the_peer,
    writing_to_the_closed,
    refused,
    address_in_use,
    names_of_both_ends,
)


async def on_any_loop(program: Program, log: Log, world: World) -> None:
    await program(log)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs_cannot_tell_the_network_from_a_real_one(program: Program) -> None:
    real: Log = []
    asyncio.run(program(real))
    for seed in range(5):
        simulated: Log = []
        World(seed).run(partial(on_any_loop, program, simulated))
        assert simulated == real


def in_world(
    program: Callable[[World, Log], Coroutine[Any, Any, None]],
    seed: int = 1,
    settings: NetworkSettings | None = None,
) -> Log:
    log: Log = []
    World(seed, settings=settings).run(lambda world: program(world, log))
    return log


def test_water_marks() -> None:
    async def program(world: World, log: Log) -> None:
        client, far = await joined(log)
        far.transport.pause_reading()
        transport = client.transport
        transport.set_write_buffer_limits(high=1000, low=100)
        assert transport.get_write_buffer_limits() == (100, 1000)
        transport.write(bytes(kernel_bytes))
        assert transport.get_write_buffer_size() == 0
        transport.write(bytes(1000))
        assert "client pause" not in log
        transport.write(b"x")
        assert log[-1] == "client pause"
        assert transport.get_write_buffer_size() == 1001
        await asyncio.sleep(60)
        assert log[-1] == "client pause"
        far.transport.resume_reading()
        await asyncio.sleep(1)
        assert log[-1] == "client resume"
        assert transport.get_write_buffer_size() == 0
        assert len(far.received) == kernel_bytes + 1001

    kernel_bytes = 4096
    in_world(program, settings=NetworkSettings(socket_buffer_bytes=kernel_bytes))


def test_limits_have_asyncios_defaults() -> None:
    async def program(world: World, log: Log) -> None:
        client, _ = await joined(log)
        transport = client.transport
        assert transport.get_write_buffer_limits() == (16 * 1024, 64 * 1024)
        transport.set_write_buffer_limits(low=10)
        assert transport.get_write_buffer_limits() == (10, 40)
        transport.set_write_buffer_limits(high=0)
        assert transport.get_write_buffer_limits() == (0, 0)
        with pytest.raises(ValueError, match="must be >="):
            transport.set_write_buffer_limits(high=1, low=2)

    in_world(program)


def test_reads_are_cut_and_joined_at_points_the_seed_decides() -> None:
    async def main(world: World) -> tuple[int, ...]:
        sizes: list[int] = []

        class Sizes(Recorder):
            def data_received(self, data: bytes) -> None:
                sizes.append(len(data))
                super().data_received(data)

        loop = asyncio.get_running_loop()
        far = Sizes("server", [])
        await loop.create_server(lambda: far, "0.0.0.0", 4222)
        _, client = await loop.create_connection(lambda: Recorder("client", []), "outside", 4222)
        sent = bytes(range(256)) * 4
        for start in range(0, len(sent), 16):
            client.transport.write(sent[start : start + 16])
            await asyncio.sleep(0.0001 * (start % 3))
        client.transport.close()
        await far.lost
        assert bytes(far.received) == sent
        return tuple(sizes)

    outcomes = [World(seed).run(main) for seed in range(20)]
    assert len(set(outcomes)) == 20
    cuts = {size for sizes in outcomes for size in sizes}
    assert min(cuts) < 16 < max(cuts)


def test_buffered_protocols() -> None:
    class Buffered(asyncio.BufferedProtocol):
        def __init__(self) -> None:
            self.buffer = bytearray(7)
            self.received = bytearray()
            self.eof: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def get_buffer(self, sizehint: int) -> bytearray:
            return self.buffer

        def buffer_updated(self, nbytes: int) -> None:
            self.received += self.buffer[:nbytes]

        def eof_received(self) -> None:
            self.eof.set_result(None)

    async def program(world: World, log: Log) -> None:
        loop = asyncio.get_running_loop()
        far = Buffered()
        await loop.create_server(lambda: far, "0.0.0.0", 4222)
        _, client = await loop.create_connection(lambda: Recorder("client", []), "outside", 4222)
        client.transport.write(bytes(range(100)))
        client.transport.close()
        await far.eof
        assert bytes(far.received) == bytes(range(100))

    in_world(program)


def test_an_exception_in_a_protocol_fails_the_run() -> None:
    class Broken(Recorder):
        def data_received(self, data: bytes) -> None:
            raise ValueError("broken protocol")

    async def program(world: World, log: Log) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_server(lambda: Broken("server", log), "0.0.0.0", 4222)
        _, client = await loop.create_connection(lambda: Recorder("client", log), "outside", 4222)
        client.transport.write(b"x")
        await client.lost

    with pytest.raises(UnhandledException, match="broken protocol"):
        in_world(program)


def test_wait_closed_waits_for_accepted_connections() -> None:
    async def program(world: World, log: Log) -> None:
        loop = asyncio.get_running_loop()
        far = Recorder("server", log)
        server = await loop.create_server(lambda: far, "0.0.0.0", 4222)
        _, client = await loop.create_connection(lambda: Recorder("client", log), "outside", 4222)
        await asyncio.sleep(1)
        server.close()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(server.wait_closed(), 10)
        client.transport.close()
        await server.wait_closed()
        assert far.lost.done()

    in_world(program)


def test_serve_forever_ends_with_its_task() -> None:
    async def program(world: World, log: Log) -> None:
        server = await asyncio.start_server(lambda reader, writer: None, "0.0.0.0", 4222)
        task = asyncio.create_task(server.serve_forever())
        await asyncio.sleep(1)
        assert server.is_serving()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert not server.is_serving()

    in_world(program)
