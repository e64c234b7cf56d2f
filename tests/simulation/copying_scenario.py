"""Mirrors and aggregates of streams of a cluster while its servers, links and disks fail.

Publishers fill two origins, and an operator purges, deletes, has leaders step down and creates an
origin again. Two mirrors and an aggregate copy the origins meanwhile. After the faults everything
comes to rest, and the contents of origins and copies are compared.
"""

import asyncio
import contextlib
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import nats
from nats.aio.client import Client as NatsClient

from headwater.jetstream import header_names as names
from headwater.jetstream.provenance import read_provenance
from headwater.server.configuration.options import Options
from headwater.testing import Cluster, FaultPlan, World
from headwater.testing.faults import Crash, Cut, Fault, HalfOpen, Partition, Pause, Slow
from headwater.wire.headers import value_of
from tests.simulation.copying_ledger import BrokenCopy, Message, OriginLedger

SYNC_INTERVAL_S = 2.0
SETTLED_S_MAX = 180.0
VIRTUAL_S_MAX = 1_200.0
# Longer than the longest time between two requests for an origin after a fault.
SETTLING_S = 10.0
POLL_S = 0.5
# Between two looks at what origins and mirrors have.
WATCH_S = 0.4
ANSWER_S = 2.0
KINDS: tuple[type[Fault], ...] = (Cut, HalfOpen, Partition, Slow, Pause, Crash)
FAILURES = (nats.errors.Error, OSError, TimeoutError)

ORIGIN, OTHER, MIRROR, FILTERED, AGGREGATE = "O", "P", "M", "F", "A"
# A mirror of the aggregate, which keeps the messages that limits remove from the aggregate.
WITNESS = "W"
WANTED = "o.wanted"
# The subject under which the aggregate stores a message, by that of the origin.
SOURCED = {WANTED: WANTED, "o.other": "o.other", "p.wanted": "q.wanted"}
SUBJECTS = {ORIGIN: (WANTED, "o.other"), OTHER: ("p.wanted", "p.other")}
# The subjects of the origin that its mirrors have.
MIRRORED = {MIRROR: SUBJECTS[ORIGIN], FILTERED: (WANTED,)}
REMOVALS = ("purge", "delete", "delete", "create again")
CONFIGS: dict[str, dict[str, Any]] = {
    ORIGIN: {"subjects": ["o.>"]},
    OTHER: {"subjects": ["p.>"]},
    MIRROR: {"mirror": {"name": ORIGIN}},
    FILTERED: {"mirror": {"name": ORIGIN, "filter_subject": WANTED}},
    AGGREGATE: {
        "sources": [
            {"name": ORIGIN},
            {"name": OTHER, "subject_transforms": [{"src": "p.wanted", "dest": "q.wanted"}]},
        ]
    },
    WITNESS: {"mirror": {"name": AGGREGATE}},
}


@dataclass(frozen=True)
class Shape:
    """The parameters of a run."""

    servers: int = 3
    # The replicas of the origins, and of the copies.
    replicas: int = 1
    copy_replicas: int = 1
    # The server of each stream with one replica, by number; copies may be elsewhere.
    origin_server: int = 1
    copy_server: int = 1
    sync_always: bool = False
    episodes: int = 2
    calm_s: float = 3.0
    # The probability that all servers lose power at once, at the end of the faults.
    blackout: float = 0.5
    # The number of messages that the aggregate keeps; 0 for all of them.
    kept: int = 0
    # Whether an operator removes messages of the origins.
    removes: bool = True


