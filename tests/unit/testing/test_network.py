"""Every fault of the network does what its name says, and nothing else."""

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headwater.base.errors import ProgrammerError
from headwater.testing import Connection, NetworkSettings, World

PORT = 4222


class End(asyncio.Protocol):
    """Remembers what arrived and how it ended."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.received = bytearray()
        self.made: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[Exception | None] = loop.create_future()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.made.set_result(None)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


class Pair:
    """A client on host "a", a server on host "b", connected."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.client = End()
        self.server = End()

    async def connect(self) -> "Pair":
        a, b = self.world.host("a"), self.world.host("b")
        loop = asyncio.get_running_loop()
        await b.run(loop.create_server(lambda: self.server, "0.0.0.0", PORT))
        await a.run(loop.create_connection(lambda: self.client, "b", PORT))
        await self.server.made
        return self

    def received(self) -> tuple[bytes, bytes]:
        """The bytes that arrived at the server and at the client."""
        return bytes(self.server.received), bytes(self.client.received)

    @property
    def connection(self) -> Connection:
        [connection] = self.world.network.connections("a", "b")
        return connection


Scenario = Callable[[Pair], Coroutine[Any, Any, None]]


def run(scenario: Scenario, seed: int = 1, settings: NetworkSettings | None = None) -> World:
    async def main(world: World) -> None:
        await scenario(await Pair(world).connect())

    world = World(seed, settings=settings)
    world.run(main)
    return world


def test_hosts_have_names_addresses_and_no_way_to_lie() -> None:
    async def scenario(pair: Pair) -> None:
        network = pair.world.network
        a, b = pair.world.host("a"), pair.world.host("b")
        assert network.resolve("b") == b.address == network.resolve(b.address)
        assert network.resolve("localhost") == "127.0.0.1"
        assert pair.client.transport.get_extra_info("peername") == (b.address, PORT)
        assert pair.server.transport.get_extra_info("peername")[0] == a.address
        assert pair.client.transport.get_extra_info("socket") is None
        loop = asyncio.get_running_loop()
        with pytest.raises(socket.gaierror):
            await loop.create_connection(End, "nowhere", PORT)
        with pytest.raises(OSError, match="assign requested address"):
            await a.run(loop.create_server(End, "b", PORT))
        [answer] = await loop.getaddrinfo("b", PORT)
        assert answer[4] == (b.address, PORT)

    run(scenario)


def test_loopback_is_reached_from_its_own_host_only() -> None:
    async def main(world: World) -> None:
        loop = asyncio.get_running_loop()
        b = world.host("b")
        await b.run(loop.create_server(End, "127.0.0.1", PORT))
        await b.run(loop.create_connection(End, "localhost", PORT))
        with pytest.raises(ConnectionRefusedError):
            await world.host("a").run(loop.create_connection(End, "b", PORT))

    World(1).run(main)


def test_latency_and_jitter() -> None:
    async def scenario(pair: Pair) -> None:
        loop = asyncio.get_running_loop()
        pair.world.network.slow("a", "b", latency_s=2.0, jitter_s=1.0)
        sent_s = loop.time()
        pair.client.transport.write(b"x")
        pair.client.transport.close()
        await pair.server.lost
        assert pair.server.received == b"x"
        assert 2.0 <= loop.time() - sent_s <= 3.1

    run(scenario)


def test_one_direction_can_be_slow() -> None:
    async def scenario(pair: Pair) -> None:
        pair.world.network.slow("a", "b", latency_s=5.0, direction="backward")
        pair.client.transport.write(b"there")
        pair.server.transport.write(b"back")
        await asyncio.sleep(1)
        assert pair.received() == (b"there", b"")
        await asyncio.sleep(5)
        assert pair.client.received == b"back"

    run(scenario)


def test_bandwidth() -> None:
    async def scenario(pair: Pair) -> None:
        pair.world.network.slow("a", "b", bytes_per_s=1000)
        pair.client.transport.write(bytes(10_000))
        await asyncio.sleep(5)
        assert 4_800 <= len(pair.server.received) <= 5_000
        await asyncio.sleep(6)
        assert len(pair.server.received) == 10_000

    run(scenario)


