"""Client programs that consume a stream, each on a host of its own: they die and come back.

The programs pull messages or have them pushed, work, and acknowledge in every way the protocol has.
Random numbers decide their behaviour until `Moments.is_calm` is set: from then on they acknowledge
at once and wait for the answer.
"""

import asyncio
import contextlib
import itertools
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import nats
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from headwater.testing import Host, World
from tests.simulation.consumer_ledger import Ack, ConsumerLedger, Delay, Delivery, Rules
from tests.simulation.core_scenario import connected

NS_PER_S = 1_000_000_000
ANSWER_S = 1.0
ACK_WAIT_S = 1.5
NAK_DELAY_S = 0.6
PULL_S = 1.0
LONG_PULL_S = 30.0
HEARTBEAT_S = 0.4
STREAM = "S"
NO_RESPONDERS = "503"

FAILURES = (nats.errors.Error, OSError, TimeoutError)
# The possible outcomes of a message at a worker, with their weights.
FATES = {
    "double": 12,
    "plain": 2,
    "term": 1,
    "nak": 2,
    "delay": 2,
    "silence": 1,
}


@dataclass
class Moments:
    """Events that were just seen, so that a fault can strike at the worst moment."""

    # Whether clients acknowledge every message at once.
    is_calm: bool = False
    sent: asyncio.Event = field(default_factory=asyncio.Event)
    seen: asyncio.Event = field(default_factory=asyncio.Event)
    acked: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Worker(ABC):
    """A program that works on messages of one consumer."""

    world: World
    ledger: ConsumerLedger
    moments: Moments
    rules: Rules
    host: Host
    config: dict[str, object]

    def install(self) -> None:
        """Start now, and again after every crash."""
        self.host.boot = self.boot
        self.host.spawn(self.boot())

    async def boot(self) -> None:
        """The main program of the host, from its connection on."""
        self.rng = self.world.rng("worker", self.host.name, self.host.boots)
        self.messages: asyncio.Queue[Msg] = asyncio.Queue()
        client = await connected()
        await self.consume(client)

    @abstractmethod
    async def consume(self, client: NatsClient) -> None:
        """Get messages, and work."""

    async def create(self, client: NatsClient) -> None:
        """Make sure that the consumer is there, however long it takes."""
        body = json.dumps({"stream_name": STREAM, "config": self.config}).encode()
        subject = f"$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.{self.rules.name}"
        while True:
            with contextlib.suppress(*FAILURES):
                reply = await client.request(subject, body, timeout=ANSWER_S)
                if "error" not in json.loads(reply.data):
                    self.ledger.creations_s[self.rules.name].append(self.world.loop.now_s())
                    return
            await asyncio.sleep(0.1)

    async def arrived(self, message: Msg) -> None:
        """Something came from the server: a message, or a status."""
        if message.reply:
            self.note(message)
        self.messages.put_nowait(message)

    def note(self, message: Msg) -> None:
        """A message has come."""
        known = message.metadata
        delivery = Delivery(
            self.rules.name,
            known.sequence.stream,
            message.data.decode(),
            known.num_delivered,
            self.world.loop.now_s(),
        )
        self.ledger.got(delivery)
        self.moments.seen.set()

    # --- working -------------------------------------------------------------------------------

    async def work(self, client: NatsClient, message: Msg) -> None:
        """Work on a message, and acknowledge or refuse it."""
        fate = "double" if self.moments.is_calm else await self._toil(client, message)
        sequence = message.metadata.sequence.stream
        if fate in ("double", "plain", "term"):
            ack = Ack(self.rules.name, sequence, self.world.loop.now_s())
            self.ledger.acks.append(ack)
            self.moments.acked.set()
            payload = b"+TERM" if fate == "term" else b""
            if await self._say(client, message, payload, is_answered=fate != "plain"):
                ack.done_s = self.world.loop.now_s()
        elif fate in ("nak", "delay"):
            delay_s = NAK_DELAY_S if fate == "delay" else 0.0
            said = json.dumps({"delay": round(delay_s * NS_PER_S)}) if delay_s else ""
            now_s = self.world.loop.now_s()
            delay = Delay(self.rules.name, sequence, now_s, now_s + delay_s)
            self.ledger.delays.append(delay)
            if await self._say(client, message, f"-NAK {said}".encode(), is_answered=True):
                delay.done_s = self.world.loop.now_s()

    async def _toil(self, client: NatsClient, message: Msg) -> str:
        rng = self.rng
        fate = rng.choices([*FATES], [*FATES.values()])[0]
        effort_s = rng.choice((0.0, 0.0, rng.uniform(0, 0.1), rng.uniform(0, 0.1)))
        if rng.random() < 0.05:
            effort_s = rng.uniform(0.5, 1.5) * ACK_WAIT_S
        await asyncio.sleep(effort_s / 2)
        if effort_s and rng.random() < 0.7:
            await self._say(client, message, b"+WPI", is_answered=False)
        await asyncio.sleep(effort_s / 2)
        return fate

    async def _say(
        self, client: NatsClient, message: Msg, payload: bytes, is_answered: bool
    ) -> bool:
        """Send an acknowledgement of a message. Returns whether it was confirmed."""
        with contextlib.suppress(*FAILURES):
            if is_answered:
                await client.request(message.reply, payload, timeout=ANSWER_S)
                return True
            await client.publish(message.reply, payload)
        return False


