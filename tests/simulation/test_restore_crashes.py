"""A server that dies in the middle of a restore has no stream afterwards, or the whole one."""

import asyncio
import json
from typing import Any

import pytest
from nats.aio.client import Client as NatsClient

from headwater.jetstream.backup.archive import END, MAGIC, STATE_NAME, Entry, encode_entries
from headwater.jetstream.backup.s2 import BEGINNING, plain_frame
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.streams.file import encode_body
from headwater.server.configuration.options import JetStreamOptions, Options
from headwater.server.lifecycle import Server
from headwater.server.streams.storage import stream_store
from headwater.store.upkeep.log_sync import LogSync
from headwater.testing import World, seeds, simulated_environment
from tests.simulation.core_scenario import connected
from tests.simulation.stream_scenario import ANSWER_S, FAILURES

SEEDS = 40
MESSAGES = 200
LAST_SEQUENCE = 250
CHUNK_BYTES = 2_000
RESTORE_S = 0.05
"""Somewhat longer than a restore takes here."""
STALL_S = 6.0

CONSUMERS = (b"A", b"B")
CONSUMER = (
    b'{"config": {"durable_name": "%b", "name": "%b", "ack_policy": "explicit"}, "state": '
    b'{"delivered": {"consumer_seq": 9, "stream_seq": 9},'
    b' "ack_floor": {"consumer_seq": 2, "stream_seq": 2},'
    b' "pending": {"7": {"Sequence": 7, "Timestamp": 1000}}, "redelivered": {"7": 3}}}'
)

Document = dict[str, Any]


def backup() -> bytes:
    """200 messages, of which every fifth sequence is missing, and two consumers."""
    state = Entry(STATE_NAME, payload=b'{"first_seq": 1, "last_seq": 250, "consumer_count": 2}')
    consumers = [Entry(b"consumers/" + name, payload=CONSUMER % (name, name)) for name in CONSUMERS]
    messages = [
        Entry(b"s.%d" % (number % 7), 1_000 + number, number, b"", bytes(100))
        for number in range(1, 251)
        if number % 5
    ]
    rows = [[state], consumers, messages, [END]]
    first, *rest = map(encode_entries, rows)
    return BEGINNING + b"".join(map(plain_frame, [MAGIC + first, *rest]))


class RestoreWorld:
    """A server, and a client that restores a stream to it."""

    def __init__(self, world: World, sync_always: bool, config: Document) -> None:
        self.world = world
        self.host = world.host("server")
        self.config = {"name": "S", "subjects": ["s.>"], **config}
        self.lines: list[bytes] = []
        self.options = Options(
            host="0.0.0.0",
            port=4222,
            ping_interval_s=1.0,
            jetstream=JetStreamOptions(
                enabled=True, store_dir="/data", sync_always=sync_always, sync_interval_s=2.0
            ),
        )

    async def boot(self) -> None:
        environment = simulated_environment(self.world, self.host)
        await Server(self.options, environment, self.lines.append).start()

    async def start(self) -> NatsClient:
        self.host.boot = self.boot
        await self.host.run(self.boot())
        return await connected()

    async def restart(self) -> None:
        started = self.world.restart("server")
        assert started is not None
        await started

    async def ask(self, client: NatsClient, call: str, body: Document | None = None) -> Document:
        """The reply to a call of the API, however long it takes."""
        payload = b"" if body is None else json.dumps(body).encode()
        while True:
            try:
                reply = await client.request(f"$JS.API.{call}", payload, timeout=ANSWER_S)
            except FAILURES:
                await asyncio.sleep(0.1)
                continue
            found: Document = json.loads(reply.data)
            return found

    async def restore(self, client: NatsClient, chunks_max: int | None = None) -> Document:
        """Send a backup, or its beginning. Raises whatever the client meets."""
        request = {"config": self.config, "state": {}}
        subject = (await self.ask(client, "STREAM.RESTORE.S", request))["deliver_subject"]
        data = backup()
        chunks = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
        for chunk in chunks[:chunks_max]:
            answer = await client.request(subject, chunk, timeout=ANSWER_S)
            assert answer.data == b""
        if chunks_max is not None:
            return {}
        answer = await client.request(subject, b"", timeout=ANSWER_S)
        found: Document = json.loads(answer.data)
        return found


