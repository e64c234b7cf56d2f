"""Replicas of streams with records of every kind end at operations of the disk.

The entries are those of a server that lived through `stream_steps`: publishes, roll-ups, batches,
purges, deletes, acknowledgements, updates. Replicas get them from the logs of their groups. After
each crash they are recovered, apply the entries behind their redo points, and equal replicas that
never crashed. `SEEDS` is the number of times that the operations are gone through, with others of
them each time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final
from unittest.mock import patch

import pytest

from headwater.jetstream.codec.log_entries import decode_entry
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.records import StreamCreated
from headwater.jetstream.streams.file import decode_body, encode_body
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits
from headwater.jetstream.streams.recovery import config_of
from headwater.jetstream.streams.stream import Stream
from headwater.server.streams.storage.stream_store import StreamStore
from headwater.store.groups.frames import GroupEntry, GroupMode, GroupState, SnapshotMark
from headwater.store.groups.group_log import SaveTicket
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import MessageLog
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing import seeds
from headwater.testing.disk import Mode, PowerLost, SimDisk, crash_points
from headwater.testing.disk_faults import Moment
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.stream_driver import Surrounding
from tests.robustness.stopped_stores import told_in_full
from tests.robustness.stream_steps import ALWAYS, live

FOLDER: Final = "data/jetstream"
PAGE_BYTES: Final = 128
NOW_NS: Final = 4 * 10**18
# One in so many operations is a point for a seed.
STRIDE: Final = 4
PARTS: Final = 2


@dataclass
class Source:
    """A stream of the server: its creation and its entries."""

    created: StreamCreated
    entries: list[bytes] = field(default_factory=list)

    @property
    def mode(self) -> GroupMode:
        """The streams of work queues and of interest may forget when the machine falls."""
        return GroupMode.WRITTEN if self.created.name in "QI" else GroupMode.SYNCED


@cache
def sources() -> dict[str, Source]:
    """The streams of a server that lived without a crash, by a name of their own."""
    found: dict[bytes, Source] = {}
    make_log, add_entry = StreamStore.make_log, FileLog.add_entry

    def note_creation(files: StreamStore, created: StreamCreated) -> MessageLog:
        found[created.incarnation] = Source(created)
        return make_log(files, created)

    def note_entry(log: FileLog, index: int, follows: int, data: bytes) -> None:
        source = found[log.identity]
        del source.entries[index - 1 :]
        source.entries.append(data)
        add_entry(log, index, follows, data)

    with (
        patch.object(StreamStore, "make_log", note_creation),
        patch.object(FileLog, "add_entry", note_entry),
    ):
        live(ALWAYS, SimDisk())
    return {f"{source.created.name}{at}": source for at, source in enumerate(found.values())}


def opened(disk: SimDisk, boot_id: str) -> Store:
    entropy = SeededEntropy(labelled_rng(disk.operations, "store"))
    return open_store(
        disk, FOLDER, entropy, boot_id, segment_bytes_max=2000, ahead_bytes_max=12_000
    )


class Follower:
    """A replica of a stream, and what its server has confirmed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.source = sources()[name]
        self.confirmed = 0

    def start(self, store: Store) -> None:
        created = self.source.created
        if self.name not in store.logs:
            assert not self.confirmed
            body = encode_body(created.config, created.created_ns)
            store.make_stream(
                self.name, created.incarnation, body, 1, SyncMode.INTERVAL, False, is_replica=True
            )
        log = self.log = store.logs[self.name]
        if not log.is_replica:
            assert not self.confirmed
            store.join_group(self.name, 0)
        assert not log.must_refill, log.must_refill
        if log.identity not in store.groups:
            assert not self.confirmed
            store.groups.create(log.identity, self.source.mode, SnapshotMark(), GroupState(1))
            store.commit()
        self.group = store.groups[log.identity]
        body_now = decode_body(log.body, self.name)
        host = Surrounding(BatchLimits())
        self.stream = Stream(config_of(body_now, log), log, created.created_ns, host)
        self.stream.recover(NOW_NS)
        self._codec = RecordCodec(log.record_seed)
        for index in range(log.applied_entry + 1, self.group.last_index + 1):
            self.apply(*self.group.entries(index, index, 0))

    def save_next(self) -> SaveTicket | None:
        index = self.group.last_index + 1
        if index > len(self.source.entries):
            return None
        entry = GroupEntry(index, 1, 0, 0, 0, self.source.entries[index - 1])
        return self.group.save(entries=[entry])

    def apply(self, entry: GroupEntry) -> None:
        for record in decode_entry(self._codec, entry.data):
            self.stream.append(record)
            self.stream.apply(record)
        self.stream.consumers.flush()
        self.log.applied_entry = entry.index

    def dump(self) -> dict[str, Any]:
        return self.stream.dump(NOW_NS)


