"""The disk fails, or has no room, at each operation in which one entry of a stream is applied.

The entries have several records, or change more than one file. Of each the stream has all or
nothing, at once and after a restart, and the client is not told otherwise. An entry that is on the
disk when a write finds no room is not taken back: it is applied when there is room.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from errno import EIO, ENOSPC
from typing import Any, Final

import pytest

from headwater.jetstream.streams.stream import Stream
from headwater.server.streams.runner import StreamRunner
from headwater.store.disk.format import encode_skip
from headwater.testing.disk import SimDisk
from headwater.testing.disk_faults import CHANGING, Operation
from tests.kit.consumer_world import frames_in
from tests.kit.shadows import Shadows
from tests.robustness.stream_steps import ALWAYS, ASYNC, INTERVAL, Dump, Level, Server

# The time within which a server notices that there is room again.
ROOM_NOTICED_S: Final = 2.0


@dataclass(frozen=True)
class Case:
    """A stream, and the requests that come to it in one turn."""

    name: str
    config: dict[str, Any]
    prepare: Callable[[Server], object]
    act: Callable[[Server], object]
    levels: tuple[Level, ...] = (ALWAYS, INTERVAL, ASYNC)
    # Whether nothing is left of requests that were refused: the change of a configuration is
    # refused also if the removals that follow from it wait for room.
    is_gone_if_refused: bool = True
    # Whether the stream goes on when a write has found no room: a purge that has removed messages
    # and cannot give out sequences takes it offline.
    is_online_without_room: bool = True
    # Other streams that are there before.
    others: dict[str, dict[str, Any]] = field(default_factory=dict)

    def world(self, level: Level, disk: SimDisk) -> Server:
        """A server with the stream, everything on the disk."""
        server = Server(level.options, disk)
        for name, config in {**self.others, "S": {"subjects": ["s.>"], **self.config}}.items():
            server.call(f"STREAM.CREATE.{name}", {"name": name, **config, **level.config})
        self.prepare(server)
        server.flush_records()
        server.advance(0.1)
        server.sync()
        server.caller.take()
        return server


def publish(server: Server, *messages: tuple[str, str, dict[str, str]]) -> None:
    """Publish messages in one turn, each with a reply subject."""
    data = b""
    for subject, body, headers in messages:
        lines = "".join(f"{name.replace('_', '-')}: {said}\r\n" for name, said in headers.items())
        block = f"NATS/1.0\r\n{lines}\r\n"
        sizes = f"{len(block)} {len(block + body)}"
        data += f"HPUB {subject} inbox.p {sizes}\r\n{block}{body}\r\n".encode()
    server.caller.send(data)
    server.sync()


def batch(*messages: tuple[str, dict[str, str]]) -> list[tuple[str, str, dict[str, str]]]:
    numbered = []
    for number, (subject, headers) in enumerate(messages, 1):
        of_batch = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": str(number), **headers}
        numbered.append((subject, f"body {number}", of_batch))
    numbered[-1][2]["Nats_Batch_Commit"] = "1"
    return numbered


def add_consumer(server: Server) -> None:
    config = {"durable_name": "c", "ack_policy": "explicit", "filter_subject": "s.need"}
    server.call("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})


def nothing(server: Server) -> None:
    """Need nothing before."""


def put_some(server: Server) -> None:
    for number in range(5):
        server.put("s.a", f"message {number}")


def wait(seconds: float) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        server.advance(seconds)
        server.sync()

    return act


def publish_at_source(server: Server) -> None:
    server.caller.send(b"PUB o.a 1\r\nA\r\nPUB o.b 1\r\nB\r\n")
    wait(0.5)(server)


INTEREST: Final = {"retention": "interest", "allow_atomic": True}
WITH_BATCHES: Final = (ALWAYS, INTERVAL)

CASES: Final = (
    Case(
        "an atomic batch of which a message is not needed",
        INTEREST,
        add_consumer,
        lambda server: publish(
            server,
            *batch(
                ("s.need", {"Nats_Msg_Id": "1"}),
                ("s.other", {"Nats_Msg_Id": "2"}),
                ("s.need", {"Nats_Msg_Id": "3"}),
            ),
        ),
        WITH_BATCHES,
    ),
    Case(
        "an atomic batch that begins and ends with messages that are not needed",
        INTEREST,
        add_consumer,
        lambda server: publish(server, *batch(("s.x", {}), ("s.need", {}), ("s.x", {}))),
        WITH_BATCHES,
    ),
    Case(
        "messages, and a batch behind them",
        {"allow_atomic": True, "max_msgs_per_subject": 2},
        put_some,
        lambda server: publish(
            server, ("s.a", "A", {}), *batch(("s.b", {}), ("s.a", {})), ("s.c", "C", {})
        ),
        WITH_BATCHES,
    ),
    Case(
        "an expiry with a delete marker",
        {"allow_msg_ttl": True, "subject_delete_marker_ttl": 60 * 10**9},
        lambda server: publish(server, ("s.a", "A", {"Nats_TTL": "1s"}), ("s.b", "B", {})),
        wait(1.5),
    ),
    Case(
        "a message that a schedule publishes",
        {"allow_msg_schedules": True},
        lambda server: publish(
            server,
            (
                "s.plan",
                "A",
                {"Nats_Schedule": "@at 2026-01-02T03:04:07Z", "Nats_Schedule_Target": "s.a"},
            ),
        ),
        wait(2.5),
        WITH_BATCHES,
    ),
    Case(
        "messages of a source",
        {"subjects": [], "sources": [{"name": "O"}]},
        nothing,
        publish_at_source,
        WITH_BATCHES,
        others={"O": {"subjects": ["o.>"], "storage": "memory"}},
    ),
    Case(
        "a secure deletion",
        {},
        put_some,
        lambda server: server.call("STREAM.MSG.DELETE.S", {"seq": 2}),
    ),
    Case(
        "a purge that goes on at a later sequence",
        {},
        put_some,
        lambda server: server.call("STREAM.PURGE.S", {"seq": 40}),
        is_online_without_room=False,
    ),
    Case(
        "another configuration, with fewer messages",
        {},
        put_some,
        lambda server: server.call(
            "STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "max_msgs": 2}
        ),
        WITH_BATCHES,
        is_gone_if_refused=False,
    ),
)


def essence(server: Server, level: Level) -> Dump:
    """The state of the stream, apart from times, because work that is due is done again later; and
    apart from the end of an async stream, which goes on above the reserved sequences."""
    dump = server.dump_of("S")
    return {
        "config": dump["config"],
        "last_sequence": 0 if level is ASYNC else dump["last_sequence"],
        "messages": [(each.sequence, each.subject, each.payload) for each in dump["messages"]],
        "ids": [(message_id, sequence) for message_id, sequence, _ in dump["ids"]],
        "last_id": dump["last_id"],
        "consumers": [name for name, _ in dump["consumers"]],
    }


class Run:
    """A run of a case on a disk that fails from one operation on, or once."""

    def __init__(
        self, case: Case, level: Level, operation: Operation, code: int, skip: int, is_once: bool
    ) -> None:
        self.disk = SimDisk(seed=skip)
        self.server = case.world(level, self.disk)
        self.before = essence(self.server, level)
        times = 1 if is_once else None
        self.fault = self.disk.fail(operation, "*", code=code, skip=skip, times=times)
        case.act(self.server)
        self.server.flush_records()

    @property
    def offline(self) -> str:
        return self.server.log("S").offline

    def answers(self) -> list[bool]:
        """Whether each answer so far is one of success."""
        found = frames_in(self.server.caller.take())
        return ["error" not in json.loads(each.payload) for each in found if each.payload]

    def go_on(self) -> None:
        self.disk.heal()
        self.server.advance(ROOM_NOTICED_S)
        self.server.sync()
        self.server.flush_records()

    def restarted(self, level: Level) -> Server:
        self.disk.kill()
        return Server(level.options, self.disk, self.server.clock.passed_ns)


def after(case: Case, level: Level) -> tuple[Dump, dict[Operation, int]]:
    """The state after the requests, and the number of operations that they take."""
    disk = SimDisk()
    server = case.world(level, disk)
    counts = dict(disk.operation_counts)
    case.act(server)
    server.flush_records()
    server.advance(ROOM_NOTICED_S)
    server.sync()
    return essence(server, level), {
        operation: disk.operation_counts[operation] - counts.get(operation, 0)
        for operation in CHANGING
    }


def faults() -> Iterator[tuple[int, bool]]:
    yield ENOSPC, True
    yield ENOSPC, False
    yield EIO, True


def check_case(case: Case, level: Level) -> None:
    expected, counts = after(case, level)
    for operation in ("write", "overwrite", "sync", "create", "rename"):
        for skip in range(counts[operation]):
            for code, is_once in faults():
                if code == EIO or operation in ("write", "create"):
                    check_fault(case, level, operation, code, skip, is_once, expected)


def check_fault(
    case: Case,
    level: Level,
    operation: Operation,
    code: int,
    skip: int,
    is_once: bool,
    expected: Dump,
) -> None:
    about = f"{operation} {skip} of {case.name}, {level.name}, {code}, once: {is_once}"
    run = Run(case, level, operation, code, skip, is_once)
    allowed = (run.before, expected)
    if code == ENOSPC and case.is_online_without_room:
        assert not run.offline, about
    assert run.offline or essence(run.server, level) in allowed, about
    answers = run.answers()
    if all(answers) and answers and not run.offline:
        assert essence(run.server, level) == expected, f"{about}: it was answered"
    run.go_on()
    later = run.answers()
    found = essence(run.server, level)
    assert run.offline or found in allowed, f"{about}, when there is room: {found}"
    if level is ALWAYS and code == ENOSPC and not run.offline and not (answers or later):
        assert found == expected, f"{about}: an entry without an answer is applied"
    if case.is_gone_if_refused and not all([*answers, *later]) and not run.offline:
        assert found == run.before, f"{about}: it was refused"
    restarted = essence(run.restarted(level), level)
    if run.offline:
        assert restarted in allowed, f"{about}, restarted: {restarted}"
    else:
        assert restarted == found, f"{about}, restarted"


@pytest.mark.parametrize("case", CASES, ids=lambda each: each.name)
@pytest.mark.parametrize("level", [ALWAYS, INTERVAL, ASYNC], ids=lambda each: each.name)
def test_a_stream_has_all_or_nothing_of_an_entry(case: Case, level: Level) -> None:
    if level in case.levels:
        check_case(case, level)


# --- each defence is needed -----------------------------------------------------------------------


def store_record_by_record(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stream, "store", lambda self, records: None)


def refuse_what_is_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StreamRunner, "storing_failed", StreamRunner._fail)


def leave_no_header(patch: pytest.MonkeyPatch) -> None:
    """Have a message that is not stored leave no trace of its id in a segment."""
    patch.setattr("headwater.store.log.log_end.encode_skip", lambda *args: encode_skip(*args[:4]))


DEFENCES: Final[dict[Callable[[pytest.MonkeyPatch], None], Level]] = {
    store_record_by_record: INTERVAL,
    refuse_what_is_committed: ALWAYS,
    leave_no_header: INTERVAL,
}


@pytest.mark.parametrize("switch_off", DEFENCES, ids=lambda each: each.__name__)
def test_without_a_defence_an_entry_is_there_by_half(
    switch_off: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
    shadows: Shadows,
) -> None:
    shadows.defect_planted()
    switch_off(monkeypatch)
    with pytest.raises(AssertionError, match="atomic batch"):
        check_case(CASES[0], DEFENCES[switch_off])
