"""Clients that read a replicated stream at every level while its servers, links and clocks fail.

Writers and readers are in one history, whose reads the checker judges: linearizable ones are never
stale, and those of sessions are complete up to their marks. An operator has other servers lead, and
changes the level of the stream between those that have linearizable reads.

Clocks drift within the bound that leases allow for, and wall clocks jump.

In a run with mirrors, sequential reads of a strong mirror never go back, and session reads of a
filtered one are complete up to sequences of the origin.
"""

import asyncio
import contextlib
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final

import nats
from nats.aio.client import Client as NatsClient

from headwater.base.clock import NS_PER_S
from headwater.checker.evidence import Evidence
from headwater.checker.history import History, LastRead, Outcome, Publish, ReadLevel, StreamRules
from headwater.checker.judge import insist
from headwater.checker.replicas import check_replicas
from headwater.server.configuration.options import LinearizableReads, Options
from headwater.testing import Cluster, Episode, FaultPlan, World
from headwater.testing.faults import (
    Crash,
    Cut,
    Fault,
    HalfOpen,
    Jump,
    Partition,
    Pause,
    Slow,
)
from headwater.testing.recorder import Recorder

STREAM: Final = "R"
SUBJECTS: Final = ("r.a", "r.b")
# Wall clocks jump by a day, and no message id may be forgotten by that.
CONFIG: Final = {
    "name": STREAM,
    "subjects": ["r.>"],
    "num_replicas": 3,
    "duplicate_window": 30 * 86_400 * NS_PER_S,
}
# A mirror of all messages with sequential reads, and one of a subject that any replica answers for.
STRONG, FILTERED = "M", "F"
MIRRORS: Final[dict[str, dict[str, object]]] = {
    STRONG: {"mirror": {"name": STREAM}, "read_consistency": "strong"},
    FILTERED: {
        "mirror": {"name": STREAM, "filter_subject": SUBJECTS[0]},
        "read_consistency": "weak",
    },
}
SETTLED_S_MAX: Final = 60.0
POLL_S: Final = 0.25
FAILURES = (nats.errors.Error, OSError, TimeoutError)
KINDS: Final[tuple[type[Fault], ...]] = (
    Cut,
    HalfOpen,
    Partition,
    Partition,
    Slow,
    Pause,
    Pause,
    Crash,
    Jump,
)


@dataclass(frozen=True)
class Shape:
    """The parameters of a run."""

    episodes: int = 3
    calm_s: float = 2.0
    kinds: tuple[type[Fault], ...] = KINDS
    by_rounds: bool = False
    # The part by which the clock of a server may be fast or slow.
    drift: float = 0.05
    has_operator: bool = True
    # Whether there are mirrors, and readers of them.
    has_mirrors: bool = False


CALM: Final = Shape(episodes=0, calm_s=6.0, drift=0.0)


