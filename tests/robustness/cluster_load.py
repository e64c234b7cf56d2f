"""Clients of a replicated stream that work while its servers fail, and the check of the outcome.

Publishers repeat every message under its id until it is acked. Workers pull from a durable consumer
and wait for the confirmation of each ack. All of them are nats-py clients that know all servers
and record their operations for the checker.

Must not know: which faults there are.
"""

import asyncio
import contextlib
import itertools
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import nats
from nats.aio.client import Client as NatsClient

from headwater.checker.history import History, Outcome, Publish, Replica, Stored, StreamRules
from headwater.checker.judge import insist
from headwater.testing.recorder import Recorder

NS_PER_S: Final = 1_000_000_000
STREAM: Final = "LOG"
CONSUMER: Final = "C"
PUBLISHERS: Final = ("p1", "p2", "p3")
WORKERS: Final = ("w1", "w2")
# Publishes of one publisher that are under way at once.
IN_FLIGHT: Final = 4
PAUSE_S: Final = 0.02
POLL_S: Final = 0.05
PATIENCE_S: Final = 120.0
"""The time that anything may take; a healthy cluster takes a few seconds on an idle machine."""
# Ids must be remembered for longer than any run lasts.
DUPLICATE_WINDOW_S: Final = 7_200
ACK_WAIT_S: Final = 5
PULL_S: Final = 1.0
PULL_BATCH: Final = 20
READ_BATCH: Final = 500
# The acks that show that a client goes on.
PROGRESS: Final = 12

Document = dict[str, Any]


