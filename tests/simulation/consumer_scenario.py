"""Writers and consumers of one stream while clients die, and the server is killed or loses power.

A `Layout` holds the kind of the stream and its consumers, drawn from the random numbers of the run.
When all faults are over, everything has to be delivered and acknowledged within a time that no
client could need: a consumer that takes longer is stuck.
"""

import asyncio
import contextlib
import dataclasses
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from errno import EIO
from functools import partial
from math import inf
from typing import Any

import pytest
from nats.aio.client import Client as NatsClient

from headwater.runtime import upkeep
from headwater.server.streams import runners
from headwater.testing import World
from tests.simulation.consumer_clients import (
    ACK_WAIT_S,
    ANSWER_S,
    FAILURES,
    NS_PER_S,
    STREAM,
    DoomedWorker,
    Moments,
    OrderedReader,
    PullWorker,
    PushWorker,
    Worker,
)
from tests.simulation.consumer_ledger import ConsumerLedger, Look, Pause, Rules
from tests.simulation.core_scenario import connected
from tests.simulation.stored_server import StoredServer
from tests.simulation.stream_ledger import Crash, CrashMode, Limits, Request, Violation, subject_of
from tests.simulation.stream_scenario import (
    DISK_FAULTS,
    ROUND_TRIP_S,
    STORE_FAILED,
    Durability,
)

WRITERS = ("w0", "w1", "w2")
MESSAGES_PER_WRITER = 10
SERVER_CRASHES = 2
CLIENT_DEATHS = 3
PAUSE_S = 0.8
BACKOFF_S = (0.3, 0.6)
IDLER = Rules("idler")
DRAIN_S = 4 * ACK_WAIT_S
"""More time than a message needs whose client died with it at the last moment, and one after it."""
BAITS = 8
PROBES = 3
PROBE_S = 0.5 * ACK_WAIT_S
"""A message for a waiting pull comes within this time, sooner than it could be redelivered."""
STORED_MAX = 1000
LOOK_S = 0.3
SHORT_BYTES = 1000
FEW_MESSAGES = 5
VIRTUAL_S_MAX = 60
NO_LIMITS = Limits()


@dataclass(frozen=True)
class Plan:
    """A consumer: its rules, its configuration, and the workers that use it."""

    rules: Rules
    worker: type[Worker] = PullWorker
    workers: int = 1
    config: dict[str, object] = field(default_factory=dict)

    @property
    def is_durable(self) -> bool:
        return self.worker is not OrderedReader

    def full_config(self) -> dict[str, object]:
        rules = self.rules
        config: dict[str, object] = {
            "durable_name": rules.name,
            "ack_policy": rules.acks,
            "ack_wait": round(ACK_WAIT_S * NS_PER_S),
            "filter_subjects": [f"s.{each}" for each in rules.writers],
            **self.config,
        }
        if rules.max_deliver:
            config["max_deliver"] = rules.max_deliver
            config["backoff"] = [round(each * NS_PER_S) for each in BACKOFF_S]
        if self.worker is PushWorker:
            config |= {"deliver_subject": f"push.{rules.name}", "deliver_group": "workers"}
        return config


@dataclass(frozen=True)
class Layout:
    """A stream and its consumers."""

    retention: str
    plans: tuple[Plan, ...]
    limits: Limits = NO_LIMITS
    has_purges: bool = False
    # Whether there is a consumer that nobody uses, until it is deleted.
    has_idler: bool = False
    has_disk_faults: bool = False


def limits_layout(rng: random.Random) -> Layout:
    """A stream that keeps messages whatever happens to them, with consumers of every kind."""
    room = rng.choice((-1, 2, 10))
    plans = [
        Plan(Rules("pull"), workers=2, config={"max_ack_pending": room}),
        Plan(Rules("push"), PushWorker, workers=2, config={"max_ack_pending": room}),
        Plan(Rules("all", "all")),
        Plan(Rules("ordered", "none"), OrderedReader),
        Plan(Rules("few", writers=("w0",), max_deliver=3)),
        Plan(Rules("some", writers=("w1", "w2")), workers=2),
        Plan(Rules("late", is_late=True)),
    ]
    return Layout(
        "limits",
        tuple(rng.sample(plans, 3)),
        Limits(messages=rng.choice((0, 0, 0, 12))),
        has_purges=rng.random() < 0.3,
        has_idler=rng.random() < 0.3,
        has_disk_faults=rng.random() < 0.3,
    )


