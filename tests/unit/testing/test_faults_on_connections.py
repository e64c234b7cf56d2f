"""Whatever goes wrong, a connection is a stream: in order, nothing twice, nothing left out."""

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from headwater.testing import FaultPlan, NetworkSettings, World

PORT = 4222
WRITE_BYTES_MAX = 3000


@dataclass
class Record:
    """The bytes that one end of a connection wrote and read."""

    sent: bytearray = field(default_factory=bytearray)
    received: bytearray = field(default_factory=bytearray)


class Chatter(asyncio.Protocol):
    """Writes random bytes at random times, as long as it may."""

    def __init__(self, rng: random.Random, records: dict[tuple[str, int], Record]) -> None:
        self._rng = rng
        self._records = records
        self._record = Record()
        self._paused = False
        self._transport: asyncio.Transport
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._records[transport.get_extra_info("sockname")] = self._record
        self._chat()

    def _chat(self) -> None:
        if self._transport.is_closing():
            return
        if not self._paused:
            data = self._rng.randbytes(self._rng.randint(1, WRITE_BYTES_MAX))
            self._record.sent += data
            self._transport.write(data)
        asyncio.get_running_loop().call_later(self._rng.uniform(0.0, 0.2), self._chat)

    def data_received(self, data: bytes) -> None:
        self._record.received += data

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


@pytest.mark.parametrize("seed", range(1, 31))
def test_received_is_a_prefix_of_sent(seed: int) -> None:
    # Each connection by the client's address, which both ends know.
    clients: dict[tuple[str, int], Record] = {}
    servers: dict[tuple[str, int], Record] = {}

    class Server(Chatter):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            servers[transport.get_extra_info("peername")] = self._record

    async def main(world: World) -> None:
        rng = world.rng("chatter")
        loop = asyncio.get_running_loop()

        async def serve() -> None:
            await loop.create_server(lambda: Server(rng, {}), "0.0.0.0", PORT)

        async def keep_connected() -> None:
            while True:
                try:
                    async with asyncio.timeout(5):
                        _, chatter = await loop.create_connection(
                            lambda: Chatter(rng, clients), "b", PORT
                        )
                except OSError:
                    await asyncio.sleep(0.1)
                else:
                    await chatter.lost

        for name, boot in (("b", serve), ("a", keep_connected)):
            world.host(name).boot = boot
            world.host(name).spawn(boot())
        plan = FaultPlan.drawn(
            world.rng("faults"), servers=["b"], clients=["a"], episodes=3, faults_max=6
        )
        for episode in plan:
            await episode.run(world)
            await asyncio.sleep(2)

    World(
        seed,
        settings=NetworkSettings(socket_buffer_bytes=8_000, retransmission_limit_s=10.0),
    ).run(main)
    assert sum(len(record.received) for record in servers.values()) > 0
    for address, server in servers.items():
        client = clients.get(address)
        # A client may die between the handshake and its first word.
        if client is not None:
            assert client.sent.startswith(server.received)
            assert server.sent.startswith(client.received)
