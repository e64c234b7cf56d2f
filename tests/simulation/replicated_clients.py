"""Clients of the streams of a simulated cluster, on hosts of their own, which fail too.

Publishers, workers and a reader use the streams. An operator removes messages and creates streams
and consumers, and an administrator changes the servers of the streams and their leaders. All record
what they do.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from headwater.checker.history import Delivery, History, Publish
from headwater.testing import Host, World
from headwater.testing.recorder import Recorder

if TYPE_CHECKING:
    from nats.aio.client import Client as NatsClient

LOG, WORK = "LOG", "WORK"
CONSUMERS = {LOG: "C", WORK: "W"}
PUBLISHERS = ("p1", "p2", "p3")
# host, stream, consumer
WORKERS = (("w1", WORK, "W"), ("w2", WORK, "W"), ("c1", LOG, "C"), ("c2", LOG, "C"))
READER, OPERATOR, ADMINISTRATOR = "r1", "o1", "a1"
# The one subject of LOG that is purged, so that the others have to keep every message.
PURGED = "log.p3"

PULL_S = 1.0
BATCH_SIZE = 3
# Tags of servers, of which every stream may move from one to the other. Some servers have both.
EAST, WEST = "east", "west"


class Stage(Protocol):
    """The run that a program is part of."""

    world: World
    histories: dict[str, History]
    # Set when the faults are over: clients finish what they have begun.
    is_quiet: bool
    # The changes that an administrator has asked for, by kind and by their answer.
    changes: Counter[tuple[str, str]]

    @property
    def replicas(self) -> int:
        """The number of servers that have each stream, at the beginning and in the end."""
        ...

    @property
    def servers(self) -> int:
        """The number of servers."""
        ...

    async def connected(self, number: int, **options: Any) -> "NatsClient":
        """A client of the cluster, however long it takes. Its number chooses its server."""
        ...

    def recorder(self, client: "NatsClient", name: str, history: History) -> Recorder:
        """A recorder of the operations of a client."""
        ...


class Program(ABC):
    """A client program on a host of its own; started again when the host is."""

    number = 0

    def __init__(self, scenario: Stage, name: str) -> None:
        self.scenario = scenario
        self.host: Host = scenario.world.host(name)
        # Whether the program has nothing left to do.
        self.is_idle = False

    def install(self) -> None:
        self.host.boot = self.boot
        self.host.spawn(self.boot())

    def has_finished(self) -> bool:
        return self.is_idle

    @property
    def name(self) -> str:
        """The name of the program in this life."""
        return f"{self.host.name}.{self.host.boots}"

    async def boot(self) -> None:
        self.is_idle = False
        self.rng = self.scenario.world.rng(self.host.name, self.host.boots)
        self.client = await self.scenario.connected(self.number)
        await self.work()
        self.is_idle = True

    def recorder(self, stream: str) -> Recorder:
        return self.scenario.recorder(self.client, self.name, self.scenario.histories[stream])

    async def rest(self, longest_s: float) -> None:
        await asyncio.sleep(self.rng.uniform(0, longest_s))

    @abstractmethod
    async def work(self) -> None:
        """Work until the faults are over."""


class Publisher(Program):
    """Publishes to both streams, in every way there is."""

    async def work(self) -> None:
        count = 0
        while not self.scenario.is_quiet:
            count += 1
            body = f"{self.name}.{count}"
            kind = self.rng.choices(("id", "work", "expected", "batch", "once"), (4, 4, 1, 1, 2))[0]
            await self._publish(kind, body)
            await self.rest(0.6)
        # The last messages of a run are acked: the cluster works again.
        await self._publish("id", f"{self.name}.end")
        await self._publish("work", f"{self.name}.done")

    async def _publish(self, kind: str, body: str) -> None:
        log, work = self.recorder(LOG), self.recorder(WORK)
        subject = f"log.{self.host.name}"
        if kind == "id":
            await self._until_acked(log, subject, body)
        elif kind == "work":
            await self._until_acked(work, f"work.{self.host.name}", body)
        elif kind == "batch":
            bodies = [f"{body}.{number}" for number in range(1, BATCH_SIZE + 1)]
            await log.publish_batch(subject, body, bodies)
        elif kind == "expected":
            last = max((each.sequence for each in log.history.all_of(Publish)), default=0)
            await log.publish(subject, body, expected=last)
        else:
            await log.publish(subject, body)

    async def _until_acked(self, recorder: Recorder, subject: str, body: str) -> None:
        """Publish under an id again and again, until it is acked."""
        while not (await recorder.publish(subject, body, message_id=body)).is_done:
            await self.rest(0.5)
        if self.rng.random() < 0.05:
            # A client that does not know whether it has published the message.
            await recorder.publish(subject, body, message_id=body)


class Worker(Program):
    """Pulls messages of a consumer, and acknowledges them in various ways."""

    def __init__(self, scenario: Stage, name: str, stream: str, consumer: str) -> None:
        super().__init__(scenario, name)
        self._stream = stream
        self._consumer = consumer

    async def work(self) -> None:
        recorder = self.recorder(self._stream)
        while True:
            # Workers stay, to drain the consumer.
            self.is_idle = self.scenario.is_quiet
            found = await recorder.fetch(self._consumer, self.rng.randint(1, 8), PULL_S)
            for delivery, message in found:
                fate = "double"
                if not self.scenario.is_quiet:
                    fate = self.rng.choices(("double", "plain", "silence"), (8, 2, 1))[0]
                if fate != "silence":
                    await recorder.ack(delivery, message, is_double=fate == "double")
            await self.rest(0.2)


class Reader(Program):
    """Gets messages by sequence, and reads the stream by new consumers."""

    async def work(self) -> None:
        recorder = self.recorder(LOG)
        scans = 0
        while not self.scenario.is_quiet:
            seen = recorder.history.all_of(Delivery)
            if seen:
                await recorder.read(self.rng.choice(seen[-20:]).sequence)
            if self.rng.random() < 0.1:
                scans += 1
                await recorder.scan(f"scan-{self.host.boots}-{scans}")
            await self.rest(2.0)


class Operator(Program):
    """Removes messages, changes the configuration, creates and deletes."""

    async def work(self) -> None:
        recorder = self.recorder(LOG)
        count = 0
        while not self.scenario.is_quiet:
            count += 1
            kind = self.rng.choices(("purge", "delete", "update", "stream", "consumer"))[0]
            if kind == "purge":
                await recorder.purge(subject=PURGED)
            elif kind == "delete":
                seen = recorder.history.all_of(Delivery)
                if seen:
                    await recorder.delete(self.rng.choice(seen).sequence)
            else:
                await self._change(recorder, kind, f"{self.host.boots}-{count}")
            await self.rest(3.0)

    async def _change(self, recorder: Recorder, kind: str, label: str) -> None:
        replicas = self.scenario.replicas
        if kind == "consumer":
            await recorder.create_consumer(f"K{label}", num_replicas=replicas)
            await recorder.call(f"CONSUMER.DELETE.{LOG}.K{label}")
        elif kind == "stream":
            config = {"name": f"X{label}", "subjects": [f"x.{label}"], "num_replicas": replicas}
            await recorder.call(f"STREAM.CREATE.X{label}", config)
            await recorder.ask(f"x.{label}", b"x")
            await recorder.call(f"STREAM.DELETE.X{label}")
        else:
            info = await recorder.call(f"STREAM.INFO.{LOG}")
            if info is not None and "config" in info:
                config = {**info["config"], "description": label}
                await recorder.call(f"STREAM.UPDATE.{LOG}", config)


class Administrator(Program):
    """Changes the servers of the streams, and steps their leaders down."""

    async def boot(self) -> None:
        self._system = await self.scenario.connected(self.number, user="admin", password="admin")
        await super().boot()

    async def work(self) -> None:
        while not self.scenario.is_quiet:
            await self._change(self.rng.choice((LOG, WORK)))
            await self.rest(3.0)

    async def _change(self, stream: str) -> None:
        """Ask for one change, and note the answer."""
        kind = self.rng.choice([*CHANGES])
        answer = await CHANGES[kind](self, self.recorder(stream))
        outcome = "unanswered"
        if answer is not None:
            outcome = str(answer["error"].get("err_code", "")) if "error" in answer else "done"
        self.scenario.changes[kind, outcome] += 1

    async def _info(self, recorder: Recorder) -> dict[str, Any]:
        """The state of the stream; empty if nobody tells it."""
        info = await recorder.call(f"STREAM.INFO.{recorder.stream}")
        return info if info is not None and "config" in info else {}

    async def _update(self, recorder: Recorder, **settings: Any) -> dict[str, Any] | None:
        info = await self._info(recorder)
        if not info:
            return None
        return await recorder.call(
            f"STREAM.UPDATE.{recorder.stream}", {**info["config"], **settings}
        )

    async def _system_call(self, call: str, **body: Any) -> dict[str, Any] | None:
        history = self.scenario.histories[LOG]
        return await self.scenario.recorder(self._system, self.name, history).call(call, body)

    async def _a_server(self, recorder: Recorder) -> str:
        """A server that has the stream, as far as its leader tells."""
        cluster = (await self._info(recorder)).get("cluster", {})
        names = [cluster.get("leader", ""), *(each["name"] for each in cluster.get("replicas", ()))]
        return str(self.rng.choice(names))

    # --- changes -------------------------------------------------------------------------------

    async def scale(self, recorder: Recorder) -> dict[str, Any] | None:
        count = self.rng.randint(1, self.scenario.servers)
        return await self._update(recorder, num_replicas=count)

    async def move(self, recorder: Recorder) -> dict[str, Any] | None:
        tag = self.rng.choice((EAST, WEST))
        return await self._update(recorder, placement={"tags": [tag]})

    async def move_one(self, recorder: Recorder) -> dict[str, Any] | None:
        server = await self._a_server(recorder)
        return await self._system_call(f"ACCOUNT.STREAM.MOVE.$G.{recorder.stream}", server=server)

    async def cancel(self, recorder: Recorder) -> dict[str, Any] | None:
        return await recorder.call(f"STREAM.CANCEL_MOVE.{recorder.stream}")

    async def remove_peer(self, recorder: Recorder) -> dict[str, Any] | None:
        peer = await self._a_server(recorder)
        return await recorder.call(f"STREAM.PEER.REMOVE.{recorder.stream}", {"peer": peer})

    async def step_stream_down(self, recorder: Recorder) -> dict[str, Any] | None:
        return await recorder.call(f"STREAM.LEADER.STEPDOWN.{recorder.stream}")

    async def step_consumer_down(self, recorder: Recorder) -> dict[str, Any] | None:
        consumer = CONSUMERS[recorder.stream]
        return await recorder.call(f"CONSUMER.LEADER.STEPDOWN.{recorder.stream}.{consumer}")

    async def step_meta_down(self, recorder: Recorder) -> dict[str, Any] | None:
        return await self._system_call("META.LEADER.STEPDOWN")


CHANGES: Mapping[str, Callable[[Administrator, Recorder], Awaitable[dict[str, Any] | None]]] = {
    "scale": Administrator.scale,
    "move": Administrator.move,
    "move of one replica": Administrator.move_one,
    "cancel": Administrator.cancel,
    "removal of a peer": Administrator.remove_peer,
    "step-down of a stream": Administrator.step_stream_down,
    "step-down of a consumer": Administrator.step_consumer_down,
    "step-down of the meta group": Administrator.step_meta_down,
}
