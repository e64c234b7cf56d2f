"""A server ends at every operation on the disk, and its streams are what the log says.

A client does one step after another: publishes of all kinds, requests, deliveries and
acknowledgements. The state of every stream after each step is known from a run without a crash.
After a crash at any write, sync or change of a name, the streams are in the state after one of
these steps: no earlier than the last step that was answered, and no state in between.
"""

import json
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import pytest

from headwater.server.configuration.options import Options
from headwater.testing.disk import PowerLost, SimDisk
from headwater.testing.disk_faults import Moment
from tests.kit.consumer_world import ConsumerWorld
from tests.kit.stored_world import streaming

Dump = dict[str, object]
Death = Callable[[SimDisk], None]

ROOM: Final = {"max_file_bytes": 1 << 28, "max_memory_bytes": 1 << 28}
# Streams with the default level may lose the last moments, and find the rest by recovery.
OPTIONS: Final = Options(jetstream=streaming(sync_always=True, **ROOM))


class Server(ConsumerWorld):
    """A server whose clock goes on where that of the process before it ended."""

    def __init__(self, options: Options, disk: SimDisk, passed_ns: int = 0) -> None:
        self._passed_ns = passed_ns
        super().__init__(options, disk)

    def start(self) -> "Server":
        self.clock.passed_ns = self._passed_ns
        super().start()
        return self

    def dump(self) -> dict[str, Dump]:
        """The canonical state of all streams."""
        assert self.node.jetstream is not None
        streams = self.node.jetstream.accounts["$G"].streams
        return {name: streams[name].dump(self.clock.wall_ns()) for name in sorted(streams)}

    def put(self, subject: str, body: str = "x", **headers: str) -> None:
        lines = "".join(f"{name.replace('_', '-')}: {said}\r\n" for name, said in headers.items())
        block = f"NATS/1.0\r\n{lines}\r\n" if headers else ""
        sizes = f"{len(block)} {len(block + body)}" if headers else f"{len(body)}"
        verb = "HPUB" if headers else "PUB"
        self.caller.send(f"{verb} {subject} inbox.p {sizes}\r\n{block}{body}\r\n".encode())
        self.sync()

    def call(self, operation: str, body: object = None) -> None:
        self.request(f"$JS.API.{operation}", body)

    def fetch(self, stream: str, name: str, count: int = 1) -> None:
        body = json.dumps({"batch": count, "no_wait": True})
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


Step = Callable[[Server], object]


def answered(step: Step) -> tuple[Step, bool]:
    """A step that a client is told of, so that it is durable from then on."""
    return step, True


def unanswered(step: Step) -> tuple[Step, bool]:
    """A step whose records a crash may lose."""
    return step, False


def batch(subject: str, number: int, *, is_last: bool = False) -> Step:
    headers = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": str(number)}
    if is_last:
        headers["Nats_Batch_Commit"] = "1"
    return lambda server: server.put(subject, **headers)


def with_two(first: Step, second: Step) -> Step:
    def both(server: Server) -> None:
        first(server)
        second(server)

    return both


def creation(name: str, **config: Any) -> tuple[Step, bool]:
    return answered(lambda server: server.with_stream(name, **config))


def consumer(name: str, stream: str, **config: Any) -> tuple[Step, bool]:
    return answered(lambda server: server.consumer(name, stream, **config))


