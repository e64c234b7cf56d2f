"""A machine or a process stops at every operation of creations, deletions and a restore.

A server that starts on the same disk has the streams of a run that never stopped, up to the one
request that was not answered: its stream is there, or it is not, and in either case whole. Nothing
is reported, because a crash alone leaves nothing that the catalogue does not explain.
"""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.jetstream.backup.archive import END, MAGIC, STATE_NAME, Entry, encode_entries
from headwater.jetstream.backup.s2 import BEGINNING, plain_frame
from headwater.server.configuration.options import Options
from headwater.server.streams.storage import recovery
from headwater.server.streams.storage.stream_store import StreamStore
from headwater.store.disk.findings import Findings
from headwater.store.recovery.catalogue import Catalogue
from headwater.store.store import Store
from headwater.testing.disk import Mode, PowerLost, SimDisk, crash_points
from headwater.testing.disk_faults import Moment
from tests.kit.stored_world import FOLDER, streaming
from tests.kit.stream_world import StreamWorld, json_bytes

# A stream by its name: the description that it was created with, and its messages.
Streams = dict[str, tuple[str, int]]

RESTORED = 5
PAGE_BYTES = 128


def backup() -> bytes:
    """A few messages on one subject."""
    state = Entry(STATE_NAME, payload=b'{"first_seq": 1, "last_seq": %d}' % RESTORED)
    messages = [Entry(b"r", 1_000 + at, at, b"", b"x") for at in range(1, RESTORED + 1)]
    first, *rest = map(encode_entries, [[state], messages, [END]])
    return BEGINNING + b"".join(map(plain_frame, [MAGIC + first, *rest]))


class Ledger:
    """The streams that a client knows of, and the request that it waits for."""

    def __init__(self) -> None:
        self.streams: Streams = {}
        self.asked: Streams | None = None

    def ask(self, after: Streams, request: Callable[[], Any]) -> None:
        """Make a request that leads to `after`."""
        self.asked = after
        assert "error" not in request()
        self.streams, self.asked = after, None


class Client:
    """A client of a server, which notes what it was told."""

    def __init__(self, world: StreamWorld, ledger: Ledger) -> None:
        self._world = world
        self._ledger = ledger

    def create(self, name: str, description: str, **config: Any) -> None:
        after = {**self._ledger.streams, name: (description, 0)}
        if config.get("storage") == "memory":
            after.pop(name)
        subjects = [f"{name.lower()}.>"]
        config |= {"name": name, "description": description, "subjects": subjects}
        self._ledger.ask(after, lambda: self._call(f"STREAM.CREATE.{name}", config))

    def delete(self, name: str) -> None:
        after = {other: said for other, said in self._ledger.streams.items() if other != name}
        self._ledger.ask(after, lambda: self._call(f"STREAM.DELETE.{name}"))

    def restore(self, name: str, description: str) -> None:
        config = {"name": name, "description": description, "subjects": [name.lower()]}
        after = {**self._ledger.streams, name: (description, RESTORED)}
        self._ledger.ask(after, lambda: self._restore(name, config))

    def change_at_once(self, created: list[str], deleted: list[str], description: str) -> None:
        """Have several clients create and delete streams in one turn: one write has it all."""
        world = self._world
        after = {name: said for name, said in self._ledger.streams.items() if name not in deleted}
        after |= dict.fromkeys(created, (description, 0))
        asked = [(f"STREAM.DELETE.{name}", b"") for name in deleted]
        for name in created:
            config = {"name": name, "description": description, "subjects": [name.lower()]}
            asked.append((f"STREAM.CREATE.{name}", json_bytes(config)))

        def ask() -> dict[str, Any]:
            senders = [world.modern() for _ in asked]
            numbers = [
                world.push_from(sender, f"$JS.API.{operation}", body)
                for (operation, body), sender in zip(asked, senders, strict=True)
            ]
            world.settle()
            world.sync_set()
            answers = [world.answers[number] for number in numbers]
            return next((answer for answer in answers if "error" in answer), {})

        self._ledger.ask(after, ask)

    def _restore(self, name: str, config: Any) -> Any:
        world = self._world
        request = {"config": config, "state": {}}
        subject = self._call(f"STREAM.RESTORE.{name}", request)["deliver_subject"]
        data = backup()
        world.caller.send(f"PUB {subject} chunks {len(data)}\r\n".encode() + data + b"\r\n")
        number = world.publish(subject, b"")
        for _ in range(5):
            world.settle()
            world.sync()
        return world.answers[number]

    def _call(self, operation: str, body: object = None) -> Any:
        number = self._world.call(operation, body)
        return self._world.answers[number]


def started(disk: SimDisk, sync_always: bool = False) -> StreamWorld:
    return StreamWorld(Options(jetstream=streaming(sync_always=sync_always)), disk)