async def wait_until(what: str, is_done: Callable[[], Awaitable[object]]) -> None:
    """Ask until it is done."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not await is_done():
        assert time.monotonic() < deadline_s, what
        await asyncio.sleep(POLL_S)


class Load:
    """The clients of one stream."""

    def __init__(self, urls: dict[str, str]) -> None:
        self._urls = urls
        self.history = History(StreamRules(STREAM, duplicate_window_s=DUPLICATE_WINDOW_S))
        # Confirmed publishes and acks of each client.
        self.progress: Counter[str] = Counter()
        self._clients: dict[str, NatsClient] = {}
        self._recorders: dict[str, Recorder] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._is_quiet = False
        # The numbers of clients that are there for a moment.
        self._extra = itertools.count(1)

    # --- requests ------------------------------------------------------------------------------

    async def call(self, name: str, body: Document | None = None) -> Document:
        """The answer to a request of the JetStream API, empty without one."""
        return await self._recorders["o"].call(name, body) or {}

    async def insist_on(self, name: str, body: Document) -> None:
        """Repeat a request of the API until it is carried out."""
        answers: list[Document] = []

        async def is_done() -> bool:
            answers.append(await self.call(name, body))
            return bool(answers[-1]) and "error" not in answers[-1]

        try:
            await wait_until(name, is_done)
        except AssertionError as error:
            raise AssertionError(f"{name}: {answers[-3:]}") from error

    async def scale(self, replicas: int) -> None:
        """Change the number of replicas of the stream."""
        await self.insist_on(f"STREAM.UPDATE.{STREAM}", _config(replicas))

    async def state(self) -> Document:
        """The answer to STREAM.INFO, with all parts; empty without a leader."""
        answer = await self.call(f"STREAM.INFO.{STREAM}")
        return answer if answer.get("cluster", {}).get("leader") else {}

    async def leader(self) -> str:
        """The leader of the stream."""
        found: list[str] = []

        async def is_led() -> bool:
            state = await self.state()
            found[:] = [state["cluster"]["leader"]] if state else []
            return bool(found)

        await wait_until("the stream has a leader", is_led)
        return found[0]

    # --- life ----------------------------------------------------------------------------------

    async def start(self, replicas: int) -> None:
        """Create stream and consumer, and begin to work."""
        for number, name in enumerate(("o", *PUBLISHERS, *WORKERS)):
            urls = [*self._urls.values()]
            first = number % len(urls)
            client = self._clients[name] = await _connected([*urls[first:], *urls[:first]])
            self._recorders[name] = Recorder(client, name, self.history, time.monotonic)
        await self.insist_on(f"STREAM.CREATE.{STREAM}", _config(replicas))
        consumer = {
            "durable_name": CONSUMER,
            "name": CONSUMER,
            "ack_policy": "explicit",
            "ack_wait": ACK_WAIT_S * NS_PER_S,
            "max_ack_pending": 10_000,
        }
        body = {"stream_name": STREAM, "config": consumer}
        await self.insist_on(f"CONSUMER.CREATE.{STREAM}.{CONSUMER}", body)
        self._tasks = [asyncio.create_task(self._publish(name)) for name in PUBLISHERS]
        self._tasks += [asyncio.create_task(self._work(name)) for name in WORKERS]

    async def close(self) -> None:
        """End all clients, whatever they are doing."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._clients.values():
            with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
                await client.close()

    async def _publish(self, name: str) -> None:
        recorder = self._recorders[name]
        numbers = itertools.count(1)

        while not self._is_quiet:
            some = [self._publish_one(recorder, next(numbers)) for _ in range(IN_FLIGHT)]
            await asyncio.gather(*some)
            await asyncio.sleep(PAUSE_S)

    async def _publish_one(self, recorder: Recorder, number: int) -> None:
        body = f"{recorder.name}.{number}"
        while True:
            attempt = await recorder.publish(f"log.{recorder.name}", body, message_id=body)
            if attempt.is_done:
                break
            # A publish is refused at once when nobody takes it.
            await asyncio.sleep(POLL_S)
        self.progress[recorder.name] += 1

    async def _work(self, name: str) -> None:
        recorder = self._recorders[name]
        while True:
            found = await recorder.fetch(CONSUMER, PULL_BATCH, PULL_S)
            acks = await asyncio.gather(*(recorder.ack(*each) for each in found))
            self.progress[name] += sum(ack.is_done for ack in acks)
            # A fetch ends at once when nobody answers.
            await asyncio.sleep(0 if found else POLL_S)

    # --- conditions ----------------------------------------------------------------------------

    async def goes_on(self) -> None:
        """Wait until every client has made progress."""
        before = Counter(self.progress)
        clients = (*PUBLISHERS, *WORKERS)

        async def is_done() -> bool:
            for task in self._tasks:
                if task.done():
                    task.result()
            return all(self.progress[name] >= before[name] + PROGRESS for name in clients)

        try:
            await wait_until("every client goes on", is_done)
        except AssertionError as error:
            gained = {name: self.progress[name] - before[name] for name in clients}
            raise AssertionError(f"clients that should go on: {gained}") from error

    async def is_served_by(self, server: str, without: Sequence[str]) -> None:
        """Wait until a client of one server is served, by replicas that miss some others."""
        client = await _connected([self._urls[server]])
        recorder = Recorder(client, f"x{next(self._extra)}", self.history, time.monotonic)

        async def is_missing() -> bool:
            answer = await recorder.call(f"STREAM.INFO.{STREAM}") or {}
            cluster = answer.get("cluster", {})
            missed = [each for each in cluster.get("replicas", []) if each["name"] in without]
            is_led = bool(cluster.get("leader")) and cluster["leader"] not in without
            return is_led and not any(each["current"] for each in missed)

        try:
            publishes = [self._publish_one(recorder, number) for number in range(PROGRESS)]
            await asyncio.wait_for(asyncio.gather(*publishes), PATIENCE_S)
            await wait_until(f"{server} goes on without {without}", is_missing)
        finally:
            await client.close()

    async def is_whole(self, replicas: int) -> None:
        """Wait until the stream has a leader and all replicas are current."""
        seen: list[Document] = [{}]

        async def is_current() -> bool:
            cluster = (await self.state()).get("cluster", {})
            seen[:] = [cluster]
            others = cluster.get("replicas", [])
            is_complete = bool(cluster) and len(others) == replicas - 1
            return is_complete and all(
                each["current"] and not each.get("offline") for each in others
            )

        try:
            await wait_until("all replicas are current", is_current)
        except AssertionError as error:
            raise AssertionError(f"not all of {replicas} replicas are current: {seen}") from error

    # --- outcome -------------------------------------------------------------------------------

    async def check_acked(self) -> int:
        """Read the stream by sequence, and compare it with all acks so far. Returns its size."""
        acked = {
            each.sequence: each.body
            for each in self.history.all_of(Publish)
            if each.outcome is Outcome.DONE
        }
        stored = await self._read_all()
        lost = {seq: body for seq, body in acked.items() if stored.get(seq) != body}
        assert not lost, {seq: (body, stored.get(seq)) for seq, body in lost.items()}
        assert [*stored] == [*range(1, len(stored) + 1)], "sequences are not dense"
        twice = [body for body, count in Counter(stored.values()).items() if count > 1]
        assert not twice, f"stored more than once: {twice}"
        return len(stored)

    async def finish(self, replicas: int) -> None:
        """Let the clients finish, read every replica as its server leads, and judge the history."""
        self._is_quiet = True
        publishers = self._tasks[: len(PUBLISHERS)]
        await asyncio.wait_for(asyncio.gather(*publishers), PATIENCE_S)
        await wait_until("the consumer is drained", self._is_drained)
        await self.is_whole(replicas)
        state = await self.state()
        cluster = state["cluster"]
        for server in [cluster["leader"], *(each["name"] for each in cluster.get("replicas", []))]:
            self.history.replicas.append(await self._replica_of(server))
        assert len(self.history.replicas) == replicas
        insist(self.history)

    async def _is_drained(self) -> bool:
        info = await self.call(f"CONSUMER.INFO.{STREAM}.{CONSUMER}")
        return info.get("num_pending") == 0 == info.get("num_ack_pending")

    async def _replica_of(self, server: str) -> Replica:
        """The messages of the stream while a server leads it."""
        body = {"placement": {"preferred": server}}

        async def is_leader() -> bool:
            if await self.leader() == server:
                return True
            await self.call(f"STREAM.LEADER.STEPDOWN.{STREAM}", body)
            return await self.leader() == server

        await wait_until(f"{server} leads", is_leader)
        stored = await self._read_all()
        messages = {
            sequence: Stored(f"log.{body.partition('.')[0]}", body)
            for sequence, body in stored.items()
        }
        return Replica(server, max(stored, default=0), messages)

    async def read(self, stream: str, last_sequence: int) -> dict[int, str]:
        """The bodies of another stream by sequence, once it has one of the sequence."""
        stored: dict[int, str] = {}

        async def is_read() -> bool:
            stored.update(await self._read_batch(max(stored, default=0) + 1, stream))
            return max(stored, default=0) >= last_sequence

        await wait_until(f"{stream} is read up to {last_sequence}", is_read)
        return stored

    async def _read_all(self) -> dict[int, str]:
        """The bodies of all messages by sequence, as the leader has them."""
        stored: dict[int, str] = {}
        last: list[int] = []

        async def is_read() -> bool:
            if not last:
                state = await self.state()
                last.extend([state["state"]["last_seq"]] if state else [])
                return False
            after = max(stored, default=0)
            if after < last[0]:
                stored.update(await self._read_batch(after + 1))
            return max(stored, default=0) >= last[0]

        await wait_until("the stream is read", is_read)
        return stored

    async def _read_batch(self, first: int, stream: str = STREAM) -> dict[int, str]:
        """The messages of one request, which may have ended early."""
        client = self._clients["o"]
        found: dict[int, str] = {}
        inbox = client.new_inbox()
        arrived = await client.subscribe(inbox)
        body = json.dumps({"seq": first, "batch": READ_BATCH}).encode()
        with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
            await client.publish(f"$JS.API.DIRECT.GET.{stream}", body, reply=inbox)
            while True:
                message = await arrived.next_msg(timeout=2)
                headers = message.headers or {}
                if "Nats-Sequence" not in headers:
                    break
                found[int(headers["Nats-Sequence"])] = message.data.decode()
            await arrived.unsubscribe()
        return found


def _config(replicas: int) -> Document:
    return {
        "name": STREAM,
        "subjects": ["log.>"],
        "num_replicas": replicas,
        "allow_direct": True,
        "duplicate_window": DUPLICATE_WINDOW_S * NS_PER_S,
    }


async def _connected(urls: list[str]) -> NatsClient:
    """A client of the first server that takes it; others follow in the order of their addresses."""
    return await nats.connect(
        urls,
        dont_randomize=True,
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.2,
        connect_timeout=2,
        ping_interval=1,
        max_outstanding_pings=2,
        error_cb=_unheard,
    )


async def _unheard(error: Exception) -> None:
    """Keep quiet: clients lose their connections all the time."""


@asynccontextmanager
async def loaded(urls: dict[str, str], replicas: int) -> AsyncIterator[Load]:
    """Clients at work."""
    load = Load(urls)
    try:
        await load.start(replicas)
        yield load
    finally:
        await load.close()
