"""Replicas and consumers in memory live as long as the servers that have them."""

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from headwater.server.configuration.options import Options
from headwater.testing import Cluster, World

SYNC_S = 5.0
"""The time after which a replica counts on its files instead of the entries of its group."""
WAIT_S = 5.0
LOOKS_MAX = 100
ACKED = 3


def often_synced(options: Options) -> Options:
    return replace(options, jetstream=replace(options.jetstream, sync_interval_s=SYNC_S))


async def call(client: Any, operation: str, **body: Any) -> Any:
    reply = await client.request(f"$JS.API.{operation}", json.dumps(body).encode(), timeout=WAIT_S)
    return json.loads(reply.data)


async def scaled(client: Any, replicas: int) -> None:
    """Have so many servers hold the stream."""
    changed = await call(client, "STREAM.UPDATE.S", name="S", subjects=["s"], num_replicas=replicas)
    assert "error" not in changed, changed
    for _ in range(LOOKS_MAX):
        found = (await call(client, "STREAM.INFO.S"))["cluster"].get("replicas", ())
        if len(found) == replicas - 1 and all(each["current"] for each in found):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the stream has not so many replicas")


async def consumed(client: Any, replicas: int) -> None:
    """A stream with a consumer in memory, which has acknowledged some messages."""
    streams = client.jetstream()
    await streams.add_stream(name="S", subjects=["s"], num_replicas=replicas)
    for number in range(ACKED + 1):
        await streams.publish("s", str(number).encode())
    pulled = await streams.pull_subscribe("s", durable="M", stream="S", config=in_memory())
    for message in await pulled.fetch(ACKED):
        await message.ack_sync()


def in_memory() -> Any:
    from nats.js.api import ConsumerConfig

    return ConsumerConfig(mem_storage=True)


async def led_by_one_that_was_restarted(cluster: Cluster, client: Any) -> str:
    """Restart a follower of the stream, and have it lead. Returns its name."""
    found = (await call(client, "STREAM.INFO.S"))["cluster"]
    name = found["replicas"][0]["name"]
    number = cluster.names.index(name) + 1
    # Its files have the effects of all entries by then.
    await asyncio.sleep(2 * SYNC_S)
    cluster.kill(number)
    await cluster.ready()
    await cluster.restart(number)
    await cluster.ready()
    for _ in range(LOOKS_MAX):
        body = {"placement": {"preferred": name}}
        if "error" not in await call(client, "STREAM.LEADER.STEPDOWN.S", **body):
            break
        await asyncio.sleep(0.1)
    for _ in range(LOOKS_MAX):
        # A request that falls into an election may get no answer.
        with suppress(TimeoutError):
            if (await call(client, "STREAM.INFO.S"))["cluster"]["leader"] == name:
                return str(name)
        await asyncio.sleep(0.1)
    raise AssertionError(f"{name} does not lead")


@pytest.mark.parametrize("replicas", [3, 1], ids=["created with three", "scaled to three"])
def test_a_consumer_in_memory_lives_as_long_as_one_replica(replicas: int) -> None:
    async def main(world: World) -> None:
        cluster = Cluster(world, configure=often_synced)
        await cluster.start()
        client = await cluster.connect()
        await consumed(client, replicas)
        if replicas == 1:
            await scaled(client, 3)
        for _ in range(2):
            await led_by_one_that_was_restarted(cluster, client)
            found = await call(client, "CONSUMER.INFO.S.M")
            assert "error" not in found, found
            assert found["ack_floor"]["stream_seq"] == ACKED
            assert found["num_pending"] == 1
        await client.close()

    World(21, virtual_s_max=600.0).run(main)


def test_a_stream_in_memory_lives_as_long_as_a_majority_runs() -> None:
    async def main(world: World) -> None:
        cluster = Cluster(world, configure=often_synced)
        await cluster.start()
        client = await cluster.connect()
        streams = client.jetstream()
        await streams.add_stream(name="S", subjects=["s"], num_replicas=3, storage="memory")
        for number in range(1, 4):
            await streams.publish("s", b"x")
            await led_by_one_that_was_restarted(cluster, client)
            assert (await call(client, "STREAM.INFO.S"))["state"]["messages"] == number
        await client.close()

    World(23, virtual_s_max=600.0).run(main)


def test_a_consumer_in_memory_ends_with_the_process_once_one_server_has_the_stream() -> None:
    async def main(world: World) -> None:
        cluster = Cluster(world, configure=often_synced)
        await cluster.start()
        client = await cluster.connect()
        await consumed(client, 3)
        await scaled(client, 1)
        name = (await call(client, "STREAM.INFO.S"))["cluster"]["leader"]
        await asyncio.sleep(2 * SYNC_S)
        number = cluster.names.index(name) + 1
        cluster.kill(number)
        await cluster.ready()
        await cluster.restart(number)
        await cluster.ready()
        await asyncio.sleep(WAIT_S)
        found = await call(client, "STREAM.INFO.S")
        assert found["state"]["consumer_count"] == 0
        await client.close()

    World(22, virtual_s_max=600.0).run(main)