def workload(disk: SimDisk, ledger: Ledger, sync_always: bool = False) -> None:
    """Create, delete, create again, restore; streams in memory in between; a restart."""
    disk.make_folder("/data")
    disk.sync_folder("/")
    world = started(disk, sync_always)
    client = Client(world, ledger)
    client.create("A", "first A")
    client.create("B", "first B")
    client.create("M", "in memory", storage="memory")
    client.delete("A")
    client.create("A", "second A")
    client.delete("M")
    client.restore("R", "restored")
    client.delete("A")
    client.delete("R")
    world.node.close_jetstream()
    disk.kill()
    client = Client(started(disk, sync_always), ledger)
    client.create("A", "third A")
    client.delete("B")
    client.create("B", "second B")
    client.change_at_once(["C", "D"], ["A"], "at once")


def streams_of(world: StreamWorld) -> Streams:
    """The streams that a client is shown."""
    number = world.call("STREAM.LIST")
    listed = world.answers[number]["streams"] or []
    return {
        stream["config"]["name"]: (stream["config"]["description"], stream["state"]["messages"])
        for stream in listed
    }


def recorded_streams(disk: SimDisk) -> set[str]:
    """The names of the streams in the catalogue."""
    catalogue = Catalogue(disk, FOLDER, b"", lambda: b"")
    catalogue.read(Findings(), machine_fell=False, is_store_known=False)
    return {name.removeprefix("$G/") for name in catalogue.state.streams}


def complaints(world: StreamWorld) -> list[str]:
    """The reports of a start, without those of a write-ahead file that was just begun, and of
    messages that the machine may have lost because they were not synced."""
    lines = [line for line in world.log_lines if "JetStream store:" in line or "[ERR]" in line]
    expected = ("torn: ahead-", "are lost, if there were any")
    return [line for line in lines if not any(each in line for each in expected)]


def check(disk: SimDisk, ledger: Ledger, sync_always: bool = False) -> None:
    """A server starts, has what it promised, reports nothing, and goes on."""
    world = started(disk, sync_always)
    found = streams_of(world)
    assert found in (ledger.streams, ledger.asked), "streams are gone, or came back"
    assert recorded_streams(disk) == set(found), "the records say something else"
    assert complaints(world) == []
    assert world.health().status == "ok"
    client = Client(world, later := Ledger())
    later.streams = found
    for name in [*found]:
        client.delete(name)
    client.create("A", "after the crash")
    disk.kill()
    again = started(disk, sync_always)
    assert streams_of(again) == later.streams
    assert again.health().status == "ok"


POINTS = crash_points(lambda disk: workload(disk, Ledger()))
FATES: list[tuple[Moment, Mode | None]] = [
    ("before", "strict"),
    ("during", "random"),
    ("during", None),
]


def stopped_at(
    number: int, moment: Moment, fate: Mode | None, sync_always: bool = False
) -> tuple[SimDisk, Ledger]:
    """The disk of a machine that stopped at an operation; None is the death of the process."""
    disk = SimDisk(seed=number, page_bytes=PAGE_BYTES, leftovers="stale")
    ledger = Ledger()
    disk.crash_at(number, moment)
    with pytest.raises(PowerLost):
        workload(disk, ledger, sync_always)
    stop(disk, fate)
    return disk, ledger


def stop(disk: SimDisk, fate: Mode | None) -> None:
    if fate is None:
        disk.kill()
    else:
        disk.power_loss(fate)


@pytest.mark.parametrize(("moment", "fate"), FATES)
def test_a_crash_at_any_operation_costs_at_most_the_request_that_was_under_way(
    moment: Moment, fate: Mode | None
) -> None:
    assert len(POINTS) > 150
    for number in POINTS:
        disk, ledger = stopped_at(number, moment, fate)
        try:
            check(disk, ledger)
        except BaseException:
            print(f"operation {number}, {moment}, {fate}")
            print(disk.history(60))
            raise


def test_the_same_holds_with_a_sync_before_every_ack() -> None:
    for number in crash_points(lambda disk: workload(disk, Ledger(), sync_always=True))[::3]:
        disk, ledger = stopped_at(number, "during", "random", sync_always=True)
        check(disk, ledger, sync_always=True)


@pytest.mark.parametrize("fate", ["random", None])
def test_a_crash_while_the_server_starts_after_a_crash_costs_no_more(fate: Mode | None) -> None:
    for number in POINTS[::9]:
        disk, ledger = stopped_at(number, "during", fate)
        for again in crash_points(started, disk)[:: 1 + number % 3]:
            survivor = disk.clone(again)
            survivor.crash_at(again, "during")
            with pytest.raises(PowerLost):
                started(survivor)
            stop(survivor, fate)
            check(survivor, ledger)


def _nothing(*_: object) -> None:
    """A defence that is switched off."""


@pytest.mark.parametrize(
    ("owner", "defence"),
    [
        (Catalogue, "_append"),
        (recovery, "_finish_creation"),
        (Store, "_finish_deletion"),
        (StreamStore, "finish_log"),
    ],
)
def test_without_each_defence_a_crash_costs_something(
    owner: object, defence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, defence, _nothing)
    with pytest.raises(AssertionError):
        test_a_crash_at_any_operation_costs_at_most_the_request_that_was_under_way("during", None)
