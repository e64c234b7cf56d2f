"""Connections, subscriptions, consumers and streams that end are freed by reference counts."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headwater.runtime.loops import new_event_loop
from headwater.server.embedded import running
from headwater.server.lifecycle import Server
from headwater.server.options import Options, UserOptions
from tests.scenarios.world import Peer, World
from tests.unit.server.leftovers import ROUNDS, left_behind, left_behind_by

BUSY = (
    b"SUB a.b 1\r\nSUB a.* 2\r\nSUB a.> 3\r\nSUB a.b q 4\r\nSUB *.b 5\r\nUNSUB 5 9\r\n"
    b"PUB a.b 1\r\nx\r\nPUB a.c reply 1\r\nx\r\nPING\r\n"
)


# --- real sockets -------------------------------------------------------------------------------


def serving(converse: Callable[[Server], Awaitable[dict[str, int]]]) -> dict[str, int]:
    """What a conversation with a real server, on the loop it is meant for, leaves behind."""

    async def run() -> dict[str, int]:
        async with running(Options(host="127.0.0.1", port=-1, http_port=-1)) as server:
            return await converse(server)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(run())


def test_a_connection_that_leaves_is_freed() -> None:
    async def converse(server: Server) -> dict[str, int]:
        async def visit() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.client_port)
            writer.write(b'CONNECT {"verbose":false,"headers":true,"protocol":1}\r\n' + BUSY)
            await reader.readuntil(b"PONG\r\n")
            writer.close()
            await gone(server)

        return await left_behind_by(visit)

    assert serving(converse) == {}


def test_a_connection_that_the_server_closes_is_freed() -> None:
    async def converse(server: Server) -> dict[str, int]:
        async def visit() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.client_port)
            writer.write(BUSY + b"NONSENSE\r\n")
            await reader.read()
            writer.close()
            await gone(server)

        return await left_behind_by(visit)

    assert serving(converse) == {}


async def gone(server: Server) -> None:
    """Every connection has ended, and the loop has let go of it."""
    while server.node.clients:
        await asyncio.sleep(0)
    for _ in range(4):
        await asyncio.sleep(0)


def test_a_monitoring_connection_is_freed() -> None:
    async def converse(server: Server) -> dict[str, int]:
        async def visit() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.monitoring_port)
            for page in (b"varz", b"connz?subs=detail", b"subsz?subs=1", b"healthz", b"nothing"):
                writer.write(b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n" % page)
            writer.write(b"GET /connz?state=closed HTTP/1.0\r\n\r\n")
            await reader.read()
            writer.close()
            while server._http_connections:
                await asyncio.sleep(0)
            await gone(server)

        return await left_behind_by(visit)

    assert serving(converse) == {}


# --- connections --------------------------------------------------------------------------------


def test_a_closed_connection_leaves_one_record_for_connz() -> None:
    world = World()

    def visit() -> None:
        peer = world.modern()
        peer.send(BUSY)
        peer.connection.leave()
        world.settle()

    assert left_behind(visit) == {}
    assert len(world.node.closed_clients) == ROUNDS + 2


def end_by_error(peer: Peer) -> None:
    peer.send(b"NONSENSE\r\n")


def end_by_silence(peer: Peer) -> None:
    peer.world.advance(3600)


def end_by_not_reading(peer: Peer) -> None:
    peer.send(b"SUB big 7\r\n")
    peer.connection.stop_reading()
    for _ in range(3):
        peer.send(b"PUB big 500000\r\n%b\r\n" % bytes(500_000))


def end_by_the_deadline(peer: Peer) -> None:
    peer.send(b"SUB big 7\r\n")
    peer.connection.stop_reading()
    peer.send(b"PUB big 500000\r\n%b\r\n" % bytes(500_000))
    peer.world.advance(20)


def end_by_another_account(peer: Peer) -> None:
    peer.send(b'CONNECT {"user":"nobody","pass":"x"}\r\n')


@pytest.mark.parametrize(
    "end",
    [
        end_by_error,
        end_by_silence,
        end_by_not_reading,
        end_by_the_deadline,
        end_by_another_account,
    ],
)
def test_however_a_connection_ends_it_is_freed(end: Callable[[Peer], None]) -> None:
    users = (UserOptions("u", "p"),)
    world = World(Options(users=users, max_pending=1_000_000, max_closed_clients=1))

    def visit() -> None:
        peer = world.modern(user="u", password="p")
        peer.send(BUSY)
        end(peer)
        world.settle()
        assert peer.reason

    assert left_behind(visit) == {}


def test_a_subscription_that_ends_is_freed() -> None:
    world = World()
    peer = world.modern()

    def subscribe() -> None:
        peer.send(BUSY)
        peer.send(b"UNSUB 1\r\nUNSUB 2\r\nUNSUB 3\r\nUNSUB 4\r\n")
        # The limit of the last one ends it.
        peer.send(b"PUB x.b 1\r\nx\r\n" * 9)
        assert peer.client.subscriptions == {}
        peer.connection.received.clear()

    assert left_behind(subscribe) == {}
