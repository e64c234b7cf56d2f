"""A stream of one server with clients of three, while links fail: once each, and no ack is lost."""

import asyncio
import json
from dataclasses import dataclass, field

import nats
import pytest
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from headwater.server.cluster.traffic import Traffic
from headwater.server.configuration.options import (
    ClusterOptions,
    JetStreamOptions,
    Options,
    RouteUrl,
)
from headwater.server.lifecycle import Server
from headwater.testing import FaultPlan, Host, World, seeds, simulated_environment
from headwater.testing.faults import Cut, HalfOpen, Partition, Pause, Slow
from tests.simulation.core_scenario import connected

SEEDS = 8
EPISODES = 2
MESSAGES = 8
QUIET_MESSAGES = 3
CLIENT_PORT, CLUSTER_PORT = 4222, 6222
SERVERS = ("s1", "s2", "s3")
FAILURES = (nats.errors.Error, OSError, TimeoutError)
NS_PER_S = 1_000_000_000
ANSWER_S = 2.0
# Long enough for the servers to elect a leader of the meta group.
ELECTION_S = 5.0


@dataclass
class Crossing:
    """Publishers and workers on all servers, and a stream S on one of them."""

    clients: dict[str, NatsClient] = field(default_factory=dict)
    # Sequences by the id that was published, and the ids of deliveries that were confirmed.
    stored: dict[str, int] = field(default_factory=dict)
    confirmed: set[str] = field(default_factory=set)
    again: list[str] = field(default_factory=list)
    published: int = 0

    async def run(self, world: World) -> None:
        for name in SERVERS:
            await self._start(world, world.host(name))
        for name in SERVERS:
            host = world.host(f"client-{name}")
            await host.run(self._connect(name))
        owner = world.host("client-s1")
        await owner.run(self._create())
        for name in SERVERS:
            await world.host(f"client-{name}").run(self._work(name))
        plan = FaultPlan.drawn(
            world.rng("faults"),
            servers=SERVERS,
            clients=[],
            episodes=EPISODES,
            kinds=(Cut, HalfOpen, Partition, Slow, Pause),
        )
        for episode in plan:
            publishing = [
                asyncio.ensure_future(world.host(f"client-{name}").run(self._publish(name)))
                for name in SERVERS
            ]
            await episode.run(world)
            await asyncio.gather(*publishing)
        await asyncio.sleep(30)
        for name in SERVERS:
            await world.host(f"client-{name}").run(self._publish_once(name))
        await asyncio.sleep(10)
        await owner.run(self._check())

    async def _start(self, world: World, host: Host) -> None:
        options = Options(
            server_name=host.name,
            host="0.0.0.0",
            port=CLIENT_PORT,
            ping_interval_s=1.0,
            write_deadline_s=2.0,
            jetstream=JetStreamOptions(enabled=True, store_dir="/data"),
            cluster=ClusterOptions(
                name="C",
                host=host.name,
                port=CLUSTER_PORT,
                routes=tuple(RouteUrl(name, CLUSTER_PORT) for name in SERVERS[:2]),
                no_advertise=True,
            ),
        )

        async def boot() -> None:
            server = Server(options, simulated_environment(world, host), lambda line: None)
            await server.start()

        host.boot = boot
        await host.run(boot())

    async def _connect(self, name: str) -> None:
        self.clients[name] = await connected(f"nats://{name}:{CLIENT_PORT}")

    async def _call(self, operation: str, body: object = None) -> dict[str, object]:
        payload = b"" if body is None else json.dumps(body).encode()
        reply = await self.clients["s1"].request(f"$JS.API.{operation}", payload, timeout=5)
        document: dict[str, object] = json.loads(reply.data)
        assert "error" not in document, document
        return document

    async def _create(self) -> None:
        await asyncio.sleep(ELECTION_S)
        await self._call("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
        config = {
            "durable_name": "C",
            "ack_policy": "explicit",
            "ack_wait": 5 * NS_PER_S,
            "deliver_subject": "work",
            "deliver_group": "q",
        }
        await self._call("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})

    async def _work(self, name: str) -> None:
        client = self.clients[name]

        async def acknowledge(message: Msg) -> None:
            key = message.data.decode()
            if key in self.confirmed:
                self.again.append(key)
            try:
                reply = await client.request(message.reply, b"+ACK", timeout=ANSWER_S)
            except FAILURES:
                return
            assert reply.data == b""
            if not reply.headers:
                self.confirmed.add(key)

        await client.subscribe("work", queue="q", cb=acknowledge)

    async def _publish(self, name: str) -> None:
        """Publish messages, each until it is acknowledged."""
        client = self.clients[name]
        for _ in range(MESSAGES):
            self.published += 1
            key = f"{name}-{self.published}"
            while key not in self.stored:
                try:
                    reply = await client.request(
                        f"s.{name}",
                        key.encode(),
                        timeout=ANSWER_S,
                        headers={"Nats-Msg-Id": key},
                    )
                except FAILURES:
                    await asyncio.sleep(0.5)
                    continue
                self.stored[key] = json.loads(reply.data)["seq"]
            await asyncio.sleep(0.3)

    async def _publish_once(self, name: str) -> None:
        """Publish messages without ids, each once."""
        for number in range(QUIET_MESSAGES):
            payload = f"{name}-quiet-{number}".encode()
            reply = await self.clients[name].request(f"s.{name}", payload, timeout=ANSWER_S)
            assert "seq" in json.loads(reply.data)

    async def _check(self) -> None:
        assert len({*self.stored.values()}) == len(self.stored) == self.published
        state = (await self._call("STREAM.INFO.S"))["state"]
        assert isinstance(state, dict)
        assert state["messages"] == len(self.stored) + QUIET_MESSAGES * len(SERVERS)
        consumer = await self._call("CONSUMER.INFO.S.C")
        assert (consumer["num_pending"], consumer["num_ack_pending"]) == (0, 0)
        assert self.again == [], "a message came again after its acknowledgement was confirmed"
        assert len(self.confirmed) > 0


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_a_stream_accounts_for_the_clients_of_three_servers(seed: int) -> None:
    world = World(seed)
    world.run(Crossing().run)
    print(world.summary())


def test_a_stream_that_takes_messages_of_peers_twice_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deliver = Traffic._deliver_by_route

    def twice(self: Traffic, *arguments: object) -> None:
        deliver(self, *arguments)  # type: ignore[arg-type]
        deliver(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Traffic, "_deliver_by_route", twice)
    with pytest.raises(Exception):  # noqa: B017, PT011
        World(1, virtual_s_max=2_000.0).run(Crossing().run)
