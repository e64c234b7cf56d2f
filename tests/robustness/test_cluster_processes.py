"""Clusters of real processes under load survive the loss of any minority of their servers.

After each round nothing that was acked is lost, every client goes on, and all replicas are current.
In the end every replica is read while its server leads, and the checker judges the whole history.
`FAILOVER_ROUNDS` is the number of rounds of each test; without it, a test has one to three.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.kit.link_proxies import LinkProxies
from tests.robustness.cluster_load import Load, loaded
from tests.robustness.cluster_processes import ClusterProcesses, cluster_processes

# nats-py leaves the connection open that it gives up because a paused server does not greet it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ROUNDS: Final = int(os.environ.get("FAILOVER_ROUNDS", "0"))
SLOW_S: Final = 0.1

Fault = Callable[[ClusterProcesses, Load, Sequence[str]], Awaitable[None]]


@asynccontextmanager
async def running(
    directory: Path,
    servers: int,
    replicas: int,
    *,
    is_synced: bool = False,
    has_proxies: bool = False,
) -> AsyncIterator[tuple[ClusterProcesses, Load]]:
    """A cluster with clients at work, whose history is judged in the end."""
    async with (
        cluster_processes(
            directory, servers, is_synced=is_synced, has_proxies=has_proxies
        ) as cluster,
        loaded(cluster.urls, replicas) as load,
    ):
        await load.is_whole(replicas)
        await load.goes_on()
        yield cluster, load


def rounds(few: int, kinds: int = 1) -> range:
    """The numbers of the rounds: few of each kind, unless the environment asks for more."""
    return range((ROUNDS or few) * kinds)


async def recover(load: Load, replicas: int) -> None:
    """Wait until all is well after a fault, and check the stream."""
    await load.goes_on()
    await load.is_whole(replicas)
    await load.check_acked()


async def victims_of(cluster: ClusterProcesses, load: Load, number: int, count: int) -> list[str]:
    """The servers of a round: the stream's leader in the first one, then each of the others."""
    place = cluster.names.index(await load.leader()) + number
    return [cluster.names[(place + each) % len(cluster.names)] for each in range(count)]


# --- faults ------------------------------------------------------------------------------------


async def kill(cluster: ClusterProcesses, load: Load, names: Sequence[str]) -> None:
    """Kill servers, and start them again."""
    await cluster.kill(*names)
    await load.goes_on()
    await cluster.launch(*names)


async def pause(cluster: ClusterProcesses, load: Load, names: Sequence[str]) -> None:
    """Pause servers until all clients have gone on without them, and let them continue."""
    cluster.pause(*names)
    await load.goes_on()
    cluster.resume(*names)


def cut(proxies: LinkProxies, names: Sequence[str]) -> None:
    """Let nothing pass between servers and others."""
    proxies.cut(proxies.outgoing(names) + proxies.incoming(names))


def cut_outgoing(proxies: LinkProxies, names: Sequence[str]) -> None:
    """Let nothing pass that servers send to others."""
    proxies.cut(proxies.outgoing(names))


def cut_incoming(proxies: LinkProxies, names: Sequence[str]) -> None:
    """Let nothing pass that others send to servers."""
    proxies.cut(proxies.incoming(names))


def break_links(proxies: LinkProxies, names: Sequence[str]) -> None:
    """Reset the links of servers to others, and refuse new ones."""
    proxies.break_links(proxies.outgoing(names))


async def slow_down(cluster: ClusterProcesses, load: Load, names: Sequence[str]) -> None:
    """Let all that servers send and receive wait."""
    proxies = cluster.proxies
    assert proxies is not None
    proxies.slow_down(proxies.outgoing(names) + proxies.incoming(names), SLOW_S)
    await load.goes_on()
    proxies.heal()


