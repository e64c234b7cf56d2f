"""Real nats-py clients live in the world, on its clock and its random numbers."""

import asyncio
import datetime
import os
import random
import secrets
import time
import types
import uuid

import nats
import pytest
from nats.aio import client as nats_client
from nats.js import object_store as nats_object_store
from nats.nuid import NUID

from headwater.testing import World
from headwater.testing.nats_py import nats_modules
from tests.unit.testing.nats_stand_in import StandIn, connect

# All that a module could read a clock or draw random numbers with: the kit must have replaced it.
WILD: tuple[object, ...] = (
    time, time.time, time.monotonic, time.perf_counter, time.time_ns, time.monotonic_ns,
    random, random.random, random.shuffle, random.choice, random.randint,
    secrets, secrets.token_hex, secrets.token_bytes, secrets.randbelow,
    uuid, uuid.uuid1, uuid.uuid4, os, os.urandom, datetime, datetime.datetime,
)  # fmt: skip


def wild_globals() -> set[tuple[str, str]]:
    found = set()
    for module in nats_modules():
        for name, value in vars(module).items():
            if any(value is wild for wild in WILD):
                found.add((module.__name__, name))
    return found


def test_every_clock_and_die_of_the_package_is_replaced_and_given_back() -> None:
    async def main(world: World) -> set[tuple[str, str]]:
        return wild_globals()

    before = wild_globals()
    assert ("nats.aio.client", "time") in before
    assert ("nats.aio.client", "shuffle") in before
    assert ("nats.nuid", "token_bytes") in before
    assert ("nats.aio.subscription", "uuid4") in before
    assert World(1).run(main) == set()
    assert wild_globals() == before


def test_everything_is_given_back_after_a_failure() -> None:
    async def main(world: World) -> None:
        raise ValueError("failed")

    before = wild_globals()
    with pytest.raises(ValueError, match="failed"):
        World(1).run(main)
    assert wild_globals() == before


def test_clocks_of_the_package_are_those_of_the_calling_host() -> None:
    async def main(world: World) -> None:
        host = world.host("a")
        package_time: types.ModuleType = vars(nats_client)["time"]
        package_datetime = vars(nats_object_store)["datetime"]
        world.jump_wall_clock("a", 3600)
        begin_s = host.call(package_time.monotonic)
        wall_s = host.call(package_time.time)
        assert wall_s == pytest.approx(host.clock.wall_ns() / 1e9)
        assert world.here().clock.wall_ns() / 1e9 == pytest.approx(wall_s - 3600)
        now = host.call(package_datetime.now, datetime.UTC)
        assert isinstance(now, datetime.datetime)
        assert now.timestamp() == pytest.approx(wall_s, abs=1e-3)
        assert host.call(package_datetime.utcnow).tzinfo is None
        await asyncio.sleep(7)
        assert host.call(package_time.monotonic) - begin_s == pytest.approx(7, abs=0.01)
        with pytest.raises(RuntimeError, match="blocking sleep"):
            package_time.sleep(1)

    World(1).run(main)


def test_identifiers_follow_the_seed() -> None:
    async def main(world: World) -> bytes:
        return bytes(NUID().next())

    assert World(1).run(main) == World(1).run(main)
    assert World(1).run(main) != World(2).run(main)


def test_an_hour_of_a_connected_client(capsys: pytest.CaptureFixture[str]) -> None:
    async def client() -> None:
        connection = await connect()
        await asyncio.sleep(3600)
        assert connection.is_connected
        await connection.close()

    async def main(world: World) -> None:
        await world.host("server-1").run(StandIn().start())
        await world.host("client-1").run(client())

    begin_s = time.perf_counter()
    world = World(1)
    world.run(main)
    spent_ms = 1000 * (time.perf_counter() - begin_s)
    assert world.now_s() > 3600
    with capsys.disabled():
        print(f"\n[an hour of a connected client, pinging every 2 s: {spent_ms:.0f} ms]")


def test_a_client_survives_a_restarted_server() -> None:
    async def client(reconnected: asyncio.Event) -> None:
        connection = await connect()
        subscription = await connection.subscribe("news")
        await reconnected.wait()
        await connection.flush()
        await connection.publish("news", b"again")
        message = await subscription.next_msg(timeout=5)
        assert message.data == b"again"
        assert connection.stats["reconnects"] == 1
        await connection.close()

    async def main(world: World) -> None:
        server = world.host("server-1")
        server.boot = lambda: StandIn().start()
        await server.run(server.boot())
        reconnected = asyncio.Event()
        done = asyncio.ensure_future(world.host("client-1").run(client(reconnected)))
        await asyncio.sleep(1)
        world.crash("server-1")
        await asyncio.sleep(3)
        world.restart("server-1")
        await asyncio.sleep(3)
        reconnected.set()
        await done

    World(1).run(main)


def test_a_client_notices_a_silent_server_by_its_pings() -> None:
    async def main(world: World) -> None:
        await world.host("server-1").run(StandIn().start())
        connection = await world.host("client-1").run(connect())
        await asyncio.sleep(1)
        world.network.isolate("server-1")
        await asyncio.sleep(20)
        assert connection.is_reconnecting
        world.network.heal()
        await asyncio.sleep(20)
        assert connection.is_connected
        await world.host("client-1").run(connection.close())

    World(1).run(main)


def test_streams_that_a_failed_reconnect_forgets_do_not_fail_the_run() -> None:
    async def main(world: World) -> None:
        server = world.host("server-1")
        server.boot = lambda: StandIn().start()
        await server.run(server.boot())
        connection = await world.host("client-1").run(connect())
        # The kernel completes the handshake, and nobody ever sends INFO.
        world.pause("server-1")
        await asyncio.sleep(30)
        assert not connection.is_connected
        world.resume("server-1")
        await asyncio.sleep(10)
        assert connection.is_connected
        await world.host("client-1").run(connection.close())

    World(1).run(main)


def test_the_package_is_the_one_installed() -> None:
    assert nats in nats_modules()
