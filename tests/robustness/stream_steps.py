"""The life of a server whose streams get records of every kind, step by step, at every level.

A client does one step after another: publishes of all kinds, requests, deliveries and
acknowledgements. The state of every stream after each step is known from a run without a crash.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, NamedTuple

from headwater.base.clock import NS_PER_S
from headwater.jetstream.streams.publishing.fast_batch import Operation
from headwater.server.configuration.options import Options
from headwater.store.log.file_log import FileLog
from headwater.testing.disk import PowerLost, SimDisk
from tests.kit.consumer_world import ConsumerWorld
from tests.kit.stored_world import streaming

Dump = dict[str, Any]
# The states of all streams, by name.
Dumps = dict[str, Dump]

# The time of a scheduled message, soon after the last other step.
AT: Final = "@at 2026-01-02T03:04:06Z"

ROOM: Final = {"max_file_bytes": 1 << 28, "max_memory_bytes": 1 << 28}
# So short that some steps are synced, and others are not.
SYNC_S: Final = 0.035


@dataclass(frozen=True, eq=False)
class Level:
    """A level of durability: options of the server, and settings of its streams."""

    name: str
    options: Options
    config: dict[str, Any]

    @property
    def has_batches(self) -> bool:
        return "persist_mode" not in self.config


ALWAYS: Final = Level("always", Options(jetstream=streaming(sync_always=True, **ROOM)), {})
INTERVAL: Final = Level(
    "interval", Options(jetstream=streaming(sync_interval_s=SYNC_S, **ROOM)), {}
)
ASYNC: Final = Level("async", INTERVAL.options, {"persist_mode": "async"})


# Parts of a state that say where a stream goes on: behind sequences that may be lost.
END: Final = ("first_sequence", "last_sequence", "last_id")


def without_end(state: Dump) -> Dump:
    """The state of a stream that may have lost its end."""
    return {key: value for key, value in state.items() if key not in END}


class Server(ConsumerWorld):
    """A server whose clock goes on where that of the process before it ended."""

    def __init__(self, options: Options, disk: SimDisk, passed_ns: int = 0) -> None:
        self._passed_ns = passed_ns
        super().__init__(options, disk)

    def start(self) -> "Server":
        self.clock.passed_ns = self._passed_ns
        super().start()
        return self

    def dump(self) -> Dumps:
        """The canonical state of all streams."""
        return {name: self.dump_of(name) for name in self.names}

    @property
    def names(self) -> list[str]:
        """The names of all streams."""
        return sorted(self.jetstream.accounts["$G"].streams)

    def dump_of(self, name: str) -> Dump:
        """The canonical state of a stream, without the consumers by which other streams copy it:
        they end with the process."""
        stream = self.stream(name)
        dump: Dump = stream.dump(self.clock.wall_ns())
        own = {each.name for each in stream.consumers.direct}
        return {**dump, "consumers": [each for each in dump["consumers"] if each[0] not in own]}

    def log(self, name: str) -> FileLog:
        log = self.stream(name).log
        assert isinstance(log, FileLog)
        return log

    def put(self, subject: str, body: str = "x", **headers: str) -> None:
        lines = "".join(f"{name.replace('_', '-')}: {said}\r\n" for name, said in headers.items())
        block = f"NATS/1.0\r\n{lines}\r\n" if headers else ""
        sizes = f"{len(block)} {len(block + body)}" if headers else f"{len(body)}"
        verb = "HPUB" if headers else "PUB"
        self.caller.send(f"{verb} {subject} inbox.p {sizes}\r\n{block}{body}\r\n".encode())
        self.sync()

    def put_fast(self, subject: str, number: int, operation: int) -> None:
        """Publish a message of a fast batch."""
        reply = f"inbox.b.100.fail.{number}.{operation}.$FI"
        self.caller.send(f"PUB {subject} {reply} 1\r\nx\r\n".encode())
        self.sync()

    def call(self, operation: str, body: object = None) -> None:
        payload = "" if body is None else json.dumps(body)
        self.caller.send(
            f"PUB $JS.API.{operation} inbox.r {len(payload)}\r\n{payload}\r\n".encode()
        )
        self.sync()

    def fetch(self, stream: str, name: str, count: int = 1, **asked: object) -> None:
        body = json.dumps({"batch": count, "no_wait": True, **asked})
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}"
        self.caller.send(f"PUB {subject} inbox.d {len(body)}\r\n{body}\r\n".encode())
        self.flush_records()

    def acknowledge(
        self, stream: str, name: str, sequence: int, kind: str, reply: str = ""
    ) -> None:
        """Acknowledge a message of a consumer; its place in the order of deliveries is equal."""
        subject = f"$JS.ACK.{stream}.{name}.1.{sequence}.{sequence}.1.0"
        to = f" {reply}" if reply else ""
        self.caller.send(f"PUB {subject}{to} {len(kind)}\r\n{kind}\r\n".encode())
        self.sync()
        self.flush_records()

    def flush_records(self) -> None:
        """Give records that no client waits for the time to be written."""
        self.advance(0.010)
        self.sync()


class Step(NamedTuple):
    """A step of the client, and whether the client is answered, so that it holds from then on."""

    take: Callable[[Server], object]
    is_answered: bool = True


def put(subject: str, body: str = "x", **headers: str) -> Step:
    return Step(lambda server: server.put(subject, body, **headers))


def call(operation: str, body: object = None) -> Step:
    return Step(lambda server: server.call(operation, body))


def fetch(stream: str, name: str, count: int = 1, **asked: object) -> Step:
    return Step(lambda server: server.fetch(stream, name, count, **asked), is_answered=False)


def ack(stream: str, name: str, sequence: int, kind: str = "+ACK", reply: str = "") -> Step:
    return Step(lambda server: server.acknowledge(stream, name, sequence, kind, reply), bool(reply))


def atomic_batch(subject: str) -> Step:
    def publish(server: Server) -> None:
        server.put(subject, Nats_Batch_Id="b", Nats_Batch_Sequence="1")
        # So long that a crash most likely cuts the second message off.
        last = {"Nats_Batch_Sequence": "2", "Nats_Batch_Commit": "1"}
        server.put(subject, "x" * 500, Nats_Batch_Id="b", **last)

    return Step(publish)


def interest_batch(needed: str, other: str) -> Step:
    """A batch of which one message is not needed: it takes a sequence, and leaves its id."""

    def publish(server: Server) -> None:
        server.put(needed, Nats_Batch_Id="b", Nats_Batch_Sequence="1")
        server.put(other, Nats_Batch_Id="b", Nats_Batch_Sequence="2", Nats_Msg_Id="b")
        last = {"Nats_Batch_Sequence": "3", "Nats_Batch_Commit": "1"}
        server.put(needed, "x" * 500, Nats_Batch_Id="b", **last)

    return Step(publish)


def fast_batch(subject: str) -> list[Step]:
    """A batch whose messages are stored one by one; only its end is answered."""
    return [
        Step(lambda server: server.put_fast(subject, 1, Operation.START), is_answered=False),
        Step(lambda server: server.put_fast(subject, 2, Operation.COMMIT)),
    ]


def wait(seconds: float) -> Step:
    """Time in which a stream does work that nobody waits for."""

    def pass_by(server: Server) -> None:
        server.advance(seconds)
        server.flush_records()

    return Step(pass_by, is_answered=False)


def consumer(name: str, stream: str, **config: Any) -> Step:
    chosen = {"name": name, "durable_name": name, "ack_policy": "explicit", **config}
    return call(f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": chosen})


@cache
def steps(level: Level) -> list[Step]:
    """All steps at a level."""

    def creation(name: str, **config: Any) -> Step:
        chosen = {"name": name, "subjects": [f"{name.lower()}.>"], **config, **level.config}
        return call(f"STREAM.CREATE.{name}", chosen)

    batches = {"allow_atomic": True} if level.has_batches else {}
    log = {
        "max_msgs_per_subject": 3,
        "allow_rollup_hdrs": True,
        "allow_msg_ttl": True,
        "allow_direct": True,
        **batches,
    }
    changed = {"name": "S", "subjects": ["s.>"], **log, **level.config, "max_msgs": 3}
    return [
        creation("S", **log),
        creation("Q", retention="workqueue"),
        creation("N", allow_msg_counter=True),
        creation("I", retention="interest", **batches),
        consumer("c", "S", max_deliver=2),
        consumer("q", "Q"),
        put("i.x", Nats_Msg_Id="i"),
        *[put("s.a")] * 4,
        put("s.b", Nats_Msg_Id="1"),
        put("s.b", Nats_Msg_Id="1"),
        put("s.c", "x" * 300, Nats_TTL="1h"),
        put("n.x", "", Nats_Incr="+2"),
        put("n.x", "", Nats_Incr="+3"),
        *[put("q.job")] * 3,
        fetch("S", "c", 3),
        ack("S", "c", 2),
        ack("S", "c", 3, reply="inbox.a"),
        ack("S", "c", 4, "+WPI"),
        ack("S", "c", 4, "-NAK"),
        fetch("S", "c"),
        ack("S", "c", 4, "-NAK"),
        fetch("S", "c"),
        atomic_batch("s.d") if level.has_batches else put("s.d"),
        fetch("Q", "q", 2),
        ack("Q", "q", 1, reply="inbox.a"),
        ack("Q", "q", 2, "+TERM"),
        consumer("q", "Q", description="another"),
        put("s.a", Nats_Rollup="sub"),
        call("STREAM.MSG.DELETE.S", {"seq": 5, "no_erase": True}),
        call("STREAM.MSG.DELETE.S", {"seq": 6}),
        put("s.d"),
        consumer("p", "S", priority_groups=["g"], priority_policy="pinned_client"),
        fetch("S", "p", 1, group="g"),
        call("STREAM.MSG.DELETE.S", {"seq": 7, "no_erase": True}),
        call("STREAM.PURGE.S", {"filter": "s.d", "keep": 1}),
        call("STREAM.UPDATE.S", changed),
        put("s.e", Nats_Rollup="all"),
        consumer("i", "I"),
        put("i.x"),
        fetch("I", "i"),
        ack("I", "i", 2),
        call("CONSUMER.DELETE.I.i"),
        consumer("d", "S", deliver_policy="last_per_subject", filter_subject=">"),
        call("CONSUMER.RESET.S.c", {"seq": 9}),
        call("CONSUMER.DELETE.S.c"),
        call("STREAM.PURGE.S", {"seq": 40}),
        put("s.a", Nats_Expected_Last_Sequence="39"),
        call("STREAM.DELETE.N"),
        consumer("n", "I", filter_subject="i.need"),
        interest_batch("i.need", "i.x") if level.has_batches else put("i.x", Nats_Msg_Id="b"),
        *timed_steps(level, creation),
    ]


def timed_steps(level: Level, creation: Callable[..., Step]) -> list[Step]:
    """Steps in which time passes: messages expire and are scheduled, and are copied."""
    config = {
        "allow_msg_ttl": True,
        "allow_msg_schedules": True,
        "subject_delete_marker_ttl": NS_PER_S,
        **({"allow_batched": True} if level.has_batches else {}),
    }
    return [
        creation("N", **config),
        put("n.plan", Nats_Schedule=AT, Nats_Schedule_Target="n.copy"),
        wait(0.3),
        put("n.a", Nats_TTL="1s"),
        # The copy comes, and 0.3 s later the marker.
        wait(0.8),
        wait(0.3),
        *(fast_batch("n.fast") if level.has_batches else [put("n.fast")]),
        creation("T", subjects=[], sources=[{"name": "N", "filter_subject": "n.copy"}]),
        wait(0.1),
    ]


@dataclass
class Life:
    """A run of the steps: how many were done, and what the disk had by then."""

    server: Server
    done: int = 0
    # The last step after which all of a stream was in its files, or synced; by name.
    written: dict[str, int] = field(default_factory=dict)
    synced: dict[str, int] = field(default_factory=dict)

    def note_step(self) -> None:
        """Note what the disk has after a step."""
        self.done += 1
        for name in self.server.names:
            log = self.server.log(name)
            if not log.segments.waiting_bytes and not log.has_queued_journal:
                self.written[name] = self.done
                if log.is_synced:
                    self.synced[name] = self.done


def live(level: Level, disk: SimDisk) -> Life:
    """Do the steps until the disk ends."""
    life = Life(Server(level.options, disk))
    with suppress(PowerLost):
        for step in steps(level):
            step.take(life.server)
            life.note_step()
    return life


@cache
def states(level: Level) -> list[Dumps]:
    """The states after all steps, and before the first one."""
    server = Server(level.options, SimDisk())
    found = [server.dump()]
    for step in steps(level):
        step.take(server)
        found.append(server.dump())
    return found


@cache
def operations(level: Level) -> range:
    """The operations on the disk from the first step on."""
    disk = SimDisk()
    Server(level.options, disk)
    first = disk.operations
    disk = SimDisk()
    live(level, disk)
    return range(first, disk.operations)
