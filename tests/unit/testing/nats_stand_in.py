"""A stand-in for a NATS server, just enough for a client to connect, ping, publish and subscribe.

The kit's own tests use it so that they fail for reasons of the kit only. It also runs as a
program, printing the trace hash of one seed: the test of determinism starts it in processes that
hash strings differently.
"""

import asyncio
import sys

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from headwater.testing import FaultPlan, World

PORT = 4222
URL = f"nats://server-1:{PORT}"
INFO = (
    b'INFO {"server_id":"STAND-IN","version":"2.15.0","proto":1,"headers":true,'
    b'"max_payload":1048576}\r\n'
)


class StandIn:
    """Subscriptions by literal subject, shared by all connections."""

    def __init__(self) -> None:
        self._subscribers: dict[bytes, dict[tuple[int, bytes], asyncio.StreamWriter]] = {}
        self._connections = 0

    async def start(self) -> None:
        """Listen on the calling host."""
        await asyncio.start_server(self._serve, "0.0.0.0", PORT)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        connection = self._connections
        try:
            writer.write(INFO)
            while line := await reader.readline():
                await self._execute(line.split(), connection, reader, writer)
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError):
            pass
        finally:
            for subscribers in self._subscribers.values():
                for key in [key for key in subscribers if key[0] == connection]:
                    del subscribers[key]
            writer.close()

    async def _execute(
        self,
        words: list[bytes],
        connection: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        match words:
            case [b"PING"]:
                writer.write(b"PONG\r\n")
            case [b"SUB", subject, sid]:
                self._subscribers.setdefault(subject, {})[connection, sid] = writer
            case [b"PUB", subject, size]:
                payload = await reader.readexactly(int(size) + 2)
                for (_, sid), subscriber in self._subscribers.get(subject, {}).items():
                    subscriber.write(b"MSG %s %s %s\r\n%s" % (subject, sid, size, payload))


async def quiet(error: Exception) -> None:
    """nats-py logs errors nobody takes."""


async def connect() -> Client:
    """A client of the calling host, which never gives up."""
    return await nats.connect(
        URL,
        error_cb=quiet,
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.2,
        ping_interval=2,
        max_outstanding_pings=2,
    )


async def busy_clients_under_faults(world: World) -> int:
    """Several clients that publish to each other while everything goes wrong."""
    server = world.host("server-1")
    server.boot = lambda: StandIn().start()
    await server.run(server.boot())
    received = 0

    async def count(message: Msg) -> None:
        nonlocal received
        received += 1

    async def client(name: str) -> None:
        connection = await connect()
        await connection.subscribe("news", cb=count)
        while True:
            await connection.publish("news", name.encode())
            await asyncio.sleep(0.25)

    names = [f"client-{number}" for number in range(3)]
    for name in names:
        world.host(name).boot = lambda name=name: client(name)
        world.host(name).spawn(client(name))
    plan = FaultPlan.drawn(
        world.rng("faults"), servers=["server-1"], clients=names, episodes=2, faults_max=3
    )
    for episode in plan:
        await episode.run(world)
        await asyncio.sleep(1)
    return received


if __name__ == "__main__":
    world = World(int(sys.argv[1]))
    world.run(busy_clients_under_faults)
    print(world.trace_hash)
