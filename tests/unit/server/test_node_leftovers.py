"""Connections, subscriptions, consumers and streams that end are freed by reference counts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headwater.runtime.loops import new_event_loop
from headwater.server.configuration.options import Options, UserOptions
from headwater.server.embedded import running
from headwater.server.lifecycle import Server
from tests.kit.consumer_world import API, NS, ConsumerWorld
from tests.kit.stored_world import streaming
from tests.kit.world import Peer, World
from tests.unit.server.leftovers import ROUNDS, left_behind, left_behind_by

BUSY = (
    b"SUB a.b 1\r\nSUB a.* 2\r\nSUB a.> 3\r\nSUB a.b q 4\r\nSUB *.b 5\r\nUNSUB 5 9\r\n"
    b"PUB a.b 1\r\nx\r\nPUB a.c reply 1\r\nx\r\nPING\r\n"
)

BATCH_HEADER = b"NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: 1\r\n\r\n"
BATCH_BEGUN = b"HPUB s.b inbox.1 %d %d\r\n%b\r\n" % (
    len(BATCH_HEADER),
    len(BATCH_HEADER),
    BATCH_HEADER,
)


# --- real sockets -------------------------------------------------------------------------------


def serving(converse: Callable[[Server], Awaitable[dict[str, int]]]) -> dict[str, int]:
    """Objects that a conversation with a real server, on its own kind of loop, leaves behind."""

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
    # The end of a connection is no event that a test could wait for.
    while server.node.roster.open or server._http_connections:  # noqa: ASYNC110
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
    assert len(world.node.roster.closed) == ROUNDS + 2


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


# --- consumers ----------------------------------------------------------------------------------


@pytest.fixture
def world() -> ConsumerWorld:
    """A server with a stream of a few messages."""
    world = ConsumerWorld().with_stream(storage="memory", allow_direct=True)
    world.publish(5)
    return world


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"deliver_subject": "push"},
        {"deliver_subject": "inbox.push", "flow_control": True, "idle_heartbeat": NS},
        {"priority_groups": ["g"], "priority_policy": "pinned_client", "priority_timeout": NS},
        {"priority_groups": ["g"], "priority_policy": "overflow"},
    ],
)
def test_a_consumer_that_is_deleted_is_freed(world: ConsumerWorld, config: dict[str, Any]) -> None:
    def consume() -> None:
        world.consumer("C", **config)
        # Of the two requests to a pull consumer, one is served and one waits in vain.
        group: dict[str, Any] = {"group": "g"} if "priority_groups" in config else {}
        world.pull("C", batch=2, expires=3600 * NS, **group)
        world.pull("C", batch=9, expires=3600 * NS, **group)
        world.delete("C")
        world.advance(1)
        world.caller.connection.received.clear()
        world.caller.take()

    assert left_behind(consume) == {}


def test_a_consumer_that_nobody_uses_is_freed(world: ConsumerWorld) -> None:
    def consume() -> None:
        world.consumer("E", durable_name=None, inactive_threshold=NS)
        world.pull("E", batch=2, expires=NS // 2)
        world.advance(3)
        assert len(world.stream().consumers) == 0

    assert left_behind(consume) == {}


def test_the_time_of_a_deleted_consumer_holds_nothing(world: ConsumerWorld) -> None:
    # The times of more consumers would be removed together; those of few stay in the row.
    def consume() -> None:
        world.consumer("E", durable_name=None, inactive_threshold=3600 * NS)
        world.delete("E")
        world.advance(1)

    assert left_behind(consume) == {}


def test_pull_requests_are_freed(world: ConsumerWorld) -> None:
    world.consumer("C", ack_policy="none")

    def pull() -> None:
        world.publish(1)
        world.pull("C", batch=3, expires=NS)
        world.pull("C", no_wait=True)
        world.pull("C", batch=-1)
        world.advance(2)

    assert left_behind(pull) == {}


def test_requests_are_freed(world: ConsumerWorld) -> None:
    def ask() -> None:
        for call in (
            "INFO",
            "STREAM.NAMES",
            "STREAM.INFO.S",
            "STREAM.INFO.NONE",
            "CONSUMER.LIST.S",
        ):
            world.request(API + call)
        world.request(f"{API}STREAM.MSG.GET.S", {"seq": 1})
        world.request(f"{API}STREAM.CREATE.X", {"name": "a b"})
        world.request(f"{API}STREAM.CREATE.X", [])
        world.say(b"PUB $JS.API.DIRECT.GET.S inbox.1 13\r\n" + b'{"batch":100}' + b"\r\n")
        world.advance(1)

    assert left_behind(ask) == {}


# --- streams ------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["file", "memory"])
@pytest.mark.parametrize("sync_always", [False, True])
def test_a_stream_that_is_deleted_is_freed_with_its_ids_and_consumers(
    storage: str, sync_always: bool
) -> None:
    world = ConsumerWorld(Options(jetstream=streaming(sync_always=sync_always)))
    header = b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n"

    def churn() -> None:
        world.with_stream(storage=storage, max_age=10**15, allow_msg_ttl=True, allow_atomic=True)
        world.consumer("E", durable_name=None, inactive_threshold=3600 * NS)
        world.consumer("P", deliver_subject="push")
        for number in range(3):
            block = header % number
            line = b"HPUB s.a inbox.1 %d %d\r\n%b\r\n" % (len(block), len(block), block)
            world.caller.send(line)
        world.caller.send(BATCH_BEGUN)
        world.pull("E", batch=9, expires=3600 * NS)
        # Publishes are on their way in when the stream goes, and some are for its successor.
        world.caller.push(b"PUB s.a inbox.1 1\r\nx\r\n")
        world.request(f"{API}STREAM.DELETE.S")
        world.caller.send(b"PUB s.a inbox.1 1\r\nx\r\n")
        world.sync()
        world.advance(1)

    assert left_behind(churn) == {}
    assert world.complaints == []


def test_a_stream_of_many_subjects_that_is_deleted_is_freed() -> None:
    world = ConsumerWorld()

    def churn() -> None:
        world.with_stream()
        world.caller.send(b"".join(b"PUB s.%d 1\r\nx\r\n" % number for number in range(500)))
        world.request(f"{API}STREAM.INFO.S", {"subjects_filter": ">"})
        world.request(f"{API}STREAM.PURGE.S", {"filter": "s.7"})
        world.request(f"{API}STREAM.DELETE.S")
        world.advance(1)

    assert left_behind(churn) == {}


def test_backups_that_end_are_freed() -> None:
    world = ConsumerWorld().with_stream(storage="memory")
    world.publish(5)

    def back_up() -> None:
        world.request(f"{API}STREAM.SNAPSHOT.S", {"deliver_subject": "inbox.1"})
        world.advance(60)
        config = {"name": "R", "subjects": ["r"], "storage": "memory"}
        world.request(f"{API}STREAM.RESTORE.R", {"config": config, "state": {}})
        world.advance(60)

    assert left_behind(back_up) == {}
