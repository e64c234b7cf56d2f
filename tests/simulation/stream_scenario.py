"""Writers and readers of one stream while its server is killed and loses power."""

import asyncio
import contextlib
import json
from dataclasses import dataclass, field

import nats
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from headwater.server.lifecycle import Server
from headwater.server.options import JetStreamOptions, Options
from headwater.testing import World, simulated_environment
from tests.simulation.core_scenario import connected
from tests.simulation.stream_ledger import Crash, CrashMode, Promise, StreamLedger

SYNC_INTERVAL_S = 2.0
FLUSH_S = 0.1
"""How long an async stream may keep a message in memory, with room for a busy server."""
ANSWER_S = 1.0
ROUND_TRIP_S = 0.004
SYNC_S_MAX = 0.2
"""A slow disk, so that much is under way when it loses power."""
WRITERS = 3
MESSAGES_PER_WRITER = 25
CRASHES = 3
BATCH_SIZE = 3
STREAM = "S"
NOTHING = Promise(0, 0)

FAILURES = (nats.errors.Error, OSError, TimeoutError)


@dataclass(frozen=True)
class Durability:
    """A row of the contract: how the stream is made, and what it may lose."""

    name: str
    promise: Promise
    sync_always: bool = False
    config: dict[str, object] = field(default_factory=dict)

    @property
    def has_batches(self) -> bool:
        return self.config.get("persist_mode") != "async"


INTERVAL = Durability("interval", Promise(0, SYNC_INTERVAL_S + 0.5))
ALWAYS = Durability("always", NOTHING, sync_always=True)
ASYNC = Durability(
    "async",
    Promise(FLUSH_S, SYNC_INTERVAL_S + 0.5),
    sync_always=True,
    config={"persist_mode": "async"},
)