@dataclass
class ReadScenario:
    """One run."""

    shape: Shape = field(default_factory=Shape)
    is_quiet: bool = False
    # The number of faults by kind.
    faults: Counter[str] = field(default_factory=Counter)
    history: History = field(default_factory=lambda: History(StreamRules(STREAM)))

    async def run(self, world: World) -> None:
        """The whole story."""
        self.world = world
        self.cluster = Cluster(world, 3, configure=self._configure)
        await self.cluster.start()
        rng = world.rng("clocks")
        for name in self.cluster.names:
            world.drift(name, 1.0 + rng.uniform(-1.0, 1.0) * self.shape.drift)
        await self._create()
        tasks = [asyncio.ensure_future(each) for each in self._programs()]
        await asyncio.sleep(self.shape.calm_s)
        for episode in self._plan():
            self.faults.update(type(each).__name__ for each in episode.faults)
            await episode.run(world)
            await self.cluster.ready()
        self.is_quiet = True
        await asyncio.wait_for(asyncio.gather(*tasks), SETTLED_S_MAX)
        await self._judge()

    def _configure(self, options: Options) -> Options:
        way = LinearizableReads.QUORUM if self.shape.by_rounds else LinearizableReads.LEASE
        jetstream = replace(options.jetstream, sync_always=True, linearizable_reads=way)
        return replace(options, jetstream=jetstream)

    def _plan(self) -> list[Episode]:
        plan = FaultPlan.drawn(
            self.world.rng("faults"),
            servers=self.cluster.names,
            clients=(),
            episodes=self.shape.episodes,
            kinds=self.shape.kinds,
        )
        return [*plan]

    # --- clients -------------------------------------------------------------------------------

    def _programs(self) -> list["asyncio.Future[None]"]:
        programs = [self._writer(number) for number in (1, 2)]
        programs += [self._linearizable(number) for number in (1, 2, 3)]
        programs += [self._session(number) for number in (1, 2, 3)]
        programs += [self._weak(2)]
        if self.shape.has_operator:
            programs.append(self._operator())
        if self.shape.has_mirrors:
            programs += [self._sequential(number) for number in (1, 2, 3)]
            programs += [self._session_on_mirrors(number) for number in (1, 2, 3)]
        return [asyncio.ensure_future(each) for each in programs]

    async def connected(self, number: int) -> NatsClient:
        """A client of one server, however long it takes."""
        while True:
            with contextlib.suppress(*FAILURES):
                return await nats.connect(
                    self.cluster.url(number),
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=0.2,
                    connect_timeout=1,
                    ping_interval=1,
                    error_cb=_unheard,
                )
            await asyncio.sleep(0.2)

    async def _recorder(self, number: int, name: str) -> Recorder:
        client = await self.connected(number)
        return Recorder(client, name, self.history, self.world.loop.now_s, answer_s=1.0)

    def _rng(self, name: str) -> random.Random:
        return self.world.rng("client", name)

    async def _create(self) -> None:
        recorder = await self._recorder(1, "setup")
        await self._create_one(recorder, {**CONFIG, "read_consistency": "weak"})
        if self.shape.has_mirrors:
            for name, settings in MIRRORS.items():
                await self._create_one(recorder, {"name": name, "num_replicas": 3, **settings})

    async def _create_one(self, recorder: Recorder, config: dict[str, object]) -> None:
        for _ in range(100):
            answer = await recorder.call(f"STREAM.CREATE.{config['name']}", config)
            if answer is not None and "error" not in answer:
                return
            await asyncio.sleep(POLL_S)
        raise AssertionError(f"the stream is not created: {answer}")

    async def _writer(self, number: int) -> None:
        name = f"w{number}"
        recorder, rng = await self._recorder(number, name), self._rng(name)
        count = 0
        while not self.is_quiet:
            count += 1
            body = f"{name}.{count}"
            subject = rng.choice(SUBJECTS)
            is_acked = False
            while not is_acked:
                is_acked = (await recorder.publish(subject, body, message_id=body)).is_done
                await asyncio.sleep(rng.uniform(0.0, 0.1))

    async def _linearizable(self, number: int) -> None:
        name = f"l{number}"
        recorder, rng = await self._recorder(number, name), self._rng(name)
        while not self.is_quiet:
            await recorder.read_last(
                rng.choice(SUBJECTS), ReadLevel.LINEARIZABLE, is_message_get=rng.random() < 0.3
            )
            await asyncio.sleep(rng.uniform(0.0, 0.1))

    async def _weak(self, number: int) -> None:
        name = f"k{number}"
        recorder, rng = await self._recorder(number, name), self._rng(name)
        while not self.is_quiet:
            await recorder.read_last(rng.choice(SUBJECTS), ReadLevel.WEAK)
            await asyncio.sleep(rng.uniform(0.0, 0.2))

    async def _session(self, number: int) -> None:
        """Writes through one server, and reads what it has seen through another."""
        name = f"s{number}"
        writer = await self._recorder(number, name)
        reader, rng = await self._recorder(number % 3 + 1, name), self._rng(name)
        mark = count = 0
        while not self.is_quiet:
            count += 1
            subject = rng.choice(SUBJECTS)
            publish = await writer.publish(subject, f"{name}.{count}")
            if publish.is_done:
                mark = max(mark, publish.sequence)
            read = await reader.read_last(subject, ReadLevel.SESSION, min_sequence=mark)
            if read.is_done:
                mark = max(mark, read.complete_to)
            await asyncio.sleep(rng.uniform(0.0, 0.3))

    async def _sequential(self, number: int) -> None:
        name = f"q{number}"
        recorder, rng = await self._recorder(number, name), self._rng(name)
        while not self.is_quiet:
            await recorder.read_last(rng.choice(SUBJECTS), ReadLevel.SEQUENTIAL, mirror=STRONG)
            await asyncio.sleep(rng.uniform(0.0, 0.1))

    async def _session_on_mirrors(self, number: int) -> None:
        """Writes to the origin, mostly what the filtered mirror leaves out, and reads the mirrors.

        The mark of a session is a sequence of the origin, whichever mirror answers.
        """
        name = f"t{number}"
        writer = await self._recorder(number, name)
        reader, rng = await self._recorder(number % 3 + 1, name), self._rng(name)
        mark = count = 0
        while not self.is_quiet:
            count += 1
            subject = SUBJECTS[rng.random() < 0.7]
            publish = await writer.publish(subject, f"{name}.{count}")
            if publish.is_done:
                mark = max(mark, publish.sequence)
            mirror = rng.choice((STRONG, FILTERED))
            # The filtered mirror hears within some seconds of what it leaves out.
            for _ in range(20):
                read = await reader.read_last(
                    SUBJECTS[0], ReadLevel.SESSION, min_sequence=mark, mirror=mirror
                )
                if read.is_done:
                    mark = max(mark, read.complete_to)
                    break
                await asyncio.sleep(0.1)
            await asyncio.sleep(rng.uniform(0.0, 1.0))

    async def _operator(self) -> None:
        recorder, rng = await self._recorder(3, "o"), self._rng("o")
        while not self.is_quiet:
            await asyncio.sleep(rng.uniform(0.5, 3.0))
            if rng.random() < 0.6:
                names = (STREAM, STRONG, FILTERED) if self.shape.has_mirrors else (STREAM,)
                await recorder.call(f"STREAM.LEADER.STEPDOWN.{rng.choice(names)}")
            else:
                config = {**CONFIG, "read_consistency": rng.choice(("weak", "strong"))}
                await recorder.call(f"STREAM.UPDATE.{STREAM}", config)

    # --- the end -------------------------------------------------------------------------------

    async def _judge(self) -> None:
        for _ in range(round(SETTLED_S_MAX / POLL_S)):
            if self._are_equal():
                break
            await asyncio.sleep(POLL_S)
        assert len(self.history.replicas) == 3
        insist(self.history)

    def _are_equal(self) -> bool:
        self.history.replicas = self.cluster.replicas(STREAM)
        return len(self.history.replicas) == 3 and check_replicas(Evidence(self.history)).holds

    def answered(self, level: ReadLevel) -> list[LastRead]:
        """The reads of a level that were answered."""
        reads = self.history.all_of(LastRead)
        return [each for each in reads if each.level is level and each.is_done]

    def refused(self, level: ReadLevel) -> list[LastRead]:
        """The reads of a level that were refused."""
        reads = self.history.all_of(LastRead)
        return [each for each in reads if each.level is level and each.outcome is Outcome.REFUSED]

    def counts(self) -> dict[str, int]:
        """The numbers of answered reads by level, of acked publishes and of faults by kind."""
        levels = (ReadLevel.LINEARIZABLE, ReadLevel.SESSION, ReadLevel.WEAK)
        reads = {level.name.lower(): len(self.answered(level)) for level in levels}
        return {**reads, "acked": self.acked, **dict(sorted(self.faults.items()))}

    @property
    def acked(self) -> int:
        """The number of publishes that were acked."""
        return sum(each.is_done for each in self.history.all_of(Publish))


async def _unheard(error: Exception) -> None:
    """nats-py prints errors nobody listens to; here they are expected."""
