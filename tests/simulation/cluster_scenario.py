"""Clients of several servers that know each other, while servers, links and clients fail.

Each client keeps to one server: its server tells it of no other one. So the messages of a publisher
take one way to each subscriber, and arrive in order.
"""

import asyncio
from dataclasses import dataclass, field

import nats
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from headwater.server.cluster.traffic import Traffic
from headwater.server.configuration.options import ClusterOptions, Options, RouteUrl
from headwater.server.lifecycle import Server
from headwater.testing import FaultPlan, Host, World, simulated_environment
from headwater.testing.checkers.delivery import DeliveryLedger, Published
from headwater.wire.peer_frames import decode_messages
from tests.simulation.core_scenario import Listener, Participant, Publisher, connected

EPISODES = 2
QUIET_MESSAGES = 6
CLIENT_PORT = 4222
CLUSTER_PORT = 6222
# host, pattern, queue group
SUBSCRIPTIONS = (
    ("sub-all", "data.>", None),
    ("sub-star", "data.*.x", None),
    ("sub-one", "data.pub-a.x", None),
    ("queue-1", "data.*.*", "workers"),
    ("queue-2", "data.>", "workers"),
    ("queue-3", "data.>", "others"),
)
PUBLISHERS = ("pub-a", "pub-b", "pub-c")
SERVICES = ("svc-0", "svc-2")
# The first client is at the first server, the next one at the next server, and so on in turn. Of
# three servers each has a publisher and a subscriber, and of five each has clients.
ORDER = (
    "pub-a",
    "queue-1",
    "queue-3",
    "sub-all",
    "pub-c",
    "queue-2",
    "sub-star",
    "sub-one",
    "pub-b",
    "svc-0",
    "svc-2",
)


@dataclass
class Responder(Participant):
    """Answers requests with its own name."""

    async def boot(self) -> None:
        self.client = None

        async def answer(message: Msg) -> None:
            await message.respond(self.host.name.encode())

        client = await connected(self.url)
        await client.subscribe(self.host.name, cb=answer)
        self.client = client


@dataclass
class ClusterScenario:
    """One run: faults, then quiet, then a full account; repeated."""

    count: int = 3
    ledger: DeliveryLedger = field(default_factory=DeliveryLedger)
    servers: dict[str, Server] = field(default_factory=dict)
    publishers: list[Publisher] = field(default_factory=list)
    listeners: list[Listener] = field(default_factory=list)
    responders: list[Responder] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [f"s{number}" for number in range(1, self.count + 1)]

    async def run(self, world: World) -> None:
        """The whole story."""
        for name in self.names:
            await self._start(world, world.host(name))
        self._install(world)
        plan = FaultPlan.drawn(
            world.rng("faults"),
            servers=self.names,
            clients=[participant.host.name for participant in self._participants()],
            episodes=EPISODES,
        )
        await self._quiet()
        for episode in plan:
            await episode.run(world)
            await self._quiet()
            self.ledger.check_always()

    async def _start(self, world: World, host: Host) -> None:
        routes = tuple(RouteUrl(name, CLUSTER_PORT) for name in self.names[:2])
        options = Options(
            server_name=host.name,
            host="0.0.0.0",
            port=CLIENT_PORT,
            ping_interval_s=1.0,
            write_deadline_s=2.0,
            cluster=ClusterOptions(
                name="C",
                host=host.name,
                port=CLUSTER_PORT,
                routes=routes,
                no_advertise=True,
            ),
        )

        async def boot() -> None:
            server = Server(options, simulated_environment(world, host), lambda line: None)
            await server.start()
            self.servers[host.name] = server

        host.boot = boot
        await host.run(boot())

    def _install(self, world: World) -> None:
        def url(name: str) -> str:
            return f"nats://{self.names[ORDER.index(name) % self.count]}:{CLIENT_PORT}"

        for name in PUBLISHERS:
            self.publishers.append(Publisher(world, self.ledger, world.host(name), url=url(name)))
        for name, pattern, queue in SUBSCRIPTIONS:
            host = world.host(name)
            self.listeners.append(
                Listener(world, self.ledger, host, url=url(name), pattern=pattern, queue=queue)
            )
        for name in SERVICES:
            self.responders.append(Responder(world, self.ledger, world.host(name), url=url(name)))
        for participant in self._participants():
            participant.install()

    def _participants(self) -> list[Participant]:
        return [*self.publishers, *self.listeners, *self.responders]

    async def _quiet(self) -> None:
        """All are connected again; messages published now must arrive, and requests too."""
        await self._everybody_connected()
        assert all(server.node.roster.open for server in self.servers.values()), "no clients"
        # Interest is on its way for as long as a link takes.
        await asyncio.sleep(1)
        messages: list[Published] = []
        for publisher in self.publishers:
            messages += await publisher.host.run(self._burst(publisher))
        await asyncio.sleep(2)
        for participant in self._participants():
            assert await participant.host.run(participant.settled())
        present = [listener.record for listener in self.listeners if listener.record is not None]
        self.ledger.check_quiet(messages, present)
        for publisher in self.publishers:
            assert publisher.client is not None
            await publisher.host.run(self._ask(publisher.client))

    async def _burst(self, publisher: Publisher) -> list[Published]:
        messages = []
        for _ in range(QUIET_MESSAGES):
            message = await publisher.publish_one()
            assert message is not None
            messages.append(message)
        assert await publisher.settled()
        return messages

    async def _ask(self, client: NatsClient) -> None:
        for responder in self.responders:
            reply = await client.request(responder.host.name, b"", timeout=5)
            assert reply.data == responder.host.name.encode()
        # Requests of one write take another way through the server than single ones.
        subjects = ["nobody", *(responder.host.name for responder in self.responders)]
        asked = (client.request(subject, b"", timeout=5) for subject in subjects)
        unheard, *replies = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(unheard, nats.errors.NoRespondersError), unheard
        for subject, answer in zip(subjects[1:], replies, strict=True):
            assert isinstance(answer, Msg), answer
            assert answer.data == subject.encode()

    async def _everybody_connected(self) -> None:
        """Wait until all clients and all links are there, and no dead ones."""
        while True:
            alive = [await one.host.run(one.settled()) for one in self._participants()]
            if all(alive) and self._is_whole(len(alive)):
                return
            await asyncio.sleep(1)

    def _is_whole(self, clients: int) -> bool:
        nodes = [server.node for server in self.servers.values()]
        if sum(len(node.roster.open) for node in nodes) != clients:
            return False
        ids = {node.server_id for node in nodes}
        for node in nodes:
            cluster = node.cluster
            if cluster is None or {*cluster.peers} != ids - {node.server_id}:
                return False
            if any(len(peer.channels) != 2 for peer in cluster.peers.values()):
                return False
        return True


class Crossings:
    """Notes the messages that each server gets from others: none comes twice, by any link."""

    def __init__(self) -> None:
        self._seen: dict[Traffic, set[bytes]] = {}
        self.count = 0

    def note(self, traffic: Traffic, body: bytes) -> None:
        """A server got a frame of messages."""
        seen = self._seen.setdefault(traffic, set())
        for subject, payload in zip(*_of_publishers(body), strict=True):
            if subject.startswith(b"data."):
                assert payload not in seen, (subject, payload)
                seen.add(payload)
                self.count += 1


def _of_publishers(body: bytes) -> tuple[list[bytes], list[bytes]]:
    _, messages = decode_messages(body)
    return messages.subjects, messages.payloads
