"""Rules of replicated streams that one short story each shows."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from nats.errors import Error

from headwater.jetstream.records import StreamCreated
from headwater.server.cluster.assignment import meta_requests
from headwater.server.configuration.options import Options
from headwater.testing import Cluster, World

ANSWER_S = 2.0
BEHIND_S = 3_600.0
DAY_S = 24 * 3_600.0
ONE = bytes(15) + b"\1"


def tagged(options: Options) -> Options:
    return replace(options, server_tags=(options.server_name,))


async def call(client: Any, operation: str, **body: Any) -> Any:
    data = json.dumps(body).encode() if body else b""
    reply = await client.request(f"$JS.API.{operation}", data, timeout=5.0)
    return json.loads(reply.data)


async def created(cluster: Cluster, replicas: int, **config: Any) -> Any:
    """A client of the first server, and a stream of which that server has a replica."""
    await cluster.start()
    client = await cluster.connect(1)
    body = {"name": "S", "subjects": ["s"], "num_replicas": replicas, **config}
    answer = await call(client, "STREAM.CREATE.S", **body)
    assert "error" not in answer, answer
    return client


async def leader_of(client: Any) -> str:
    return str((await call(client, "STREAM.INFO.S"))["cluster"].get("leader", ""))


async def is_acked(client: Any, body: bytes) -> bool:
    """Whether a publish is confirmed."""
    try:
        reply = await client.request("s", body, timeout=ANSWER_S)
    except (Error, OSError, TimeoutError):
        return False
    return "seq" in json.loads(reply.data)


async def is_acked_soon(client: Any, body: bytes) -> bool:
    """Whether one of several publishes is confirmed: an election may come before it."""
    for _ in range(5):
        if await is_acked(client, body):
            return True
        await asyncio.sleep(1.0)
    return False


def test_four_replicas_go_on_without_one_of_them_and_not_without_two() -> None:
    async def main(world: World) -> None:
        cluster = Cluster(world, 4)
        client = await created(cluster, 4)
        assert await is_acked_soon(client, b"1")
        cluster.kill(4)
        assert await is_acked_soon(client, b"2")
        cluster.kill(3)
        # The leader is one of those that are left, or nobody is.
        await asyncio.sleep(5.0)
        for _ in range(3):
            assert not await is_acked(client, b"3")
        await cluster.restart(3)
        assert await is_acked_soon(client, b"4")
        await client.close()

    World(4, virtual_s_max=600.0).run(main)


def test_times_do_not_go_back_when_the_next_leader_has_a_clock_that_is_behind() -> None:
    async def main(world: World) -> None:
        cluster = Cluster(world, 3)
        client = await created(cluster, 3)
        assert await is_acked_soon(client, b"1")
        first = await leader_of(client)
        for name in cluster.names:
            if name != first:
                world.jump_wall_clock(name, -BEHIND_S)
        await call(client, "STREAM.LEADER.STEPDOWN.S")
        await asyncio.sleep(3.0)
        assert await leader_of(client) not in ("", first)
        assert await is_acked_soon(client, b"2")
        await asyncio.sleep(3.0)
        for replica in cluster.replicas("S"):
            one, other = (replica.messages[sequence].time_ns for sequence in (1, 2))
            assert one == other
        await client.close()

    World(5, virtual_s_max=600.0).run(main)


def ids_of(cluster: Cluster) -> list[object]:
    """The message ids that count on each replica."""
    return [replica.state["ids"] for replica in cluster.replicas("S")]


def test_message_ids_count_on_all_replicas_alike_whatever_their_clocks_show() -> None:
    async def main(world: World) -> None:
        cluster = Cluster(world, 3)
        client = await created(cluster, 3)
        first = await leader_of(client)
        headers = {"Nats-Msg-Id": "one"}
        reply = await client.request("s", b"1", headers=headers, timeout=ANSWER_S)
        assert json.loads(reply.data)["seq"] == 1
        other = next(name for name in cluster.names if name not in (first, "s1"))
        cluster.kill(cluster.names.index(other) + 1)
        for name in (first, other):
            world.jump_wall_clock(name, DAY_S)
        await cluster.restart(cluster.names.index(other) + 1)
        await asyncio.sleep(30.0)
        assert all(ids_of(cluster)), ids_of(cluster)
        assert len(ids_of(cluster)) == 3
        for name in (first, other):
            world.jump_wall_clock(name, -DAY_S)
        reply = await client.request("s", b"1", headers=headers, timeout=ANSWER_S)
        assert json.loads(reply.data) == {"stream": "S", "seq": 1, "duplicate": True}
        await client.close()

    World(6, virtual_s_max=600.0).run(main)


def test_a_move_during_a_move_and_a_scale_with_a_move_are_refused_by_name() -> None:
    async def main(world: World) -> None:
        cluster = Cluster(world, 5, configure=tagged)
        client = await created(cluster, 1, placement={"tags": ["s1"]})
        assert await is_acked_soon(client, b"1")
        config = {"name": "S", "subjects": ["s"]}
        both = {**config, "num_replicas": 3, "placement": {"tags": ["s2"]}}
        refused = await call(client, "STREAM.UPDATE.S", **both)
        assert refused["error"] == {
            "code": 400,
            "err_code": 10123,
            "description": "can not move and scale a stream in a single update",
        }
        # The new server is cut off, so that the move does not end.
        cluster.isolate(2)
        await asyncio.sleep(0.1)
        moved = {**config, "num_replicas": 1, "placement": {"tags": ["s2"]}}
        answer = await call(client, "STREAM.UPDATE.S", **moved)
        assert "error" not in answer, answer
        again = {**config, "num_replicas": 1, "placement": {"tags": ["s3"]}}
        refused = await call(client, "STREAM.UPDATE.S", **again)
        assert refused["error"] == {
            "code": 400,
            "err_code": 10124,
            "description": "stream move already in progress",
        }
        cluster.heal()
        await cluster.ready()
        assert await is_acked_soon(client, b"2")
        await client.close()

    World(6, virtual_s_max=600.0).run(main)


async def created_again(world: World) -> list[int]:
    """The last sequences of all replicas of a stream that was deleted and created again while a
    server was away."""
    cluster = Cluster(world, 3)
    client = await created(cluster, 3)
    for number in range(5):
        assert await is_acked_soon(client, b"%d" % number)
    # The server has all five messages in its files.
    await asyncio.sleep(1.0)
    cluster.kill(3)
    await cluster.ready()
    await asyncio.sleep(2.0)
    assert (await call(client, "STREAM.DELETE.S"))["success"]
    body = {"name": "S", "subjects": ["s"], "num_replicas": 3}
    assert "error" not in await call(client, "STREAM.CREATE.S", **body)
    assert await is_acked_soon(client, b"again")
    await cluster.restart(3)
    await cluster.ready()
    await asyncio.sleep(10.0)
    await client.close()
    return [replica.last_sequence for replica in cluster.replicas("S")]


def test_a_server_that_was_away_has_the_stream_that_was_created_again() -> None:
    assert World(7, virtual_s_max=600.0).run(created_again) == [1, 1, 1]


def _no_incarnations(patch: pytest.MonkeyPatch) -> None:
    """Have all streams share one incarnation."""
    patch.setattr(
        meta_requests,
        "StreamCreated",
        lambda account, name, incarnation, *rest: StreamCreated(account, name, ONE, *rest),
    )


def test_without_incarnations_a_stream_is_taken_for_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _no_incarnations(monkeypatch)
    # The servers know that this stream was deleted, and have none.
    with pytest.raises(TimeoutError):
        World(7, virtual_s_max=600.0).run(created_again)


def test_without_incarnations_nothing_shows_while_no_stream_is_created_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _no_incarnations(monkeypatch)

    async def main(world: World) -> None:
        cluster = Cluster(world, 3)
        client = await created(cluster, 3)
        assert await is_acked_soon(client, b"1")
        await asyncio.sleep(3.0)
        assert [replica.last_sequence for replica in cluster.replicas("S")] == [1, 1, 1]
        await client.close()

    World(8, virtual_s_max=600.0).run(main)