def work_queue_layout(rng: random.Random) -> Layout:
    """A work queue with four workers, at one consumer or at several."""
    room: dict[str, object] = {"max_ack_pending": rng.choice((-1, 3, 10))}
    one = (Plan(Rules("work"), rng.choice((PullWorker, PullWorker, PushWorker)), 4, room),)
    several = (
        Plan(Rules("first", writers=("w0",)), PullWorker, 2, room),
        Plan(Rules("rest", writers=("w1", "w2")), rng.choice((PullWorker, PushWorker)), 2),
    )
    return Layout(
        "workqueue",
        rng.choice((one, one, several)),
        has_purges=rng.random() < 0.2,
        has_disk_faults=rng.random() < 0.3,
    )


def interest_layout(rng: random.Random) -> Layout:
    """A stream that keeps messages while a consumer needs them; a writer may have no consumer."""
    plans = [
        Plan(Rules("a", writers=("w0", "w1")), workers=2),
        Plan(Rules("b", writers=("w0",)), PushWorker),
        Plan(Rules("c", writers=rng.choice(((), ("w1",))))),
        Plan(Rules("d", "all", writers=("w1", "w2"))),
        Plan(Rules("late", writers=("w0", "w2"), is_late=True)),
    ]
    return Layout(
        "interest",
        tuple(rng.sample(plans, 3)),
        has_purges=rng.random() < 0.2,
        has_idler=rng.random() < 0.5,
        has_disk_faults=rng.random() < 0.3,
    )