@dataclass
class CopyingScenario:
    """One run."""

    shape: Shape = field(default_factory=Shape)
    published: int = 0
    is_quiet: bool = False
    # The last answer of the API, for the report of a run that gets stuck.
    last_answer: object = None
    # Every body that a client has published, with its subject.
    bodies: dict[str, str] = field(default_factory=dict)
    ledger: OriginLedger = field(default_factory=OriginLedger)

    async def run(self, world: World) -> None:
        """The whole story."""
        self.world = world
        world.loop.executor_delay_s_max = 0.02
        self.ledger.is_lossy = not self.shape.sync_always
        self.cluster = Cluster(world, self.shape.servers, configure=self._configure)
        await self.cluster.start()
        self.client = await self._connected()
        for name in CONFIGS:
            await self._until(f"creation of {name}", partial(self._create, name))
        programs = [
            asyncio.ensure_future(self._publish(world.rng(f"publisher {stream}"), stream))
            for stream in SUBJECTS
        ]
        programs.append(asyncio.ensure_future(self._operate(world.rng("operator"))))
        watching = asyncio.ensure_future(self._watch())
        programs.append(watching)
        await asyncio.sleep(self.shape.calm_s)
        plan = FaultPlan.drawn(
            world.rng("faults"),
            servers=self.cluster.names,
            clients=(),
            episodes=self.shape.episodes,
            kinds=KINDS,
        )
        for episode in plan:
            await episode.run(world)
            await self.cluster.ready()
        await self._black_out(world.rng("blackout"))
        self.is_quiet = True
        await asyncio.wait_for(asyncio.gather(*programs), SETTLED_S_MAX)
        await asyncio.sleep(SETTLING_S)
        await self._until("complete copies", self._has_settled)
        self.check()
        await self.client.close()

    async def _black_out(self, rng: random.Random) -> None:
        """Perhaps let all servers lose power at once, and come back."""
        if rng.random() >= self.shape.blackout:
            return
        await asyncio.sleep(rng.uniform(0.5, 2.0))
        for number in self._numbers:
            self.cluster.kill(number, "power")
        await asyncio.sleep(1)
        for number in self._numbers:
            await self.cluster.restart(number)
        await self.cluster.ready()

    @property
    def _numbers(self) -> range:
        return range(1, self.shape.servers + 1)

    async def _watch(self) -> None:
        """Compare mirrors with all that their origin has had, again and again."""
        while not self.is_quiet:
            self.look()
            await asyncio.sleep(WATCH_S)

    def look(self) -> None:
        """Note what the origin has, and compare the mirrors. Raises BrokenCopy."""
        self.ledger.note(self.contents(ORIGIN))
        for name, subjects in MIRRORED.items():
            for replica in self.cluster.replicas(name):
                last = replica.last_sequence
                self.ledger.check_progress(
                    f"{name} on {replica.server}", subjects, replica.messages, last
                )

    def _configure(self, options: Options) -> Options:
        jetstream = replace(
            options.jetstream,
            sync_always=self.shape.sync_always,
            sync_interval_s=SYNC_INTERVAL_S,
        )
        return replace(options, jetstream=jetstream, server_tags=(options.server_name,))

    # --- clients -------------------------------------------------------------------------------

    async def _connected(self) -> NatsClient:
        while True:
            with contextlib.suppress(*FAILURES):
                return await nats.connect(
                    [self.cluster.url(number) for number in self._numbers],
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=0.5,
                    connect_timeout=1,
                    ping_interval=1,
                    max_outstanding_pings=2,
                    error_cb=_unheard,
                )
            await asyncio.sleep(0.2)

    async def _call(self, call: str, body: object = None) -> dict[str, Any] | None:
        """The answer to a call of the API; None without one."""
        payload = b"" if body is None else json.dumps(body).encode()
        with contextlib.suppress(*FAILURES):
            reply = await self.client.request(f"$JS.API.{call}", payload, timeout=ANSWER_S)
            answer: dict[str, Any] = json.loads(reply.data)
            self.last_answer = answer
            return answer
        return None

    async def _create(self, name: str) -> bool:
        shape, settings = self.shape, dict(CONFIGS[name])
        replicas = shape.replicas if name in SUBJECTS else shape.copy_replicas
        settings["num_replicas"] = replicas
        if name == AGGREGATE and shape.kept:
            settings["max_msgs"] = shape.kept
        if replicas == 1:
            number = shape.origin_server if name in SUBJECTS else shape.copy_server
            settings["placement"] = {"tags": [self.cluster.names[number - 1]]}
        answer = await self._call(f"STREAM.CREATE.{name}", {"name": name, **settings})
        return answer is not None and "error" not in answer

    async def _publish(self, rng: random.Random, stream: str) -> None:
        count = 0
        while not self.is_quiet:
            count += 1
            await self._publish_one(rng.choice(SUBJECTS[stream]), f"{stream}.{count}")
            await asyncio.sleep(rng.uniform(0, 0.3))
        for subject in SUBJECTS[stream]:
            while not await self._publish_one(subject, f"{stream}.end.{subject}.{count}"):
                count += 1
                await asyncio.sleep(0.5)

    async def _publish_one(self, subject: str, body: str) -> bool:
        self.bodies[body] = subject
        with contextlib.suppress(*FAILURES):
            reply = await self.client.request(subject, body.encode(), timeout=ANSWER_S)
            answer = json.loads(reply.data)
            self.published += "seq" in answer
            return "error" not in answer
        return False

    async def _operate(self, rng: random.Random) -> None:
        kinds = ("step down", "step down", *(REMOVALS if self.shape.removes else ()))
        while not self.is_quiet:
            await asyncio.sleep(rng.uniform(0, 4))
            kind = rng.choice(kinds)
            if kind == "purge":
                await self._purge(rng.choice((ORIGIN, OTHER)))
            elif kind == "delete":
                contents = self.contents(ORIGIN)
                if contents:
                    sequence = rng.choice(contents).sequence
                    self.ledger.deleted.add(sequence)
                    await self._call(f"STREAM.MSG.DELETE.{ORIGIN}", {"seq": sequence})
            elif kind == "create again":
                await self._call(f"STREAM.DELETE.{OTHER}")
                await self._until(f"creation of {OTHER}", partial(self._create, OTHER))
            else:
                await self._call(f"STREAM.LEADER.STEPDOWN.{rng.choice([*CONFIGS])}")

    async def _purge(self, name: str) -> None:
        if name != ORIGIN:
            await self._call(f"STREAM.PURGE.{name}", {"keep": 3})
            return
        self.ledger.begin_purge()
        answer = await self._call(f"STREAM.PURGE.{name}", {"keep": 3})
        if answer is not None and "error" not in answer:
            self.ledger.note(self.contents(ORIGIN))
            self.ledger.end_purge()

    async def _until(self, what: str, is_done: Callable[[], object]) -> None:
        deadline_s = self.world.loop.now_s() + SETTLED_S_MAX
        while True:
            answer = is_done()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return
            if self.world.loop.now_s() > deadline_s:
                raise BrokenCopy(f"{what} takes too long: {self._describe()}, {self.last_answer}")
            await asyncio.sleep(POLL_S)

    def _describe(self) -> str:
        return ", ".join(f"{name}: {len(self.contents(name))}" for name in CONFIGS)

    # --- the account ---------------------------------------------------------------------------

    def contents(self, name: str) -> list[Message]:
        """The messages of a stream, as the replica with the longest log has them."""
        replicas = self.cluster.replicas(name)
        if not replicas:
            return []
        longest = max(replicas, key=lambda replica: replica.last_sequence)
        headers: Any = longest.state["headers"]
        return [
            Message(
                sequence,
                longest.messages[sequence].subject,
                header,
                longest.messages[sequence].body,
                longest.messages[sequence].time_ns,
            )
            for sequence, header in headers
        ]

    def _has_settled(self) -> bool:
        """Whether every message that an origin has is in its copies."""
        origin, other = self.contents(ORIGIN), self.contents(OTHER)
        mirrored = {each.sequence for each in self.contents(MIRROR)}
        filtered = {each.sequence for each in self.contents(FILTERED)}
        bodies = {each.body for each in self.contents(AGGREGATE)}
        sourced = {each.body for each in (*origin, *other) if each.subject in SOURCED}
        if self.shape.kept:
            aggregate = self.contents(AGGREGATE)
            witnessed = {each.sequence for each in self.contents(WITNESS)}
            return witnessed >= {each.sequence for each in aggregate}
        return (
            mirrored >= {each.sequence for each in origin}
            and filtered >= {each.sequence for each in origin if each.subject == WANTED}
            and bodies >= sourced
        )

    def check(self) -> None:
        """Raises BrokenCopy if a copy has anything that its origin has not said."""
        self.look()
        for name, subjects in MIRRORED.items():
            found = self.contents(name)
            strange = [each for each in found if each.subject not in subjects]
            if strange:
                raise BrokenCopy(f"{name} has {strange}, which its filter leaves out")
            self._check_mirror(name, found)
        self._check_aggregate(self.contents(AGGREGATE))
        if self.shape.sync_always:
            # Otherwise the aggregate may lose messages with its power, and get them again.
            self._check_aggregate(self.contents(WITNESS))

    def _check_mirror(self, name: str, found: list[Message]) -> None:
        if len({each.body for each in found}) < len(found):
            raise BrokenCopy(f"{name} has a message twice")
        times_ns = [each.timestamp_ns for each in found]
        if times_ns != sorted(times_ns):
            raise BrokenCopy(f"{name} goes back in time")
        for message in found:
            if self.bodies.get(message.body) != message.subject:
                raise BrokenCopy(f"{name} has {message}, which nobody has published")
        self.ledger.check_contents(name, found)
        if self.shape.removes or not self.shape.sync_always:
            return
        origin = [each for each in self.contents(ORIGIN) if each.subject in MIRRORED[name]]
        if origin != found:
            raise BrokenCopy(f"{name} has {found}, and its origin {origin}")

    def _check_aggregate(self, found: list[Message]) -> None:
        last: dict[tuple[bytes, bytes], int] = {}
        for message in found:
            value = value_of(message.header, names.STREAM_SOURCE)
            provenance = None if value is None else read_provenance(value)
            if provenance is None:
                raise BrokenCopy(f"{message} has no origin")
            if self.bodies.get(message.body) != provenance.subject.decode():
                raise BrokenCopy(f"{message} was not published on its subject")
            stored = SOURCED.get(provenance.subject.decode())
            if stored != message.subject:
                raise BrokenCopy(f"{message} should be stored under {stored}")
            key = provenance.index_name, provenance.identity
            if provenance.sequence <= last.get(key, 0):
                raise BrokenCopy(f"{message} comes behind {last[key]} of its source")
            last[key] = provenance.sequence
        if not (self.shape.removes or self.shape.kept):
            sources = (*self.contents(ORIGIN), *self.contents(OTHER))
            lost = {each.body for each in sources if each.subject in SOURCED}
            lost -= {each.body for each in found}
            if lost:
                raise BrokenCopy(f"the aggregate lacks {lost}")
        repeated = _repeated(each.body for each in found)
        if repeated:
            raise BrokenCopy(f"the aggregate has {repeated} more than once")