LOG: Final[dict[str, Any]] = {
    "max_msgs_per_subject": 3,
    "allow_rollup_hdrs": True,
    "allow_atomic": True,
    "allow_msg_ttl": True,
    "allow_direct": True,
}
STEPS: Final = [
    creation("S", **LOG),
    creation("Q", retention="workqueue"),
    creation("N", allow_msg_counter=True),
    consumer("c", "S"),
    consumer("q", "Q"),
    *[answered(lambda server: server.put("s.a")) for _ in range(4)],
    answered(lambda server: server.put("s.b", Nats_Msg_Id="1")),
    answered(lambda server: server.put("s.b", Nats_Msg_Id="1")),
    answered(lambda server: server.put("s.c", Nats_TTL="1h")),
    answered(lambda server: server.put("n.x", "", Nats_Incr="+2")),
    answered(lambda server: server.put("n.x", "", Nats_Incr="+3")),
    *[answered(lambda server: server.put("q.job")) for _ in range(3)],
    unanswered(lambda server: server.fetch("S", "c", 3)),
    unanswered(lambda server: server.acknowledge("S", "c", 2, "+ACK")),
    answered(lambda server: server.acknowledge("S", "c", 3, "+ACK", "inbox.a")),
    unanswered(lambda server: server.acknowledge("S", "c", 4, "-NAK")),
    answered(with_two(batch("s.d", 1), batch("s.d", 2, is_last=True))),
    unanswered(lambda server: server.fetch("Q", "q", 2)),
    answered(lambda server: server.acknowledge("Q", "q", 1, "+ACK", "inbox.a")),
    unanswered(lambda server: server.acknowledge("Q", "q", 2, "+TERM")),
    answered(lambda server: server.put("s.a", Nats_Rollup="sub")),
    answered(lambda server: server.call("STREAM.MSG.DELETE.S", {"seq": 5, "no_erase": True})),
    answered(lambda server: server.call("STREAM.MSG.DELETE.S", {"seq": 6})),
    answered(lambda server: server.call("STREAM.PURGE.S", {"filter": "s.d", "keep": 1})),
    answered(
        lambda server: server.call(
            "STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], **LOG, "max_msgs": 3}
        )
    ),
    answered(lambda server: server.put("s.e", Nats_Rollup="all")),
    consumer("d", "S", deliver_policy="last_per_subject", filter_subject=">"),
    answered(lambda server: server.call("CONSUMER.RESET.S.c", {"seq": 9})),
    answered(lambda server: server.call("CONSUMER.DELETE.S.c")),
    answered(lambda server: server.call("STREAM.PURGE.S", {"seq": 40})),
    answered(lambda server: server.put("s.a", Nats_Expected_Last_Sequence="39")),
    answered(lambda server: server.call("STREAM.DELETE.N")),
    creation("N", allow_msg_counter=True),
    answered(lambda server: server.put("n.x", "", Nats_Incr="+1")),
]


def kill(disk: SimDisk) -> None:
    """End the process: the system still has every byte that was written."""
    disk.kill()


def power_loss(disk: SimDisk) -> None:
    """End the machine: the disk has the synced bytes, or also those that were written.

    Of a write that is left in pieces nobody can tell whether it was confirmed, and streams go on
    above the reserved sequences: `test_store_redo` has such fates.
    """
    disk.power_loss("strict" if disk.seed % 2 else "kind")


def live(disk: SimDisk) -> tuple[Server, list[dict[str, Dump]], int]:
    """Do the steps until the disk ends. Returns the states after them, and how many were done."""
    server = Server(OPTIONS, disk)
    dumps = [server.dump()]
    try:
        for step, _ in STEPS:
            step(server)
            dumps.append(server.dump())
    except PowerLost:
        pass
    return server, dumps, len(dumps) - 1


@cache
def run_without_crash() -> tuple[list[dict[str, Dump]], range]:
    """The states after all steps, and the operations on the disk from the first step on."""
    disk = SimDisk()
    Server(OPTIONS, disk)
    first = disk.operations
    disk = SimDisk()
    _, dumps, _ = live(disk)
    return dumps, range(first, disk.operations)


def check_crash(number: int, moment: Moment, death: Death) -> None:
    """End a server at an operation of the disk, and compare its streams after a restart."""
    expected, _ = run_without_crash()
    disk = SimDisk(seed=number)
    disk.crash_at(number, moment)
    crashed, dumps, done = live(disk)
    assert dumps == expected[: len(dumps)], "steps have equal results up to the crash"
    death(disk)
    after = Server(OPTIONS, disk, crashed.clock.passed_ns)
    # A record that no client waits for may be lost, with all behind it.
    first = done
    while first > 0 and not STEPS[first - 1][1]:
        first -= 1
    allowed = expected[first : done + 2]
    found = after.dump()
    assert found in allowed, differences(found, allowed)


def differences(found: dict[str, Dump], allowed: list[dict[str, Dump]]) -> str:
    """The values of a state that none of the allowed states has."""
    lines = []
    for name, state in found.items():
        for key, value in state.items():
            others = [each.get(name, {}).get(key) for each in allowed]
            if value not in others:
                lines.append(f"{name}.{key}: {value} instead of {others}")
    return "\n".join(lines) or f"streams {[*found]}, or a mixture of states"


MOMENTS: tuple[Moment, ...] = ("before", "during")
PARTS: Final = 4


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("death", [kill, power_loss], ids=lambda each: each.__name__)
def test_after_a_crash_anywhere_streams_are_in_the_state_after_a_step(
    death: Death, part: int
) -> None:
    _, points = run_without_crash()
    for number in points[part::PARTS]:
        check_crash(number, MOMENTS[number // 2 % 2], death)