@dataclass
class ConsumerScenario:
    """One run: writers, workers, an operator and faults at once, then quiet, then the account."""

    durability: Durability
    layout: Layout
    server_crashes: int = SERVER_CRASHES
    client_deaths: int = CLIENT_DEATHS
    modes: tuple[CrashMode, ...] = ("kill", "power")
    # Whether clients work as well as they can from the beginning.
    is_calm: bool = False
    ledger: ConsumerLedger = field(init=False)
    writing: int = 0

    def __post_init__(self) -> None:
        self.ledger = ConsumerLedger(
            self.durability.promise,
            self.layout.limits,
            rules={plan.rules.name: plan.rules for plan in self.layout.plans},
            lets_go_of_acked=self.layout.retention != "limits",
        )
        self.server = StoredServer()
        self.workers: list[Worker] = []
        self.moments = Moments(self.is_calm)

    async def run(self, world: World) -> None:
        """The whole story."""
        await self.server.start(world, self.durability.sync_always)
        client = await connected()
        await self._create(client)
        if self.durability.promise.power_s:
            # From here on no power loss can take the stream and its consumers away.
            await asyncio.sleep(self.durability.promise.power_s)
        self._install_workers(world)
        self.writing = len(WRITERS)
        tasks = [asyncio.create_task(self._write(world, name)) for name in WRITERS]
        tasks.append(asyncio.create_task(self._operate(world)))
        tasks.append(asyncio.create_task(self._kill_clients(world)))
        await self._crash_server(world)
        await asyncio.gather(*tasks)
        self.moments.is_calm = True
        await self._delete_idler(client)
        await self._drain(world, client)
        await self._check_the_dead_keep_nothing(world, client)
        await self._drain(world, client)
        self.ledger.check(await self._contents(client), world.loop.now_s())
        await client.close()

    # --- how it begins -------------------------------------------------------------------------

    async def _create(self, client: NatsClient) -> None:
        stream = {
            "name": STREAM,
            "subjects": ["s.>"],
            "allow_direct": True,
            "retention": self.layout.retention,
            "max_msgs": self.layout.limits.messages or -1,
            **self.durability.config,
        }
        await asked(client, f"STREAM.CREATE.{STREAM}", stream)
        for plan in self.layout.plans:
            if plan.is_durable and not plan.rules.is_late:
                await self._create_consumer(client, plan.full_config())
        if self.layout.has_idler:
            await self._create_consumer(client, Plan(IDLER).full_config())

    async def _create_consumer(self, client: NatsClient, config: dict[str, object]) -> None:
        body = {"stream_name": STREAM, "config": config}
        await asked(client, f"CONSUMER.DURABLE.CREATE.{STREAM}.{config['durable_name']}", body)

    def _install_workers(self, world: World) -> None:
        for plan in self.layout.plans:
            for number in range(plan.workers):
                host = world.host(f"{plan.rules.name}-{number}")
                config = plan.full_config()
                worker = plan.worker(world, self.ledger, self.moments, plan.rules, host, config)
                worker.install()
                self.workers.append(worker)

    # --- writers -------------------------------------------------------------------------------

    async def _write(self, world: World, name: str) -> None:
        rng = world.rng("writer", name)
        client = await connected()
        for position in range(MESSAGES_PER_WRITER):
            await self._publish_until_acked(world, client, f"{name}-{position}")
            await asyncio.sleep(rng.uniform(0, 0.3))
        self.writing -= 1
        await client.close()

    async def _publish_until_acked(self, world: World, client: NatsClient, name: str) -> float:
        """Returns when it was acknowledged."""
        self.ledger.sent[name] = world.loop.now_s()
        subject, headers = f"s.{subject_of(name)}", {"Nats-Msg-Id": name}
        while True:
            self.moments.sent.set()
            try:
                reply = await client.request(
                    subject, name.encode(), timeout=ANSWER_S, headers=headers
                )
            except FAILURES:
                await asyncio.sleep(0.1)
                continue
            ack = json.loads(reply.data)
            if ack.get("error", {}).get("err_code") == STORE_FAILED:
                await asyncio.sleep(0.1)
                continue
            assert "error" not in ack, ack
            if ack["seq"]:
                self.ledger.saw(ack["seq"], name, world.loop.now_s(), "ack")
            return world.loop.now_s()

    # --- faults --------------------------------------------------------------------------------

    async def _crash_server(self, world: World) -> None:
        rng = world.rng("crashes")
        host = world.host("server")
        for _ in range(self.server_crashes):
            await asyncio.sleep(rng.uniform(0.2, 1.5))
            disk_failed_s = await self._break_disk(world, rng)
            await self._worst_moment(rng)
            if disk_failed_s == inf and rng.random() < 0.2:
                # In good order: that costs nothing.
                await host.run(self.server.running.stop())
                world.crash("server", "kill")
            else:
                mode = rng.choice(self.modes)
                self.ledger.crashes.append(Crash(world.loop.now_s(), mode, disk_failed_s))
                world.crash("server", mode)
            host.disk.heal()
            await asyncio.sleep(rng.uniform(0.1, 1.0))
            started = world.restart("server")
            assert started is not None
            await started

    async def _break_disk(self, world: World, rng: random.Random) -> float:
        """Perhaps let the disk refuse, for the rest of this life of the server; since when."""
        if not self.layout.has_disk_faults or rng.random() < 0.5:
            return inf
        since_s = world.loop.now_s()
        operation, pattern = rng.choice(DISK_FAULTS)
        disk, skip = world.host("server").disk, rng.randrange(20)
        disk.fail(operation, pattern, code=EIO, skip=skip, times=None, kept_size=None)
        await asyncio.sleep(rng.uniform(0, 1.0))
        return since_s

    async def _kill_clients(self, world: World) -> None:
        rng = world.rng("deaths")
        for _ in range(self.client_deaths):
            await asyncio.sleep(rng.uniform(0.1, 1.0))
            await self._worst_moment(rng)
            name = rng.choice(self.workers).host.name
            self.ledger.deaths_s.append(world.loop.now_s())
            mode = rng.choice(("kill", "power", "cut"))
            if mode == "cut":
                for connection in world.network.connections(name, "server"):
                    world.network.cut(connection)
                continue
            world.crash(name, "kill" if mode == "kill" else "power")
            await asyncio.sleep(rng.uniform(0.1, 0.8))
            world.restart(name)

    async def _worst_moment(self, rng: random.Random) -> None:
        """Wait until a message is on its way in, on its way out, or is being acknowledged."""
        moments = self.moments
        moment = rng.choice((None, moments.sent, moments.seen, moments.acked, moments.acked))
        if moment is None:
            return
        moment.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(moment.wait(), ANSWER_S)
        await asyncio.sleep(rng.uniform(0, ROUND_TRIP_S))

    # --- the operator: looks, pauses and purges ------------------------------------------------

    async def _operate(self, world: World) -> None:
        rng = world.rng("operator")
        client = await connected()
        while self.writing:
            await asyncio.sleep(rng.uniform(0.1, 0.5))
            plan = rng.choice([plan for plan in self.layout.plans if plan.is_durable])
            kind = rng.choice(("count", "count", "count", "pause", "purge", "update", "delete"))
            with contextlib.suppress(*FAILURES, Refused):
                if kind == "count":
                    await self._count(world, client, plan.rules)
                elif kind == "pause" and rng.random() < 0.5:
                    await self._pause(world, client, plan.rules.name)
                elif kind == "purge" and self.layout.has_purges:
                    await self._purge(world, client, rng.choice(WRITERS))
                elif kind == "update" and not plan.rules.is_late:
                    room = {"max_ack_pending": rng.choice((2, 20))}
                    await self._create_consumer(client, plan.full_config() | room)
                elif kind == "delete" and self.layout.has_idler:
                    await asked(client, f"CONSUMER.DELETE.{STREAM}.{IDLER.name}")
        await self._leave(client)

    async def _leave(self, client: NatsClient) -> None:
        """Close a client that is connected: nats-py leaves a task behind with a lost connection."""
        is_connected = False
        while not is_connected:
            with contextlib.suppress(*FAILURES, OSError):
                await client.flush()
            is_connected = client.is_connected
            if not is_connected:
                await asyncio.sleep(0.01)
        await client.close()

    async def _delete_idler(self, client: NatsClient) -> None:
        """Delete the idle consumer until it is gone: a crash may lose an earlier deletion."""
        while self.layout.has_idler:
            try:
                await asked(client, f"CONSUMER.DELETE.{STREAM}.{IDLER.name}")
            except FAILURES:
                await asyncio.sleep(0.1)
            except Refused:
                return

    async def _look(self, world: World, client: NatsClient, rules: Rules) -> dict[str, Any]:
        """Ask a consumer how it stands."""
        since_s, lives = world.loop.now_s(), len(self.ledger.crashes)
        found = await asked(client, f"CONSUMER.INFO.{STREAM}.{rules.name}")
        if lives == len(self.ledger.crashes):
            floor, delivered = found["ack_floor"]["stream_seq"], found["delivered"]["stream_seq"]
            self.ledger.looks.append(Look(rules.name, since_s, floor, delivered))
        return found

    async def _count(self, world: World, client: NatsClient, rules: Rules) -> None:
        """Count the messages that a consumer has to deliver, if nothing changes meanwhile."""
        before = await self._look(world, client, rules)
        state_before = await asked(client, f"STREAM.INFO.{STREAM}")
        contents = await self._contents(client)
        state_after = await asked(client, f"STREAM.INFO.{STREAM}")
        after = await self._look(world, client, rules)
        delivered, claimed = before["delivered"]["stream_seq"], before["num_pending"]
        is_quiet = (
            state_before["state"] == state_after["state"]
            and before["delivered"] == after["delivered"]
            and claimed == after["num_pending"]
        )
        counted = sum(
            rules.is_about(identity)
            for sequence, identity in contents.items()
            if sequence > delivered
        )
        if is_quiet and counted != claimed:
            raise Violation(f"pending: {rules.name} counts {claimed}, not {counted}")

    async def _pause(self, world: World, client: NatsClient, name: str) -> None:
        clock = world.host("server").clock
        until_ns = clock.wall_ns() + round(PAUSE_S * NS_PER_S)
        until_s = world.loop.now_s() + PAUSE_S
        seconds, rest_ns = divmod(until_ns, NS_PER_S)
        moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        body = {"pause_until": f"{moment}.{rest_ns:09}Z"}
        reply = await asked(client, f"CONSUMER.PAUSE.{STREAM}.{name}", body)
        if reply["paused"]:
            self.ledger.pauses.append(Pause(name, world.loop.now_s(), until_s))

    async def _purge(self, world: World, client: NatsClient, writer: str) -> None:
        def takes(_: int, identity: str) -> bool:
            return subject_of(identity) == writer

        sent_s, done_s = world.loop.now_s(), inf
        with contextlib.suppress(*FAILURES, Refused):
            await asked(client, f"STREAM.PURGE.{STREAM}", {"filter": f"s.{writer}"})
            done_s = world.loop.now_s()
        self.ledger.requests.append(Request(takes, sent_s, done_s))

    # --- how it ends ---------------------------------------------------------------------------

    async def _drain(self, world: World, client: NatsClient) -> None:
        """Wait until all consumers have nothing left to do; while it becomes less, all is well."""
        to_do = {plan.rules.name: STORED_MAX for plan in self.layout.plans if plan.is_durable}
        until_s = inf
        while to_do:
            before = sum(to_do.values())
            for name in [*to_do]:
                rules = self.ledger.rules[name]
                with contextlib.suppress(*FAILURES, Refused):
                    found = await self._look(world, client, rules)
                    to_do[name] = found["num_pending"] + found["num_ack_pending"]
                    if not to_do[name]:
                        await self._count(world, client, rules)
                        del to_do[name]
            if until_s == inf or sum(to_do.values()) < before:
                until_s = world.loop.now_s() + DRAIN_S
            elif world.loop.now_s() > until_s:
                raise Violation(f"stuck: {to_do}")
            await asyncio.sleep(0.25)
        last = max((seen.sequence for seen in self.ledger.sightings), default=0)
        for reader in [each for each in self.workers if isinstance(each, OrderedReader)]:
            await self._caught_up(world, client, reader, last)

    async def _caught_up(
        self, world: World, client: NatsClient, reader: OrderedReader, last: int
    ) -> None:
        """Wait until an ordered reader has read the last message. Raises Violation if stuck."""
        until_s = world.loop.now_s() + DRAIN_S
        contents = await self._contents(client)
        last = max((each for each in contents if each <= last), default=0)
        while reader.last < last:
            if world.loop.now_s() > until_s:
                raise Violation(f"stuck: {reader.rules.name} at {reader.last} of {last}")
            await asyncio.sleep(0.1)

    async def _check_the_dead_keep_nothing(self, world: World, client: NatsClient) -> None:
        """Messages of a dead client are redelivered in time; its waiting pull takes no others."""
        plans = [
            plan
            for plan in self.layout.plans
            if plan.worker is PullWorker and plan.rules.acks == "explicit"
        ]
        if not plans or not self.client_deaths:
            return
        await asyncio.sleep(PAUSE_S)
        rules = plans[0].rules
        host = world.host("doomed")
        config = plans[0].full_config()
        doomed = DoomedWorker(world, self.ledger, self.moments, rules, host, config, PROBES + 1)
        host.spawn(doomed.boot())
        writer = (rules.writers or WRITERS)[0]
        for number in range(BAITS):
            await self._publish_until_acked(world, client, f"{writer}-bait{number}")
            await asyncio.sleep(PROBE_S / 10)
            if doomed.held is not None:
                break
        else:
            raise Violation(f"stuck: {rules.name} gives nothing to one who waits")
        held, died_s = doomed.held.data.decode(), world.loop.now_s()
        self.ledger.deaths_s.append(died_s)
        world.crash("doomed", "kill")
        await asyncio.sleep(PROBE_S / 10)
        for number in range(PROBES):
            identity = f"{writer}-probe{number}"
            acked_s = await self._publish_until_acked(world, client, identity)
            await asyncio.sleep(PROBE_S)
            self._check_came(rules.name, identity, 0, acked_s + PROBE_S)
        await asyncio.sleep(max(died_s + ACK_WAIT_S + PROBE_S - world.loop.now_s(), 0))
        self._check_came(rules.name, held, died_s, died_s + ACK_WAIT_S + PROBE_S)

    def _check_came(self, consumer: str, identity: str, after_s: float, until_s: float) -> None:
        """Check that a message was delivered in time. Raises Violation."""
        came_s = [
            each.at_s
            for each in self.ledger.deliveries
            if (each.consumer, each.identity) == (consumer, identity) and each.at_s > after_s
        ]
        if min(came_s, default=inf) > until_s:
            raise Violation(f"stuck: {identity} is kept from {consumer}")

    async def _contents(self, client: NatsClient) -> dict[int, str]:
        """Everything in the stream."""
        found: dict[int, str] = {}
        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox)
        body = json.dumps({"seq": 1, "batch": STORED_MAX, "next_by_subj": ">"}).encode()
        try:
            await client.publish(f"$JS.API.DIRECT.GET.{STREAM}", body, reply=inbox)
            while True:
                reply = await subscription.next_msg(timeout=ANSWER_S)
                headers = reply.headers or {}
                if "Nats-Sequence" not in headers:
                    return found
                found[int(headers["Nats-Sequence"])] = reply.data.decode()
        finally:
            with contextlib.suppress(*FAILURES):
                await subscription.unsubscribe()