@dataclass
class PullWorker(Worker):
    """Asks for a few messages at a time."""

    async def consume(self, client: NatsClient) -> None:
        inbox = client.new_inbox()
        await client.subscribe(f"{inbox}.*", cb=self.arrived)
        if self.rules.is_late:
            await self.create(client)
        for number in itertools.count():
            batch, asked = self.rng.randint(1, 4), f"{inbox}.{number}"
            with contextlib.suppress(*FAILURES):
                await pull(client, self.rules.name, asked, batch, PULL_S)
            await self._work_on(client, asked, batch)

    async def _work_on(self, client: NatsClient, asked: str, batch: int) -> None:
        """Work on the messages of a pull, until its batch is complete or no more come."""
        while batch:
            try:
                message = await asyncio.wait_for(self.messages.get(), PULL_S + 0.2)
            except TimeoutError:
                return
            if message.reply:
                batch -= 1
                await self.work(client, message)
            elif (message.headers or {}).get("Status") == NO_RESPONDERS:
                await self.create(client)
                return
            elif message.subject == asked:
                return


async def pull(client: NatsClient, consumer: str, inbox: str, batch: int, expires_s: float) -> None:
    """Ask for messages."""
    body = {"batch": batch, "expires": round(expires_s * NS_PER_S)}
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{consumer}"
    await client.publish(subject, json.dumps(body).encode(), reply=inbox)


@dataclass
class DoomedWorker(Worker):
    """Takes one message and does nothing with it, waits for more, and is going to die so."""

    wanted: int = 1
    held: Msg | None = None

    async def consume(self, client: NatsClient) -> None:
        inbox = client.new_inbox()
        await client.subscribe(inbox, cb=self.arrived)
        await pull(client, self.rules.name, inbox, 1, LONG_PULL_S)
        held = await self.messages.get()
        await pull(client, self.rules.name, inbox, self.wanted, LONG_PULL_S)
        await client.flush()
        self.held = held


@dataclass
class PushWorker(Worker):
    """Listens where messages are pushed to, alone or in a group."""

    async def consume(self, client: NatsClient) -> None:
        await client.subscribe(f"push.{self.rules.name}", queue="workers", cb=self.arrived)
        while True:
            message = await self.messages.get()
            if message.reply:
                await self.work(client, message)


@dataclass
class OrderedReader(Worker):
    """Reads everything in order, by consumers that it makes as it needs them.

    The last sequence it has read survives its crashes.
    """

    last: int = 0

    async def consume(self, client: NatsClient) -> None:
        number = 0
        while True:
            number += 1
            inbox = client.new_inbox()
            self.messages = asyncio.Queue()
            subscription = await client.subscribe(inbox, cb=self.messages.put)
            with contextlib.suppress(*FAILURES):
                name = f"{self.rules.name}-{self.host.boots}-{number}"
                if await self._create(client, name, inbox):
                    await self._follow(client)
            with contextlib.suppress(*FAILURES):
                await subscription.unsubscribe()
            await asyncio.sleep(0.1)

    async def _create(self, client: NatsClient, name: str, inbox: str) -> bool:
        config = {
            "name": name,
            "deliver_subject": inbox,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self.last + 1,
            "ack_policy": "none",
            "max_deliver": 1,
            "flow_control": True,
            "idle_heartbeat": round(HEARTBEAT_S * NS_PER_S),
            "inactive_threshold": 5 * NS_PER_S,
            "mem_storage": True,
            "num_replicas": 1,
        }
        if self.rules.writers:
            config["filter_subjects"] = [f"s.{each}" for each in self.rules.writers]
        body = json.dumps({"stream_name": STREAM, "config": config}).encode()
        subject = f"$JS.API.CONSUMER.CREATE.{STREAM}.{name}"
        reply = await client.request(subject, body, timeout=ANSWER_S)
        return "error" not in json.loads(reply.data)

    async def _follow(self, client: NatsClient) -> None:
        """Read on while nothing is missing and the server shows that it is there."""
        expected = 1
        while True:
            message = await asyncio.wait_for(self.messages.get(), 2.5 * HEARTBEAT_S)
            headers = message.headers or {}
            if message.reply.startswith("$JS.ACK."):
                known = message.metadata.sequence
                if known.consumer != expected:
                    return
                expected += 1
                self.last = known.stream
                self.note(message)
            elif message.reply:
                await client.publish(message.reply, b"")
            elif int(headers.get("Nats-Last-Consumer", expected - 1)) != expected - 1:
                return
