"""Clients of streams whose server makes or removes messages by itself, in a simulated cluster.

One client adds to counters, in a file and in memory. Another one publishes schedules, messages with
a time to live, and roll-ups. Two pull from a consumer that pins one of them at a time.
"""

import contextlib
import json
from typing import Any, Protocol, final

from nats.errors import Error

from headwater.checker.features import Expiring, Increment, PinnedDelivery, RollUp, Scheduled
from headwater.checker.history import History
from headwater.go.times import format_time
from headwater.testing.recorder import Recorder
from tests.simulation.replicated_clients import Program, Stage

NS_PER_S = 1_000_000_000
COUNT, FLEETING, TIMED = "COUNT", "FLEETING", "TIMED"
FEATURED: dict[str, dict[str, object]] = {
    COUNT: {"subjects": ["count.>"], "allow_msg_counter": True, "allow_direct": True},
    FLEETING: {"subjects": ["fleeting.>"], "allow_msg_counter": True, "storage": "memory"},
    TIMED: {
        "subjects": ["timed.>"],
        "allow_msg_ttl": True,
        "allow_msg_schedules": True,
        "allow_rollup_hdrs": True,
        "subject_delete_marker_ttl": NS_PER_S,
    },
}
IN_MEMORY = frozenset({FLEETING})
# The stream with a consumer that pins clients.
PINNED = frozenset({TIMED})
PINNED_CONSUMER, GROUP = "PINNED", "g"
PINNED_CONFIG: dict[str, object] = {
    "priority_policy": "pinned_client",
    "priority_groups": [GROUP],
    "priority_timeout": 3 * NS_PER_S,
    "filter_subject": "timed.r.>",
    "ack_policy": "explicit",
    "ack_wait": 2 * NS_PER_S,
}
# The time at which clocks of a world begin.
EPOCH_NS = 1_893_456_000 * NS_PER_S
DUE_S = 2.0
TTL = "2s"
PULL_S = 1.0


class FeaturedStage(Stage, Protocol):
    """The run that these programs are part of."""

    featured: dict[str, History]


class _Featured(Program):
    """A program on streams with features."""

    def __init__(self, stage: FeaturedStage, name: str) -> None:
        super().__init__(stage, name)
        self.stage = stage

    def recorder(self, stream: str) -> Recorder:
        history = self.stage.featured[stream]
        return self.stage.recorder(self.client, self.name, history)

    def begun(self) -> dict[str, Any]:
        """The fields of an operation that begins now."""
        return {"client": self.name, "begin_s": self.stage.world.loop.now_s()}


@final
class Counting(_Featured):
    """Adds to counters."""

    async def work(self) -> None:
        while not self.stage.is_quiet:
            for stream in (COUNT, FLEETING):
                subject = f"{stream.lower()}.{self.rng.choice('ab')}"
                by = self.rng.randint(-3, 9) or 1
                operation = Increment(**self.begun(), subject=subject, by=by)
                sent = self.recorder(stream).send(operation, subject, "", Nats_Incr=f"{by:+d}")
                await sent
            await self.rest(0.5)


@final
class Timing(_Featured):
    """Publishes messages that come, go and replace others by themselves."""

    async def work(self) -> None:
        count = 0
        while not self.stage.is_quiet:
            count += 1
            label = f"{self.name}.{count}"
            kind = self.rng.choice((self._schedule, self._with_time, self._in_place, self._plain))
            await kind(self.recorder(TIMED), label)
            await self.rest(0.5)

    async def _schedule(self, recorder: Recorder, label: str) -> None:
        due_ns = EPOCH_NS + round((self.stage.world.loop.now_s() + DUE_S) * NS_PER_S)
        target = f"timed.t.{self.host.name}"
        operation = Scheduled(**self.begun(), target=target, body=label)
        await recorder.send(
            operation,
            f"timed.s.{label}",
            label,
            Nats_Schedule=f"@at {format_time(due_ns)}",
            Nats_Schedule_Target=target,
        )

    async def _with_time(self, recorder: Recorder, label: str) -> None:
        subject = f"timed.m.{self.rng.choice('ab')}"
        operation = Expiring(**self.begun(), subject=subject, body=label)
        await recorder.send(operation, subject, label, Nats_TTL=TTL)

    async def _in_place(self, recorder: Recorder, label: str) -> None:
        subject = f"timed.r.{self.host.name}"
        operation = RollUp(**self.begun(), subject=subject, body=label)
        answer = await recorder.send(operation, subject, label, Nats_Rollup="sub")
        if answer is not None:
            operation.sequence = answer["seq"]

    async def _plain(self, recorder: Recorder, label: str) -> None:
        await recorder.ask(f"timed.r.{self.host.name}", label.encode())


@final
class Pinnable(_Featured):
    """Pulls from a consumer that serves one client at a time."""

    async def work(self) -> None:
        recorder = self.recorder(TIMED)
        pin = ""
        while not self.stage.is_quiet:
            with contextlib.suppress(Error, OSError, TimeoutError):
                pin = await self._pull(recorder, pin)
            await self.rest(0.2)

    async def _pull(self, recorder: Recorder, pin: str) -> str:
        """Pull under a pin. Returns the pin that the client has then."""
        body = {"batch": 2, "expires": round(PULL_S * NS_PER_S), "group": GROUP}
        if pin:
            body["id"] = pin
        inbox = self.client.new_inbox()
        arrived = await self.client.subscribe(inbox)
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{recorder.stream}.{PINNED_CONSUMER}"
        begun = self.begun()
        await self.client.publish(subject, json.dumps(body).encode(), reply=inbox)
        try:
            for _ in range(2):
                message = await arrived.next_msg(timeout=PULL_S + 1.0)
                headers = message.headers or {}
                if not message.reply:
                    # Another client is pinned, or nothing came.
                    return "" if headers.get("Status") == "423" else pin
                pin = headers["Nats-Pin-Id"]
                operation = recorder.history.begin(
                    PinnedDelivery(
                        **begun,
                        consumer=PINNED_CONSUMER,
                        sequence=message.metadata.sequence.stream,
                        pin=pin,
                    )
                )
                operation.complete(self.stage.world.loop.now_s())
                await self.client.publish(message.reply, b"+ACK")
        finally:
            await arrived.unsubscribe()
        return pin


def featured_programs(stage: FeaturedStage) -> list[Program]:
    """The clients of streams with features."""
    return [
        Counting(stage, "f1"),
        Timing(stage, "f2"),
        Pinnable(stage, "g1"),
        Pinnable(stage, "g2"),
    ]