class World:
    """All replicas of a server."""

    def __init__(self) -> None:
        self.followers = [Follower(name) for name in sources()]
        # The states of each replica after the number of its entries, if they are noted.
        self.states: dict[str, list[dict[str, Any]]] = {name: [] for name in sources()}

    def start(self, store: Store) -> None:
        for follower in self.followers:
            follower.start(store)

    def turn(self, store: Store, notes_states: bool) -> None:
        tickets = [(follower, follower.save_next()) for follower in self.followers]
        store.commit()
        for follower, ticket in tickets:
            if ticket is None:
                continue
            assert store.groups.numbers.covers(ticket)
            follower.confirmed += 1
            follower.apply(*follower.group.entries(follower.confirmed, follower.confirmed, 0))
            if notes_states:
                self.states[follower.name].append(follower.dump())

    def upkeep(self, store: Store) -> Iterator[None]:
        while True:
            yield
            store.sync()
            yield
            for follower in self.followers:
                group, log = follower.group, follower.log
                group.compact(max(log.durable_entry, group.snapshot.index), b"members")
            yield
            for follower in self.followers:
                follower.log.rewrite_journal_now()
            yield
            for follower in self.followers:
                for first in follower.log.compactions.worthwhile()[:1]:
                    compaction = follower.log.compactions.begin(first)
                    compaction.run()
                    follower.log.compactions.finish(compaction)
            yield
            for follower in self.followers:
                follower.log.checkpoints.write_now()
            yield
            store.trim()


def run(disk: SimDisk, world: World, notes_states: bool = False) -> None:
    """The life of a server with replicas; it ends in order."""
    disk.make_folder("data")
    disk.sync_folder("/")
    store = opened(disk, "boot 0")
    world.start(store)
    if notes_states:
        for follower in world.followers:
            world.states[follower.name].append(follower.dump())
    upkeep = world.upkeep(store)
    for _ in range(max(len(source.entries) for source in sources().values())):
        world.turn(store, notes_states)
        next(upkeep)
    store.close()


@cache
def states() -> dict[str, list[dict[str, Any]]]:
    world = World()
    run(SimDisk(), world, notes_states=True)
    return world.states


@cache
def points() -> range:
    found = crash_points(lambda disk: run(disk, World()))
    return range(found[0], found[-1] + 1)


def crashed(number: int, moment: Moment) -> tuple[SimDisk, World]:
    disk, world = SimDisk(seed=number, page_bytes=PAGE_BYTES), World()
    disk.crash_at(number, moment)
    with pytest.raises(PowerLost):
        run(disk, world)
    return disk, world


def check_recovered(disk: SimDisk, world: World, boot_id: str) -> None:
    """Every replica is in the state after its last entry, and none that was confirmed is missing,
    unless its group says so."""
    confirmed = {follower.name: follower.confirmed for follower in world.followers}
    after = World()
    for follower in after.followers:
        follower.confirmed = min(confirmed[follower.name], 1)
    store = opened(disk, boot_id)
    after.start(store)
    for follower in after.followers:
        count = follower.group.last_index
        assert follower.log.applied_entry == count
        assert count >= confirmed[follower.name] or follower.group.may_have_forgotten
        found, expected = follower.dump(), states()[follower.name][count]
        differing = {key for key in expected if found[key] != expected[key]}
        assert not differing, [(key, found[key], expected[key]) for key in differing]


def points_of(part: int, seed: int) -> range:
    return points()[part + PARTS * (seed % STRIDE) :: PARTS * STRIDE]


MODES: Final[tuple[Mode, ...]] = ("strict", "random", "kind")


@pytest.mark.parametrize("part", range(PARTS))
def test_after_a_loss_of_power_replicas_equal_those_that_never_crashed(part: int) -> None:
    for seed in seeds(1):
        for number in points_of(part, seed):
            disk, world = crashed(number, "during" if number // 2 % 2 else "before")
            mode = MODES[number // PARTS % len(MODES)]
            with told_in_full(disk, f"operation {number}, {mode}"):
                disk.power_loss(mode)
                check_recovered(disk, world, "boot 1")


@pytest.mark.parametrize("part", range(PARTS))
def test_after_a_kill_replicas_equal_those_that_never_crashed(part: int) -> None:
    for seed in seeds(1):
        for number in points_of(PARTS - 1 - part, seed + STRIDE // 2):
            disk, world = crashed(number, "during")
            with told_in_full(disk, f"operation {number}"):
                disk.kill()
                check_recovered(disk, world, "boot 0")


def test_the_workload_compacts_groups() -> None:
    world = World()
    run(SimDisk(), world)
    for follower in world.followers:
        assert follower.confirmed == len(follower.source.entries) > 0
    assert max(follower.group.snapshot.index for follower in world.followers) > 10
