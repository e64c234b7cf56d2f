"""Clients that connect, publish, die and reconnect while the world fails around them."""

import asyncio
import contextlib
from dataclasses import dataclass, field

import nats
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from headwater.server.configuration.options import Options
from headwater.server.lifecycle import Server
from headwater.testing import FaultPlan, Host, World, simulated_environment
from headwater.testing.checkers.delivery import DeliveryLedger, Published, Subscriber

PUBLISHERS = ("pub-a", "pub-b", "pub-c")
# host, pattern, queue group
SUBSCRIPTIONS = (
    ("sub-all", "data.>", None),
    ("sub-star", "data.*.x", None),
    ("sub-one", "data.pub-a.x", None),
    ("queue-1", "data.*.*", "workers"),
    ("queue-2", "data.>", "workers"),
)
SUFFIXES = ("x", "y")
QUIET_MESSAGES = 12
EPISODES = 2

# Half a minute of silence is the longest a fault lasts, so nobody waits for TCP to give up.
SERVER_OPTIONS = Options(host="0.0.0.0", port=4222, ping_interval_s=1.0, write_deadline_s=2.0)
URL = "nats://server:4222"


async def connected(url: str = URL) -> NatsClient:
    """A client of the server, however long it takes."""
    while True:
        client = NatsClient()
        try:
            await client.connect(
                url,
                max_reconnect_attempts=-1,
                reconnect_time_wait=1,
                connect_timeout=1,
                ping_interval=1,
                max_outstanding_pings=2,
                error_cb=_unheard,
            )
        except (nats.errors.Error, OSError, TimeoutError):
            with contextlib.suppress(Exception):
                await client.close()
            await asyncio.sleep(0.2)
        else:
            return client


async def _unheard(error: Exception) -> None:
    """nats-py prints errors nobody listens to; here they are expected."""


@dataclass
class Participant:
    """A client program on a host of its own; started again when the host is."""

    world: World
    ledger: DeliveryLedger
    host: Host
    client: NatsClient | None = None
    url: str = URL

    def install(self) -> None:
        """Boot now and after every crash."""
        self.host.boot = self.boot
        self.host.spawn(self.boot())

    async def boot(self) -> None:
        """The main program of the host, run when the host starts."""
        raise NotImplementedError

    async def settled(self) -> bool:
        """Whether a round trip to the server works."""
        if self.client is None or not self.client.is_connected:
            return False
        try:
            await self.client.flush(timeout=2)
        except (nats.errors.Error, OSError, TimeoutError):
            return False
        return True


@dataclass
class Publisher(Participant):
    """Publishes numbered messages, also while things fail."""

    identity: str = ""
    number: int = 0

    async def boot(self) -> None:
        self.client = None
        self.identity = f"{self.host.name}/{self.host.boots}"
        self.number = 0
        self.client = await connected(self.url)
        while True:
            await self.publish_one()
            await asyncio.sleep(0.3)

    async def publish_one(self) -> Published | None:
        """Publish the next message; None if the client refused it."""
        client = self.client
        if client is None:
            return None
        self.number += 1
        subject = f"data.{self.host.name}.{SUFFIXES[self.number % len(SUFFIXES)]}"
        message = Published(self.identity, self.number, subject)
        self.ledger.publish(message)
        try:
            await client.publish(subject, f"{self.identity} {self.number}".encode())
        except (nats.errors.Error, OSError):
            return None
        return message


@dataclass
class Listener(Participant):
    """Holds one subscription and notes what arrives."""

    pattern: str = ""
    queue: str | None = None
    record: Subscriber | None = None

    async def boot(self) -> None:
        self.client = None
        name = f"{self.host.name}/{self.host.boots}"
        record = self.record = self.ledger.subscriber(name, self.pattern, self.queue)

        async def received(message: Msg) -> None:
            publisher, number = message.data.decode().split()
            record.received.append(Published(publisher, int(number), message.subject))

        client = await connected(self.url)
        await client.subscribe(self.pattern, queue=self.queue or "", cb=received)
        self.client = client


@dataclass
class CoreScenario:
    """One run: faults, then quiet, then a full account; repeated."""

    ledger: DeliveryLedger = field(default_factory=DeliveryLedger)
    server: Server | None = None
    publishers: list[Publisher] = field(default_factory=list)
    listeners: list[Listener] = field(default_factory=list)

    async def run(self, world: World) -> None:
        """The whole story."""
        server_host = world.host("server")

        async def boot_server() -> None:
            environment = simulated_environment(world, server_host)
            self.server = Server(SERVER_OPTIONS, environment, lambda line: None)
            await self.server.start()

        server_host.boot = boot_server
        await server_host.run(boot_server())
        self._install(world)
        names = [participant.host.name for participant in self._participants()]
        plan = FaultPlan.drawn(
            world.rng("faults"), servers=["server"], clients=names, episodes=EPISODES
        )
        await self._quiet(world)
        for episode in plan:
            await episode.run(world)
            await self._quiet(world)
            self.ledger.check_always()

    def _install(self, world: World) -> None:
        for name in PUBLISHERS:
            self.publishers.append(Publisher(world, self.ledger, world.host(name)))
        for name, pattern, queue in SUBSCRIPTIONS:
            listener = Listener(world, self.ledger, world.host(name), pattern=pattern, queue=queue)
            self.listeners.append(listener)
        for participant in self._participants():
            participant.install()

    def _participants(self) -> list[Participant]:
        return [*self.publishers, *self.listeners]

    async def _quiet(self, world: World) -> None:
        """Every participant is connected again; messages published now must arrive."""
        await self._everybody_connected()
        messages: list[Published] = []
        for publisher in self.publishers:
            messages += await publisher.host.run(self._burst(publisher))
        # After the publishers' PONGs the server has routed all messages, after the listeners' all
        # messages have reached them.
        for participant in self._participants():
            assert await participant.host.run(participant.settled())
        await asyncio.sleep(1)
        present = [listener.record for listener in self.listeners if listener.record is not None]
        self.ledger.check_quiet(messages, present)

    async def _burst(self, publisher: Publisher) -> list[Published]:
        messages = []
        for _ in range(QUIET_MESSAGES):
            message = await publisher.publish_one()
            assert message is not None
            messages.append(message)
        assert await publisher.settled()
        return messages

    async def _everybody_connected(self) -> None:
        """Wait until the server has the connections of all participants, and no dead ones."""
        while True:
            alive = [await one.host.run(one.settled()) for one in self._participants()]
            server = self.server
            if all(alive) and server is not None and len(server.node.roster.open) == len(alive):
                return
            await asyncio.sleep(1)