CONFIGS: list[tuple[str, bool, Document]] = [
    ("interval", False, {}),
    ("always", True, {}),
    ("async", False, {"persist_mode": "async"}),
]


async def crash_in_a_restore(world: World, sync_always: bool, config: Document) -> None:
    """Crash at a random moment of a restore; a restore that was answered is durable."""
    scene = RestoreWorld(world, sync_always, config)
    rng = world.rng("crash")
    client = await scene.start()
    restoring = asyncio.create_task(scene.restore(client))
    await asyncio.sleep(rng.uniform(0, RESTORE_S))
    world.crash("server", rng.choice(("kill", "power")))
    is_answered = restoring.done()
    restoring.cancel()
    await asyncio.gather(restoring, return_exceptions=True)
    await scene.restart()
    names = (await scene.ask(client, "STREAM.NAMES"))["streams"]
    if is_answered or names:
        assert names == ["S"], "a stream is lost"
        state = (await scene.ask(client, "STREAM.INFO.S"))["state"]
        assert state["messages"] == MESSAGES, "half a stream"
        assert state["consumer_count"] == len(CONSUMERS), "half a stream"
        for name in CONSUMERS:
            info = await scene.ask(client, f"CONSUMER.INFO.S.{name.decode()}")
            assert (info["num_ack_pending"], info["num_redelivered"]) == (1, 1)
            assert info["ack_floor"]["stream_seq"] == 2
        # Later sequences may have been given out and lost, as far as the server can know.
        assert state["last_seq"] >= LAST_SEQUENCE
    else:
        assert "error" not in await scene.restore(client)
    await client.close()


@pytest.mark.parametrize("row", CONFIGS, ids=lambda row: row[0])
@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_a_crash_leaves_no_half_stream(seed: int, row: tuple[str, bool, Document]) -> None:
    World(seed).run(lambda world: crash_in_a_restore(world, row[1], row[2]))


def crash_with_many_seeds() -> None:
    for seed in range(1, SEEDS + 1):
        World(seed).run(lambda world: crash_in_a_restore(world, False, {}))


def test_without_the_mark_of_the_unfinished_there_would_be_half_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unmarked(config: StreamConfig, created_ns: int, unfinished: bool = False) -> bytes:
        return encode_body(config, created_ns)

    monkeypatch.setattr(stream_store, "encode_body", unmarked)
    with pytest.raises(AssertionError, match="half a stream"):
        crash_with_many_seeds()


def test_without_waiting_for_the_disk_streams_would_be_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LogSync, "run", lambda self: None)
    with pytest.raises(AssertionError, match="half a stream"):
        crash_with_many_seeds()


@pytest.mark.parametrize("storage", ["file", "memory"])
@pytest.mark.parametrize("chunks", [0, 1, 5])
def test_whoever_goes_away_leaves_nothing_behind(chunks: int, storage: str) -> None:
    async def main(world: World) -> None:
        scene = RestoreWorld(world, False, {"storage": storage})
        client = await scene.start()
        await scene.restore(client, chunks)
        await asyncio.sleep(STALL_S)
        assert any(b"is stalled" in line for line in scene.lines)
        assert (await scene.ask(client, "STREAM.NAMES"))["streams"] is None
        assert "error" not in await scene.ask(client, "STREAM.CREATE.S", scene.config)
        state = (await scene.ask(client, "STREAM.INFO.S"))["state"]
        assert (state["messages"], state["last_seq"]) == (0, 0)
        await client.close()

    World(1).run(main)


def test_while_a_stream_is_restored_its_name_is_taken_and_nothing_is_seen_of_it() -> None:
    async def main(world: World) -> None:
        scene = RestoreWorld(world, False, {})
        client = await scene.start()
        await scene.restore(client, 2)
        assert (await scene.ask(client, "STREAM.NAMES"))["streams"] is None
        created = await scene.ask(client, "STREAM.CREATE.S", scene.config)
        assert created["error"]["err_code"] == 10058
        again = await scene.ask(client, "STREAM.RESTORE.S", {"config": scene.config, "state": {}})
        assert again["error"]["err_code"] == 10130
        await client.close()

    World(1).run(main)
