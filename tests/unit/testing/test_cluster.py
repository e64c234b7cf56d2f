"""A cluster of real servers in a simulated world."""

import asyncio
from dataclasses import replace

import pytest

from headwater.server.configuration.options import Options
from headwater.testing import Cluster, ClusterNotReady, World


async def started(world: World, count: int = 3) -> Cluster:
    cluster = Cluster(world, count)
    await cluster.start()
    return cluster


def test_servers_that_start_agree_on_a_leader() -> None:
    async def main(world: World) -> None:
        cluster = await started(world, 5)
        assert cluster.leader in range(1, 6)
        assert cluster.is_ready()
        assert all("Server is ready" in "\n".join(cluster.logs[name]) for name in cluster.names)

    World(1).run(main)


def test_clients_of_two_servers_hear_each_other() -> None:
    async def main(world: World) -> None:
        cluster = await started(world)
        listener, speaker = await cluster.connect(1), await cluster.connect(3)
        heard = await listener.subscribe("news")
        await listener.flush()
        await speaker.flush()
        await speaker.publish("news", b"x")
        assert (await heard.next_msg(timeout=5)).data == b"x"

    World(2).run(main)


def test_a_server_that_was_killed_keeps_its_files_and_joins_again() -> None:
    async def main(world: World) -> None:
        cluster = await started(world)
        client = await cluster.connect(1)
        await client.jetstream().add_stream(name="S", subjects=["s"])
        for _ in range(3):
            await client.jetstream().publish("s", b"x")
        await client.close()
        [before] = cluster.replicas("S")
        number = cluster.names.index(before.server) + 1
        cluster.kill(number)
        assert not cluster.is_running(number)
        await cluster.ready()
        assert cluster.leader in {1, 2, 3} - {number}
        await cluster.restart(number)
        await cluster.ready()
        [replica] = cluster.replicas("S")
        assert (replica.server, replica.last_sequence) == (before.server, 3)
        assert [each.body for each in replica.messages.values()] == ["x"] * 3

    World(3).run(main)


@pytest.mark.parametrize(("seed", "fault"), [(4, "cut"), (5, "pause")])
def test_a_leader_that_is_cut_off_or_paused_is_replaced(seed: int, fault: str) -> None:
    async def main(world: World) -> None:
        cluster = await started(world)
        old = cluster.leader
        others = [number for number in (1, 2, 3) if number != old]
        if fault == "cut":
            cluster.isolate(old)
        else:
            cluster.pause(old)
        await asyncio.sleep(10)
        assert not cluster.is_ready()
        leaders = {leader_seen_by(cluster, number) for number in others}
        assert len(leaders) == 1
        assert leaders < {cluster.name_of(number) for number in others}
        cluster.heal()
        cluster.resume(old)
        await cluster.ready()

    World(seed).run(main)


def leader_seen_by(cluster: Cluster, number: int) -> str:
    consensus = cluster.server(number).node.consensus
    assert consensus is not None
    return consensus.meta_leader


def test_a_cut_in_one_direction_ends_by_heal() -> None:
    async def main(world: World) -> None:
        cluster = await started(world)
        cluster.cut(1, 2, "forward")
        await asyncio.sleep(10)
        with pytest.raises(ClusterNotReady, match="running: s1, s2, s3"):
            await cluster.ready(wait_s=0)
        cluster.heal()
        await cluster.ready()

    World(5).run(main)


def test_the_options_of_servers_can_be_changed() -> None:
    def configure(options: Options) -> Options:
        return replace(options, jetstream=replace(options.jetstream, sync_always=True))

    async def main(world: World) -> None:
        cluster = Cluster(world, 3, configure=configure)
        await cluster.start()
        assert cluster.server(2).options.jetstream.sync_always

    World(6).run(main)


def test_a_stream_that_is_nowhere_has_no_replicas() -> None:
    async def main(world: World) -> None:
        assert (await started(world)).replicas("NONE") == []

    World(7).run(main)


def test_one_seed_is_one_run() -> None:
    async def main(world: World) -> None:
        cluster = await started(world)
        cluster.kill(2, "power")
        await cluster.restart(2)
        await cluster.ready()

    hashes = []
    for _ in range(2):
        world = World(8)
        world.run(main)
        hashes.append(world.trace_hash)
    assert hashes[0] == hashes[1]