def isolation(damage: Callable[[LinkProxies, Sequence[str]], None]) -> Fault:
    """The fault of links that are damaged until the other servers go on without some."""

    async def isolate(cluster: ClusterProcesses, load: Load, names: Sequence[str]) -> None:
        proxies = cluster.proxies
        assert proxies is not None
        damage(proxies, names)
        for name in cluster.names:
            if name not in names:
                await load.is_served_by(name, without=names)
        proxies.heal()

    isolate.__name__ = damage.__name__
    return isolate


CUTS: Final = tuple(isolation(each) for each in (cut, cut_incoming, cut_outgoing, break_links))


async def rounds_of(
    directory: Path,
    faults: Sequence[Fault],
    servers: int = 3,
    victims: int = 1,
    count: range = rounds(2),
    has_proxies: bool = False,
) -> None:
    """Rounds of faults during which clients go on."""
    async with running(directory, servers, servers, has_proxies=has_proxies) as (cluster, load):
        for number in count:
            names = await victims_of(cluster, load, number, victims)
            fault = faults[number % len(faults)]
            print(f"round {number}: {fault.__name__} {names}")
            await fault(cluster, load, names)
            await recover(load, servers)
        await load.finish(servers)


# --- rules -------------------------------------------------------------------------------------


def test_any_one_of_three_servers_may_be_killed(tmp_path: Path) -> None:
    asyncio.run(rounds_of(tmp_path, [kill]))


def test_any_one_of_three_servers_may_be_paused(tmp_path: Path) -> None:
    asyncio.run(rounds_of(tmp_path, [pause]))


def test_any_one_of_three_servers_may_be_cut_off(tmp_path: Path) -> None:
    asyncio.run(rounds_of(tmp_path, CUTS, has_proxies=True))


def test_links_of_any_one_of_three_servers_may_be_slow(tmp_path: Path) -> None:
    asyncio.run(rounds_of(tmp_path, [slow_down], count=rounds(1), has_proxies=True))


def test_any_two_of_five_servers_may_be_lost(tmp_path: Path) -> None:
    """Kills, pauses and cuts take turns, so that each cluster meets them all."""
    faults = [fault for each in CUTS for fault in (kill, pause, each)]
    count = rounds(2, kinds=3)
    asyncio.run(rounds_of(tmp_path, faults, servers=5, victims=2, count=count, has_proxies=True))


@pytest.mark.parametrize("is_synced", [True, False], ids=["always", "interval"])
def test_all_servers_may_be_killed_at_once(tmp_path: Path, is_synced: bool) -> None:
    async def main() -> None:
        async with running(tmp_path, 3, 3, is_synced=is_synced) as (cluster, load):
            for _ in rounds(1):
                await cluster.kill(*cluster.names)
                await cluster.launch(*cluster.names)
                await recover(load, 3)
            await load.finish(3)

    asyncio.run(main())


def test_servers_may_be_restarted_one_after_another(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, 3, 3) as (cluster, load):
            for _ in rounds(1):
                for name in cluster.names:
                    await cluster.stop(name)
                    await cluster.launch(name)
                    await load.is_whole(3)
                await recover(load, 3)
            await load.finish(3)

    asyncio.run(main())


def test_an_emptied_server_is_filled_again_and_then_counts(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, 3, 3) as (cluster, load):
            for number in rounds(1):
                [name] = await victims_of(cluster, load, number, 1)
                await cluster.kill(name)
                cluster.empty(name)
                await cluster.launch(name)
                await recover(load, 3)
                # The quorum needs the server that was filled.
                other = cluster.names[cluster.names.index(name) - 1]
                await kill(cluster, load, [other])
                await recover(load, 3)
            await load.finish(3)

    asyncio.run(main())


def test_a_stream_may_be_scaled_under_load(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, 5, 1) as (_, load):
            for _ in rounds(1):
                for replicas in (3, 5, 1):
                    await load.scale(replicas)
                    await recover(load, replicas)
            await load.finish(1)

    asyncio.run(main())
