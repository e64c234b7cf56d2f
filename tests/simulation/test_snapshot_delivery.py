"""A snapshot meets clients that are late, slow, gone, or take the stream away."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from headwater.server.configuration.options import JetStreamOptions, Options
from headwater.server.lifecycle import Server
from headwater.testing import World, simulated_environment
from tests.simulation.core_scenario import connected

MESSAGES = 40
MESSAGE_BYTES = 1_000
CHUNK_BYTES = 1_024
COMPLETE = "$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.S"

Document = dict[str, Any]


class Scene:
    """A server with a stream of some 40 chunks, and a client."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.chunks: asyncio.Queue[Msg] = asyncio.Queue()
        self.endings: asyncio.Queue[Msg] = asyncio.Queue()

    async def start(self) -> None:
        host = self.world.host("server")
        options = Options(
            host="0.0.0.0",
            port=4222,
            jetstream=JetStreamOptions(enabled=True, store_dir="/data"),
        )

        async def boot() -> None:
            environment = simulated_environment(self.world, host)
            await Server(options, environment, lambda line: None).start()

        await host.run(boot())
        self.client = await connected()
        await self.client.subscribe(COMPLETE, cb=self.endings.put)
        await self.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        for _ in range(MESSAGES):
            await self.client.request("s", bytes(MESSAGE_BYTES))

    async def ask(self, call: str, body: Document | None = None) -> Document:
        payload = b"" if body is None else json.dumps(body).encode()
        reply = await self.client.request(f"$JS.API.{call}", payload, timeout=1)
        found: Document = json.loads(reply.data)
        assert "error" not in found, found
        return found

    async def listen(self, client: NatsClient | None = None) -> None:
        await (client or self.client).subscribe("d", cb=self.chunks.put)

    async def begin(self, window: int = 4 * CHUNK_BYTES) -> None:
        sizes = {"chunk_size": CHUNK_BYTES, "window_size": window}
        await self.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "d", **sizes})

    async def rest(self, acknowledging: bool = True) -> tuple[bytes, Msg]:
        """All further chunks, and the message that ends them."""
        data = b""
        while (chunk := await self.chunks.get()).data:
            data += chunk.data
            if acknowledging and chunk.reply:
                await self.client.publish(chunk.reply)
        return data, chunk

    async def ending(self) -> Document:
        """The advisory of a snapshot's end."""
        found: Document = json.loads((await self.endings.get()).data)
        return found


def run(main: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def scenario(world: World) -> None:
        scene = Scene(world)
        await scene.start()
        await main(scene)
        await scene.client.close()

    World(1).run(scenario)


def test_all_of_it_arrives() -> None:
    async def main(scene: Scene) -> None:
        await scene.listen()
        await scene.begin()
        data, end = await scene.rest()
        assert len(data) > MESSAGES * MESSAGE_BYTES
        assert (end.headers or {})["Status"] == "204"
        assert "error" not in await scene.ending()

    run(main)


def test_no_more_is_on_the_way_than_the_window() -> None:
    async def main(scene: Scene) -> None:
        await scene.listen()
        await scene.begin(window=4 * CHUNK_BYTES)
        await asyncio.sleep(1)
        assert scene.chunks.qsize() == 4
        await scene.client.publish((await scene.chunks.get()).reply)
        await asyncio.sleep(1)
        assert scene.chunks.qsize() == 4

    run(main)


def test_without_acknowledgements_it_ends_after_five_seconds() -> None:
    async def main(scene: Scene) -> None:
        await scene.listen()
        begin_s = scene.world.now_s()
        await scene.begin()
        _, end = await scene.rest(acknowledging=False)
        assert 5.0 <= scene.world.now_s() - begin_s < 5.2
        headers = end.headers or {}
        assert (headers["Status"], headers["Description"]) == ("408", "No Flow Response")
        assert (await scene.ending())["error"] == "no flow response"

    run(main)


def test_when_whoever_asked_is_gone_it_ends() -> None:
    async def main(scene: Scene) -> None:
        other = await connected()
        await scene.listen(other)
        await other.flush()
        await scene.begin()
        await scene.chunks.get()
        await other.close()
        assert (await scene.ending())["error"] == "no interest"

    run(main)


def test_whoever_listens_a_second_later_misses_nothing() -> None:
    async def main(scene: Scene) -> None:
        await scene.begin()
        await asyncio.sleep(1)
        await scene.listen()
        data, _ = await scene.rest()
        assert len(data) > MESSAGES * MESSAGE_BYTES

    run(main)


def test_when_nobody_ever_listens_it_ends() -> None:
    async def main(scene: Scene) -> None:
        begin_s = scene.world.now_s()
        await scene.begin()
        assert (await scene.ending())["error"] == "no flow response"
        assert 7.0 <= scene.world.now_s() - begin_s < 7.5

    run(main)


@pytest.mark.parametrize("is_listening", [True, False])
def test_a_stream_that_is_deleted_ends_its_snapshots(is_listening: bool) -> None:
    async def main(scene: Scene) -> None:
        if is_listening:
            await scene.listen()
        await scene.begin()
        await asyncio.sleep(0.5)
        await scene.ask("STREAM.DELETE.S")
        assert (await scene.ending())["error"] == "stream was deleted"
        if is_listening:
            _, end = await scene.rest()
            assert (end.headers or {})["Status"] == "500"

    run(main)


def test_reads_and_publishes_go_on_and_several_snapshots_at_once_do_too() -> None:
    async def main(scene: Scene) -> None:
        await scene.listen()
        await scene.begin()
        await scene.begin()
        found = await scene.ask("STREAM.MSG.GET.S", {"seq": 1})
        assert found["message"]["seq"] == 1
        acknowledged = json.loads((await scene.client.request("s", b"later")).data)
        assert acknowledged["seq"] == MESSAGES + 1
        first, _ = await scene.rest()
        second, _ = await scene.rest()
        assert len(first + second) > 2 * MESSAGES * MESSAGE_BYTES
        assert b"later" not in first + second

    run(main)