def _repeated(bodies: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    found = []
    for body in bodies:
        if body in seen:
            found.append(body)
        seen.add(body)
    return found


async def _unheard(error: Exception) -> None:
    """nats-py prints errors nobody listens to; here they are expected."""


SHAPES = {
    "one server": Shape(),
    "one server, always": Shape(sync_always=True),
    "two servers": Shape(copy_server=2),
    "a short aggregate": Shape(copy_server=2, sync_always=True, kept=5),
    "three replicas": Shape(replicas=3, copy_replicas=3, sync_always=True),
    "three replicas, interval": Shape(replicas=3, copy_replicas=3),
    "one replica, three of the copy": Shape(copy_replicas=3, sync_always=True),
    "three replicas, one of the copy": Shape(replicas=3, sync_always=True),
    "three replicas, five of the copy": Shape(
        servers=5, replicas=3, copy_replicas=5, sync_always=True
    ),
    "no removals": Shape(copy_server=2, sync_always=True, removes=False),
    "three replicas, no removals": Shape(
        replicas=3, copy_replicas=3, sync_always=True, removes=False
    ),
}


def run(seed: int, shape: Shape) -> tuple[World, CopyingScenario]:
    """One run of a seed."""
    world = World(seed, virtual_s_max=VIRTUAL_S_MAX)
    scenario = CopyingScenario(shape)
    world.run(scenario.run)
    return world, scenario