def test_a_slow_link_fills_the_senders_buffer() -> None:
    async def scenario(pair: Pair) -> None:
        pair.world.network.slow("a", "b", bytes_per_s=1000)
        pair.client.transport.write(bytes(10_000))
        # The kernels take 4096; room comes back as the other side reads.
        assert pair.client.transport.get_write_buffer_size() == 10_000 - 4096
        await asyncio.sleep(3)
        assert 0 < pair.client.transport.get_write_buffer_size() < 10_000 - 4096
        await asyncio.sleep(10)
        assert pair.client.transport.get_write_buffer_size() == 0
        assert len(pair.server.received) == 10_000

    run(scenario, settings=NetworkSettings(socket_buffer_bytes=4096))


@pytest.mark.parametrize("seed", range(5))
def test_a_partition_delays_and_loses_nothing(seed: int) -> None:
    async def scenario(pair: Pair) -> None:
        sent = b""
        for number in range(50):
            if number == 10:
                pair.world.network.partition("a", "b")
            if number == 40:
                assert len(pair.server.received) < len(sent)
                pair.world.network.heal()
            piece = b"%d " % number
            pair.client.transport.write(piece)
            sent += piece
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        assert bytes(pair.server.received) == sent

    run(scenario, seed)


@pytest.mark.parametrize(
    ("direction", "there", "back"), [("forward", b"", b"back"), ("backward", b"there", b"")]
)
def test_a_partition_can_be_one_way(direction: Any, there: bytes, back: bytes) -> None:
    async def scenario(pair: Pair) -> None:
        pair.world.network.partition("a", "b", direction)
        pair.client.transport.write(b"there")
        pair.server.transport.write(b"back")
        await asyncio.sleep(10)
        assert pair.received() == (there, back)
        pair.world.network.heal("b", "a")
        await asyncio.sleep(10)
        assert pair.received() == (b"there", b"back")

    run(scenario)


def test_a_partition_longer_than_the_retransmission_limit_ends_the_sender_only() -> None:
    async def scenario(pair: Pair) -> None:
        pair.world.network.partition("a", "b")
        pair.client.transport.write(b"lost")
        error = await pair.client.lost
        assert isinstance(error, TimeoutError)
        assert error.errno == errno.ETIMEDOUT
        pair.world.network.heal()
        await asyncio.sleep(60)
        assert not pair.server.lost.done()
        assert pair.server.received == b""
        # The first thing it sends is answered by a reset.
        pair.server.transport.write(b"anybody?")
        assert isinstance(await pair.server.lost, ConnectionResetError)

    run(scenario)


def test_lost_acknowledgements_end_the_sender_too() -> None:
    async def scenario(pair: Pair) -> None:
        pair.world.network.partition("a", "b", "backward")
        pair.client.transport.write(b"arrives")
        assert isinstance(await pair.client.lost, TimeoutError)
        assert pair.server.received == b"arrives"
        assert not pair.server.lost.done()

    run(scenario)


def test_an_idle_connection_outlives_any_partition() -> None:
    async def scenario(pair: Pair) -> None:
        pair.world.network.partition("a", "b")
        await asyncio.sleep(86_400)
        pair.world.network.heal()
        pair.client.transport.write(b"still there")
        await asyncio.sleep(5)
        assert pair.server.received == b"still there"

    run(scenario)


def test_connecting_into_a_partition_waits_and_then_succeeds_or_times_out() -> None:
    async def scenario(pair: Pair) -> None:
        world, loop = pair.world, asyncio.get_running_loop()
        world.network.partition("a", "b", "backward")
        attempt = asyncio.ensure_future(world.host("a").run(loop.create_connection(End, "b", PORT)))
        with pytest.raises(TimeoutError) as failure:
            await attempt
        assert failure.value.errno == errno.ETIMEDOUT

        abandoned = world.host("a").run(loop.create_connection(End, "b", PORT))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(abandoned, 1)
        count = len(world.network.connections())
        patient = asyncio.ensure_future(world.host("a").run(loop.create_connection(End, "b", PORT)))
        await asyncio.sleep(5)
        world.network.heal()
        await patient
        assert len(world.network.connections()) == count + 1

    run_many_accepting(scenario)