# --- each defence switched off -----------------------------------------------------------------

SEEDS_FOR_DEFECTS = 60
SEEDS_WITHOUT_FAULTS = 2


@dataclass(frozen=True)
class Defect:
    """A defence that can be switched off, and where that shows as which broken promise."""

    plant: Callable[[pytest.MonkeyPatch], None]
    durability: Durability
    layout: Callable[[random.Random], Layout]
    found: str
    modes: tuple[CrashMode, ...] = ("kill", "power")

    def __str__(self) -> str:
        return self.plant.__name__.removeprefix("_")


def run_scenario(world: World, scenario: ConsumerScenario) -> None:
    """Run it on a server that tidies up all the time, where others do so now and then."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upkeep, "LOOK_S", LOOK_S)
        patch.setattr(upkeep, "REST_S", LOOK_S)
        tidy = partial(
            upkeep.Upkeep,
            short_journal_bytes=SHORT_BYTES,
            few_messages=FEW_MESSAGES,
            short_caller_bytes=SHORT_BYTES,
        )
        patch.setattr(runners, "Upkeep", tidy)
        world.run(scenario.run)


def broken_promise(defect: Defect, patch: pytest.MonkeyPatch) -> bool:
    """Whether a seed finds the violation that a defect causes."""
    defect.plant(patch)
    for seed in range(1, SEEDS_FOR_DEFECTS + 1):
        world = World(seed, virtual_s_max=VIRTUAL_S_MAX)
        layout = defect.layout(world.rng("layout"))
        try:
            run_scenario(world, ConsumerScenario(defect.durability, layout, modes=defect.modes))
        except Violation as violation:
            if re.match(defect.found, str(violation)):
                return True
            raise
    return False


def run_quietly(defect: Defect, patch: pytest.MonkeyPatch) -> None:
    """Run the scenario with a defect but without any faults: every check passes."""
    defect.plant(patch)
    for seed in range(1, SEEDS_WITHOUT_FAULTS + 1):
        world = World(seed, virtual_s_max=VIRTUAL_S_MAX)
        layout = defect.layout(world.rng("layout"))
        layout = dataclasses.replace(layout, has_disk_faults=False)
        run_scenario(world, ConsumerScenario(defect.durability, layout, 0, 0, is_calm=True))


class Refused(Exception):
    """The server answered an API request with an error."""


async def asked(client: NatsClient, call: str, body: object = None) -> dict[str, Any]:
    """Call the API. Raises Refused, and the errors of nats-py."""
    payload = b"" if body is None else json.dumps(body).encode()
    reply = await client.request(f"$JS.API.{call}", payload, timeout=ANSWER_S)
    document: dict[str, Any] = json.loads(reply.data)
    if "error" in document:
        raise Refused(document["error"])
    return document
