"""Hosts stop, die, come back, and disagree about the time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from headwater.base.clock import NS_PER_S, Clock
from headwater.base.entropy import Entropy
from headwater.base.errors import ProgrammerError
from headwater.runtime.environment import Files, Network, Process, Scheduler
from headwater.testing import HostCrashed, World, simulated_environment

PORT = 4222


async def echo_server() -> asyncio.AbstractServer:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
        writer.close()

    return await asyncio.start_server(serve, "0.0.0.0", PORT)


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected(world: World) -> AsyncIterator[Streams]:
    """An echo server on host "b", and a connection to it from host "a"."""
    await world.host("b").run(echo_server())
    reader, writer = await world.host("a").run(asyncio.open_connection("b", PORT))
    try:
        yield reader, writer
    finally:
        writer.close()


def test_a_paused_host_stands_still_and_catches_up() -> None:
    async def main(world: World) -> None:
        loop = asyncio.get_running_loop()
        ticks: list[float] = []

        async def tick() -> None:
            for _ in range(10):
                await asyncio.sleep(1)
                ticks.append(loop.time())

        begin_s = loop.time()
        task = world.host("b").spawn(tick())
        await asyncio.sleep(2.5)
        world.pause("b")
        await asyncio.sleep(10)
        assert len(ticks) == 2
        world.resume("b")
        await task
        # The third tick was due at 3 s; the clock went on meanwhile.
        assert ticks[2] - begin_s == pytest.approx(12.5, abs=0.01)
        assert ticks[3] - begin_s == pytest.approx(13.5, abs=0.01)

    World(1).run(main)


def test_the_kernel_of_a_paused_host_goes_on() -> None:
    async def main(world: World) -> None:
        async with connected(world) as (reader, writer):
            world.pause("b")
            writer.write(b"wait for me\n")
            late = await world.host("a").run(asyncio.open_connection("b", PORT))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.readline(), 100)
            world.resume("b")
            assert await reader.readline() == b"wait for me\n"
            late[1].write(b"accepted after all\n")
            assert await late[0].readline() == b"accepted after all\n"
            late[1].close()

    World(1).run(main)


def test_the_buffers_of_a_paused_host_fill_up() -> None:
    async def main(world: World) -> None:
        async with connected(world) as (_, writer):
            world.pause("b")
            writer.write(bytes(1_000_000))
            await asyncio.sleep(10)
            transport = writer.transport
            kernel_bytes = world.network.settings.socket_buffer_bytes
            assert transport.get_write_buffer_size() == 1_000_000 - kernel_bytes

    World(1).run(main)


def test_a_killed_host_runs_nothing_more() -> None:
    log: list[str] = []

    async def works() -> None:
        try:
            await asyncio.sleep(1)
            log.append("worked")
        finally:
            log.append("cleaned up")

    async def main(world: World) -> None:
        host = world.host("b")
        host.spawn(works())
        await asyncio.sleep(0.5)
        assert host.alive
        world.crash("b")
        assert not host.alive
        await asyncio.sleep(10)
        assert log == []
        with pytest.raises(HostCrashed):
            host.spawn(works())

    World(1).run(main)


def test_who_waits_for_a_host_hears_of_its_death() -> None:
    async def main(world: World) -> None:
        answer = asyncio.ensure_future(world.host("b").run(asyncio.sleep(10)))
        await asyncio.sleep(1)
        world.crash("b")
        with pytest.raises(HostCrashed, match="b"):
            await answer

    World(1).run(main)


def test_giving_up_waiting_cancels_what_runs_on_the_host() -> None:
    log: list[str] = []

    async def works() -> None:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    async def main(world: World) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(world.host("b").run(works()), 1)
        await asyncio.sleep(1)

    World(1).run(main)
    assert log == ["cancelled"]


def test_errors_come_back_from_a_host() -> None:
    async def fails() -> None:
        raise ValueError("on b")

    async def main(world: World) -> None:
        with pytest.raises(ValueError, match="on b"):
            await world.host("b").run(fails())

    World(1).run(main)


def test_a_killed_process_ends_its_connections() -> None:
    async def main(world: World) -> None:
        async with connected(world) as (reader, _):
            world.crash("b")
            assert await reader.read() == b""
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("b", PORT)

    World(1).run(main)


def test_a_process_killed_with_unread_bytes_resets_its_connections() -> None:
    async def main(world: World) -> None:
        async with connected(world) as (reader, writer):
            world.pause("b")
            writer.write(b"unread\n")
            await asyncio.sleep(1)
            world.crash("b")
            with pytest.raises(ConnectionResetError):
                await reader.read()

    World(1).run(main)


def test_a_host_without_power_says_nothing_until_it_is_back() -> None:
    async def main(world: World) -> None:
        async with connected(world) as (reader, writer):
            world.crash("b", "power")
            writer.write(b"anybody?\n")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(), 600)
            attempt = asyncio.ensure_future(asyncio.open_connection("b", PORT))
            world.restart("b")
            with pytest.raises(ConnectionResetError):
                await reader.read()
            with pytest.raises(ConnectionRefusedError):
                await attempt

    World(1).run(main)


def test_restart_boots_and_keeps_the_disk() -> None:
    async def main(world: World) -> None:
        host = world.host("b")
        host.boot = echo_server
        host.files.replace_bytes("file", b"kept")
        await host.run(echo_server())
        world.crash("b", "power")
        await asyncio.sleep(5)
        booted = world.restart("b")
        assert booted is not None
        await booted
        reader, writer = await asyncio.open_connection("b", PORT)
        writer.write(b"again\n")
        assert await reader.readline() == b"again\n"
        writer.close()
        assert host.files.read_bytes("file") == b"kept"
        with pytest.raises(ProgrammerError, match="is running"):
            world.restart("b")

    World(1).run(main)


def test_no_fault_touches_the_outside() -> None:
    async def main(world: World) -> None:
        with pytest.raises(ProgrammerError, match="outside"):
            world.crash("outside")
        with pytest.raises(ProgrammerError, match="no host"):
            world.pause("never mentioned")

    World(1).run(main)


def test_everything_on_a_host_drifts_together() -> None:
    async def main(world: World) -> None:
        host = world.host("b")
        loop = asyncio.get_running_loop()
        world.drift("b", 0.5)
        begin_s, begin_ns = loop.time(), host.clock.monotonic_ns()
        await host.run(asyncio.sleep(10))
        assert loop.time() - begin_s == pytest.approx(20, abs=0.01)
        passed_ns = host.clock.monotonic_ns() - begin_ns
        assert passed_ns / NS_PER_S == pytest.approx(10, abs=0.01)
        world.drift("b", 1.0)
        before_s = host.call(loop.time)
        await asyncio.sleep(5)
        assert host.call(loop.time) - before_s == pytest.approx(5, abs=0.01)

    World(1).run(main)


def test_a_wall_clock_jumps_and_a_monotonic_one_does_not() -> None:
    async def main(world: World) -> None:
        clock = world.host("b").clock
        monotonic_ns, wall_ns = clock.monotonic_ns(), clock.wall_ns()
        world.jump_wall_clock("b", -3600)
        assert clock.monotonic_ns() == monotonic_ns
        assert clock.wall_ns() == wall_ns - 3600 * NS_PER_S

    World(1).run(main)


def test_monotonic_clocks_of_two_hosts_have_nothing_in_common() -> None:
    world = World(1)
    a, b = world.host("a").clock, world.host("b").clock
    assert abs(a.monotonic_ns() - b.monotonic_ns()) > NS_PER_S
    assert a.wall_ns() == b.wall_ns()
    world.loop.end()


def test_an_environment_of_simulated_parts() -> None:
    async def main(world: World) -> bytes:
        host = world.host("b")
        environment = simulated_environment(world, host)
        parts: tuple[Clock, Entropy, Files, Network, Scheduler, Process] = (
            environment.clock,
            environment.entropy,
            environment.files,
            environment.network,
            environment.scheduler,
            environment.process,
        )
        assert environment.process.pid() > 0
        assert len(parts) == 6
        answers: list[int] = []
        environment.scheduler.offload(lambda: 42, answers.append)
        environment.scheduler.call_later(1.0, lambda: answers.append(2))
        environment.scheduler.call_soon(lambda: answers.append(1))
        await asyncio.sleep(2)
        assert answers == [1, 42, 2]
        listener = await host.run(environment.network.listen("0.0.0.0", -1, asyncio.Protocol))
        _, writer = await asyncio.open_connection("b", listener.port)
        writer.close()
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("b", listener.port)
        assert environment.entropy.below(1) == 0
        return environment.entropy.random_bytes(16)

    assert World(1).run(main) == World(1).run(main)
    assert World(1).run(main) != World(2).run(main)


def test_dice_differ_after_every_boot() -> None:
    async def main(world: World) -> None:
        host = world.host("b")
        first = simulated_environment(world, host).entropy.random_bytes(16)
        world.crash("b")
        world.restart("b")
        assert simulated_environment(world, host).entropy.random_bytes(16) != first

    World(1).run(main)