@dataclass
class StreamScenario:
    """One run: writers, a reader and crashes at once, then quiet, then the account."""

    durability: Durability
    crashes: int = CRASHES
    modes: tuple[CrashMode, ...] = ("kill", "power")
    ledger: StreamLedger = field(init=False)
    writing: int = 0
    last_read: int = 0

    def __post_init__(self) -> None:
        self.ledger = StreamLedger(self.durability.promise)
        self.seen = asyncio.Event()
        self.sent = asyncio.Event()

    async def run(self, world: World) -> None:
        """The whole story."""
        world.loop.executor_delay_s_max = SYNC_S_MAX
        host = world.host("server")
        options = Options(
            host="0.0.0.0",
            port=4222,
            ping_interval_s=1.0,
            jetstream=JetStreamOptions(
                enabled=True,
                store_dir="/data",
                sync_always=self.durability.sync_always,
                sync_interval_s=SYNC_INTERVAL_S,
            ),
        )

        async def boot() -> None:
            environment = simulated_environment(world, host)
            await Server(options, environment, lambda line: None).start()

        host.boot = boot
        await host.run(boot())
        client = await connected()
        await self._create(client)
        writers = [asyncio.create_task(self._write(world, n)) for n in range(WRITERS)]
        self.writing = WRITERS
        reader = asyncio.create_task(self._read(world))
        await self._crash(world)
        await asyncio.gather(*writers)
        reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reader
        self.ledger.check(await self._contents(client))
        await client.close()

    async def _create(self, client: NatsClient) -> None:
        config: dict[str, object] = {
            "name": STREAM,
            "subjects": ["s.>"],
            "allow_direct": True,
            "allow_atomic": self.durability.has_batches,
            **self.durability.config,
        }
        reply = await client.request(f"$JS.API.STREAM.CREATE.{STREAM}", json.dumps(config).encode())
        assert "error" not in json.loads(reply.data), reply.data

    # --- faults --------------------------------------------------------------------------------

    async def _crash(self, world: World) -> None:
        dice = world.dice("crashes")
        for _ in range(self.crashes):
            await asyncio.sleep(dice.uniform(0.2, 3.0))
            # At the worst of moments: somebody has just seen something new, or a message is on its
            # way in or its ack on its way out.
            moment = dice.choice((None, self.seen, self.sent))
            if moment is not None:
                moment.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(moment.wait(), ANSWER_S)
            if moment is self.sent:
                await asyncio.sleep(dice.uniform(0, ROUND_TRIP_S))
            if not self.writing:
                return
            mode = dice.choice(self.modes)
            self.ledger.crashes.append(Crash(world.loop.now_s(), mode))
            world.crash("server", mode)
            await asyncio.sleep(dice.uniform(0.1, 1.0))
            started = world.restart("server")
            assert started is not None
            await started

    # --- writers -------------------------------------------------------------------------------

    async def _write(self, world: World, number: int) -> None:
        dice = world.dice("writer", number)
        client = await connected()
        for position in range(MESSAGES_PER_WRITER):
            name = f"w{number}-{position}"
            if self.durability.has_batches and dice.random() < 0.2:
                await self._publish_batch(world, client, name)
            else:
                await self._publish_until_acked(world, client, name)
            await asyncio.sleep(dice.uniform(0, 0.3))
        self.writing -= 1
        await client.close()

    async def _publish_until_acked(self, world: World, client: NatsClient, name: str) -> None:
        self.ledger.sent.add(name)
        while True:
            self.sent.set()
            try:
                reply = await client.request(
                    f"s.{name[:2]}", name.encode(), timeout=ANSWER_S, headers={"Nats-Msg-Id": name}
                )
            except FAILURES:
                await asyncio.sleep(0.1)
                continue
            ack = json.loads(reply.data)
            assert "error" not in ack, ack
            self.ledger.saw(ack["seq"], name, world.loop.now_s(), "ack")
            return

    async def _publish_batch(self, world: World, client: NatsClient, name: str) -> None:
        """Once, whatever comes of it."""
        identities = [f"{name}.{position}" for position in range(1, BATCH_SIZE + 1)]
        self.ledger.sent.update(identities)
        self.ledger.batches[name] = identities
        reply: Msg | None = None
        try:
            for position, identity in enumerate(identities, 1):
                headers = {"Nats-Batch-Id": name, "Nats-Batch-Sequence": str(position)}
                if position == BATCH_SIZE:
                    self.sent.set()
                    headers["Nats-Batch-Commit"] = "1"
                reply = await client.request(
                    f"s.{name[:2]}", identity.encode(), timeout=ANSWER_S, headers=headers
                )
        except FAILURES:
            return
        ack = json.loads(reply.data) if reply is not None and reply.data else {}
        if "seq" in ack and "error" not in ack:
            first = ack["seq"] - BATCH_SIZE + 1
            for sequence, identity in enumerate(identities, first):
                self.ledger.saw(sequence, identity, world.loop.now_s(), "batch ack")

    # --- readers -------------------------------------------------------------------------------

    async def _read(self, world: World) -> None:
        dice = world.dice("reader")
        client = await connected()
        while True:
            subject = f"s.w{dice.randrange(WRITERS)}"
            try:
                reply = await client.request(
                    f"$JS.API.DIRECT.GET.{STREAM}.{subject}", b"", timeout=ANSWER_S
                )
            except FAILURES:
                await asyncio.sleep(0.05)
                continue
            headers = reply.headers or {}
            if "Nats-Sequence" in headers:
                sequence = int(headers["Nats-Sequence"])
                self.ledger.saw(sequence, reply.data.decode(), world.loop.now_s(), "read")
                if sequence > self.last_read:
                    self.last_read = sequence
                    self.seen.set()
            await asyncio.sleep(dice.uniform(0, 0.02))

    async def _contents(self, client: NatsClient) -> dict[int, str]:
        """Everything in the stream at the end."""
        found: dict[int, str] = {}
        sequence = 1
        while True:
            body = json.dumps({"seq": sequence, "next_by_subj": ">"}).encode()
            try:
                reply = await client.request(f"$JS.API.DIRECT.GET.{STREAM}", body, timeout=ANSWER_S)
            except FAILURES:
                await asyncio.sleep(0.1)
                continue
            headers = reply.headers or {}
            if "Nats-Sequence" not in headers:
                return found
            sequence = int(headers["Nats-Sequence"])
            found[sequence] = reply.data.decode()
            sequence += 1