def run_many_accepting(scenario: Scenario) -> None:
    """Run a scenario as `run` does, with a server that takes more than one connection."""

    async def main(world: World) -> None:
        loop = asyncio.get_running_loop()
        world.host("a")
        await world.host("b").run(loop.create_server(End, "0.0.0.0", PORT))
        await scenario(Pair(world))

    World(1).run(main)


def test_isolation_parts_a_host_from_all() -> None:
    async def scenario(pair: Pair) -> None:
        pair.world.network.isolate("b")
        pair.client.transport.write(b"x")
        await asyncio.sleep(10)
        assert pair.server.received == b""
        pair.world.network.heal("b")
        await asyncio.sleep(1)
        assert pair.server.received == b"x"

    run(scenario)


@pytest.mark.parametrize("seed", range(20))
def test_a_cut_delivers_a_prefix_and_resets_both_ends(seed: int) -> None:
    async def scenario(pair: Pair) -> None:
        there, back = bytes(range(200)), bytes(range(100))
        pair.client.transport.write(there)
        pair.server.transport.write(back)
        pair.world.network.cut(pair.connection)
        pair.client.transport.write(b"too late")
        for end, sent in ((pair.client, back), (pair.server, there)):
            assert isinstance(await end.lost, ConnectionResetError)
            assert sent.startswith(end.received)
        lengths.append(len(pair.server.received))
        assert pair.world.network.connections() == []

    lengths: list[int] = []
    run(scenario, seed)
    assert lengths[0] <= 200


def test_cuts_fall_anywhere() -> None:
    async def scenario(pair: Pair) -> None:
        pair.client.transport.write(bytes(100))
        pair.world.network.cut(pair.connection)
        await pair.server.lost
        lengths.append(len(pair.server.received))

    lengths: list[int] = []
    for seed in range(60):
        run(scenario, seed)
    assert len(set(lengths)) > 30


@pytest.mark.parametrize("size", [0, 1, 5, 9, 10, 11])
def test_a_connection_can_be_cut_at_a_given_byte(size: int) -> None:
    async def scenario(pair: Pair) -> None:
        pair.world.network.cut_after(pair.connection, size)
        for _ in range(4):
            pair.client.transport.write(b"12345")
            await asyncio.sleep(0.01)
        assert isinstance(await pair.server.lost, ConnectionResetError)
        assert pair.server.received == (b"12345" * 4)[:size]
        assert isinstance(await pair.client.lost, ConnectionResetError)

    run(scenario)


def test_half_open() -> None:
    async def scenario(pair: Pair) -> None:
        pair.world.network.half_open(pair.connection, "b")
        assert isinstance(await pair.server.lost, ConnectionResetError)
        await asyncio.sleep(3600)
        assert not pair.client.lost.done()
        pair.client.transport.write(b"anybody?")
        assert isinstance(await pair.client.lost, ConnectionResetError)

    run(scenario)


def test_half_open_wants_an_end_of_the_connection() -> None:
    async def scenario(pair: Pair) -> None:
        with pytest.raises(ProgrammerError, match="not an end"):
            pair.world.network.half_open(pair.connection, "c")

    run(scenario)


def test_refusing_leaves_old_connections_alone() -> None:
    async def scenario(pair: Pair) -> None:
        world, loop = pair.world, asyncio.get_running_loop()
        world.network.refuse("b")
        with pytest.raises(ConnectionRefusedError):
            await world.host("a").run(loop.create_connection(End, "b", PORT))
        pair.client.transport.write(b"old")
        await asyncio.sleep(1)
        assert pair.server.received == b"old"
        world.network.accept("b")
        pair.server = End()
        await world.host("a").run(loop.create_connection(End, "b", PORT))

    run(scenario)


def test_connections_are_listed_by_host_and_pair() -> None:
    async def scenario(pair: Pair) -> None:
        network = pair.world.network
        pair.world.host("c")
        assert network.connections() == network.connections("a") == network.connections("b", "a")
        assert network.connections("c") == []
        assert repr(pair.connection) == "<Connection #1 a to b:4222>"
        pair.client.transport.close()
        await pair.server.lost
        await asyncio.sleep(1)
        assert network.connections() == []

    run(scenario)
