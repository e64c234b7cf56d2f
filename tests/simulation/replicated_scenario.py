"""The streams of a whole cluster while its servers, links and disks fail.

Clients run on hosts of their own, which fail too. They record what they do; after the faults, the
scenario lets them finish and the consumers be drained, compares the replicas, and has the checker
judge each stream's history.

The shape of a run is a parameter: the number of servers, the replicas of each stream, and the
faults. A stream with one replica is on the first server, to which all clients then connect.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

import nats
from nats.aio.client import Client as NatsClient

from headwater.checker import insist_features, judge_features
from headwater.checker.evidence import Evidence
from headwater.checker.history import (
    INTEREST,
    WORK_QUEUE,
    History,
    Loss,
    StreamRules,
)
from headwater.checker.judge import insist
from headwater.checker.replicas import check_replicas
from headwater.server.configuration.options import AccountOptions, Options, UserOptions
from headwater.testing import Cluster, Episode, FaultPlan, World
from headwater.testing.faults import (
    BitFlip,
    Crash,
    Cut,
    Drift,
    Fault,
    FullDisk,
    HalfOpen,
    Jump,
    Partition,
    Pause,
    Refuse,
    Slow,
)
from headwater.testing.recorder import Recorder
from tests.simulation.featured_clients import (
    FEATURED,
    IN_MEMORY,
    PINNED,
    PINNED_CONFIG,
    PINNED_CONSUMER,
    featured_programs,
)
from tests.simulation.replicated_clients import (
    ADMINISTRATOR,
    CONSUMERS,
    EAST,
    LOG,
    OPERATOR,
    PUBLISHERS,
    READER,
    WEST,
    WORK,
    WORKERS,
    Administrator,
    Operator,
    Program,
    Publisher,
    Reader,
    Worker,
)

NS_PER_S = 1_000_000_000
SYNC_INTERVAL_S = 2.0
ACK_WAIT_S = 2.0
SETTLED_S_MAX = 120.0
# Jumps of the clock are of 10 s at most, and not of a day.
JUMP_RATIO = 8_640
POLL_S = 0.25
# Ids must be remembered for longer than any run lasts, also by clocks that are set forward.
DUPLICATE_WINDOW_S = 30 * 24 * 3600

SYSTEM = AccountOptions("SYS", (UserOptions("admin", "admin", "SYS"),))

KINDS: tuple[type[Fault], ...] = (
    Cut,
    HalfOpen,
    Partition,
    Slow,
    Refuse,
    Pause,
    Crash,
    Drift,
    Jump,
    FullDisk,
)
# The longest time of a sync, by run: from a good disk to a bad one.
SYNCS_S_MAX = (0.002, 0.02, 0.2)
FAILURES = (nats.errors.Error, OSError, TimeoutError)


class Stuck(AssertionError):
    """A cluster without faults did not do its work in time."""


@dataclass(frozen=True)
class Shape:
    """The parameters of a run."""

    servers: int = 3
    replicas: int = 1
    sync_always: bool = True
    # Virtual seconds of work before the first fault.
    calm_s: float = 3.0
    episodes: int = 2
    kinds: tuple[type[Fault], ...] = KINDS
    # The probability that all servers lose power at once, at the end of the faults.
    blackout: float = 0.5
    # The longest time between two bits that flip on the disks of a minority of the replicas, while
    # faults strike; 0 for no such bits. A message is whole on all other disks.
    flip_s_max: float = 6.0
    # The time for which a publish waits for its quorum, as the server has it.
    ack_timeout_s: float = 3.0
    # Whether streams are scaled and moved, lose peers, and have their leaders stepped down.
    changes: bool = False
    # The retention of the stream of work.
    retention: str = WORK_QUEUE
    # Whether there are streams with counters, schedules, times to live and roll-ups, in files and
    # in memory, and clients that are pinned.
    features: bool = False

    @property
    def bad_disks(self) -> int:
        """The number of servers whose disks flip bits: a minority of those of each stream."""
        is_everywhere = self.servers == self.replicas and not self.changes
        return (self.replicas - 1) // 2 if self.flip_s_max and is_everywhere else 0

    @property
    def fewest_replicas(self) -> int:
        """The least number of servers that ever have a stream."""
        return 1 if self.changes else self.replicas


SHAPES = {
    "always": Shape(),
    "interval": Shape(sync_always=False),
    "five servers": Shape(servers=5),
    "two replicas": Shape(replicas=2),
    "two replicas, interval": Shape(replicas=2, sync_always=False),
    "three replicas": Shape(replicas=3),
    "three replicas, interval": Shape(replicas=3, sync_always=False),
    "four replicas": Shape(servers=4, replicas=4),
    "four replicas, interval": Shape(servers=4, replicas=4, sync_always=False),
    "five replicas": Shape(servers=5, replicas=5),
    "five replicas, interval": Shape(servers=5, replicas=5, sync_always=False),
    "interest": Shape(replicas=3, retention=INTEREST),
    "features": Shape(replicas=3, features=True),
    "features, interval": Shape(replicas=3, features=True, sync_always=False),
    "features, changes": Shape(servers=5, replicas=3, features=True, changes=True),
    "changes": Shape(servers=5, replicas=3, changes=True),
    "changes, interval": Shape(servers=5, replicas=3, changes=True, sync_always=False),
    "changes, three servers": Shape(replicas=2, changes=True),
}
VIRTUAL_S_MAX = 1_200.0
"""Ten times the longest run: faults end within a minute, and settling is bounded."""


@dataclass
class ReplicatedScenario:
    """One run."""

    shape: Shape = field(default_factory=Shape)
    histories: dict[str, History] = field(init=False)
    # Set when the faults are over: clients finish what they have begun.
    is_quiet: bool = False
    programs: list[Program] = field(default_factory=list)
    # The changes that an administrator has asked for, by kind and by their answer.
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)
    # Servers that lost power since all were last in order.
    powerless: set[str] = field(default_factory=set)
    # The number of bits that have flipped.
    flips: int = 0
    # The streams with features, by name.
    featured: dict[str, History] = field(default_factory=dict)
    # Servers that have ended, with what they had in memory.
    ended: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        log = StreamRules(LOG, duplicate_window_s=DUPLICATE_WINDOW_S)
        work = replace(log, name=WORK, retention=self.shape.retention)
        self.histories = {rules.name: History(rules) for rules in (log, work)}
        if self.shape.features:
            self.featured = {name: History(StreamRules(name)) for name in FEATURED}

    @property
    def replicas(self) -> int:
        """The number of servers that have each stream, at the beginning and in the end."""
        return self.shape.replicas

    @property
    def servers(self) -> int:
        """The number of servers."""
        return self.shape.servers

    async def run(self, world: World) -> None:
        """The whole story."""
        self.world = world
        world.loop.executor_delay_s_max = world.rng("disks").choice(SYNCS_S_MAX)
        self.cluster = Cluster(world, self.shape.servers, configure=self._configure)
        await self.cluster.start()
        await self._create_streams()
        self._install()
        flipping = asyncio.ensure_future(self._flip_bits())
        await asyncio.sleep(self.shape.calm_s)
        for episode in self._plan():
            self._note_losses(episode)
            await episode.run(world)
            await self._in_order()
        rng = world.rng("blackout")
        if rng.random() < self.shape.blackout:
            await asyncio.sleep(rng.uniform(0.5, 2.0))
            await self._black_out()
            await self._in_order()
            if not self.shape.sync_always and self.shape.fewest_replicas > 1:
                await self._until("report of a loss", self._is_loss_reported)
        flipping.cancel()
        self.is_quiet = True
        await self._settle()
        await self._judge()

    def _configure(self, options: Options) -> Options:
        jetstream = replace(
            options.jetstream,
            sync_always=self.shape.sync_always,
            sync_interval_s=SYNC_INTERVAL_S,
            ack_timeout_ns=round(self.shape.ack_timeout_s * NS_PER_S),
        )
        # Clients of a stream on one server are not told of others.
        cluster = replace(options.cluster, no_advertise=self.shape.replicas == 1)
        return replace(
            options,
            jetstream=jetstream,
            cluster=cluster,
            server_tags=self._tags(options.server_name),
            accounts=(SYSTEM,),
            system_account=SYSTEM.name,
        )

    def _tags(self, server: str) -> tuple[str, ...]:
        """The tags of a server: its name, and one half of the cluster or both."""
        number, middle = int(server.removeprefix("s")), (self.shape.servers + 1) / 2
        halves = ((EAST, number <= middle), (WEST, number >= middle))
        return (server, *(tag for tag, is_there in halves if is_there))

    # --- the beginning -------------------------------------------------------------------------

    async def _create_streams(self) -> None:
        client = await self.connected(0)
        settings: dict[str, object] = {
            "num_replicas": self.shape.replicas,
            "allow_direct": True,
            "duplicate_window": DUPLICATE_WINDOW_S * NS_PER_S,
        }
        if self.shape.replicas == 1:
            settings["placement"] = {"tags": [self.cluster.names[0]]}
        configs: dict[str, dict[str, object]] = {
            LOG: {"subjects": ["log.>"], "allow_atomic": True},
            WORK: {"subjects": ["work.>"], "retention": self.shape.retention},
        }
        for name, history in self.histories.items():
            recorder = self.recorder(client, "setup", history)
            config = {"name": name, **settings, **configs[name]}
            await self._until(f"creation of {name}", partial(_create_stream, recorder, config))
            await self._until(
                f"creation of {CONSUMERS[name]}",
                partial(
                    recorder.create_consumer,
                    CONSUMERS[name],
                    ack_wait=round(ACK_WAIT_S * NS_PER_S),
                ),
            )
        for name, history in self.featured.items():
            recorder = self.recorder(client, "setup", history)
            shared = {"name": name, "num_replicas": self.shape.replicas}
            config = {**shared, **FEATURED[name]}
            await self._until(f"creation of {name}", partial(_create_stream, recorder, config))
            if name in PINNED:
                pinned = partial(recorder.create_consumer, PINNED_CONSUMER, **PINNED_CONFIG)
                await self._until(f"creation of a consumer of {name}", pinned)
        await client.close()

    def _install(self) -> None:
        programs: list[Program] = [Publisher(self, name) for name in PUBLISHERS]
        programs += [Worker(self, name, stream, consumer) for name, stream, consumer in WORKERS]
        programs += [Reader(self, READER), Operator(self, OPERATOR)]
        if self.shape.changes:
            programs.append(Administrator(self, ADMINISTRATOR))
        if self.shape.features:
            programs += featured_programs(self)
        self.programs = programs
        for number, program in enumerate(programs):
            program.number = number
            program.install()

    async def connected(self, number: int, **options: Any) -> NatsClient:
        """A client of the cluster, however long it takes. Its number chooses its server."""
        cluster = self.cluster
        count = self.shape.servers
        numbers = [1]
        if self.shape.replicas > 1:
            numbers = [(number + each) % count + 1 for each in range(count)]
        while True:
            with contextlib.suppress(*FAILURES):
                return await nats.connect(
                    [cluster.url(each) for each in numbers],
                    dont_randomize=True,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=0.5,
                    connect_timeout=1,
                    ping_interval=1,
                    max_outstanding_pings=2,
                    error_cb=_unheard,
                    **options,
                )
            await asyncio.sleep(0.2)

    def recorder(self, client: NatsClient, name: str, history: History) -> Recorder:
        return Recorder(client, name, history, self.world.loop.now_s)

    # --- faults --------------------------------------------------------------------------------

    def _plan(self) -> list[Episode]:
        plan = FaultPlan.drawn(
            self.world.rng("faults"),
            servers=self.cluster.names,
            clients=[program.host.name for program in self.programs],
            episodes=self.shape.episodes,
            kinds=self.shape.kinds,
        )
        return [Episode(tuple(map(_with_short_jump, episode.faults))) for episode in plan]

    def _note_losses(self, episode: Episode) -> None:
        """Note the losses of power of an episode after which confirmed changes may be missing."""
        begin_s = self.world.loop.now_s()
        crashes = [
            fault
            for fault in episode.faults
            if isinstance(fault, Crash) and fault.mode == "power" and fault.host in self._holders()
        ]
        for fault in episode.faults:
            if isinstance(fault, Crash) and fault.host in self._holders():
                self._note_end(fault.host, begin_s + fault.at_s)
        for crash in sorted(crashes, key=lambda crash: crash.at_s):
            self._note_loss(crash.host, begin_s + crash.at_s)

    async def _flip_bits(self) -> None:
        """Flip bits of segments on bad disks, now and then."""
        rng = self.world.rng("bit flips")
        bad = rng.sample(self.cluster.names, self.shape.bad_disks)
        while bad:
            await asyncio.sleep(rng.uniform(0.0, self.shape.flip_s_max))
            BitFlip(0.0, 0.0, rng.choice(bad), rng.random(), rng.randrange(8)).begin(self.world)
            self.flips += 1

    def _holders(self) -> tuple[str, ...]:
        """The servers that may have a replica."""
        return self.cluster.names if self.shape.replicas > 1 else self.cluster.names[:1]

    def _note_loss(self, server: str, at_s: float) -> None:
        if self.shape.sync_always:
            return
        self.powerless.add(server)
        if len(self.powerless) > self.shape.fewest_replicas // 2:
            for history in (*self.histories.values(), *self.featured.values()):
                history.losses.append(Loss(at_s, SYNC_INTERVAL_S + 0.5))

    def _note_end(self, server: str, at_s: float) -> None:
        """Note the end of a process. A stream in memory is lost with the second one: the first may
        not have been filled again."""
        self.ended.add(server)
        if len(self.ended) > self.shape.fewest_replicas // 2:
            for name in IN_MEMORY & {*self.featured}:
                self.featured[name].losses.append(Loss(at_s, inf))

    async def _black_out(self) -> None:
        """Let all servers lose power at once, and come back."""
        for number, name in enumerate(self.cluster.names, 1):
            if name in self._holders():
                self._note_loss(name, self.world.loop.now_s())
                self._note_end(name, self.world.loop.now_s())
            self.cluster.kill(number, "power")
        await asyncio.sleep(1)
        for number in range(1, self.shape.servers + 1):
            await self.cluster.restart(number)

    def _is_loss_reported(self) -> bool:
        """Whether a server has said that confirmed changes may be lost."""
        lines = (line for logged in self.cluster.logs.values() for line in logged)
        return any("confirmed changes may be lost" in line for line in lines)

    async def _in_order(self) -> None:
        await self.cluster.ready()
        self.powerless.clear()

    # --- the end -------------------------------------------------------------------------------

    async def _until(self, what: str, is_done: Callable[[], object]) -> None:
        """Ask again and again, until it is done."""
        deadline_s = self.world.loop.now_s() + SETTLED_S_MAX
        while True:
            answer = is_done()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return
            if self.world.loop.now_s() > deadline_s:
                raise Stuck(what)
            await asyncio.sleep(POLL_S)

    async def _settle(self) -> None:
        """Let all clients finish, and drain the consumers."""
        for program in self.programs:
            await self._until(f"{program.host.name} finishes", program.has_finished)
        client = await self.connected(0)
        if self.shape.changes:
            for history in (*self.histories.values(), *self.featured.values()):
                recorder = self.recorder(client, "end", history)
                name = f"{self.replicas} replicas of {recorder.stream}"
                await self._until(name, partial(_is_restored, recorder, self.replicas))
        for _, stream, consumer in WORKERS:
            recorder = self.recorder(client, "end", self.histories[stream])
            await self._until(f"{consumer} is drained", partial(_is_drained, recorder, consumer))
        # A work queue is drained, and has room for one consumer only.
        scan = await self.recorder(client, "end", self.histories[LOG]).scan("final")
        assert scan.is_done, scan
        await client.close()

    async def _judge(self) -> None:
        for name, history in self.histories.items():
            # Replicas that do not become equal are the verdict's to describe.
            with contextlib.suppress(Stuck):
                await self._until(f"equal replicas of {name}", partial(self._are_equal, history))
            servers = [replica.server for replica in history.replicas]
            assert len(servers) == self.shape.replicas, servers
            insist(history)

        for name, history in self.featured.items():
            with contextlib.suppress(Stuck):
                await self._until(f"end of all times in {name}", partial(self._is_over, history))
            insist_features(history)

    def _is_over(self, history: History) -> bool:
        """Whether what a server does by itself is done: schedules have fired, messages are gone."""
        history.replicas = self.cluster.replicas(history.rules.name)
        is_complete = len(history.replicas) == self.shape.replicas
        return is_complete and all(each.holds for each in judge_features(history))

    def _are_equal(self, history: History) -> bool:
        history.replicas = self.cluster.replicas(history.rules.name)
        is_complete = len(history.replicas) == self.shape.replicas
        return is_complete and check_replicas(Evidence(history)).holds


def _with_short_jump(fault: Fault) -> Fault:
    """The fault, with a jump of the clock that is shorter than the end of a run.

    As in nats-server, a message that was delivered by a clock ahead is delivered again when the
    clock of the leader has come so far.
    """
    return replace(fault, by_s=fault.by_s / JUMP_RATIO) if isinstance(fault, Jump) else fault


async def _create_stream(recorder: Recorder, config: dict[str, object]) -> bool:
    answer = await recorder.call(f"STREAM.CREATE.{recorder.stream}", config)
    return answer is not None and "error" not in answer


async def _is_restored(recorder: Recorder, replicas: int) -> bool:
    """Ask for the replicas of the beginning. Returns whether the stream has them."""
    info = await recorder.call(f"STREAM.INFO.{recorder.stream}")
    if info is None or "config" not in info:
        return False
    config = {name: value for name, value in info["config"].items() if name != "placement"}
    others = info.get("cluster", {}).get("replicas") or ()
    if config["num_replicas"] == replicas:
        return len(others) == replicas - 1 and all(each["current"] for each in others)
    wanted = {**config, "num_replicas": replicas}
    await recorder.call(f"STREAM.UPDATE.{recorder.stream}", wanted)
    return False


async def _is_drained(recorder: Recorder, consumer: str) -> bool:
    info = await recorder.call(f"CONSUMER.INFO.{recorder.stream}.{consumer}")
    return (
        info is not None
        and "error" not in info
        and not info["num_pending"]
        and not info["num_ack_pending"]
    )


async def _unheard(error: Exception) -> None:
    """nats-py prints errors nobody listens to; here they are expected."""


def run(seed: int, shape: Shape) -> tuple[World, ReplicatedScenario]:
    """One run of a seed."""
    world = World(seed, virtual_s_max=VIRTUAL_S_MAX)
    scenario = ReplicatedScenario(shape)
    world.run(scenario.run)
    return world, scenario
