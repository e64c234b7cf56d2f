"""Writers and readers of one stream while its server is killed, loses power, and loses its disk.

A stream may also remove messages, in every way there is: random numbers choose those of a run.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from errno import EIO, ENOSPC
from math import inf
from typing import Any

import nats
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from headwater.testing import World
from headwater.testing.disk_faults import Operation
from tests.simulation.core_scenario import connected
from tests.simulation.stored_server import SYNC_INTERVAL_S, StoredServer
from tests.simulation.stream_ledger import (
    Crash,
    CrashMode,
    Limits,
    Promise,
    Request,
    StreamLedger,
    Violation,
    subject_of,
)

FLUSH_S = 0.1
"""The longest time that an async stream keeps a message in memory, with room for a busy server."""
ANSWER_S = 1.0
ROUND_TRIP_S = 0.004
WRITERS = 3
MESSAGES_PER_WRITER = 25
CRASHES = 3
BATCH_SIZE = 3
REPEATED = 0.1
"""The probability that a writer repeats a message it has published before."""
STREAM = "S"
TTL_S = 2
LIMITS = {"messages": 30, "keys": 4}
FEATURES = ("messages", "keys", "roll-ups", "requests", "times", "disk")
"""Limits of the whole and of a subject, messages that take the place of others, requests that
remove and change, messages that go at their own time, and a disk that refuses to be written."""
DISK_FAULTS: tuple[tuple[Operation, str], ...] = (
    ("write", "*/segment*"),
    ("write", "*/journal*"),
    ("write", "*/ahead*"),
    ("sync", "*/ahead*"),
    ("sync", "*/segment*"),
)
STORE_FAILED = 10077
NOTHING = Promise(0, 0)

FAILURES = (nats.errors.Error, OSError, TimeoutError)


@dataclass(frozen=True)
class Durability:
    """A row of the contract: the settings of the stream, and the messages it may lose."""

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
    features: frozenset[str] = frozenset()
    ledger: StreamLedger = field(init=False)
    writing: int = 0
    last_read: int = 0

    def __post_init__(self) -> None:
        chosen = {name: LIMITS[name] for name in LIMITS if name in self.features}
        limits = Limits(chosen.get("messages", 0), chosen.get("keys", 0))
        self.ledger = StreamLedger(self.durability.promise, limits)
        # The descriptions that the stream was to get, each with whether that was answered.
        self.descriptions: list[tuple[str, bool]] = [("", True)]
        self.seen = asyncio.Event()
        self.sent = asyncio.Event()
        self.done = asyncio.Event()
        # Headers by id.
        self.wishes: dict[str, dict[str, str]] = {}

    async def run(self, world: World) -> None:
        """The whole story."""
        await StoredServer().start(world, self.durability.sync_always)
        client = await connected()
        await self._create(client)
        writers = [asyncio.create_task(self._write(world, n)) for n in range(WRITERS)]
        self.writing = WRITERS
        reader = asyncio.create_task(self._read(world))
        operator = asyncio.create_task(self._operate(world))
        await self._crash(world)
        await asyncio.gather(*writers, operator)
        reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reader
        if "times" in self.features:
            await asyncio.sleep(TTL_S + ANSWER_S)
        self.ledger.check(await self._contents(client), world.loop.now_s())
        await self._check_description(client)
        await client.close()

    def _config(self) -> dict[str, object]:
        return {
            "name": STREAM,
            "subjects": ["s.>"],
            "allow_direct": True,
            "allow_atomic": self.durability.has_batches,
            "max_msgs": self.ledger.limits.messages or -1,
            "max_msgs_per_subject": self.ledger.limits.per_subject or -1,
            "allow_rollup_hdrs": "roll-ups" in self.features,
            "allow_msg_ttl": "times" in self.features,
            **self.durability.config,
        }

    async def _create(self, client: NatsClient) -> None:
        config = self._config()
        reply = await client.request(f"$JS.API.STREAM.CREATE.{STREAM}", json.dumps(config).encode())
        assert "error" not in json.loads(reply.data), reply.data

    # --- faults --------------------------------------------------------------------------------

    async def _crash(self, world: World) -> None:
        rng = world.rng("crashes")
        for _ in range(self.crashes):
            await asyncio.sleep(rng.uniform(0.2, 3.0))
            disk_failed_s = await self._break_disk(world)
            # At the worst of moments: somebody has just seen something new, or a message is on its
            # way in or its ack on its way out.
            asked = (self.done,) if "requests" in self.features else ()
            moment = rng.choice((None, self.seen, self.sent, *asked))
            if moment is not None:
                moment.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(moment.wait(), ANSWER_S)
            if moment is self.sent:
                await asyncio.sleep(rng.uniform(0, ROUND_TRIP_S))
            if not self.writing and disk_failed_s == inf:
                return
            mode = rng.choice(self.modes)
            self.ledger.crashes.append(Crash(world.loop.now_s(), mode, disk_failed_s))
            world.crash("server", mode)
            world.host("server").disk.heal()
            await asyncio.sleep(rng.uniform(0.1, 1.0))
            started = world.restart("server")
            assert started is not None
            await started
            if not self.features.isdisjoint(LIMITS):
                await self._check_counts()

    async def _check_counts(self) -> None:
        """The stream keeps its limits right after a crash, not only from the next message on."""
        client = await connected()
        body = json.dumps({"subjects_filter": ">"}).encode()
        with contextlib.suppress(*FAILURES):
            reply = await client.request(f"$JS.API.STREAM.INFO.{STREAM}", body, timeout=ANSWER_S)
            self.ledger.check_counts(json.loads(reply.data)["state"].get("subjects", {}))
        await client.close()

    async def _break_disk(self, world: World) -> float:
        """Perhaps let the disk refuse, for the rest of this life of the server; since when."""
        rng = world.rng("disk faults", len(self.ledger.crashes))
        if "disk" not in self.features or rng.random() < 0.4:
            return inf
        operation, pattern = rng.choice(DISK_FAULTS)
        code = rng.choice((EIO, ENOSPC))
        disk, skip = world.host("server").disk, rng.randrange(20)
        since_s = world.loop.now_s()
        disk.fail(operation, pattern, code=code, skip=skip, times=None, kept_size=None)
        await asyncio.sleep(rng.uniform(0, 1.0))
        return since_s

    # --- the operator: requests that remove messages -------------------------------------------

    async def _operate(self, world: World) -> None:
        if "requests" not in self.features:
            return
        rng = world.rng("operator")
        client = await connected()
        while self.writing:
            await asyncio.sleep(rng.uniform(0.2, 1.5))
            kind = rng.choice(("purge", "purge", "delete", "delete", "update"))
            if kind == "purge":
                await self._purge(world, client, f"w{rng.randrange(WRITERS)}")
            elif kind == "update":
                await self._update(world, client)
            elif self.ledger.sightings:
                sequence = rng.choice(self.ledger.sightings).sequence
                await self._delete(world, client, sequence, erase=rng.random() < 0.5)
        await client.close()

    async def _purge(self, world: World, client: NatsClient, subject: str) -> None:
        body = {"filter": f"s.{subject}"}

        def takes(sequence: int, identity: str) -> bool:
            return subject_of(identity) == subject

        await self._ask(world, client, "PURGE", body, takes)

    async def _delete(self, world: World, client: NatsClient, sequence: int, erase: bool) -> None:
        body = {"seq": sequence, "no_erase": not erase}
        await self._ask(world, client, "MSG.DELETE", body, lambda found, _: found == sequence)

    async def _ask(
        self,
        world: World,
        client: NatsClient,
        call: str,
        body: Mapping[str, object],
        takes: Callable[[int, str], bool],
    ) -> None:
        sent_s, done_s = world.loop.now_s(), inf
        self.sent.set()
        with contextlib.suppress(*FAILURES):
            subject = f"$JS.API.STREAM.{call}.{STREAM}"
            reply = await client.request(subject, json.dumps(body).encode(), timeout=ANSWER_S)
            if json.loads(reply.data).get("success"):
                done_s = world.loop.now_s()
                self.done.set()
        self.ledger.requests.append(Request(takes, sent_s, done_s))

    async def _update(self, world: World, client: NatsClient) -> None:
        said = f"at {world.loop.now_s()}"
        is_answered = False
        with contextlib.suppress(*FAILURES):
            subject = f"$JS.API.STREAM.UPDATE.{STREAM}"
            config = {**self._config(), "description": said}
            reply = await client.request(subject, json.dumps(config).encode(), timeout=ANSWER_S)
            is_answered = "error" not in json.loads(reply.data)
        self.descriptions.append((said, is_answered))

    async def _check_description(self, client: NatsClient) -> None:
        """Settings that were answered are there in every mode, or later ones."""
        reply = await client.request(f"$JS.API.STREAM.INFO.{STREAM}", b"", timeout=ANSWER_S)
        found = json.loads(reply.data)["config"].get("description", "")
        last = max(at for at, (_, is_answered) in enumerate(self.descriptions) if is_answered)
        possible = [said for said, _ in self.descriptions[last:]]
        if found not in possible:
            raise Violation(f"settings: {found!r} instead of {possible}")

    # --- writers -------------------------------------------------------------------------------

    async def _write(self, world: World, number: int) -> None:
        rng = world.rng("writer", number)
        client = await connected()
        for position in range(MESSAGES_PER_WRITER):
            name = f"w{number}-{position}"
            mine = [each for each in self.wishes if subject_of(each) == subject_of(name)]
            if mine and rng.random() < REPEATED:
                # A writer that does not know whether it has published the message.
                await self._publish_until_acked(world, client, rng.choice(mine))
            if self.durability.has_batches and rng.random() < 0.2:
                await self._publish_batch(world, client, name)
            else:
                await self._publish_until_acked(world, client, name)
            await asyncio.sleep(rng.uniform(0, 0.3))
        self.writing -= 1
        await client.close()

    async def _publish_until_acked(self, world: World, client: NatsClient, name: str) -> None:
        self.ledger.sent.setdefault(name, world.loop.now_s())
        if name not in self.wishes:
            self.wishes[name] = self._wishes(world, name)
        headers = {"Nats-Msg-Id": name, **self.wishes[name]}
        while True:
            self.sent.set()
            try:
                reply = await client.request(
                    f"s.{subject_of(name)}", name.encode(), timeout=ANSWER_S, headers=headers
                )
            except FAILURES:
                await asyncio.sleep(0.1)
                continue
            ack = json.loads(reply.data)
            if self._is_refused_by_disk(ack):
                await asyncio.sleep(0.1)
                continue
            assert "error" not in ack, ack
            self.ledger.saw(ack["seq"], name, world.loop.now_s(), "ack")
            if "Nats-TTL" in headers:
                self.ledger.goes_s[name] = world.loop.now_s() + TTL_S
            return

    def _wishes(self, world: World, name: str) -> dict[str, str]:
        """The headers by which a message asks for more than being stored."""
        rng = world.rng("wishes", name)
        if "roll-ups" in self.features and rng.random() < 0.1:
            self.ledger.roll_ups.add(name)
            return {"Nats-Rollup": "sub"}
        if "times" in self.features and rng.random() < 0.3:
            # The message may be stored although its ack never arrives.
            self.ledger.goes_s[name] = inf
            return {"Nats-TTL": str(TTL_S)}
        return {}

    def _is_refused_by_disk(self, ack: dict[str, Any]) -> bool:
        code = ack.get("error", {}).get("err_code", 0)
        return "disk" in self.features and code == STORE_FAILED

    async def _publish_batch(self, world: World, client: NatsClient, name: str) -> None:
        """Publish a batch once, whether it succeeds or not."""
        identities = [f"{name}.{position}" for position in range(1, BATCH_SIZE + 1)]
        self.ledger.sent.update(dict.fromkeys(identities, world.loop.now_s()))
        self.ledger.batches[name] = identities
        reply: Msg | None = None
        try:
            for position, identity in enumerate(identities, 1):
                headers = {"Nats-Batch-Id": name, "Nats-Batch-Sequence": str(position)}
                if position == BATCH_SIZE:
                    self.sent.set()
                    headers["Nats-Batch-Commit"] = "1"
                reply = await client.request(
                    f"s.{subject_of(name)}", identity.encode(), timeout=ANSWER_S, headers=headers
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
        rng = world.rng("reader")
        client = await connected()
        while True:
            subject = f"s.w{rng.randrange(WRITERS)}"
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
            await asyncio.sleep(rng.uniform(0, 0.02))

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


def features_of(world: World) -> frozenset[str]:
    """The features of a run: none for half of the runs, up to three for the others."""
    rng = world.rng("features")
    count = rng.choice((0, 0, 0, 1, 2, 3))
    return frozenset(rng.sample(FEATURES, count))
